package archtest

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
)

// source is one Go file as the import rules see it.
type source struct {
	dir     string // the package's directory, from the repository's root, with slashes
	name    string // the file's name
	imports []string
}

func (s source) isTest() bool { return strings.HasSuffix(s.name, "_test.go") }

// house answers for a table of rooms.
type house struct{ rooms []room }

// find returns the room of a package by its directory from the repository's root.
func (h house) find(dir string) (room, bool) {
	if strings.HasPrefix(dir, "cmd/") {
		dir = "cmd/"
	}
	for _, r := range h.rooms {
		if r.path == strings.TrimPrefix(dir, "internal/") {
			return r, true
		}
	}
	return room{}, false
}

// checkImports returns what is wrong with a file's imports of this module.
func (h house) checkImports(s source) []string {
	var faults []string
	refuse := func(format string, args ...any) {
		faults = append(faults, path.Join(s.dir, s.name)+": "+fmt.Sprintf(format, args...))
	}
	generated := s.dir == genGo || strings.HasPrefix(s.dir, genGo+"/")
	from, known := h.find(s.dir)
	if !known && !generated {
		refuse("package %s is not in the table; give it a row in rooms, in internal/archtest/table_test.go,"+
			" with its one purpose and what it may import", s.dir)
		return faults
	}
	for _, imported := range s.imports {
		target, ours := strings.CutPrefix(imported, module+"/")
		switch {
		case !ours || target == s.dir:
		case target == genGo || strings.HasPrefix(target, genGo+"/"):
			if !generated && !slices.Contains(from.imports, genGo) {
				refuse("imports %s, which is only for the packages that have gen-go in their row", target)
			}
		case generated:
			refuse("generated code imports %s", target)
		case !s.isTest():
			h.checkTarget(from, target, refuse)
		}
	}
	return faults
}

// checkTarget refuses an import of the package target by a file of room from that is no test.
func (h house) checkTarget(from room, target string, refuse func(string, ...any)) {
	to, known := h.find(target)
	switch {
	case !known:
		refuse("imports %s, which has no row in internal/archtest/table_test.go", target)
	case to.testOnly && !from.testOnly:
		refuse("imports %s, which is only for tests", target)
	case !slices.Contains(from.imports, to.path) && !slices.Contains(from.imports, all):
		refuse("imports %s; its row in internal/archtest/table_test.go allows it %s",
			target, allowed(from.imports))
	}
}

func allowed(imports []string) string {
	if len(imports) == 0 {
		return "nothing of this module"
	}
	return "only " + strings.Join(imports, ", ")
}

func TestImportDirections(t *testing.T) {
	h := house{rooms}
	for _, p := range packages(t) {
		for _, s := range p.sources(t) {
			for _, fault := range h.checkImports(s) {
				t.Error(fault)
			}
		}
	}
}

func TestPackageNames(t *testing.T) {
	for _, p := range packages(t) {
		if fault := checkName(p.rel, p.Name); fault != "" {
			t.Error(fault)
		}
	}
}

func checkName(dir, name string) string {
	for _, bad := range badNames {
		if name == bad || path.Base(dir) == bad {
			return fmt.Sprintf("package %s is called %s, which says nothing of what it is for", dir, bad)
		}
	}
	return ""
}

// TestTable holds the table itself in order: one row a package, and no row that allows what does not
// exist.
func TestTable(t *testing.T) {
	seen := map[string]bool{genGo: true, all: true}
	for _, r := range rooms {
		if seen[r.path] {
			t.Errorf("%s has two rows", r.path)
		}
		seen[r.path] = true
	}
	for _, r := range rooms {
		for _, name := range r.imports {
			if !seen[name] {
				t.Errorf("the row of %s allows %s, which has no row", r.path, name)
			}
		}
	}
}

func TestCheckImports(t *testing.T) {
	h := house{[]room{
		{path: "job"},
		{path: "command", imports: []string{"job", genGo}},
		{path: "app", imports: []string{all}},
		{path: "cluster", imports: []string{"app"}, testOnly: true},
		{path: "ends", imports: []string{all, genGo}, testOnly: true},
		{path: "cmd/", imports: []string{"app"}},
	}}
	tests := []struct {
		name string
		file string
		imp  string
		want string // a part of the only fault; empty for none
	}{
		{"standard library", "internal/job/a.go", "time", ""},
		{"other module", "internal/job/a.go", module + "x/internal/app", ""},
		{"allowed", "internal/command/a.go", "internal/job", ""},
		{"upwards", "internal/job/a.go", "internal/command", "allows it nothing of this module"},
		{"not in the row", "internal/command/a.go", "internal/app", "allows it only job, gen-go"},
		{"a test may", "internal/job/a_test.go", "internal/app", ""},
		{"a test of the package itself", "internal/job/a_test.go", "internal/job", ""},
		{"gen-go allowed", "internal/command/a.go", "gen-go/journal", ""},
		{"gen-go for its test", "internal/command/a_test.go", "gen-go/journal", ""},
		{"gen-go refused", "internal/job/a.go", "gen-go/journal", "only for the packages that have gen-go"},
		{"gen-go refused to a test", "internal/job/a_test.go", "gen-go/journal", "only for the packages that have gen-go"},
		{"all is not gen-go", "internal/app/a.go", "gen-go/journal", "only for the packages that have gen-go"},
		{"all", "internal/app/a.go", "internal/command", ""},
		{"all is not what is for tests", "internal/app/a.go", "internal/cluster", "only for tests"},
		{"a test may use what is for tests", "internal/app/a_test.go", "internal/cluster", ""},
		{"what is for tests may too", "internal/ends/a.go", "internal/cluster", ""},
		{"a program", "cmd/lancemaster/main.go", "internal/app", ""},
		{"a program, too deep", "cmd/lancemaster/main.go", "internal/job", "allows it only app"},
		{"generated to generated", "gen-go/a/a.go", "gen-go/b", ""},
		{"generated to ours", "gen-go/a/a.go", "internal/job", "generated code imports internal/job"},
		{"no row", "internal/other/a.go", "internal/job", "internal/other is not in the table"},
		{"no row below a row", "internal/job/deep/a.go", "time", "internal/job/deep is not in the table"},
		{"target without a row", "internal/app/a.go", "internal/other", "internal/other, which has no row"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			imp := tt.imp
			if strings.HasPrefix(imp, "internal/") || strings.HasPrefix(imp, "gen-go/") {
				imp = module + "/" + imp
			}
			got := h.checkImports(source{dir: path.Dir(tt.file), name: path.Base(tt.file), imports: []string{imp}})
			wantFault(t, got, tt.want)
		})
	}
}

func TestCheckName(t *testing.T) {
	for dir, want := range map[string]bool{
		"internal/job":         true,
		"internal/util":        false,
		"internal/job/models":  false,
		"internal/commonplace": true,
	} {
		if got := checkName(dir, path.Base(dir)) == ""; got != want {
			t.Errorf("checkName(%q) accepts: %v, want %v", dir, got, want)
		}
	}
	if checkName("internal/fine", "helpers") == "" {
		t.Error("a package whose name differs from its directory's is not refused by its name")
	}
}

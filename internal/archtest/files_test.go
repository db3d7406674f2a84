package archtest

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// maxLines is how long a Go file may be without saying why.
const maxLines = 600

// machinePath finds absolute paths of the machine somebody worked on. The names are put together here
// so that this file does not hold what it looks for.
var machinePath = regexp.MustCompile(`(?:^|[^\w.~/-])/(?:` + "wo" + "rk|ro" + `ot)/`)

func TestFiles(t *testing.T) {
	eachFile(t, func(path string, content []byte) {
		faults := checkPaths(path, content)
		if strings.HasSuffix(path, ".go") && !strings.HasPrefix(path, genGo+"/") {
			faults = append(faults, checkGoFile(path, content)...)
		}
		for _, fault := range faults {
			t.Error(fault)
		}
	})
}

// checkPaths refuses paths that exist only where a file was written.
func checkPaths(path string, content []byte) []string {
	var faults []string
	for number, line := range bytes.Split(content, []byte("\n")) {
		if found := machinePath.Find(line); found != nil {
			faults = append(faults, fmt.Sprintf("%s:%d: holds the path of one machine, %q", path, number+1, found))
		}
	}
	return faults
}

// checkGoFile refuses a file that is too long and does not say why, sleeps of tests, and other sleeps that do
// not say what bounds them.
func checkGoFile(path string, content []byte) []string {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, content, parser.ParseComments)
	if err != nil {
		return []string{err.Error()}
	}
	sleeps, faults := findReasons(fset, file, "sleep:")
	if lines := bytes.Count(content, []byte("\n")); lines > maxLines && !saysWhyLong(file) {
		faults = append(faults, fmt.Sprintf("%s: %d lines; split it, or say why not in a // long: comment above"+
			" the package clause", path, lines))
	}
	local, ofTest := importedAs(file, "time"), strings.HasSuffix(path, "_test.go")
	choices := map[ast.Node]bool{} // of select statements
	ast.Inspect(file, func(node ast.Node) bool {
		if clause, ok := node.(*ast.CommClause); ok && clause.Comm != nil {
			choices[clause.Comm] = true
		}
		switch {
		case ofTest && isDelay(node, local) && !choices[node]:
			faults = append(faults, fmt.Sprintf("%s: a wait for time alone; wait for a signal, poll with await.Until, let the"+
				" time of a synctest bubble pass with await.Pass, or, where a fault is made then, use await.Moment", fset.Position(node.Pos())))
		case !isSleep(node, local):
		case ofTest:
			faults = append(faults, fmt.Sprintf("%s: time.Sleep in a test; wait for a signal, poll with await.Until, or,"+
				" in a synctest bubble, let its time pass with await.Pass", fset.Position(node.Pos())))
		case !sleeps[fset.Position(node.Pos()).Line]:
			faults = append(faults, fmt.Sprintf("%s: time.Sleep; wait for a signal, or, for the interval of a bounded poll,"+
				" say in a //sleep: comment what bounds it", fset.Position(node.Pos())))
		}
		return true
	})
	return faults
}

var longReason = regexp.MustCompile(`^// ?long: *\S`)

func saysWhyLong(file *ast.File) bool {
	for _, group := range file.Comments {
		for _, comment := range group.List {
			if comment.Pos() < file.Package && longReason.MatchString(comment.Text) {
				return true
			}
		}
	}
	return false
}

// importedAs returns the name under which the file imports a package whose last element is its name:
// "." for all its names, "" for not at all.
func importedAs(file *ast.File, path string) string {
	for _, spec := range file.Imports {
		if imported, err := strconv.Unquote(spec.Path.Value); err != nil || imported != path {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return path
	}
	return ""
}

// isSleep tells whether the node mentions time.Sleep, called or not, where time is imported as local.
func isSleep(node ast.Node, local string) bool {
	switch node := node.(type) {
	case *ast.SelectorExpr:
		before, ok := node.X.(*ast.Ident)
		return ok && local != "" && before.Name == local && node.Sel.Name == "Sleep"
	case *ast.CallExpr:
		name, ok := node.Fun.(*ast.Ident)
		return ok && local == "." && name.Name == "Sleep"
	}
	return false
}

// isDelay tells whether the node is a statement that waits for time.After and nothing else.
func isDelay(node ast.Node, local string) bool {
	statement, ok := node.(*ast.ExprStmt)
	if !ok {
		return false
	}
	receive, ok := statement.X.(*ast.UnaryExpr)
	if !ok || receive.Op != token.ARROW {
		return false
	}
	call, ok := receive.X.(*ast.CallExpr)
	if !ok {
		return false
	}
	after, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	before, ok := after.X.(*ast.Ident)
	return ok && local != "" && before.Name == local && after.Sel.Name == "After"
}

func TestCheckPaths(t *testing.T) {
	work, home := "/wo"+"rk/", "/ro"+"ot/"
	for text, want := range map[string]string{
		"plain text":                         "",
		"see " + work + "main":               "the path of one machine",
		work + "main":                        "the path of one machine",
		"ok\n\"" + home + "go\"":             "f:2: holds the path of one machine",
		"file://" + home + "x":               "", // three slashes or more begin a URI's own path
		"HOME=" + home + ".cache":            "the path of one machine",
		"net" + work + "x":                   "",
		"a" + home + "b":                     "",
		"/srv" + work + "x":                  "",
		"paper" + work:                       "",
		"/" + "work" + "er/x, /root" + "s/x": "",
	} {
		wantFault(t, checkPaths("f", []byte(text)), want)
	}
}

func TestCheckGoFile(t *testing.T) {
	long := strings.Repeat("\n", maxLines+1)
	tests := []struct{ name, text, want string }{
		{"short", "package p\n", ""},
		{"long", "package p" + long, "601 lines; split it"},
		{"long, with a reason", "// long: one table, read as a whole\n\npackage p\n" + long, ""},
		{"long, with no reason", "// long:\n\npackage p\n" + long, "lines; split it"},
		{"long, the reason too low", "package p\n// long: one table\n" + long, "lines; split it"},
		{"at the limit", "package p" + long[:maxLines], ""},
		{"sleep", "package p\nimport \"time\"\nfunc f() { time.Sleep(1) }\n", "p.go:3:12: time.Sleep"},
		{"sleep, passed on", "package p\nimport \"time\"\nvar f = time.Sleep\n", "time.Sleep"},
		{"sleep, renamed", "package p\nimport t \"time\"\nfunc f() { t.Sleep(1) }\n", "time.Sleep"},
		{"sleep, all names imported", "package p\nimport . \"time\"\nfunc f() { Sleep(1) }\n", "time.Sleep"},
		{"another's sleep", "package p\nfunc f() { time.Sleep(1) }\n", ""},
		{"sleep, excused above", "package p\nimport \"time\"\nfunc f() {\n//sleep: at most 50 polls\ntime.Sleep(1)\n}\n", ""},
		{"sleep, excused on its line", "package p\nimport \"time\"\nfunc f() { time.Sleep(1) } // sleep: at most 50 polls\n", ""},
		{"sleep, excused with no reason", "package p\nimport \"time\"\nfunc f() { time.Sleep(1) } //sleep:\n", "gives no reason"},
		{"no Go", "pack", "expected 'package'"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			wantFault(t, checkGoFile("p.go", []byte(tt.text)), tt.want)
		})
	}
	wantFault(t, checkGoFile("p_test.go", []byte("package p\nimport \"time\"\nfunc f() { <-time.After(1) }\n")), "a wait for time alone")
	wantFault(t, checkGoFile("p_test.go", []byte("package p\nimport \"time\"\nfunc f() { select { case <-time.After(1): } }\n")), "")
	// In a test no reason counts.
	wantFault(t, checkGoFile("p_test.go", []byte("package p\nimport \"time\"\nfunc f() {\n//sleep: at most 50 polls\ntime.Sleep(1)\n}\n")), "time.Sleep in a test")
}

package archtest

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// bannedImports bring randomness or goroutines with all they have.
var bannedImports = map[string]string{
	"crypto/rand":                    "randomness; take the value as an argument",
	"hash/maphash":                   "a seed that differs between processes",
	"math/rand":                      "randomness; take the value as an argument",
	"math/rand/v2":                   "randomness; take the value as an argument",
	"golang.org/x/sync/errgroup":     "goroutines",
	"golang.org/x/sync/singleflight": "goroutines",
}

// bannedUses are functions and methods whose result differs between processes or runs.
var bannedUses = func() map[string]string {
	const (
		clock   = "the clock; take the time as an argument"
		machine = "the machine; take the value as an argument"
		order   = "the order of a map; sort, or say in an //order: comment why it cannot matter"
	)
	return map[string]string{
		"time.Now": clock, "time.Since": clock, "time.Until": clock, "time.After": clock,
		"time.AfterFunc": clock, "time.Tick": clock, "time.NewTimer": clock, "time.NewTicker": clock,
		"time.Sleep": clock, "context.WithTimeout": clock, "context.WithTimeoutCause": clock,
		"context.WithDeadline": clock, "context.WithDeadlineCause": clock,
		"os.Getenv": machine, "os.LookupEnv": machine, "os.Environ": machine, "os.ExpandEnv": machine,
		"os.Hostname": machine, "os.Getpid": machine, "runtime.NumCPU": machine,
		"runtime.GOMAXPROCS": machine, "runtime.NumGoroutine": machine,
		"(*sync.WaitGroup).Go": "goroutines",
		"maps.All":             order, "maps.Keys": order, "maps.Values": order, "(*sync.Map).Range": order,
		"(reflect.Value).MapKeys": order, "(reflect.Value).MapRange": order,
		"(reflect.Value).Seq": order, "(reflect.Value).Seq2": order,
	}
}()

// sorters make a sorted slice of an iterator: what goes straight into one has its order taken away.
var sorters = []string{"slices.Sorted", "slices.SortedFunc", "slices.SortedStableFunc"}

// reasons finds the comments of one kind, such as //order:, that excuse the line they are on or the
// one below.
type reasons map[int]bool

// findReasons returns the lines excused by comments that begin with word, and the faults of those
// that give no reason.
func findReasons(fset *token.FileSet, file *ast.File, word string) (reasons, []string) {
	lines, faults := reasons{}, []string(nil)
	for _, group := range file.Comments {
		found := false
		for _, comment := range group.List {
			text, ok := strings.CutPrefix(strings.TrimSpace(strings.TrimPrefix(comment.Text, "//")), word)
			if !ok {
				continue
			}
			found = true
			if strings.TrimSpace(text) == "" {
				faults = append(faults, fmt.Sprintf("%s: %s gives no reason", fset.Position(comment.Pos()), word))
			}
		}
		if found {
			for line := fset.Position(group.Pos()).Line; line <= fset.Position(group.End()).Line+1; line++ {
				lines[line] = true
			}
		}
	}
	return lines, faults
}

// determinism looks through one type-checked file.
type determinism struct {
	fset   *token.FileSet
	info   *types.Info
	order  reasons
	sorted map[ast.Node]bool // calls whose result goes straight into a sorter
	faults []string
}

func checkDeterminism(fset *token.FileSet, info *types.Info, file *ast.File) []string {
	order, faults := findReasons(fset, file, "order:")
	d := &determinism{fset: fset, info: info, order: order, sorted: map[ast.Node]bool{}, faults: faults}
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if why, banned := bannedImports[imported]; err != nil || banned {
			d.refuse(spec, "imports %s: %s", spec.Path.Value, why)
		}
	}
	ast.Inspect(file, d.visit)
	return d.faults
}

func (d *determinism) refuse(node ast.Node, format string, args ...any) {
	d.faults = append(d.faults, fmt.Sprintf("%s: ", d.fset.Position(node.Pos()))+fmt.Sprintf(format, args...))
}

func (d *determinism) excused(node ast.Node) bool {
	return d.order[d.fset.Position(node.Pos()).Line]
}

func (d *determinism) visit(node ast.Node) bool {
	switch node := node.(type) {
	case *ast.GoStmt:
		d.refuse(node, "starts a goroutine")
	case *ast.RangeStmt:
		named := isNamed(node.Key) || isNamed(node.Value)
		if named && isMap(d.info.TypeOf(node.X)) && !d.excused(node) {
			d.refuse(node, "ranges over a map; sort, or say in an //order: comment why its order cannot matter")
		}
	case *ast.CallExpr:
		if slices.Contains(sorters, d.function(node.Fun)) && len(node.Args) > 0 {
			if call, ok := node.Args[0].(*ast.CallExpr); ok {
				d.sorted[unwrap(call.Fun)] = true
			}
		}
	case *ast.Ident:
		d.use(node, node)
	case *ast.SelectorExpr:
		d.use(node, node.Sel)
		// The selector is judged here, whole; what is before the dot may hold more.
		ast.Inspect(node.X, d.visit)
		return false
	}
	return true
}

// use judges one mention of a function, called or not.
func (d *determinism) use(whole ast.Node, name *ast.Ident) {
	function, ok := d.info.Uses[name].(*types.Func)
	if !ok {
		return
	}
	full := function.Origin().FullName()
	why, banned := bannedUses[full]
	if !banned || d.sorted[whole] || (strings.Contains(why, "//order:") && d.excused(whole)) {
		return
	}
	d.refuse(whole, "uses %s: %s", full, why)
}

// function returns the full name of the function that an expression names, or "".
func (d *determinism) function(expr ast.Expr) string {
	var name *ast.Ident
	switch expr := unwrap(expr).(type) {
	case *ast.Ident:
		name = expr
	case *ast.SelectorExpr:
		name = expr.Sel
	default:
		return ""
	}
	if function, ok := d.info.Uses[name].(*types.Func); ok {
		return function.Origin().FullName()
	}
	return ""
}

// unwrap takes off parentheses and type arguments.
func unwrap(expr ast.Expr) ast.Expr {
	for {
		switch e := expr.(type) {
		case *ast.ParenExpr:
			expr = e.X
		case *ast.IndexExpr:
			expr = e.X
		case *ast.IndexListExpr:
			expr = e.X
		default:
			return expr
		}
	}
}

// isNamed tells whether a range's variable is there and is not blank.
func isNamed(expr ast.Expr) bool {
	ident, ok := expr.(*ast.Ident)
	return expr != nil && (!ok || ident.Name != "_")
}

// isMap tells whether a value of the type is, or as a type parameter can be, a map.
func isMap(t types.Type) bool {
	if t == nil {
		return false
	}
	if parameter, ok := types.Unalias(t).(*types.TypeParam); ok {
		return constraintHasMap(parameter.Constraint().Underlying())
	}
	_, ok := t.Underlying().(*types.Map)
	return ok
}

func constraintHasMap(t types.Type) bool {
	switch t := t.(type) {
	case *types.Interface:
		for embedded := range t.EmbeddedTypes() {
			if constraintHasMap(embedded.Underlying()) {
				return true
			}
			if union, ok := embedded.(*types.Union); ok && constraintHasMap(union) {
				return true
			}
		}
	case *types.Union:
		for term := range t.Terms() {
			if constraintHasMap(term.Type().Underlying()) {
				return true
			}
		}
	case *types.Map:
		return true
	}
	return false
}

// exports makes an importer of the compiled packages that the patterns name, and of all they need.
func exports(t *testing.T, fset *token.FileSet, patterns ...string) types.Importer {
	t.Helper()
	files := map[string]string{}
	for _, p := range list(t, append([]string{"-export", "-deps"}, patterns...)...) {
		files[p.ImportPath] = p.Export
		if p.Error != nil {
			t.Errorf("%s: %s", p.ImportPath, p.Error.Err)
		}
	}
	return importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		if files[path] == "" {
			return nil, fmt.Errorf("go list gives no compiled form of %s", path)
		}
		return os.Open(files[path])
	})
}

func typeCheck(fset *token.FileSet, imp types.Importer, path string, files []*ast.File) (*types.Info, error) {
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}}
	_, err := (&types.Config{Importer: imp}).Check(path, fset, files, info)
	return info, err
}

// TestDeterministicPackages reads what the replicated state machine is made of.
func TestDeterministicPackages(t *testing.T) {
	var patterns []string
	for _, r := range rooms {
		if !r.deterministic {
			continue
		}
		if _, err := os.Stat(filepath.Join(root, "internal", r.path)); err != nil {
			t.Errorf("the deterministic package %s is not there: %v", r.path, err)
			continue
		}
		patterns = append(patterns, "./internal/"+r.path)
	}
	if len(patterns) == 0 {
		t.Fatal("no deterministic package; this test would check nothing")
	}
	checkPatterns(t, patterns, "level2.go")
	t.Run("nextlevel", func(t *testing.T) {
		checkPatterns(t, append([]string{"-tags", "nextlevel"}, patterns...), "level1.go")
	})
}

// checkPatterns checks one build of the packages. Of the two that differ in what the next feature level
// brings, otherBuilds is the file that this one has not.
func checkPatterns(t *testing.T, patterns []string, otherBuilds string) {
	t.Helper()
	fset := token.NewFileSet()
	imp := exports(t, fset, patterns...)
	for _, p := range list(t, patterns...) {
		for _, name := range slices.Concat(p.IgnoredGoFiles, p.CgoFiles) {
			if !strings.HasSuffix(name, "_test.go") && name != otherBuilds {
				t.Errorf("%s/%s: a deterministic package has no file that only some builds contain, and no cgo", p.rel, name)
			}
		}
		var files []*ast.File
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.ParseComments)
			if err != nil {
				t.Errorf("%v", err)
				continue
			}
			files = append(files, file)
		}
		info, err := typeCheck(fset, imp, p.ImportPath, files)
		if err != nil {
			t.Errorf("%s cannot be checked: %v", p.ImportPath, err)
			continue
		}
		for _, file := range files {
			for _, fault := range checkDeterminism(fset, info, file) {
				t.Error(fault)
			}
		}
	}
}

func TestCheckDeterminism(t *testing.T) {
	fset := token.NewFileSet()
	imp := exports(t, fset, "time", "os", "runtime", "context", "maps", "slices", "sort", "sync", "reflect",
		"math/rand", "math/rand/v2", "crypto/rand", "hash/maphash")
	const wantOrder = "//order: comment why"
	tests := []struct {
		name    string
		imports string
		body    string
		want    string
	}{
		{"pure", `"time"`, `_ = time.Unix(0, 0).Add(time.Second)`, ""},
		{"now", `"time"`, `_ = time.Now()`, "uses time.Now: the clock"},
		{"now, renamed", `clock "time"`, `_ = clock.Now()`, "uses time.Now"},
		{"now, all names imported", `. "time"`, `_ = Now()`, "uses time.Now"},
		{"now, not called", `"time"`, `f := time.Now; _ = f`, "uses time.Now"},
		{"now, then a method", `"time"`, `_ = time.Now().UTC().Unix()`, "uses time.Now"},
		{"now, in an argument", `"time"`, `_ = time.Unix(time.Now().Unix(), 0).UTC()`, "uses time.Now"},
		{"since", `"time"`, `_ = time.Since(time.Time{})`, "uses time.Since"},
		{"until", `"time"`, `_ = time.Until(time.Time{})`, "uses time.Until"},
		{"after", `"time"`, `<-time.After(1)`, "uses time.After"},
		{"tick", `"time"`, `<-time.Tick(1)`, "uses time.Tick"},
		{"timer", `"time"`, `_ = time.NewTimer(1)`, "uses time.NewTimer"},
		{"sleep, no excuse", `"time"`, "//order: none\n//sleep: none\ntime.Sleep(1)", "uses time.Sleep"},
		{"timeout", `"context"`, `_, _ = context.WithTimeout(context.Background(), 1)`, "uses context.WithTimeout"},
		{"own method called Now", "", `_ = own{}.Now()`, ""},
		{"own variable called time", "", `time := own{}; _ = time.Now()`, ""},
		{"math/rand", `"math/rand"`, `_ = rand.New(rand.NewSource(1))`, `imports "math/rand": randomness`},
		{"math/rand/v2", `"math/rand/v2"`, `_ = rand.Int()`, `imports "math/rand/v2": randomness`},
		{"crypto/rand", `"crypto/rand"`, `_ = rand.Reader`, `imports "crypto/rand": randomness`},
		{"maphash", `"hash/maphash"`, `_ = maphash.MakeSeed()`, `imports "hash/maphash": a seed`},
		{"goroutine", "", `go func() {}()`, "starts a goroutine"},
		{"goroutine of a group", `"sync"`, `var g sync.WaitGroup; g.Go(func() {})`, "goroutines"},
		{"environment", `"os"`, `_ = os.Getenv("X")`, "uses os.Getenv: the machine"},
		{"processors", `"runtime"`, `_ = runtime.NumCPU()`, "uses runtime.NumCPU: the machine"},
		{"map", "", `for k := range m { _ = k }`, wantOrder},
		{"map, values", "", `for _, v := range m { _ = v }`, wantOrder},
		{"map, named type", "", `for k := range named(m) { _ = k }`, wantOrder},
		{"map, only counted", "", `for range m { n++ }`, ""},
		{"map, assigned key", "", `var k string; for k = range m { _ = k }`, wantOrder},
		{"map, excused above", "", "// Adds up.\n// order: addition commutes\nfor _, v := range m { n += v }", ""},
		{"map, excused on its line", "", `for _, v := range m { n += v } //order: addition commutes`, ""},
		{"map, excused too far above", "", "//order: addition commutes\n\nfor _, v := range m { n += v }", wantOrder},
		{"map, excused below", "", "for _, v := range m {\n//order: addition commutes\nn += v }", wantOrder},
		{"slice", "", `for i, v := range []int{1} { _, _ = i, v }`, ""},
		{"keys", `"maps"`, `for k := range maps.Keys(m) { _ = k }`, "uses maps.Keys"},
		{"keys, type arguments", `"maps"`, `for k := range maps.Keys[named](m) { _ = k }`, "uses maps.Keys"},
		{"keys, excused", `"maps"`, "//order: only counted\nfor range maps.Keys(m) { n++ }", ""},
		{"keys, sorted", `"maps"; "slices"`, `_ = slices.Sorted(maps.Keys(m))`, ""},
		{"keys, collected", `"maps"; "slices"`, `_ = slices.Collect(maps.Keys(m))`, "uses maps.Keys"},
		{"sync map", `"sync"`, `var s sync.Map; s.Range(func(any, any) bool { return true })`, "Range"},
		{"reflection", `"reflect"`, `_ = reflect.ValueOf(m).MapKeys()`, "MapKeys"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.imports != "" {
				tt.imports = "import (" + tt.imports + ")\n"
			}
			wantFault(t, determinismOf(t, fset, imp, "package p\n"+tt.imports+`
type own struct{}
func (own) Now() int { return 0 }
type named map[string]int
func f(m map[string]int) {
	n := 0
	_ = n
`+tt.body+`
}
`), tt.want)
		})
	}
	t.Run("range over a type parameter", func(t *testing.T) {
		wantFault(t, determinismOf(t, fset, imp, `package p
func f[M ~map[K]V, K comparable, V any](m M) { for k := range m { _ = k } }`), wantOrder)
	})
	t.Run("an excuse without a reason", func(t *testing.T) {
		wantFault(t, determinismOf(t, fset, imp, `package p
func f(m map[int]int) {
	//order:
	for k := range m { _ = k }
}`), "order: gives no reason")
	})
}

func determinismOf(t *testing.T, fset *token.FileSet, imp types.Importer, text string) []string {
	t.Helper()
	file, err := parser.ParseFile(fset, "p.go", text, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	info, err := typeCheck(fset, imp, "p", []*ast.File{file})
	if err != nil {
		t.Fatal(err)
	}
	return checkDeterminism(fset, info, file)
}

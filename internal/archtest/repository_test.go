package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// root is the repository's root, seen from this package's directory, where its tests run.
var root = filepath.Join("..", "..")

// listed is a package as `go list` tells of it.
type listed struct {
	ImportPath, Dir, Name, Export                                string
	GoFiles, CgoFiles, IgnoredGoFiles, TestGoFiles, XTestGoFiles []string
	Error                                                        *struct{ Err string }

	rel string // the directory from the repository's root, with slashes
}

// goTool runs the go command in dir and returns what it printed.
func goTool(t *testing.T, dir string, args ...string) []byte {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", args...)
	command.Dir = dir
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return out
}

// list runs `go list -json` at the repository's root.
func list(t *testing.T, args ...string) []listed {
	t.Helper()
	args = append([]string{
		"list", "-e", "-json=ImportPath,Dir,Name,Export,GoFiles,CgoFiles,IgnoredGoFiles,TestGoFiles,XTestGoFiles,Error",
	}, args...)
	decoder := json.NewDecoder(bytes.NewReader(goTool(t, root, args...)))
	var result []listed
	for {
		var p listed
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return result
		}
		if err != nil {
			t.Fatalf("reading what go list printed: %v", err)
		}
		p.rel = strings.TrimPrefix(p.ImportPath, module+"/")
		result = append(result, p)
	}
}

// packages lists every package of the module, generated code and end-to-end tests among them.
func packages(t *testing.T) []listed {
	t.Helper()
	result := list(t, "-tags", "e2e", "./...")
	if len(result) < 2 {
		t.Fatalf("go list found %d packages; this test would check nothing", len(result))
	}
	return result
}

// sources reads the imports of every Go file of the package, whatever its build constraints.
func (p listed) sources(t *testing.T) []source {
	t.Helper()
	var result []source
	for _, name := range slices.Concat(p.GoFiles, p.CgoFiles, p.IgnoredGoFiles, p.TestGoFiles, p.XTestGoFiles) {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.ImportsOnly)
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		s := source{dir: p.rel, name: name}
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Errorf("%s/%s: import %s: %v", p.rel, name, spec.Path.Value, err)
			}
			s.imports = append(s.imports, imported)
		}
		result = append(result, s)
	}
	return result
}

// skipped directories hold nothing that people wrote for the repository.
var skipped = []string{".git", ".idea", ".vscode", "bin", "lancemaster-data"}

// eachFile calls visit with the path from the root, with slashes, and the content of every text file
// of the repository.
func eachFile(t *testing.T, visit func(path string, content []byte)) {
	t.Helper()
	count := 0
	tree := os.DirFS(root)
	err := fs.WalkDir(tree, ".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains(skipped, entry.Name()):
			return fs.SkipDir
		case !entry.Type().IsRegular():
			return nil
		}
		content, err := fs.ReadFile(tree, path)
		if err != nil {
			return err
		}
		if bytes.IndexByte(content[:min(len(content), 8000)], 0) >= 0 {
			return nil // no text
		}
		count++
		visit(path, content)
		return nil
	})
	if err != nil {
		t.Fatalf("reading the repository: %v", err)
	}
	if count < 10 {
		t.Fatalf("only %d files found; this test would check nothing", count)
	}
}

// wantFault fails unless faults is one that contains want or, with an empty want, none.
func wantFault(t *testing.T, faults []string, want string) {
	t.Helper()
	switch {
	case want == "" && len(faults) > 0:
		t.Errorf("refused, want accepted: %q", faults)
	case want != "" && (len(faults) != 1 || !strings.Contains(faults[0], want)):
		t.Errorf("got %q, want one fault with %q", faults, want)
	}
}

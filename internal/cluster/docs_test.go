package cluster_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/lancemaster/lancemaster/internal/config"
)

func page(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/clusters.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestTheConfigurationsOfThePage: each configuration file on the page is one that this build takes.
func TestTheConfigurationsOfThePage(t *testing.T) {
	files := regexp.MustCompile("(?ms)^( *)```yaml\n(.*?)^ *```$").FindAllStringSubmatch(page(t), -1)
	for _, f := range files {
		path := filepath.Join(t.TempDir(), "lancemaster.yaml")
		text := regexp.MustCompile("(?m)^"+f[1]).ReplaceAllString(f[2], "")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := config.Load(path, nil, nil)
		if err != nil {
			t.Errorf("%v\n%s", err, text)
		}
		if len(c.Members) > 0 && !strings.Contains(text, c.NodeID+": "+c.RaftAdvertise+"\n") {
			t.Errorf("%s advertises %s\n%s", c.NodeID, c.RaftAdvertise, text)
		}
	}
	if len(files) < 5 {
		t.Errorf("only %d configurations", len(files))
	}
}

// TestTheTextsOfThePage: what the page explains in its first columns is said somewhere in this package.
func TestTheTextsOfThePage(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				text, err := strconv.Unquote(lit.Value)
				if err != nil {
					t.Fatal(err)
				}
				said = append(said, verbs.ReplaceAllString(text, "*"))
			}
			return true
		})
	}
	rows := regexp.MustCompile("(?m)^\\| `([^`]*)` \\|").FindAllStringSubmatch(page(t), -1)
	if len(rows) < 15 {
		t.Errorf("only %d texts", len(rows))
	}
	for _, row := range rows {
		if !explained(row[1], said) {
			t.Errorf("the page explains %q, which nothing says", row[1])
		}
	}
}

var (
	verbs = regexp.MustCompile(`%[a-z]`)
	// gaps are what stands for something else on the page: names, numbers, and what was left out.
	gaps = regexp.MustCompile(`\bm[0-9]\b|\b[0-9]+\b|\(\.\.\.\)|\.\.\.`)
)

// explained says whether the fixed parts of a text stand in one literal, in their order.
func explained(text string, said []string) bool {
	parts := gaps.Split(text, -1)
	for _, literal := range said {
		rest, all := literal, true
		for _, part := range parts {
			part = strings.Trim(part, " ,:;")
			_, after, found := strings.Cut(rest, part)
			if rest = after; !found {
				all = false
				break
			}
		}
		if all {
			return true
		}
	}
	return false
}

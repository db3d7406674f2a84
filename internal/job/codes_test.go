package job_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/job/jobtest"
)

// TestScenariosCoverRefusals: each refusal that a transition can give, by its code,
// stands in a scenario.
func TestScenariosCoverRefusals(t *testing.T) {
	names := refusalConstants(t)
	scenarios := ""
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		scenarios += string(text)
	}
	used := 0
	for code := range job.Code(64) {
		constant, ok := names[code.String()]
		if !ok || !usedInCode(t, constant) {
			continue
		}
		used++
		if !strings.Contains(scenarios, fmt.Sprintf("refused %s:", code)) {
			t.Errorf("no scenario is refused with %s", code)
		}
	}
	if used < 20 {
		t.Errorf("only %d codes are found in use; is the search broken?", used)
	}
}

// refusalConstants returns the constants of refusal.go by the names of their codes.
func refusalConstants(t *testing.T) map[string]string {
	file, err := parser.ParseFile(token.NewFileSet(), "refusal.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		pair, ok := n.(*ast.KeyValueExpr)
		if !ok {
			return true
		}
		key, isName := pair.Key.(*ast.Ident)
		value, isText := pair.Value.(*ast.BasicLit)
		if isName && isText {
			names[strings.Trim(value.Value, `"`)] = key.Name
		}
		return true
	})
	return names
}

func usedInCode(t *testing.T, constant string) bool {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") || f == "refusal.go" {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), f, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		found := false
		ast.Inspect(file, func(n ast.Node) bool {
			if name, ok := n.(*ast.Ident); ok && name.Name == constant {
				found = true
			}
			return true
		})
		if found {
			return true
		}
	}
	return false
}

// TestScenariosCoverCommands: each command of the journal is applied in a scenario.
func TestScenariosCoverCommands(t *testing.T) {
	seen := map[string]bool{}
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(text), "\n")
		for i, line := range lines[:len(lines)-1] {
			word, _, _ := strings.Cut(line, " ")
			if !strings.HasPrefix(lines[i+1], "  refused") {
				seen[word] = true
			}
		}
	}
	for _, word := range []string{
		"form", "admit", "mark-running", "complete", "terminate", "refresh-start", "refresh-done", "refresh-failed", "cancel",
		"reject", "force-release", "release-slot", "late", "quarantine", "term-start", "remove-resolved", "catalog",
		"remove-catalog", "backend", "drain", "undrain", "remove-backend", "set", "reset", "raise-level", "restart",
		"reopen", "member", "remove-member", "token", "remove-token",
	} {
		if !seen[word] {
			t.Errorf("no scenario has a successful %s", word)
		}
	}
}

func TestCodeNames(t *testing.T) {
	seen := map[string]bool{}
	for c := job.CodeInvalid; c <= job.CodeRefreshFailed; c++ {
		if name := c.String(); strings.HasPrefix(name, "unknown") || seen[name] {
			t.Errorf("code %d is called %q", int32(c), name)
		} else {
			seen[name] = true
		}
	}
	if got := job.Code(0).String(); got != "unknown(0)" {
		t.Error(got)
	}
}

type strange struct{ job.Header }

func (strange) Name() string { return "STRANGE" }

// TestApplyUnknown: a command that is none changes nothing and breaks nothing.
func TestApplyUnknown(t *testing.T) {
	s := jobtest.Formed()
	for _, c := range []job.Command{nil, strange{job.Header{At: 1, Actor: "ann"}}, &job.Cancel{Header: job.Header{At: 1, Actor: "ann"}}} {
		if _, refusal := s.Apply(c); refusal == nil || refusal.Code != job.CodeInvalid {
			t.Errorf("%v: %v", c, refusal)
		}
	}
}

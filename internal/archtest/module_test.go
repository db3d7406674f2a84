package archtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"testing"
)

// goMod is a go.mod file as `go mod edit -json` prints it.
type goMod struct {
	Module  struct{ Path string }
	Require []struct {
		Path, Version string
		Indirect      bool
	}
	Replace []struct{ Old struct{ Path string } }
	Tool    []struct{ Path string }
}

func readGoMod(t *testing.T, dir string) goMod {
	t.Helper()
	var m goMod
	if err := json.Unmarshal(goTool(t, dir, "mod", "edit", "-json"), &m); err != nil {
		t.Fatalf("reading what go mod edit printed: %v", err)
	}
	return m
}

// checkReplace refuses replace lines: who depends on a module does not get its replacements.
func checkReplace(m goMod) []string {
	var faults []string
	for _, r := range m.Replace {
		faults = append(faults, fmt.Sprintf("go.mod of %s replaces %s", m.Module.Path, r.Old.Path))
	}
	return faults
}

// checkProduct refuses other versions than the pinned ones, and tools, which have a module of their
// own in .ci/tools so that the product's go.sum stays small.
func checkProduct(m goMod, want map[string]string) []string {
	var faults []string
	for _, tool := range m.Tool {
		faults = append(faults, fmt.Sprintf("go.mod has the tool %s; tools are pinned in .ci/tools/go.mod", tool.Path))
	}
	have := map[string]string{}
	for _, r := range m.Require {
		have[r.Path] = r.Version
	}
	for _, path := range slices.Sorted(maps.Keys(want)) {
		if have[path] != want[path] {
			faults = append(faults, fmt.Sprintf("go.mod has %s at %q; docs/design.md decides for %s", path, have[path], want[path]))
		}
	}
	return faults
}

func TestModules(t *testing.T) {
	product := readGoMod(t, root)
	tools := readGoMod(t, filepath.Join(root, ".ci", "tools"))
	if product.Module.Path != module {
		t.Errorf("the module is %s, want %s", product.Module.Path, module)
	}
	if len(tools.Tool) == 0 {
		t.Error(".ci/tools/go.mod pins no tool")
	}
	for _, fault := range slices.Concat(checkReplace(product), checkReplace(tools), checkProduct(product, pinned)) {
		t.Error(fault)
	}
}

func TestCheckModules(t *testing.T) {
	parse := func(text string) goMod {
		var m goMod
		if err := json.Unmarshal([]byte(text), &m); err != nil {
			t.Fatal(err)
		}
		return m
	}
	want := map[string]string{"a.b/c": "v1.2.3"}
	good := parse(`{"Module": {"Path": "m"}, "Require": [{"Path": "a.b/c", "Version": "v1.2.3", "Indirect": true}]}`)
	wantFault(t, checkReplace(good), "")
	wantFault(t, checkProduct(good, want), "")
	wantFault(t, checkProduct(parse(`{}`), want), `has a.b/c at ""`)
	wantFault(t, checkProduct(parse(`{"Require": [{"Path": "a.b/c", "Version": "v1.2.4"}]}`), want), `at "v1.2.4"`)
	wantFault(t, checkProduct(parse(`{"Tool": [{"Path": "x.y/lint"}]}`), nil), "has the tool x.y/lint")
	wantFault(t, checkReplace(parse(`{"Module": {"Path": "m"}, "Replace": [{"Old": {"Path": "a.b/c"}, "New": {"Path": "../c"}}]}`)),
		"go.mod of m replaces a.b/c")
}

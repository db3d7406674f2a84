package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/lancemaster/lancemaster/internal/clidocs"
)

// The reference is what the commands say of themselves. Each topmost command has a page, and no page is
// of a command that is gone.
func TestTheReferenceIsCurrent(t *testing.T) {
	const dir = "../../docs/cli"
	root := Command()
	want := map[string]string{"README.md": clidocs.Overview(root)}
	for _, top := range root.Commands() {
		if top.IsAvailableCommand() && top.Name() != "help" {
			want[top.Name()+".md"] = clidocs.Page(top)
		}
	}
	if len(want) < 10 {
		t.Fatalf("only %d pages", len(want))
	}
	for name, text := range want {
		path := filepath.Join(dir, name)
		if *rewrite {
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Errorf("%s is not what the commands say (%v); run make docs-generate", path, err)
		}
	}
	pages, err := filepath.Glob(filepath.Join(dir, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range pages {
		if name := filepath.Base(path); want[name] == "" && name != "lanceworker-stub.md" {
			if *rewrite {
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
				continue
			}
			t.Errorf("%s is of a command that does not exist; run make docs-generate", path)
		}
	}
}

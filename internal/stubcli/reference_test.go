package stubcli

import (
	"flag"
	"io"
	"os"
	"testing"

	"github.com/lancemaster/lancemaster/internal/clidocs"
)

var rewrite = flag.Bool("rewrite", false, "write the reference page from what the command says")

func TestTheReferenceIsCurrent(t *testing.T) {
	const path = "../../docs/cli/lanceworker-stub.md"
	want := clidocs.Page(Command(io.Discard, io.Discard))
	if *rewrite {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("%s is not what the command says (%v); run make docs-generate", path, err)
	}
}

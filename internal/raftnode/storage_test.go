package raftnode

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
)

// A damaged log is not replaced, and the operator is told what can be done.
func TestADamagedLogIsRefused(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, logFile)
	if err := os.WriteFile(path, []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := openStorage(Config{Dir: dir, SnapshotRetain: 1}, hclog.NewNullLogger())
	if err == nil {
		_ = s.close()
		t.Fatal("a damaged log was opened")
	}
	for _, says := range []string{path, "backup of this very node", "join with an empty data directory"} {
		if !strings.Contains(err.Error(), says) {
			t.Errorf("%q does not say %q", err, says)
		}
	}
	if left, err := os.ReadFile(path); err != nil || string(left) != "damaged" {
		t.Errorf("the file holds %q now (%v)", left, err)
	}
}

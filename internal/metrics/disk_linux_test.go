package metrics_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/lancemaster/lancemaster/internal/metrics"
)

func TestDisk(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "state.db")
	if err := os.WriteFile(file, make([]byte, 12345), 0o600); err != nil {
		t.Fatal(err)
	}
	c := metrics.NewDisk(dir, file)
	want := `# HELP lancemaster_state_size_bytes Size of the file of the replicated state; free pages inside it are used again.
# TYPE lancemaster_state_size_bytes gauge
lancemaster_state_size_bytes 12345
`
	if err := testutil.CollectAndCompare(c, strings.NewReader(want), "lancemaster_state_size_bytes"); err != nil {
		t.Error(err)
	}
	if problems, err := testutil.CollectAndLint(c); err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
	if n := gathered(t, c); len(n) != 3 {
		t.Errorf("the metrics are %v", n)
	}
	if n := gathered(t, metrics.NewDisk(filepath.Join(dir, "absent"), file+"x")); len(n) != 0 {
		t.Errorf("of what is not there: %v", n)
	}
}

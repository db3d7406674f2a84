//go:build !nextlevel

package command

import (
	"errors"
	"strings"
	"testing"

	"github.com/lancemaster/lancemaster/internal/job"
)

var laterCommands []job.Command

// TestLevelTwoIsRefused reads what a build that is one level ahead writes at that
// level: commands and records that this one does not know, and known ones with a field
// that it does not know.
func TestLevelTwoIsRefused(t *testing.T) {
	values := pinnedLevelTwo(t)
	if len(values) < 4 {
		t.Fatalf("only %d values are pinned", len(values))
	}
	for name, data := range values {
		_, err := decodeAny(name, data)
		var unsupported *UnsupportedError
		if !errors.As(err, &unsupported) || unsupported.Level != 2 {
			t.Errorf("%s is answered by %v", name, err)
			continue
		}
		if !strings.Contains(err.Error(), "upgrade this node") {
			t.Errorf("%q does not say what to do", err)
		}
	}
}

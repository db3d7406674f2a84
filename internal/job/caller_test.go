package job_test

import (
	"strings"
	"testing"

	"github.com/lancemaster/lancemaster/internal/job"
)

func TestNamesOfCallers(t *testing.T) {
	for _, good := range []string{"ci", "Ada Lovelace", "été", "systems", "a:b", "x@example.com", strings.Repeat("n", job.MaxCaller)} {
		if err := job.CheckCaller(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{
		"", " ", "system", "System", "system ", " system", "sys\u200btem", "system\u200b", "\u202emetsys", "ad\u00ada", "a\u00a0b",
		"unverified:ada", "Unverified:ada", "unverified:", "ada ", " ada", "a\nb", "a\x1bb", "a\u2028b", "\xff", "a\ufeff",
		strings.Repeat("n", job.MaxCaller+1), strings.Repeat("é", job.MaxCaller/2+1),
	} {
		if job.CheckCaller(bad) == nil {
			t.Errorf("%q may be a caller's name", bad)
		}
	}
}

//go:build !nextlevel

package job_test

import (
	"testing"

	"github.com/lancemaster/lancemaster/internal/job"
)

func (s *scenario) laterCommand(args) job.Command { return nil }

func termStart(h job.Header, term uint64, _ string) job.TermStart {
	return job.TermStart{Header: h, Term: term}
}

func leaderVersion(job.Cluster) string { return "" }

// TestLevelOne: a normal build's commands are all of the first level.
func TestLevelOne(t *testing.T) {
	for _, v := range []any{job.TermStart{}, job.Cluster{}, job.Event{}, job.Admit{}, nil} {
		if got := job.LevelOf(v); got != 1 {
			t.Errorf("%T is of level %d", v, got)
		}
	}
}

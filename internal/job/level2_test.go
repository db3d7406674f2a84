//go:build nextlevel

package job_test

import (
	"testing"

	"github.com/lancemaster/lancemaster/internal/job"
)

func (s *scenario) laterCommand(a args) job.Command {
	if a.word(0) != "annotate" {
		return nil
	}
	return job.Annotate{Header: s.head(), Job: job.ID(a.parse(a.word(1))), Note: a.text("note", "a note")}
}

func termStart(h job.Header, term uint64, version string) job.TermStart {
	c := job.TermStart{Header: h, Term: term}
	c.Version = version
	return c
}

func leaderVersion(c job.Cluster) string { return c.LeaderVersion }

// TestLevelTwoScenarios are those of what only this build has.
func TestLevelTwoScenarios(t *testing.T) { playAll(t, "testdata/level2/*.txt") }

package fsm

import (
	"os"
	"testing"

	"github.com/lancemaster/lancemaster/internal/job"
)

// Under steady load, with retention taking away as many jobs as come in, the state
// file stops growing: what removed jobs leave behind is used again, and nothing of
// a job, its history or its request id stays.
func TestStateFileLevelsOffUnderChurn(t *testing.T) {
	const rounds, jobs = 30, 120
	m, next, entry := openBench(t, 0)
	var sizes []int64
	for round := range rounds {
		var batch []written
		for range 2 * jobs {
			batch = append(batch, next())
		}
		wantApplied(t, apply(m, batch...))
		// Everything closed before the last round goes; see openBench for the times.
		before := job.Millis(1000 + round*jobs)
		wantApplied(t, apply(m, entry(job.RemoveResolved{
			Header: job.Header{At: before + jobs, Actor: job.ActorSystem}, Before: before, Limit: job.MaxRemoveBatch,
		})))
		info, err := os.Stat(m.path)
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, info.Size())
	}
	if early, late := sizes[rounds/3], sizes[rounds-1]; late > early {
		t.Errorf("the state file still grows: %d bytes after %d rounds, %d after %d; all: %v", early, rounds/3, late, rounds, sizes)
	}
	counts, err := m.StateCounts()
	if err != nil {
		t.Fatal(err)
	}
	if len(counts) != 1 || counts[0].Jobs > 2*jobs {
		t.Errorf("left are %+v", counts)
	}
	if _, found, err := m.Request("ann", "1"); err != nil || found {
		t.Errorf("the request of a removed job is known still (%v)", err)
	}
	check(t, m)
}

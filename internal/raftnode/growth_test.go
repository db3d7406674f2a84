package raftnode

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// forgetful is a state machine whose snapshots stay small, however much is applied.
type forgetful struct{ recorder }

func (f *forgetful) Apply(entry *raft.Log) any {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = entry.Index
	return nil
}

func (f *forgetful) Snapshot() (raft.FSMSnapshot, error) { return recorded("state"), nil }

// Under steady load the log's file levels off at what lies behind a snapshot and between two of them:
// what is cut off is used again. So do the snapshots, of which only so many are kept.
func TestTheLogLevelsOffUnderSteadyLoad(t *testing.T) {
	t.Parallel()
	const rounds, writers, each, size = 24, 16, 16, 4 << 10
	dir := t.TempDir()
	fsm := &forgetful{}
	config, _ := testConfig(t, "m1", dir, fsm)
	config.SnapshotInterval, config.SnapshotThreshold, config.TrailingLogs = 5*time.Millisecond, 64, 64
	n := startSingle(t, config)
	command := []byte(strings.Repeat("x", size))
	sizes := make([]int64, 0, rounds)
	for range rounds {
		var all sync.WaitGroup
		for range writers {
			all.Go(func() {
				for range each {
					if _, _, err := n.Propose(within(t), command); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
		// The snapshots keep up with the load.
		eventually(t, "no snapshot is taken", func() bool {
			s := n.Stats()
			return s.CommitIndex-s.LastSnapshotIndex < 2*config.SnapshotThreshold
		})
		info, err := os.Stat(filepath.Join(dir, logFile))
		ok(t, err)
		sizes = append(sizes, info.Size())
	}
	const written = rounds * writers * each * size
	// The file grows by doubling, and one snapshot that comes a moment late may take it over such a step. A log
	// that is not cut goes over four of them.
	third, last := sizes[rounds/3], sizes[rounds-1]
	if last > 2*third || last > written/2 {
		t.Errorf("the log has %d bytes after a third and %d at the end of %d bytes written: %v", third, last, written, sizes)
	}
	if kept := snapshotFiles(t, dir); len(kept) > 2+1 { // one more may be under way
		t.Errorf("%d snapshots are kept: %s", len(kept), fmt.Sprint(kept))
	}
}

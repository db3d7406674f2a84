package app

import (
	"path/filepath"
	"testing"

	"github.com/lancemaster/lancemaster/internal/fsm"
	"github.com/lancemaster/lancemaster/internal/raftnode"
)

type statsOf raftnode.Stats

func (s statsOf) Stats() raftnode.Stats { return raftnode.Stats(s) }

// The barriers of reads are applied without the state machine's knowing: a follower
// of a cluster that is only read is not behind.
func TestReadsDoNotMakeANodeLookBehind(t *testing.T) {
	m, err := fsm.Open(fsm.Config{Path: filepath.Join(t.TempDir(), "state.db"), Fatal: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Close() }()
	if at := (passed{m, statsOf{PassedIndex: 900}}).Applied().Index; at != 900 {
		t.Errorf("applied is %d behind 900 passed barriers", at)
	}
	if at := (passed{m, statsOf{}}).Applied().Index; at != m.Applied().Index {
		t.Errorf("applied is %d", at)
	}
}

//go:build !nextlevel

package fsm

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lancemaster/lancemaster/internal/command"
	"github.com/lancemaster/lancemaster/internal/job"
)

const mayBeLater = false

func (a *author) laterCommand() job.Command { return nil }

// wantStopped holds a machine to having stopped, and said so, because of what only a
// newer build can read.
func wantStopped(t *testing.T, m *Machine, told *fatals, err error) {
	t.Helper()
	unsupported := (*command.UnsupportedError)(nil)
	if !errors.As(err, &unsupported) || !strings.Contains(err.Error(), "upgrade this node") {
		t.Errorf("the answer is %v", err)
	}
	if errs := told.all(); len(errs) != 1 || !errors.As(errs[0], &unsupported) {
		t.Errorf("Fatal was told %v", errs)
	}
	if m.Err() == nil {
		t.Error("the machine goes on")
	}
}

// TestBuildsShareLevelOne: what this build and the one that is a level ahead journal
// and store while level 1 is in force is one and the same to both.
func TestBuildsShareLevelOne(t *testing.T) {
	rewriteLevelOne(t, snapshotOfOld)
	wantSharedState(t, levelOneJournal, levelOneSum, snapshotOfOld, snapshotOfNew)
}

// TestLevelTwoStopsThisBuild: at the entry that raises the level this build stops,
// with all before it applied and nothing of it, however often it is started again.
func TestLevelTwoStopsThisBuild(t *testing.T) {
	journal := readJournal(t, levelTwoJournal)
	n := raises(t, journal)
	before := openTemp(t)
	replayed(t, before, journal[:n])
	path := filepath.Join(t.TempDir(), "state.db")
	for range 2 {
		m := openAt(t, path)
		var told fatals
		m.fatal = told.add
		results := apply(m, journal...)
		if results[n-1].Err != nil {
			t.Fatal(results[n-1].Err)
		}
		for _, r := range results[n:] {
			if r.Err == nil || r.Refusal != nil {
				t.Fatalf("entry %d is answered by %+v", r.Position.Index, r)
			}
		}
		wantStopped(t, m, &told, results[n].Err)
		if m.Applied() != before.Applied() {
			t.Errorf("applied up to %+v, not %+v", m.Applied(), before.Applied())
		}
		closed(t, m)
	}
	m := openAt(t, path)
	defer func() { closed(t, m) }()
	check(t, m)
	if hash(t, m) != hash(t, before) {
		t.Error("the state is not that before the entry")
	}
}

// TestLevelTwoSnapshotStopsThisBuild: a state of level 2 is neither restored nor
// opened, and the one before is kept.
func TestLevelTwoSnapshotStopsThisBuild(t *testing.T) {
	snapshot := readPinned(t, levelTwoSnapshot)
	m := openTemp(t)
	var told fatals
	m.fatal = told.add
	journal, _ := write(newSeeded(3), 40)
	apply(m, journal...)
	at := m.Applied()
	wantStopped(t, m, &told, restore(m, snapshot))
	if m.Applied() != at {
		t.Errorf("applied up to %+v, not %+v", m.Applied(), at)
	}

	const header, trailer = 52, 32
	path := filepath.Join(t.TempDir(), "state.db")
	pages := snapshot[header : len(snapshot)-trailer]
	if uint64(len(pages)) != binary.BigEndian.Uint64(snapshot[40:]) {
		t.Fatal("the layout of a snapshot is another")
	}
	if err := os.WriteFile(path, pages, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(Config{Path: path})
	if !errors.As(err, new(*command.UnsupportedError)) || !strings.Contains(err.Error(), "upgrade this node") {
		t.Errorf("Open answers %v", err)
	}
}

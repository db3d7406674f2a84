package app

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"

	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/raftnode"
)

const lostTail = 3 // entries in the log of lostMember that its state does not have

// lostMember makes the directory of m1, of three members: a state, a snapshot of it, and a log whose
// last entries have never been applied, since nobody knows whether they are committed. want is the
// state with them.
func lostMember(t *testing.T) (dir string, id identity, sum, want job.Hash, end job.Position) {
	t.Helper()
	dir = t.TempDir()
	id, err := openDataDir(dir, "m1")
	if err != nil {
		t.Fatal(err)
	}
	id.ClusterID, id.Incarnation, id.Instances = testCluster, 1, map[string]string{"m1": id.InstanceID, "m2": "i2", "m3": "i3"}
	if err := writeIdentity(dir, id); err != nil {
		t.Fatal(err)
	}
	a := newState(t, stateIn(dir), testCluster, 5)
	file, sum, at := saveState(t, a)
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	saved, err := openSaved(strings.NewReader(string(raw)))
	if err != nil {
		t.Fatal(err)
	}
	three := []raftnode.Server{{ID: "m1", Address: "h1:9010", Voter: true}, {ID: "m2", Address: "h2:9010", Voter: true}, {ID: "m3", Address: "h3:9010", Voter: true}}
	err = raftnode.Config{ID: "m1", Dir: filepath.Join(dir, raftDir)}.Plant(raftnode.Seed{
		Index: at.Index, Term: at.Term, Servers: three,
		Write: func(w io.Writer) error { _, err := w.Write(raw[saved.start:]); return err },
	})
	if err != nil {
		t.Fatal(err)
	}
	entries := a.entries(a.admissions(lostTail)...)
	log, err := raftboltdb.NewBoltStore(filepath.Join(dir, raftDir, "raft.db"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(log.StoreLogs(entries), log.Close()); err != nil {
		t.Fatal(err)
	}
	a.close()
	ahead := openState(t, must(copyState(t, dir), job.Hash{}, job.Position{}))
	ahead.machine.ApplyBatch(entries)
	if want, err = ahead.machine.Hash(); err != nil {
		t.Fatal(err)
	}
	end = ahead.machine.Applied()
	ahead.close()
	return dir, id, sum, want, end
}

func copyState(t *testing.T, dir string) string {
	t.Helper()
	state, err := os.Open(stateIn(dir))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), stateFile)
	if err := errors.Join(copyFile(t.Context(), state, path), state.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

func recoverOptions(dir string) RecoverOptions {
	return RecoverOptions{Offline: Offline{
		DataDir: dir, NodeID: "m1", Address: "10.0.0.1:9010", now: func() time.Time { return offlineNow },
	}}
}

// Where a disk ends is told the same again afterwards: Raft's own entries count, which no state does.
func TestARecoveryThatIsDoneTellsTheSameEnd(t *testing.T) {
	dir, _, _, _, end := lostMember(t)
	log, err := raftboltdb.NewBoltStore(filepath.Join(dir, raftDir, "raft.db"))
	if err != nil {
		t.Fatal(err)
	}
	noop := &raft.Log{Index: end.Index + 1, Term: end.Term + 1, Type: raft.LogNoop}
	if err := errors.Join(log.StoreLog(noop), log.Close()); err != nil {
		t.Fatal(err)
	}
	for _, already := range []bool{false, true} {
		r, err := Recover(t.Context(), recoverOptions(dir))
		if err != nil {
			t.Fatal(err)
		}
		if r.Already != already || r.Index != noop.Index || r.Term != noop.Term {
			t.Errorf("it ends at entry %d of term %d, done already: %v; want %d of %d, %v", r.Index, r.Term, r.Already, noop.Index, noop.Term, already)
		}
	}
}

// All that the disk has counts, the node leads alone, and what was there before is kept.
func TestARecoveredNodeGoesOn(t *testing.T) {
	dir, old, _, want, end := lostMember(t)
	kept := fingerprint(t, dir)
	var asked []OfflinePlan
	o := recoverOptions(dir)
	o.ExpectCluster = testCluster
	o.Confirm = func(p OfflinePlan) error { asked = append(asked, p); return nil }
	result, err := Recover(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if len(asked) != 1 || asked[0].OpenJobs != 5 || asked[0].NewIncarnation != 2 || asked[0].ClusterID != testCluster || asked[0].Index != end.Index || asked[0].Term != end.Term || strings.Join(asked[0].Members, " ") != "m1 m2 m3" {
		t.Errorf("asked was %+v", asked)
	}
	if result.OpenJobs != 5+lostTail || result.Index != end.Index || result.NewIncarnation != 2 || result.InstanceID == old.InstanceID || result.Already {
		t.Errorf("the result is %+v", result)
	}
	aside := filepath.Join(dir, "replaced-20260301T120000Z")
	if result.KeptIn != aside {
		t.Errorf("the former content is in %s", result.KeptIn)
	}
	if got := fingerprint(t, aside); got != kept {
		t.Errorf("kept is\n%s\nof\n%s", got, kept)
	}
	wantFiles(t, dir, lockFile, identityFile, raftDir, filepath.Base(aside), stateFile)
	if stateHash(t, dir) != want {
		t.Error("the recovered state is another")
	}
	id, err := openDataDir(dir, "m1")
	if err != nil {
		t.Fatal(err)
	}
	if id.InstanceID != result.InstanceID || id.ClusterID != testCluster || id.Incarnation != 2 || len(id.Instances) != 1 ||
		id.Pending == nil || id.Pending.Incarnation != 2 || !strings.HasPrefix(id.Pending.Cause, "recovered from the disk of node m1 alone") {
		t.Errorf("the identity is %+v, owed is %+v", id, id.Pending)
	}
	// Run again, nothing is asked and nothing is done.
	o.Confirm = func(OfflinePlan) error { return errors.New("asked about what is done") }
	if again, err := Recover(t.Context(), o); err != nil || !again.Already || again.NewIncarnation != 2 || again.InstanceID != id.InstanceID {
		t.Errorf("run again: %+v, %v", again, err)
	}
	leadAlone(t, dir, end, id)
}

func TestRecoverRefuses(t *testing.T) {
	no := errors.New("the operator says no")
	for name, tc := range map[string]struct {
		prepare func(t *testing.T, dir string)
		change  func(*RecoverOptions)
		says    string
	}{
		"no directory":            {change: func(o *RecoverOptions) { o.DataDir += "x" }, says: "there is no data directory"},
		"a file":                  {change: func(o *RecoverOptions) { o.DataDir = stateIn(o.DataDir) }, says: "is a file; name"},
		"another node":            {change: func(o *RecoverOptions) { o.NodeID = "m2" }, says: `belongs to node "m1", not to "m2"`},
		"an unexpected cluster":   {change: func(o *RecoverOptions) { o.ExpectCluster = 8 }, says: "is of cluster 7, expected is cluster 8"},
		"not confirmed":           {change: func(o *RecoverOptions) { o.Confirm = func(OfflinePlan) error { return no } }, says: no.Error()},
		"an incarnation that was": {change: func(o *RecoverOptions) { o.Incarnation = 1 }, says: "incarnation 1 has been"},
		"no address":              {change: func(o *RecoverOptions) { o.Address = "" }, says: "Raft address is not known"},
		"without an identity":     {prepare: remove(identityFile), says: "is not the data directory of a member"},
		"without a log":           {prepare: remove(raftDir), says: "lacks raft"},
		"without a state":         {prepare: remove(stateFile), says: "lacks state.db"},
		"with a damaged state":    {prepare: damage(stateFile), says: "recover another member's directory"},
		"with a damaged Raft log": {prepare: damage(filepath.Join(raftDir, "raft.db")), says: "open raft log"},
		"before any formation":    {prepare: unformed, says: "has never learned of its cluster's formation"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, _, _, _, _ := lostMember(t)
			if tc.prepare != nil {
				tc.prepare(t, dir)
			}
			o := recoverOptions(dir)
			if tc.change != nil {
				tc.change(&o)
			}
			before := fingerprint(t, dir)
			if _, err := Recover(t.Context(), o); err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got %v, want %q", err, tc.says)
			}
			if after := fingerprint(t, dir); after != before {
				t.Errorf("the directory has changed:\n%s\nto\n%s", before, after)
			}
		})
	}
}

func remove(name string) func(t *testing.T, dir string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
}

func damage(name string) func(t *testing.T, dir string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		writeFile(t, filepath.Join(dir, name), strings.Repeat("damaged", 5000))
	}
}

func unformed(t *testing.T, dir string) {
	t.Helper()
	remove(stateFile)(t, dir)
	openState(t, stateIn(dir)).close()
}

func TestARunningNodeIsNotRecovered(t *testing.T) {
	t.Parallel()
	dir, _, _, _, _ := lostMember(t)
	lock, err := lockDataDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Recover(t.Context(), recoverOptions(dir)); err == nil || !strings.Contains(err.Error(), "another process (pid ") {
		t.Errorf("locked: %v", err)
	}
	if err := lock.release(); err != nil {
		t.Fatal(err)
	}
	// The lock of the log alone is enough as well.
	log, err := raftboltdb.NewBoltStore(filepath.Join(dir, raftDir, "raft.db"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Recover(t.Context(), recoverOptions(dir)); err == nil || !strings.Contains(err.Error(), "it holds the lock of raft") {
		t.Errorf("the log is open: %v", err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Recover(ctx, recoverOptions(dir)); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	wantFiles(t, dir, lockFile, identityFile, raftDir, stateFile)
}

func TestARecoverySurvivesKills(t *testing.T) {
	t.Parallel()
	var want job.Hash
	killEverywhere(t, func(t *testing.T) (string, identity, job.Hash) {
		dir, id, sum, after, _ := lostMember(t)
		want = after
		return dir, id, sum
	}, func(dir string) []string { return []string{"recover", dir} }, func(t *testing.T, dir string) {
		t.Helper()
		id, err := readIdentity(dir)
		if err != nil {
			t.Fatal(err)
		}
		if id.Pending == nil || id.Pending.Incarnation != 2 || stateHash(t, dir) != want {
			t.Errorf("the recovered identity is %+v", id)
		}
		wantFiles(t, dir, lockFile, identityFile, raftDir, "replaced-20260301T120000Z", stateFile)
	})
}

package app

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/lancemaster/lancemaster/internal/fsm"
	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/job/jobtest"
	"github.com/lancemaster/lancemaster/internal/raftnode"
	"github.com/lancemaster/lancemaster/internal/store"
)

var offlineNow = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// saveFile writes a snapshot file of a state with jobs and returns its name and the state's hash.
func saveFile(t *testing.T, cluster int32, jobs int) (path string, sum job.Hash, at job.Position) {
	t.Helper()
	a := newState(t, filepath.Join(t.TempDir(), stateFile), cluster, jobs)
	defer a.close()
	return saveState(t, a)
}

func saveState(t *testing.T, a *author) (path string, sum job.Hash, at job.Position) {
	t.Helper()
	e, err := a.machine.Export()
	if err != nil {
		t.Fatal(err)
	}
	defer e.Release()
	path = filepath.Join(t.TempDir(), "backup.lms")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(writeSnapshotFile(f, testDescription(), e), f.Close()); err != nil {
		t.Fatal(err)
	}
	if sum, err = a.machine.Hash(); err != nil {
		t.Fatal(err)
	}
	return path, sum, e.Header.Applied
}

func restoreOptions(file, dir string) RestoreOptions {
	return RestoreOptions{File: file, Offline: Offline{
		DataDir: dir, NodeID: "m1", Address: "10.0.0.1:9010", now: func() time.Time { return offlineNow },
	}}
}

func restored(t *testing.T, o RestoreOptions) *OfflineResult {
	t.Helper()
	r, err := Restore(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// oldDir is the data directory of m1 in a cluster: an identity, a state, and a log that nothing here
// looks into.
func oldDir(t *testing.T, cluster int32, jobs int) (dir string, id identity, sum job.Hash) {
	t.Helper()
	dir = t.TempDir()
	id, err := openDataDir(dir, "m1")
	if err != nil {
		t.Fatal(err)
	}
	id.ClusterID, id.Incarnation = cluster, 1
	if err := writeIdentity(dir, id); err != nil {
		t.Fatal(err)
	}
	a := newState(t, stateIn(dir), cluster, jobs)
	if sum, err = a.machine.Hash(); err != nil {
		t.Fatal(err)
	}
	a.close()
	if err := os.Mkdir(filepath.Join(dir, raftDir), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, raftDir, "log"), []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir, id, sum
}

func stateHash(t *testing.T, dir string) (sum job.Hash) {
	t.Helper()
	err := readState(dir, func(r *store.Reader) (err error) { sum, err = r.Hash(); return err })
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// A restored node leads alone, in a later term, behind the snapshot, and can journal the Quarantine
// that it owes.
func TestARestoredNodeGoesOn(t *testing.T) {
	file, sum, at := saveFile(t, testCluster, 20)
	dir := filepath.Join(t.TempDir(), "new", "data")
	var asked []OfflinePlan
	o := restoreOptions(file, dir)
	o.ExpectCluster = testCluster
	o.Confirm = func(p OfflinePlan) error { asked = append(asked, p); return nil }
	result := restored(t, o)
	if len(asked) != 1 || asked[0].ClusterID != testCluster || asked[0].Index != at.Index || asked[0].NewIncarnation != 2 || asked[0].Replaces {
		t.Errorf("asked was %+v", asked)
	}
	if result.Already || result.KeptIn != "" || result.OpenJobs != 20 || result.Unsettled != 20 || strings.Join(result.Members, " ") != "m1 m2 m3" {
		t.Errorf("the result is %+v", result)
	}
	wantFiles(t, dir, lockFile, identityFile, raftDir, stateFile)
	if stateHash(t, dir) != sum {
		t.Error("the restored state is another")
	}
	id, err := openDataDir(dir, "m1")
	if err != nil {
		t.Fatal(err)
	}
	if id.InstanceID != result.InstanceID || len(id.InstanceID) != 32 || id.ClusterID != testCluster || id.Incarnation != 2 ||
		len(id.Instances) != 1 || id.Instances["m1"] != id.InstanceID {
		t.Errorf("the identity is %+v", id)
	}
	if p := id.Pending; p == nil || p.Incarnation != 2 || p.At != job.Millis(offlineNow.UnixMilli()) ||
		!strings.HasPrefix(p.Cause, "restored from a snapshot that ends at entry ") || !strings.Contains(p.Cause, "by node m1, sha256 ") {
		t.Errorf("owed is %+v", p)
	}
	leadAlone(t, dir, at, id)
}

// leadAlone starts Raft and the state machine on a directory, as the node does, and journals what the
// identity owes.
func leadAlone(t *testing.T, dir string, at job.Position, id identity) {
	t.Helper()
	a := openState(t, stateIn(dir))
	n, err := raftnode.New(raftnode.Config{
		ID: "m1", Dir: filepath.Join(dir, raftDir), BindAddress: "127.0.0.1:0", FSM: a.machine,
		Fatal:   func(err error) { t.Error(err) },
		Prepare: func(l raft.LogStore, s raft.SnapshotStore) error { return a.machine.Prepare(l, s) },
		// Short, so that the test is.
		HeartbeatTimeout: 200 * time.Millisecond, ElectionTimeout: 200 * time.Millisecond, LeaderLease: 200 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	defer func() {
		if err := n.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	}()
	if err := n.Start(); err != nil {
		t.Fatal(err)
	}
	for {
		term, leads, changed := n.Leadership()
		if leads {
			if term <= at.Term {
				t.Errorf("it leads in term %d", term)
			}
			break
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatal("it does not lead")
		}
	}
	if s := n.Servers(); len(s) != 1 || s[0] != (raftnode.Server{ID: "m1", Address: "10.0.0.1:9010", Voter: true}) {
		t.Errorf("the members are %+v", s)
	}
	members := jobtest.Members("m1")
	members[0].InstanceID = id.InstanceID
	// One for each incarnation in between, as a node journals them.
	for incarnation := int64(testBefore + 1); incarnation <= id.Pending.Incarnation; incarnation++ {
		data := a.entries(job.Quarantine{
			Header: job.Header{At: 5000, Actor: job.ActorSystem}, Incarnation: incarnation, Cause: id.Pending.Cause, Members: members,
		})[0].Data
		response, index, err := n.Propose(ctx, data)
		r, ok := response.(*fsm.Result)
		if err != nil || !ok || r.Refusal != nil || r.Err != nil || index <= at.Index {
			t.Fatalf("the Quarantine is answered by %+v at %d, %v", response, index, err)
		}
	}
}

// Nothing of a refused restore shows in the directory.
func TestRestoreRefuses(t *testing.T) {
	file, _, _ := saveFile(t, testCluster, 5)
	damaged := filepath.Join(t.TempDir(), "damaged")
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	raw[len(raw)/2] ^= 1
	if err := os.WriteFile(damaged, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	no := errors.New("the operator says no")
	for name, tc := range map[string]struct {
		prepare func(t *testing.T) string // makes the directory
		change  func(*RestoreOptions)
		says    string
	}{
		"no file": {change: func(o *RestoreOptions) { o.File += "x" }, says: "cannot read the snapshot file"},
		"damaged": {change: func(o *RestoreOptions) { o.File = damaged }, says: "its content does not match its checksum"},
		"of an unexpected cluster": {
			change: func(o *RestoreOptions) { o.ExpectCluster = 8 }, says: "it is of cluster 7, expected is cluster 8",
		},
		"not confirmed":                {change: func(o *RestoreOptions) { o.Confirm = func(OfflinePlan) error { return no } }, says: no.Error()},
		"an incarnation that was":      {change: func(o *RestoreOptions) { o.Incarnation = 1 }, says: "incarnation 1 has been"},
		"an incarnation too far":       {change: func(o *RestoreOptions) { o.Incarnation = 5000 }, says: "too far from 1"},
		"no node":                      {change: func(o *RestoreOptions) { o.NodeID = "" }, says: "the node is not named"},
		"no address":                   {change: func(o *RestoreOptions) { o.Address = "" }, says: "Raft address is not known"},
		"a file for a directory":       {change: func(o *RestoreOptions) { o.DataDir = file }, says: "not a directory"},
		"in use":                       {prepare: usedDir, says: "with --replace its content is kept"},
		"confirmed, in use":            {prepare: usedDir, change: func(o *RestoreOptions) { o.Replace = true; o.Confirm = func(OfflinePlan) error { return no } }, says: no.Error()},
		"of another node":              {prepare: usedDir, change: func(o *RestoreOptions) { o.Replace, o.NodeID = true, "m2" }, says: `belongs to node "m1", not to "m2"`},
		"of another cluster":           {prepare: foreignDir, change: func(o *RestoreOptions) { o.Replace = true }, says: "belongs to cluster 8, the snapshot to cluster 7"},
		"with something else":          {prepare: otherDir, change: func(o *RestoreOptions) { o.Replace = true }, says: "is not empty: it holds notes.txt"},
		"without an identity":          {prepare: namelessDir, change: func(o *RestoreOptions) { o.Replace = true }, says: "so that nobody can tell whose it is"},
		"with a damaged identity":      {prepare: brokenDir, change: func(o *RestoreOptions) { o.Replace = true }, says: "is damaged"},
		"of a cluster nobody can tell": {prepare: unknownDir, change: func(o *RestoreOptions) { o.Replace = true }, says: "of which cluster the data directory is cannot be told"},
	} {
		t.Run(name, func(t *testing.T) {
			o := restoreOptions(file, filepath.Join(t.TempDir(), "data"))
			if tc.prepare != nil {
				o.DataDir = tc.prepare(t)
			}
			if tc.change != nil {
				tc.change(&o)
			}
			before := fingerprint(t, o.DataDir)
			if _, err := Restore(t.Context(), o); err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got %v, want %q", err, tc.says)
			}
			if after := fingerprint(t, o.DataDir); after != before {
				t.Errorf("the directory has changed:\n%s\nto\n%s", before, after)
			}
		})
	}
}

func usedDir(t *testing.T) string    { dir, _, _ := oldDir(t, testCluster, 1); return dir }
func foreignDir(t *testing.T) string { dir, _, _ := oldDir(t, 8, 1); return dir }

func otherDir(t *testing.T) string {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "notes.txt"), "x")
	return dir
}

func namelessDir(t *testing.T) string {
	dir := usedDir(t)
	if err := os.Remove(filepath.Join(dir, identityFile)); err != nil {
		t.Fatal(err)
	}
	return dir
}

func brokenDir(t *testing.T) string {
	dir := usedDir(t)
	writeFile(t, filepath.Join(dir, identityFile), "{")
	return dir
}

// unknownDir has a damaged state and an identity that knows no cluster.
func unknownDir(t *testing.T) string {
	dir := usedDir(t)
	writeFile(t, filepath.Join(dir, identityFile), `{"node_id":"m1","instance_id":"x"}`)
	writeFile(t, stateIn(dir), strings.Repeat("damaged", 5000))
	return dir
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// fingerprint lists a directory with what its small files hold. The lock, and how a state file and a log
// keep their pages, which opening them changes, do not count.
func fingerprint(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	source := os.DirFS(dir)
	err := fs.WalkDir(source, ".", func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) || e != nil && e.Name() == lockFile {
			return nil // there is nothing, or what does not count
		}
		if err != nil {
			return err
		}
		b.WriteString(path)
		if e.Type().IsRegular() && e.Name() != stateFile && e.Name() != "raft.db" {
			text, err := fs.ReadFile(source, path)
			if err != nil {
				return err
			}
			b.WriteString(" " + string(text[:min(len(text), 300)]))
		}
		b.WriteString("\n")
		return nil
	})
	if err != nil && !errors.Is(err, syscall.ENOTDIR) {
		t.Fatal(err)
	}
	return b.String()
}

// A node that runs holds the lock of its directory, and a program that does not know of that lock the
// locks of its files.
func TestARunningNodeIsNotRestored(t *testing.T) {
	t.Parallel()
	file, _, _ := saveFile(t, testCluster, 1)
	dir := usedDir(t)
	o := restoreOptions(file, dir)
	o.Replace = true
	lock, err := lockDataDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(t.Context(), o); err == nil || !strings.Contains(err.Error(), "another process (pid ") {
		t.Errorf("locked: %v", err)
	}
	if err := lock.release(); err != nil {
		t.Fatal(err)
	}
	a := openState(t, stateIn(dir))
	if _, err := Restore(t.Context(), o); err == nil || !strings.Contains(err.Error(), "it holds the lock of "+stateFile) {
		t.Errorf("the state is open: %v", err)
	}
	a.close()
	restored(t, o)
}

// What is replaced is kept whole, and incarnations that the old directory knows of are not used again.
func TestARestoreKeepsWhatItReplaces(t *testing.T) {
	file, sum, _ := saveFile(t, testCluster, 4)
	for name, tc := range map[string]struct {
		change func(t *testing.T, dir string, id *identity)
		asked  int64
		want   int64
	}{
		"the snapshot's is the highest": {want: 2},
		"the identity knows a higher one": {
			change: func(t *testing.T, dir string, id *identity) { id.Incarnation = 5 }, want: 6,
		},
		"one is owed": {
			change: func(t *testing.T, dir string, id *identity) {
				id.Pending = &pendingQuarantine{Incarnation: 7, Cause: "another restore"}
			},
			want: 8,
		},
		"the state is damaged": {
			change: func(t *testing.T, dir string, id *identity) {
				id.Incarnation = 3
				writeFile(t, stateIn(dir), strings.Repeat("damaged", 5000))
			},
			want: 4,
		},
		"the operator knows a higher one": {asked: 9, want: 9},
	} {
		t.Run(name, func(t *testing.T) {
			dir, id, _ := oldDir(t, testCluster, 9)
			if tc.change != nil {
				tc.change(t, dir, &id)
				if err := writeIdentity(dir, id); err != nil {
					t.Fatal(err)
				}
			}
			old := fingerprint(t, dir)
			o := restoreOptions(file, dir)
			o.Replace, o.Incarnation = true, tc.asked
			result := restored(t, o)
			if result.KeptIn != filepath.Join(dir, "replaced-20260301T120000Z") || !result.Replaces || result.NewIncarnation != tc.want {
				t.Errorf("the result is %+v", result)
			}
			wantFiles(t, dir, lockFile, identityFile, raftDir, filepath.Base(result.KeptIn), stateFile)
			if got := fingerprint(t, result.KeptIn); got != old {
				t.Errorf("kept is\n%s\nof\n%s", got, old)
			}
			now, err := readIdentity(dir)
			if err != nil || now.InstanceID == id.InstanceID || now.Pending.Incarnation != tc.want || now.Incarnation != tc.want {
				t.Errorf("the identity is %+v, %v", now, err)
			}
			if stateHash(t, dir) != sum {
				t.Error("the restored state is another")
			}
			// Replaced once more, by another snapshot in the same second.
			second, _, _ := saveFile(t, testCluster, 5)
			o.File, o.Incarnation = second, 0
			if again := restored(t, o); again.KeptIn != result.KeptIn+"-2" || again.NewIncarnation != tc.want+1 {
				t.Errorf("the second result is %+v", again)
			}
		})
	}
}

// Run again, a restore that was done changes nothing and says so.
func TestARestoreIsDoneOnce(t *testing.T) {
	file, _, _ := saveFile(t, testCluster, 3)
	dir := filepath.Join(t.TempDir(), "data")
	o := restoreOptions(file, dir)
	first := restored(t, o)
	before := fingerprint(t, dir)
	o.Confirm = func(OfflinePlan) error { return errors.New("asked about what is done") }
	again := restored(t, o)
	if !again.Already || again.InstanceID != first.InstanceID || again.NewIncarnation != first.NewIncarnation {
		t.Errorf("run again: %+v", again)
	}
	if after := fingerprint(t, dir); after != before {
		t.Errorf("it changed\n%s\nto\n%s", before, after)
	}
	// Another snapshot is another matter.
	o.Confirm, o.File = nil, must(saveFile(t, testCluster, 4))
	if _, err := Restore(t.Context(), o); err == nil || !strings.Contains(err.Error(), "--replace") {
		t.Errorf("another snapshot: %v", err)
	}
}

func must(path string, _ job.Hash, _ job.Position) string { return path }

func TestARestoreEndsWithItsContext(t *testing.T) {
	file, _, _ := saveFile(t, testCluster, 3)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := filepath.Join(t.TempDir(), "data")
	if _, err := Restore(ctx, restoreOptions(file, dir)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	// In the middle: what was built is removed.
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	o := restoreOptions(file, dir)
	o.step = func(name string) {
		if name == "directory made" {
			cancel()
		}
	}
	if _, err := Restore(ctx, o); !errors.Is(err, context.Canceled) {
		t.Errorf("in the middle: %v", err)
	}
	wantFiles(t, dir, lockFile)
}

package raftnode

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/lancemaster/lancemaster/internal/await"
)

// pass lets time go by, in a bubble of synctest: the time is made up.
func pass(d time.Duration) {
	await.Pass(d)
}

func TestDiskWatchFindsAHangWhileItLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := make(fatals, 10)
		w := NewDiskWatch(8*time.Second, told.tell)
		defer w.Close()
		quick := w.Begin("something quick")
		pass(7 * time.Second)
		quick()
		began := time.Now()
		end := w.Begin("appending to the log")
		err := <-told
		if took := time.Since(began); took < 8*time.Second || took > 9500*time.Millisecond {
			t.Errorf("found after %s", took)
		}
		if !errors.Is(err, ErrDisk) || !strings.Contains(err.Error(), "appending to the log") || !errors.Is(w.Err(), err) {
			t.Errorf("told %v, keeps %v", err, w.Err())
		}
		end()
		w.Fail(errors.New("too late"))
		pass(time.Minute)
		if len(told) != 0 {
			t.Errorf("told again: %v", <-told)
		}
	})
}

func TestDiskWatchLeavesTheQuickAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := make(fatals, 10)
		w := NewDiskWatch(8*time.Second, told.tell)
		for range 100 {
			end := w.Begin("a write")
			pass(7500 * time.Millisecond)
			end()
		}
		end := w.beginWith("a large write", 30*time.Second)
		pass(35 * time.Second)
		end()
		w.Close()
		w.Close()
		if len(told) != 0 || w.Err() != nil {
			t.Errorf("told %d times, keeps %v", len(told), w.Err())
		}
	})
}

func TestDiskWatchTellsOfAFailureOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := make(fatals, 10)
		w := NewDiskWatch(8*time.Second, told.tell)
		first := errors.New("no space left")
		w.Fail(first)
		w.Fail(errors.New("second"))
		w.Close()
		if err := <-told; !errors.Is(err, first) || !errors.Is(err, ErrDisk) {
			t.Errorf("told %v", err)
		}
		if len(told) != 0 {
			t.Errorf("told again: %v", <-told)
		}
	})
}

// A disk that fails takes the node out of the cluster at once: it does not lead on, does not accept
// anything, does not panic, and says why, once.
func TestFailedWriteIsFatal(t *testing.T) {
	for _, at := range []string{"append", "set CurrentTerm", "set LastVoteCand", "set LastVoteTerm"} {
		t.Run(at, func(t *testing.T) {
			fake := newFakeStorage()
			n, fatal := startFake(t, fake, nil)
			broken := errors.New("input/output error")
			fake.onCall(func(call string) error {
				if call == at {
					return broken
				}
				return nil
			})
			switch at {
			case "append":
				_, _, err := n.Propose(within(t), []byte("x"))
				if err == nil || errors.Is(err, ErrNotAppended) {
					t.Errorf("a command whose write failed: %v", err)
				}
			default:
				// A newer leader shows up and falls silent: the next thing is an election.
				depose(t, n)
			}
			select {
			case err := <-fatal:
				if !errors.Is(err, broken) || !errors.Is(err, ErrDisk) {
					t.Errorf("fatal: %v", err)
				}
			case <-within(t).Done():
				t.Fatal("nobody was told")
			}
			eventually(t, "the node leads on", func() bool { _, leads := n.Term(); return !leads })
			if _, _, err := n.Propose(within(t), []byte("y")); !errors.Is(err, ErrDisk) || !errors.Is(err, ErrNotAppended) {
				t.Errorf("a command after the disk has failed: %v", err)
			}
			stop(t, n)
			if len(fatal) != 0 {
				t.Errorf("told again: %v", <-fatal)
			}
		})
	}
}

func TestHangingWriteIsFatal(t *testing.T) {
	fake := newFakeStorage()
	n, fatal := startFake(t, fake, func(c *Config) { c.DiskStallLimit = 100 * time.Millisecond })
	hang := make(chan struct{})
	fake.onCall(func(call string) error {
		if call == "append" {
			<-hang
		}
		return nil
	})
	ended := make(chan error, 1)
	go func() {
		_, _, err := n.Propose(context.Background(), []byte("x"))
		ended <- err
	}()
	select {
	case err := <-fatal:
		if !errors.Is(err, ErrDisk) || !strings.Contains(err.Error(), "appending to the log") {
			t.Errorf("fatal: %v", err)
		}
	case <-within(t).Done():
		t.Fatal("nobody was told of the write that hangs")
	}
	close(hang)
	stop(t, n)
	// The write came through in the end, but that is not known to be so.
	if err := <-ended; errors.Is(err, ErrNotAppended) {
		t.Errorf("the command: %v", err)
	}
}

func TestOwnersWritesAreWatched(t *testing.T) {
	fake := newFakeStorage()
	n, fatal := startFake(t, fake, func(c *Config) { c.DiskStallLimit = 50 * time.Millisecond })
	end := n.Stall("committing the state")
	defer end()
	select {
	case err := <-fatal:
		if !strings.Contains(err.Error(), "committing the state") {
			t.Errorf("fatal: %v", err)
		}
	case <-within(t).Done():
		t.Fatal("nobody was told")
	}
}

// A node's own snapshot and one that its leader sends may begin within one millisecond, of which their
// names are made: each is kept under a name of its own.
func TestSnapshotsOfOneMoment(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) { // where all of it takes no time
		w := NewDiskWatch(time.Minute, make(fatals, 10).tell)
		defer w.Close()
		files := must(raft.NewFileSnapshotStoreWithLogger(dir, 3, newRaftLogger(Config{}.withDefaults().Logger)))(t)
		store := &guardedSnapshots{SnapshotStore: files, guard: &guard{watch: w}, dir: filepath.Join(dir, snapshotDir)}
		_, transport := raft.NewInmemTransport("")
		var sinks []raft.SnapshotSink
		for _, state := range []string{"one", "other"} {
			sink := must(store.Create(1, 108, 6, raft.Configuration{}, 1, transport))(t)
			must(sink.Write([]byte(state)))(t)
			sinks = append(sinks, sink)
		}
		for _, sink := range sinks {
			ok(t, sink.Close())
		}
		if list := must(store.List())(t); len(list) != 2 || list[0].ID == list[1].ID {
			t.Errorf("snapshots: %+v", list)
		}
		ok(t, w.Err())
	})
}

// A snapshot that cannot be written is fatal; one under way is given up when the node stops.
func TestSnapshotWrites(t *testing.T) {
	told := make(fatals, 10)
	w := NewDiskWatch(time.Minute, told.tell)
	defer w.Close()
	dir := t.TempDir()
	files := must(raft.NewFileSnapshotStoreWithLogger(dir, 1, newRaftLogger(Config{}.withDefaults().Logger)))(t)
	g := &guard{watch: w}
	store := &guardedSnapshots{SnapshotStore: files, guard: g, dir: dir + "/" + snapshotDir}
	create := func(index uint64) raft.SnapshotSink {
		_, transport := raft.NewInmemTransport("")
		return must(store.Create(1, index, 1, raft.Configuration{}, 1, transport))(t)
	}
	sink := create(1)
	must(sink.Write([]byte("state")))(t)
	ok(t, sink.Close())
	ok(t, sink.Close())
	ok(t, sink.Cancel())
	if list := must(store.List())(t); len(list) != 1 || list[0].Size != 5 {
		t.Fatalf("snapshots: %+v", list)
	}

	given := create(2)
	g.closing.Store(true)
	if _, err := given.Write([]byte("x")); !errors.Is(err, ErrStopped) {
		t.Errorf("writing while the node stops: %v", err)
	}
	ok(t, given.Cancel())
	g.closing.Store(false)
	if got := len(snapshotFiles(t, dir)); got != 1 {
		t.Errorf("%d snapshots are left", got)
	}
	if w.Err() != nil {
		t.Fatalf("the disk counts as failed: %v", w.Err())
	}

	broken := &guardedSink{SnapshotSink: brokenSink{given}, guard: g}
	if _, err := broken.Write([]byte("x")); !errors.Is(err, errBroken) {
		t.Errorf("a failed write: %v", err)
	}
	if err := <-told; !errors.Is(err, errBroken) {
		t.Errorf("told %v", err)
	}
	if _, err := store.Create(1, 3, 1, raft.Configuration{}, 1, nil); !errors.Is(err, ErrDisk) {
		t.Errorf("a snapshot on a failed disk: %v", err)
	}
}

var errBroken = errors.New("no space left on device")

type brokenSink struct{ raft.SnapshotSink }

func (brokenSink) Write([]byte) (int, error) { return 0, errBroken }

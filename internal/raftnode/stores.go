package raftnode

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// guard stands between Raft and the disk: it times every access, and stops for good at the first
// write that fails.
type guard struct {
	watch *DiskWatch
	// events is told of what was written; it may be nil.
	events *events
	// running is set while Raft's goroutines use the stores.
	running atomic.Bool
	// closing is set when the node stops: snapshots are given up.
	closing atomic.Bool
	// closed is set when Raft has ended: what still reads then, reads a closed file.
	closed atomic.Bool
	// halted is called when one of Raft's goroutines is stopped; nil for nothing.
	halted func()
}

// write does one write under the watch.
func (g *guard) write(name string, do func() error) error {
	if err := g.watch.Err(); err != nil {
		return g.halt(err)
	}
	end := g.watch.Begin(name)
	err := do()
	end()
	if err == nil {
		return nil
	}
	g.watch.Fail(fmt.Errorf("%s: %w", name, err))
	return g.halt(err)
}

// read does one read under the watch. That something is not there is no fault.
func (g *guard) read(name string, do func() error) error {
	end := g.watch.Begin(name)
	err := do()
	end()
	if err != nil && !absent(err) && !errors.Is(err, raft.ErrLogNotFound) && !g.closed.Load() {
		g.watch.Fail(fmt.Errorf("%s: %w", name, err))
	}
	return err
}

// halt ends the goroutine of Raft's that has just failed to write, so that the node falls silent
// instead of going on without what it believes to be stored, or panicking before its owner could say
// why it ends. Raft's own deferred calls answer what was under way: commands with the loss of the
// leadership, other members with a refusal. Outside Raft's goroutines, which is before and after it
// runs, the error is simply returned.
func (g *guard) halt(err error) error {
	if !g.running.Load() {
		return err
	}
	if g.halted != nil {
		g.halted()
	}
	runtime.Goexit()
	return err
}

// guardedLog is the log under a guard.
type guardedLog struct {
	inner raft.LogStore
	guard *guard
}

func (l *guardedLog) FirstIndex() (index uint64, err error) {
	err = l.guard.read("reading the log's first index", func() error {
		index, err = l.inner.FirstIndex()
		return err
	})
	return index, err
}

func (l *guardedLog) LastIndex() (index uint64, err error) {
	err = l.guard.read("reading the log's last index", func() error {
		index, err = l.inner.LastIndex()
		return err
	})
	return index, err
}

func (l *guardedLog) GetLog(index uint64, entry *raft.Log) error {
	return l.guard.read("reading the log", func() error { return l.inner.GetLog(index, entry) })
}

func (l *guardedLog) StoreLog(entry *raft.Log) error {
	return l.StoreLogs([]*raft.Log{entry})
}

func (l *guardedLog) StoreLogs(entries []*raft.Log) error {
	return l.guard.write("appending to the log", func() error {
		began := time.Now()
		err := l.inner.StoreLogs(entries)
		l.guard.events.appended(time.Since(began))
		return err
	})
}

func (l *guardedLog) DeleteRange(first, last uint64) error {
	return l.guard.write("removing from the log", func() error { return l.inner.DeleteRange(first, last) })
}

// guardedStable is the store of term and vote under a guard. Errors are passed as they are: Raft
// knows an absent key by the error's text.
type guardedStable struct {
	inner raft.StableStore
	guard *guard
}

func (s *guardedStable) Set(key, value []byte) error {
	return s.guard.write("storing "+string(key), func() error { return s.inner.Set(key, value) })
}

func (s *guardedStable) Get(key []byte) (value []byte, err error) {
	err = s.guard.read("reading "+string(key), func() error {
		value, err = s.inner.Get(key)
		return err
	})
	return value, err
}

func (s *guardedStable) SetUint64(key []byte, value uint64) error {
	return s.guard.write("storing "+string(key), func() error { return s.inner.SetUint64(key, value) })
}

func (s *guardedStable) GetUint64(key []byte) (value uint64, err error) {
	err = s.guard.read("reading "+string(key), func() error {
		value, err = s.inner.GetUint64(key)
		return err
	})
	return value, err
}

// guardedSnapshots is the snapshot store under a guard. A failed write of a snapshot is fatal like
// any other; Raft only logs it and tries again.
type guardedSnapshots struct {
	raft.SnapshotStore
	guard *guard
	dir   string // where the store keeps its snapshots; empty if not on disk

	creating sync.Mutex
}

func (s *guardedSnapshots) Create(version raft.SnapshotVersion, index, term uint64, members raft.Configuration,
	membersIndex uint64, transport raft.Transport,
) (raft.SnapshotSink, error) {
	s.creating.Lock()
	defer s.creating.Unlock()
	if err := s.awaitName(term, index); err != nil {
		return nil, err
	}
	var sink raft.SnapshotSink
	err := s.guard.writeSnapshot("creating a snapshot", 0, func() (err error) {
		sink, err = s.SnapshotStore.Create(version, index, term, members, membersIndex, transport)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &guardedSink{SnapshotSink: sink, guard: s.guard, dir: s.dir}, nil
}

// awaitName waits until the name that the file store will give a snapshot is free. It is made of term, index
// and the millisecond, and a node's own snapshot and one that its leader sends may begin in the same one:
// they would write into one file, and the later one could not be put in its place.
func (s *guardedSnapshots) awaitName(term, index uint64) error {
	if s.dir == "" {
		return nil
	}
	const tries = 1000
	for range tries {
		var taken bool
		if err := s.guard.writeSnapshot("naming a snapshot", 0, func() error {
			name := filepath.Join(s.dir, fmt.Sprintf("%d-%d-%d", term, index, time.Now().UnixMilli()))
			taken = exists(name) || exists(name+unfinished)
			return nil
		}); err != nil || !taken {
			return err
		}
		<-time.After(time.Millisecond)
	}
	return fmt.Errorf("no name is free for a snapshot of term %d, index %d in %s", term, index, s.dir)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// writeSnapshot is write without halt: Raft and the state machine handle these errors properly, and
// a snapshot is also written on goroutines that are not Raft's.
func (g *guard) writeSnapshot(name string, extra time.Duration, do func() error) error {
	if g.closing.Load() {
		return fmt.Errorf("snapshot given up: %w", ErrStopped)
	}
	if err := g.watch.Err(); err != nil {
		return err
	}
	end := g.watch.beginWith(name, extra)
	err := do()
	end()
	if err != nil {
		g.watch.Fail(fmt.Errorf("%s: %w", name, err))
	}
	return err
}

// slowestDisk is the rate, in bytes per second, below which writing out a whole snapshot counts as
// hanging.
const slowestDisk = 8 << 20

// guardedSink is a snapshot being written.
type guardedSink struct {
	raft.SnapshotSink
	guard  *guard
	dir    string
	size   int64
	closed bool
}

func (s *guardedSink) Write(data []byte) (n int, err error) {
	err = s.guard.writeSnapshot("writing a snapshot", 0, func() error {
		n, err = s.SnapshotSink.Write(data)
		return err
	})
	s.size += int64(n)
	return n, err
}

// Close makes the snapshot durable, its directory's entries included.
func (s *guardedSink) Close() error {
	if s.closed {
		return nil
	}
	s.closed = true
	extra := time.Duration(s.size/slowestDisk) * time.Second
	err := s.guard.writeSnapshot("making a snapshot durable", extra, func() error {
		if err := s.SnapshotSink.Close(); err != nil {
			return err
		}
		if s.dir == "" {
			return nil
		}
		return syncDir(filepath.Join(s.dir, s.ID()))
	})
	if err != nil {
		s.guard.events.snapshotEnded(snapshotFailed)
		// Nothing more can be done about an unfinished snapshot; the next start removes it.
		return errors.Join(err, s.SnapshotSink.Cancel())
	}
	s.guard.events.snapshotEnded(snapshotWritten)
	return nil
}

// Cancel gives the snapshot up.
func (s *guardedSink) Cancel() error {
	if s.closed {
		return nil
	}
	s.closed = true
	s.guard.events.snapshotEnded(snapshotFailed)
	return s.SnapshotSink.Cancel()
}

// syncDir makes the entries of a directory durable.
func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

package app

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/lancemaster/lancemaster/internal/config"
	"github.com/lancemaster/lancemaster/internal/fsm"
	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/rpc"
)

const (
	// savingPrefix begins the names of files in the data directory from which snapshots are read.
	savingPrefix = "snapshot-being-read-"
	// maxOpenSnapshots bounds the disk that they take.
	maxOpenSnapshots = 2
	// snapshotIdle is how long one stays open that nobody reads.
	snapshotIdle = time.Minute
	// snapshotReserve is what a snapshot leaves free on the disk, in bytes: the journal is on it too,
	// and a node that cannot write its journal ends.
	snapshotReserve = 64 << 20
	// unsynced bounds, in bytes, how much of a snapshot may wait to be written to the disk. More would
	// be in the way of the journal's own writes, which wait for each other's on some file systems.
	unsynced = 4 << 20
)

// snapshots makes snapshots of the state for those who save them elsewhere.
//
// A snapshot is copied to a file beside the state and read from there. Reading the state itself would
// need no room, but holds a read transaction for as long as the slowest reader takes: meanwhile the
// state file cannot use its free pages again and grows with all that is written. The copy ends within
// seconds, has a size and a sum that can be told before it is read, and a part that was lost on the
// way can be read again. It costs as much disk as the state has, for a while; too little is found out
// before it is used up. The file has no name while it is read, so that nothing of it outlives
// the process.
type snapshots struct {
	dir         string
	export      func() (*fsm.Export, error)
	description func() description
	free        func(dir string) (bytes uint64, known bool)
	idle        time.Duration
	log         *slog.Logger

	mu       sync.Mutex
	closed   bool
	making   int
	promised uint64 // bytes of the disk that those being made will take, or have taken in part
	open     map[string]*openSnapshot
}

// openSnapshot is one that can be read.
type openSnapshot struct {
	file    *os.File
	size    int64
	expires *time.Timer
}

var _ rpc.Snapshots = (*snapshots)(nil)

// newSnapshots also removes what a process that was killed may have left in the data directory.
func newSnapshots(dir string, export func() (*fsm.Export, error), describe func() description, log *slog.Logger) (*snapshots, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot look for old snapshot files: %w", err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), savingPrefix) {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, fmt.Errorf("cannot remove an old snapshot file: %w", err)
			}
		}
	}
	return &snapshots{
		dir: dir, export: export, description: describe, free: freeBytes, idle: snapshotIdle, log: log,
		open: map[string]*openSnapshot{},
	}, nil
}

// startSnapshots serves snapshots until the node stops, which must be after its admin service has.
func (a *App) startSnapshots() (*snapshots, error) {
	describe := func() description {
		return description{CreatedAt: job.Millis(time.Now().UnixMilli()), NodeID: a.cfg.NodeID, Version: config.BuildInfo().Version}
	}
	s, err := newSnapshots(a.cfg.DataDir, a.machine.Export, describe, a.log.With("part", "snapshots"))
	if err != nil {
		return nil, err
	}
	a.onStop("snapshots being read", func(context.Context) error { s.close(); return nil })
	return s, nil
}

// Begin makes a snapshot of the state as it is now and keeps it for reading.
func (s *snapshots) Begin(ctx context.Context) (rpc.SnapshotInfo, error) {
	if err := s.reserve(); err != nil {
		return rpc.SnapshotInfo{}, err
	}
	info, file, err := s.make(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.making--
	if err == nil && s.closed {
		err = errors.Join(errStopped, file.Close())
	}
	if err != nil {
		return rpc.SnapshotInfo{}, err
	}
	s.open[info.ID] = &openSnapshot{file: file, size: info.Size, expires: time.AfterFunc(s.idle, func() { s.expire(info.ID) })}
	s.log.Info("a snapshot is read", "index", info.RaftIndex, "bytes", info.Size, "jobs", info.Jobs)
	return info, nil
}

func (s *snapshots) reserve() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return errStopped
	case s.making+len(s.open) >= maxOpenSnapshots:
		return &job.Refusal{
			Code: job.CodeInUse, Message: fmt.Sprintf("%d snapshots are being read from this master, and no more are made at once", maxOpenSnapshots),
			Next: fmt.Sprintf("try again when they have been read; one that nobody reads is given up after %s", s.idle),
		}
	}
	s.making++
	return nil
}

// make copies the state to a file without a name.
func (s *snapshots) make(ctx context.Context) (rpc.SnapshotInfo, *os.File, error) {
	e, err := s.export()
	if err != nil {
		return rpc.SnapshotInfo{}, nil, err
	}
	defer e.Release()
	if e.Header.ClusterID == 0 || e.Header.Applied.Index == 0 {
		return rpc.SnapshotInfo{}, nil, &job.Refusal{
			Code: job.CodeNotFormed, Message: "no snapshot was made: this master does not know of the cluster's formation yet", Next: "try again when it does, or ask another master",
		}
	}
	unpromise, err := s.promise(uint64(e.Header.SnapshotSize()))
	if err != nil {
		return rpc.SnapshotInfo{}, nil, err
	}
	defer unpromise()
	file, err := namelessFile(s.dir)
	if err != nil {
		return rpc.SnapshotInfo{}, nil, diskError(err)
	}
	info, err := s.copy(ctx, file, e)
	if err != nil {
		_ = file.Close() // what was written is of no use
		return rpc.SnapshotInfo{}, nil, diskError(err)
	}
	return info, file, nil
}

// promise takes room on the disk for one that is about to be written, until it is. How far others that are being
// made have come is not known, so that each counts in full on top of what is free: where the room is scarce, one is
// refused too early rather than the journal's reserve used up.
func (s *snapshots) promise(size uint64) (unpromise func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if free, known := s.free(s.dir); known && free < size+s.promised+snapshotReserve {
		others := ""
		if s.promised > 0 {
			others = fmt.Sprintf(", of which another snapshot takes up to %d", s.promised)
		}
		return nil, noRoom(fmt.Sprintf("it needs %d bytes in the data directory and %d are free%s; %d must stay free for the journal",
			size, free, others, snapshotReserve))
	}
	s.promised += size
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.promised -= size
	}, nil
}

// namelessFile makes a file that is gone when it is closed, however the process ends.
func namelessFile(dir string) (*os.File, error) {
	file, err := os.CreateTemp(dir, savingPrefix) // mode 0600
	if err != nil {
		return nil, err
	}
	if err := os.Remove(file.Name()); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

func (s *snapshots) copy(ctx context.Context, file io.Writer, e *fsm.Export) (rpc.SnapshotInfo, error) {
	d, h := s.description(), e.Header
	out := &steadyWriter{ctx: ctx, file: file, sum: sha256.New()}
	if err := writeSnapshotFile(out, d, e); err != nil {
		if out.err != nil {
			err = out.err // what bbolt makes of it is only text
		}
		return rpc.SnapshotInfo{}, err
	}
	info := rpc.SnapshotInfo{
		ID: newSnapshotID(), Size: out.size, RaftIndex: h.Applied.Index, RaftTerm: h.Applied.Term, ClusterID: h.ClusterID,
		Incarnation: h.Incarnation, Level: h.Level, Jobs: e.Jobs, CreatedAt: d.CreatedAt,
	}
	copy(info.SHA256[:], out.sum.Sum(nil))
	return info, nil
}

func newSnapshotID() string {
	id := make([]byte, 16)
	_, _ = rand.Read(id) // never fails, see crypto/rand
	return hex.EncodeToString(id)
}

// diskError tells a full disk from other faults.
func diskError(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return noRoom("the disk of the data directory is full; what was written of the snapshot has been removed")
	}
	return err
}

func noRoom(message string) error {
	return &job.Refusal{
		Code: job.CodeInternal, Message: "no snapshot was made: " + message,
		Next: "free space on that disk, or ask another master with --stale",
	}
}

// Read returns limit bytes from an offset, fewer at the end and none past it.
func (s *snapshots) Read(_ context.Context, id string, offset int64, limit int) ([]byte, error) {
	s.mu.Lock()
	o := s.open[id]
	if o != nil {
		o.expires.Reset(s.idle)
	}
	s.mu.Unlock()
	if o == nil {
		return nil, ended()
	}
	if offset < 0 || offset >= o.size || limit <= 0 {
		return nil, nil
	}
	data := make([]byte, min(int64(limit), o.size-offset))
	n, err := o.file.ReadAt(data, offset)
	switch {
	case errors.Is(err, os.ErrClosed): // ended just now
		return nil, ended()
	case err != nil:
		return nil, fmt.Errorf("cannot read the snapshot at %d, %d bytes of it: %w", offset, n, err)
	}
	return data, nil
}

func ended() error {
	return &job.Refusal{
		Code: job.CodeNotFound, Message: "there is no such snapshot on this master: nobody read it for too long, or the master was started anew",
		Next: "begin again: lancemaster snapshot save",
	}
}

// Release ends a snapshot; one that is not there has ended already.
func (s *snapshots) Release(id string) {
	s.mu.Lock()
	o := s.open[id]
	delete(s.open, id)
	s.mu.Unlock()
	if o == nil {
		return
	}
	o.expires.Stop()
	if err := o.file.Close(); err != nil {
		s.log.Warn("cannot close a snapshot", "error", err)
	}
}

func (s *snapshots) expire(id string) {
	s.log.Info("a snapshot is given up: nobody reads it", "after", s.idle)
	s.Release(id)
}

// close ends all of them and refuses more.
func (s *snapshots) close() {
	s.mu.Lock()
	s.closed = true
	var ids []string
	for id := range s.open {
		ids = append(ids, id)
	}
	s.mu.Unlock()
	for _, id := range ids {
		s.Release(id)
	}
}

// steadyWriter writes a file at the disk's own pace, sums it, and stops with its context.
type steadyWriter struct {
	ctx      context.Context // io.Writer has no argument for it
	file     io.Writer
	sum      hash.Hash
	size     int64
	unsynced int64
	err      error // the first one
}

func (w *steadyWriter) Write(data []byte) (written int, err error) {
	for len(data) > 0 && w.err == nil {
		n := w.write(data[:min(len(data), unsynced)])
		written, data = written+n, data[n:]
	}
	return written, w.err
}

func (w *steadyWriter) write(data []byte) (n int) {
	if w.err = context.Cause(w.ctx); w.err != nil {
		return 0
	}
	n, w.err = w.file.Write(data)
	w.sum.Write(data[:n])
	w.size += int64(n)
	w.unsynced += int64(n)
	if f, ok := w.file.(interface{ Sync() error }); ok && w.err == nil && w.unsynced >= unsynced {
		w.unsynced, w.err = 0, f.Sync()
	}
	return n
}

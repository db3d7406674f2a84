package raftnode

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft"
)

// keyRecovering holds the member list of a recovery that has begun, and is empty otherwise.
var keyRecovering = []byte("lancemaster/recovering")

// Recover makes servers, all of them voters and this node among them, the members of a cluster whose
// quorum is lost for good. The node must not run, and nor may any other node of the former cluster
// ever again with its present disk: everything on this one counts as committed, what only others have
// is lost, and Raft has no means to tell the two clusters apart. A member that is listed besides this
// node must have been recovered from a copy of this very disk, or be empty.
//
// Of Config it needs ID, Dir, FSM and Prepare. It brings the state machine to the end of the log,
// makes a snapshot of it under the new list, and removes the log and all older snapshots: no list of
// before must ever reach a member that joins later. Two joining members that pass through a former
// list of three could win an election by it, which this node knows nothing of, and undo what it has
// committed since.
//
// Nothing is changed when it refuses. Once it has begun, the node does not start (ErrRecovering) until
// it has ended: after a crash, or an error, it is run again, and goes on where it was. Run once more
// after its end it changes nothing.
func Recover(ctx context.Context, config Config, servers []Server) (err error) {
	config = config.withDefaults()
	if config.ID == "" || config.Dir == "" || config.FSM == nil {
		return errors.New("recover the cluster: the node, its directory or its state machine is not named")
	}
	// The checks are those of a first member list; nothing else of the node is used.
	list, err := (&Node{config: config}).firstMembers(servers)
	if err != nil {
		return fmt.Errorf("recover the cluster: %w", err)
	}
	if _, err := os.Stat(filepath.Join(config.Dir, logFile)); err != nil {
		return fmt.Errorf("recover the cluster: %w: %w", ErrNoState, err)
	}
	// Nothing is reaped behind our back: which snapshots go is decided here.
	config.SnapshotRetain = 1 << 20
	disk, err := openStorage(config, newRaftLogger(config.Logger))
	if err != nil {
		return fmt.Errorf("recover the cluster: %w", err)
	}
	defer func() {
		if closing := disk.close(); err == nil && closing != nil {
			err = fmt.Errorf("recover the cluster: %w", closing)
		}
	}()
	if err := (&recovery{config: config, disk: disk, list: list}).run(ctx); err != nil {
		return fmt.Errorf("recover the cluster: %w", err)
	}
	return nil
}

// recovery is one run of Recover.
type recovery struct {
	config Config
	disk   *storage
	list   raft.Configuration
	end    raft.Log // index and term of the newest entry, in the log or in a snapshot
	begin  uint64   // the newest snapshot's index
	newest *raft.SnapshotMeta
}

func (r *recovery) run(ctx context.Context) error {
	if err := r.look(ctx); err != nil {
		return err
	}
	if !r.hasSnapshot() {
		if err := r.disk.stable.Set(keyRecovering, raft.EncodeConfiguration(r.list)); err != nil {
			return fmt.Errorf("mark the disk: %w", err)
		}
		r.step("marked")
		if err := r.apply(ctx); err != nil {
			return err
		}
		r.step("applied")
		if err := r.snapshot(ctx); err != nil {
			return err
		}
		r.step("snapshot taken")
	}
	return r.clean()
}

func (r *recovery) step(name string) {
	if r.config.recoverStep != nil {
		r.config.recoverStep(name)
	}
}

// look finds where the data ends, and reads all of the log that is needed: a log that cannot be read
// is found before anything is changed.
func (r *recovery) look(ctx context.Context) error {
	snapshots, err := r.disk.snapshots.List()
	if err != nil {
		return fmt.Errorf("list the snapshots: %w", err)
	}
	if len(snapshots) > 0 {
		r.newest = snapshots[0]
		r.begin = r.newest.Index
		r.end = raft.Log{Index: r.newest.Index, Term: r.newest.Term}
	}
	last, err := r.disk.logs.LastIndex()
	if err != nil {
		return fmt.Errorf("read the log: %w", err)
	}
	for index := r.begin + 1; index <= last; index++ {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		var entry raft.Log
		err := r.disk.logs.GetLog(index, &entry)
		if err == nil && (entry.Index != index || entry.Term < r.end.Term) {
			err = fmt.Errorf("it is entry %d of term %d, after one of term %d", entry.Index, entry.Term, r.end.Term)
		}
		if err != nil {
			return fmt.Errorf("entry %d of the log, behind the newest snapshot, which ends at %d, cannot be used: %w;"+
				" recover from another member's disk, or restore a backup", index, r.begin, err)
		}
		r.end = raft.Log{Index: entry.Index, Term: entry.Term}
	}
	if r.end.Index == 0 {
		return fmt.Errorf("%w: %s", ErrNoState, r.config.Dir)
	}
	return nil
}

// hasSnapshot says whether an earlier run has got as far as the snapshot under the new list.
func (r *recovery) hasSnapshot() bool {
	// A cluster that has had this list from its formation has such a snapshot as well: nothing is
	// missing in it either.
	return r.newest != nil && r.newest.Index == r.end.Index && r.newest.ConfigurationIndex == firstIndex &&
		sameMembers(r.newest.Configuration, r.list)
}

func sameMembers(a, b raft.Configuration) bool {
	if len(a.Servers) != len(b.Servers) {
		return false
	}
	for _, server := range a.Servers {
		if other, ok := find(b, string(server.ID)); !ok || other != server {
			return false
		}
	}
	return true
}

// apply brings the state machine to the end of the log.
func (r *recovery) apply(ctx context.Context) error {
	if r.config.Prepare != nil {
		if err := r.config.Prepare(r.disk.logs, r.disk.snapshots); err != nil {
			return fmt.Errorf("prepare the state machine: %w", err)
		}
	} else if err := r.restore(); err != nil {
		return err
	}
	batch := make([]*raft.Log, 0, maxAppendEntries)
	for index := r.begin + 1; index <= r.end.Index; index++ {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		var entry raft.Log
		if err := r.disk.logs.GetLog(index, &entry); err != nil {
			return fmt.Errorf("read entry %d of the log: %w", index, err)
		}
		if entry.Type == raft.LogCommand {
			batch = append(batch, &entry)
		}
		if len(batch) == cap(batch) || index == r.end.Index {
			if err := applyAll(r.config.FSM, batch); err != nil {
				return fmt.Errorf("apply the log up to entry %d: %w", index, err)
			}
			batch = batch[:0]
		}
	}
	return nil
}

// restore restores the newest snapshot into a state machine that has no state of its own.
func (r *recovery) restore() error {
	if r.newest == nil {
		return nil
	}
	_, from, err := r.disk.snapshots.Open(r.newest.ID)
	if err != nil {
		return fmt.Errorf("open snapshot %s: %w", r.newest.ID, err)
	}
	if err := errors.Join(r.config.FSM.Restore(from), from.Close()); err != nil {
		return fmt.Errorf("restore snapshot %s: %w", r.newest.ID, err)
	}
	return nil
}

// applyAll applies entries as Raft does. A state machine that has failed says so by an answer that is
// an error, or when it is asked for its snapshot.
func applyAll(fsm raft.FSM, entries []*raft.Log) error {
	if len(entries) == 0 {
		return nil
	}
	var answers []any
	if batching, ok := fsm.(raft.BatchingFSM); ok {
		answers = batching.ApplyBatch(entries)
	} else {
		for _, entry := range entries {
			answers = append(answers, fsm.Apply(entry))
		}
	}
	for _, answer := range answers {
		if err, ok := answer.(error); ok && err != nil {
			return err
		}
	}
	return nil
}

// snapshot takes the snapshot under the new list.
func (r *recovery) snapshot(ctx context.Context) error {
	state, err := r.config.FSM.Snapshot()
	if err != nil {
		return fmt.Errorf("take a snapshot: %w", err)
	}
	defer state.Release()
	// The library asks a transport how to write an address down, though nobody reads that any more.
	_, unused := raft.NewInmemTransport("")
	sink, err := r.disk.snapshots.Create(raft.SnapshotVersionMax, r.end.Index, r.end.Term, r.list, firstIndex, unused)
	if err != nil {
		return fmt.Errorf("take a snapshot: %w", err)
	}
	if err := state.Persist(endingSink{sink, ctx}); err != nil {
		return errors.Join(fmt.Errorf("write the snapshot: %w", err), sink.Cancel())
	}
	r.step("snapshot written")
	// The state machine has closed it; that may be said again.
	if err := sink.Close(); err != nil {
		return fmt.Errorf("write the snapshot: %w", err)
	}
	if err := syncDir(filepath.Join(r.disk.snapshotPath, sink.ID())); err != nil {
		return fmt.Errorf("make the snapshot durable: %w", err)
	}
	meta, from, err := r.disk.snapshots.Open(sink.ID())
	if err != nil {
		return fmt.Errorf("read the snapshot back: %w", err)
	}
	r.newest = meta
	return from.Close()
}

// endingSink makes the writing of a snapshot end with a context.
type endingSink struct {
	raft.SnapshotSink
	ctx context.Context // io.Writer has no argument for it
}

func (s endingSink) Write(data []byte) (int, error) {
	if err := context.Cause(s.ctx); err != nil {
		return 0, err
	}
	return s.SnapshotSink.Write(data)
}

// clean removes everything but the snapshot under the new list, and then the mark.
func (r *recovery) clean() error {
	first, err := r.disk.logs.FirstIndex()
	if err != nil {
		return fmt.Errorf("read the log: %w", err)
	}
	last, err := r.disk.logs.LastIndex()
	if err != nil {
		return fmt.Errorf("read the log: %w", err)
	}
	if last > 0 {
		if err := r.disk.logs.DeleteRange(first, last); err != nil {
			return fmt.Errorf("remove the log: %w", err)
		}
	}
	r.step("log removed")
	// Not by the store: should the clock have gone back, another snapshot of the same entry counts as
	// newer there.
	entries, err := os.ReadDir(r.disk.snapshotPath)
	if err != nil {
		return fmt.Errorf("remove older snapshots: %w", err)
	}
	for _, entry := range entries {
		if entry.Name() == r.newest.ID {
			continue
		}
		if err := os.RemoveAll(filepath.Join(r.disk.snapshotPath, entry.Name())); err != nil {
			return fmt.Errorf("remove older snapshots: %w", err)
		}
		r.step("snapshot removed")
	}
	if err := syncDir(r.disk.snapshotPath); err != nil {
		return fmt.Errorf("remove older snapshots: %w", err)
	}
	if err := r.disk.stable.Set(keyRecovering, nil); err != nil {
		return fmt.Errorf("remove the mark: %w", err)
	}
	return nil
}

// checkRecovered refuses a disk on which a recovery has begun and not ended.
func (s *storage) checkRecovered() error {
	mark, err := s.stable.Get(keyRecovering)
	if err != nil && !absent(err) {
		return fmt.Errorf("read the mark of a recovery: %w", err)
	}
	if len(mark) > 0 {
		return ErrRecovering
	}
	return nil
}

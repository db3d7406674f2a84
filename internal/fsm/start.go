package fsm

import (
	"fmt"

	"github.com/hashicorp/raft"

	"github.com/lancemaster/lancemaster/internal/job"
)

// Log is what CheckLog needs of a raft.LogStore.
type Log interface {
	FirstIndex() (uint64, error)
	LastIndex() (uint64, error)
	GetLog(index uint64, entry *raft.Log) error
}

// Action is what is to be done before Raft starts.
type Action int

// The actions.
const (
	// Continue: the log goes on from where the state is, or from before it.
	Continue Action = iota + 1
	// RestoreSnapshot: the state is older than the newest snapshot.
	RestoreSnapshot
)

// CheckLog compares the state's position with the log and the newest snapshot. An
// error says that they contradict each other; its text says what to do.
func (m *Machine) CheckLog(log Log, newest job.Position, haveSnapshot bool) (Action, error) {
	at := m.Applied()
	first, err := log.FirstIndex()
	if err != nil {
		return 0, fmt.Errorf("cannot read the Raft log: %w", err)
	}
	last, err := log.LastIndex()
	if err != nil {
		return 0, fmt.Errorf("cannot read the Raft log: %w", err)
	}
	if !haveSnapshot {
		newest = job.Position{}
	}
	// The log must go on where the snapshot ends, or Raft itself has lost entries.
	if last > newest.Index && first > newest.Index+1 {
		return 0, fmt.Errorf("the Raft log begins at entry %d but the newest snapshot ends at %d: entries between are lost;"+
			" restore the data directory as a whole, or remove this node from the cluster and let it join with an empty one",
			first, newest.Index)
	}
	switch {
	case at.Index < newest.Index:
		// The state is given up for the snapshot's, so it need not match anything.
		return RestoreSnapshot, nil
	case at.Index == newest.Index:
		if at.Term != newest.Term {
			return 0, contradiction(at, fmt.Sprintf("the newest snapshot has that entry in term %d", newest.Term))
		}
		return Continue, nil
	case at.Index < first || at.Index > last:
		return 0, contradiction(at, fmt.Sprintf("the Raft log ends at entry %d and the newest snapshot at %d", last, newest.Index))
	}
	var entry raft.Log
	if err := log.GetLog(at.Index, &entry); err != nil {
		return 0, fmt.Errorf("cannot read entry %d of the Raft log: %w", at.Index, err)
	}
	if entry.Term != at.Term {
		return 0, contradiction(at, fmt.Sprintf("the Raft log has that entry in term %d", entry.Term))
	}
	return Continue, nil
}

func contradiction(at job.Position, but string) error {
	return fmt.Errorf("the state was applied up to entry %d of term %d, but %s: the files are not of one node and time;"+
		" move the state file away (keep it) and start again: the node rebuilds it from its snapshots and log;"+
		" if that fails too, remove the node from the cluster and let it join with an empty data directory",
		at.Index, at.Term, but)
}

// Prepare brings the state to where Raft, started with NoSnapshotRestoreOnStart,
// expects it: at or after the newest snapshot. It must be called, once, before
// Raft is started.
func (m *Machine) Prepare(log Log, snapshots raft.SnapshotStore) error {
	list, err := snapshots.List()
	if err != nil {
		return fmt.Errorf("cannot list the snapshots: %w", err)
	}
	var newest job.Position
	if len(list) > 0 {
		newest = job.Position{Index: list[0].Index, Term: list[0].Term}
	}
	action, err := m.CheckLog(log, newest, len(list) > 0)
	if err != nil || action == Continue {
		return err
	}
	m.logger.Info("the state is older than the newest snapshot, which is restored",
		"applied", m.Applied().Index, "snapshot", newest.Index)
	_, source, err := snapshots.Open(list[0].ID)
	if err != nil {
		return fmt.Errorf("cannot open snapshot %s: %w", list[0].ID, err)
	}
	if err := m.Restore(source); err != nil {
		return fmt.Errorf("snapshot %s: %w", list[0].ID, err)
	}
	// Raft counts entries that are no commands, so the snapshot may end after the
	// newest command in it, but never before.
	if at := m.Applied(); at.Index > newest.Index {
		return fmt.Errorf("snapshot %s ends at entry %d but holds the state of entry %d: it was not written by this cluster;"+
			" remove it and start again", list[0].ID, newest.Index, at.Index)
	}
	return nil
}

package raftnode

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// Stats is a node's state at about one moment, for people and metrics.
type Stats struct {
	State         string // Follower, Candidate, Leader, Shutdown
	Term          uint64
	LeaderID      string // empty when no leader is known
	LeaderAddress string
	LastLogIndex  uint64 // the newest entry on disk
	CommitIndex   uint64 // the newest entry known to be committed
	// QueuedIndex is the newest entry given to the state machine, which may not have applied it yet.
	QueuedIndex uint64
	// PassedIndex is QueuedIndex while nothing waits for the state machine, and 0 otherwise: everything
	// up to there is applied, but for the one batch that may be at work. How far behind a node is goes by
	// this one, and not only by what the state machine applied: of entries without a command, such as a
	// read's barrier, that is told nothing.
	PassedIndex uint64
	// FSMPending is how many batches of entries wait for the state machine.
	FSMPending int
	// LastSnapshotIndex is the last entry that the newest snapshot holds; SnapshotTime is when this
	// node took or received it, SnapshotSize its bytes. Zero without one.
	LastSnapshotIndex uint64
	SnapshotTime      time.Time
	SnapshotSize      int64
	// Members and Voters are how many the newest member list has.
	Members, Voters int
	// LastContact is how long ago a follower last heard from its leader; 0 on the leader, -1 if never.
	LastContact time.Duration
	// LogFileSize is the size of raft.db in bytes.
	LogFileSize int64
}

// Stats returns the node's state. Before Start and after Shutdown its State is Shutdown.
func (n *Node) Stats() Stats {
	s := Stats{State: raft.Shutdown.String(), LastContact: -1}
	if info, err := os.Stat(n.storage.logPath); err == nil {
		s.LogFileSize = info.Size()
	}
	r := n.running()
	if r == nil {
		return s
	}
	s.State = r.State().String()
	s.Term = r.CurrentTerm()
	s.LeaderID, s.LeaderAddress = n.Leader()
	s.LastLogIndex = r.LastIndex()
	s.CommitIndex = r.CommitIndex()
	s.QueuedIndex = r.AppliedIndex()
	// The library tells these only as text.
	text := r.Stats()
	if index, err := strconv.ParseUint(text["last_snapshot_index"], 10, 64); err == nil {
		s.LastSnapshotIndex = index
	}
	if pending, err := strconv.Atoi(text["fsm_pending"]); err == nil {
		s.FSMPending = pending
		if pending == 0 {
			s.PassedIndex = s.QueuedIndex
		}
	}
	s.SnapshotTime, s.SnapshotSize = n.newest.look(n.snapshots, s.LastSnapshotIndex)
	for _, server := range n.Servers() {
		s.Members++
		if server.Voter {
			s.Voters++
		}
	}
	switch last := r.LastContact(); {
	case r.State() == raft.Leader:
		s.LastContact = 0
	case !last.IsZero():
		s.LastContact = time.Since(last)
	}
	return s
}

// newestSnapshot remembers what is known of the newest snapshot, so that the disk is asked only when
// there is another.
type newestSnapshot struct {
	mu    sync.Mutex
	index uint64
	taken time.Time
	size  int64
}

// look returns when the snapshot of that index was written and how large it is, or zero if that
// cannot be told.
func (s *newestSnapshot) look(store raft.SnapshotStore, index uint64) (taken time.Time, size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if index == s.index {
		return s.taken, s.size
	}
	all, err := store.List()
	if err != nil {
		return time.Time{}, 0
	}
	for _, meta := range all {
		if meta.Index != index {
			continue
		}
		s.index, s.size, s.taken = index, meta.Size, time.Time{}
		// The library's name of a snapshot is its term, its index and the milliseconds of its making.
		_, ms, _ := strings.Cut(strings.TrimPrefix(meta.ID, strconv.FormatUint(meta.Term, 10)+"-"), "-")
		if at, err := strconv.ParseInt(ms, 10, 64); err == nil {
			s.taken = time.UnixMilli(at)
		}
		return s.taken, s.size
	}
	return time.Time{}, 0
}

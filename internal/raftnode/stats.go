package raftnode

import (
	"os"
	"strconv"
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
	QueuedIndex       uint64
	LastSnapshotIndex uint64
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
	// The library tells this index only as text.
	if index, err := strconv.ParseUint(r.Stats()["last_snapshot_index"], 10, 64); err == nil {
		s.LastSnapshotIndex = index
	}
	switch last := r.LastContact(); {
	case r.State() == raft.Leader:
		s.LastContact = 0
	case !last.IsZero():
		s.LastContact = time.Since(last)
	}
	return s
}

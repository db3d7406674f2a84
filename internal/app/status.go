package app

import (
	"github.com/lancemaster/lancemaster/internal/command"
	"github.com/lancemaster/lancemaster/internal/config"
	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/rpc"
)

// nodeStatus is what the node says of itself, without asking anybody.
type nodeStatus struct{ a *App }

// Status returns the node's present state.
func (n nodeStatus) Status() rpc.NodeStatus {
	a := n.a
	stats := a.node.Stats()
	formed, self := a.formed(), a.members.Identity()
	ready, reason := a.Ready()
	addrs := a.Addrs()
	s := rpc.NodeStatus{
		NodeID: a.cfg.NodeID, InstanceID: self.InstanceID, Version: config.BuildInfo().Version,
		RaftState: stats.State, RaftTerm: stats.Term, RaftAddress: addrs.Raft,
		AppliedIndex: a.machine.Applied().Index, CommitIndex: stats.CommitIndex, LastSnapshotIndex: stats.LastSnapshotIndex,
		LastContact: stats.LastContact, Voters: a.members.Voters(), WaitingFor: a.members.Waiting(),
		ClusterID: self.ClusterID, Incarnation: self.Incarnation, Level: formed.Level, MaxLevel: command.MaxLevel,
		Ready: ready, NotReadyReason: reason, LeaderID: stats.LeaderID,
		Quarantined: formed.Quarantined, QuarantineCause: formed.QuarantineCause, QuarantinedAt: formed.QuarantinedAt,
		ReportAddress: a.reportAddress(), AdminAddress: addrs.Admin, HTTPAddress: addrs.HTTP,
		StartedAt: job.Millis(a.started.UnixMilli()),
	}
	if a.members.Removed() {
		s.LeaderID = "" // whoever it followed last leads a cluster that it is not in
	}
	if stats.LastContact < 0 {
		s.LastContact = rpc.Never
	}
	if stats.LeaderID == a.cfg.NodeID {
		s.LeaderAdminAddress = addrs.Admin
	} else if at, ok := a.members.ReportAddresses(stats.LeaderID); ok {
		s.LeaderAdminAddress = at.AdminAddress
	}
	return s
}

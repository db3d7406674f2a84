package app

import (
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
	var cluster job.Cluster
	a.machine.Read(func(l *job.Live) { cluster = l.Cluster() })
	ready, reason := a.Ready()
	addrs := a.Addrs()
	s := rpc.NodeStatus{
		NodeID: a.cfg.NodeID, Version: config.BuildInfo().Version, RaftState: stats.State, RaftTerm: stats.Term,
		AppliedIndex: a.machine.Applied().Index, ClusterID: cluster.ClusterID, Incarnation: cluster.Incarnation,
		Level: cluster.Level, Ready: ready, NotReadyReason: reason, LeaderID: stats.LeaderID, Quarantined: cluster.Quarantined,
		ReportAddress: addrs.Report, AdminAddress: addrs.Admin, HTTPAddress: addrs.HTTP,
		StartedAt: job.Millis(a.started.UnixMilli()),
	}
	if stats.LeaderID == a.cfg.NodeID {
		s.LeaderAdminAddress = addrs.Admin
	}
	return s
}

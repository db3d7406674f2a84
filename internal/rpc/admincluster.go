package rpc

import (
	"context"
	"math"
	"time"

	"github.com/lancemaster/lancemaster/gen-go/admin"
	"github.com/lancemaster/lancemaster/internal/job"
)

// maxNodeName bounds a node id and an address in a request.
const maxNodeName = 512

// errNoCluster is the answer of a node that manages no cluster.
func errNoCluster() error {
	return &job.Refusal{
		Code: job.CodeUnavailable, Message: "this master manages no cluster", Next: "ask a master that was started with: lancemaster serve",
	}
}

// ClusterStatus tells who the members are and how they do.
func (a *Admin) ClusterStatus(ctx context.Context, req *admin.TListRequest) (*admin.TClusterStatusResponse, error) {
	return serve(ctx, a, "clusterStatus", req, (*remote).ClusterStatus, func(c call) (*admin.TClusterStatusResponse, error) {
		if a.cfg.Cluster == nil {
			return nil, errNoCluster()
		}
		status, err := a.cfg.Cluster.Members(c)
		if err != nil {
			return nil, inside(err)
		}
		answer := &admin.TClusterStatusResponse{
			Node: wireStatus(a.cfg.Node.Status()), Members: make([]*admin.TClusterMember, 0, len(status.Members)),
			Voters: count(status.Voters), Quorum: count(status.Quorum), FailuresTolerated: count(status.FailuresTolerated),
			Warnings: append([]string{}, status.Warnings...),
		}
		for i := range status.Members {
			answer.Members = append(answer.Members, wireMember(&status.Members[i]))
		}
		return answer, nil
	})
}

// AddMember lets a node join the cluster.
func (a *Admin) AddMember(ctx context.Context, req *admin.TAddMemberRequest) (*admin.TClusterMember, error) {
	return serve(ctx, a, "addMember", req, (*remote).AddMember, func(c call) (*admin.TClusterMember, error) {
		var f fields
		id, address := f.named("node_id", req.NodeID), f.named("address", req.Address)
		return a.member(&f, func() (Member, error) { return a.cfg.Cluster.AddMember(c, c.actor, id, address) })
	})
}

// ReplaceMember lets another instance take a member's place.
func (a *Admin) ReplaceMember(ctx context.Context, req *admin.TReplaceMemberRequest) (*admin.TClusterMember, error) {
	return serve(ctx, a, "replaceMember", req, (*remote).ReplaceMember, func(c call) (*admin.TClusterMember, error) {
		var f fields
		id, address := f.named("node_id", req.NodeID), f.bounded("address", req.Address, maxNodeName)
		return a.member(&f, func() (Member, error) { return a.cfg.Cluster.ReplaceMember(c, c.actor, id, address) })
	})
}

func (a *Admin) member(f *fields, change func() (Member, error)) (*admin.TClusterMember, error) {
	if f.refusal != nil {
		return nil, f.refusal
	}
	if a.cfg.Cluster == nil {
		return nil, errNoCluster()
	}
	member, err := change()
	if err != nil {
		return nil, err
	}
	return wireMember(&member), nil
}

// RemoveMember takes a member out of the cluster.
func (a *Admin) RemoveMember(ctx context.Context, req *admin.TMemberRequest) (*admin.TRemoveResponse, error) {
	return serve(ctx, a, "removeMember", req, (*remote).RemoveMember, func(c call) (*admin.TRemoveResponse, error) {
		var f fields
		id := f.named("node_id", req.NodeID)
		if f.refusal != nil {
			return nil, f.refusal
		}
		if a.cfg.Cluster == nil {
			return nil, errNoCluster()
		}
		return &admin.TRemoveResponse{}, a.cfg.Cluster.RemoveMember(c, c.actor, id)
	})
}

// TransferLeader hands the leadership over.
func (a *Admin) TransferLeader(ctx context.Context, req *admin.TTransferLeaderRequest) (*admin.TTransferLeaderResponse, error) {
	return serve(ctx, a, "transferLeader", req, (*remote).TransferLeader, func(c call) (*admin.TTransferLeaderResponse, error) {
		var f fields
		id := f.bounded("node_id", req.NodeID, maxNodeName)
		if f.refusal != nil {
			return nil, f.refusal
		}
		if a.cfg.Cluster == nil {
			return nil, errNoCluster()
		}
		leader, err := a.cfg.Cluster.TransferLeader(c, c.actor, id)
		if err != nil {
			return nil, err
		}
		return &admin.TTransferLeaderResponse{NewLeader_: leader}, nil
	})
}

func wireStatus(s NodeStatus) *admin.TStatusResponse {
	contact := contactMillis(s.LastContact)
	commit, snapshot, voters, maxLevel := int64(s.CommitIndex), int64(s.LastSnapshotIndex), count(s.Voters), s.MaxLevel
	return &admin.TStatusResponse{
		NodeID: s.NodeID, Version: s.Version, RaftState: s.RaftState, RaftTerm: int64(s.RaftTerm),
		AppliedIndex: int64(s.AppliedIndex), ClusterID: s.ClusterID, Incarnation: s.Incarnation, FeatureLevel: s.Level,
		Ready: s.Ready, NotReadyReason: optional(s.NotReadyReason), LeaderID: optional(s.LeaderID),
		LeaderAdminAddress: optional(s.LeaderAdminAddress), Quarantined: s.Quarantined, ReportAddress: s.ReportAddress,
		AdminAddress: s.AdminAddress, HTTPAddress: s.HTTPAddress, StartedAtMs: int64(s.StartedAt),
		InstanceID: optional(s.InstanceID), RaftAddress: optional(s.RaftAddress), CommitIndex: &commit, LastContactMs: &contact,
		MaxLevel: &maxLevel, QuarantineCause: optional(s.QuarantineCause), QuarantinedAtMs: optionalMillis(s.QuarantinedAt),
		WaitingFor: optional(s.WaitingFor), Voters: &voters, LastSnapshotIndex: &snapshot,
	}
}

// count is a number of members, of which there are few.
func count(n int) int32 { return int32(min(max(n, 0), math.MaxInt32)) }

// contactMillis tells Never by -1, however small a unit it is.
func contactMillis(d time.Duration) int64 {
	if d < 0 {
		return -1
	}
	return d.Milliseconds()
}

func wireMember(m *Member) *admin.TClusterMember {
	w := &admin.TClusterMember{
		NodeID: m.NodeID, InstanceID: m.InstanceID, Address: m.Address, ConfiguredAddress: optional(m.ConfiguredAddress),
		Voter: m.Voter, Leader: m.Leader, ThisNode: m.Self, Reachable: m.Reachable, LastContactMs: contactMillis(m.LastContact),
		AppliedIndex: int64(m.AppliedIndex), Version: m.Version, Level: m.Level, MaxLevel: m.MaxLevel, AdminAddress: m.AdminAddress,
		ReportAddress: m.ReportAddress, HTTPAddress: m.HTTPAddress, LastError: optional(m.LastError), State: m.State,
	}
	if m.ClockOffset != nil {
		offset := m.ClockOffset.Milliseconds()
		w.ClockOffsetMs = &offset
	}
	return w
}

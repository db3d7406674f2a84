package client

import (
	"context"

	"github.com/lancemaster/lancemaster/gen-go/admin"
)

// Status is how one master sees itself and its cluster.
type Status struct {
	Address        string `json:"address"` // the address that was asked
	NodeID         string `json:"node_id"`
	Version        string `json:"version"`
	Ready          bool   `json:"ready"`
	NotReadyReason string `json:"not_ready_reason,omitempty"`
	RaftState      string `json:"raft_state"`
	RaftTerm       int64  `json:"raft_term"`
	AppliedIndex   int64  `json:"applied_index"`
	LeaderID       string `json:"leader_id,omitempty"`
	LeaderAddress  string `json:"leader_admin_address,omitempty"`
	ClusterID      int32  `json:"cluster_id"`
	Incarnation    int64  `json:"incarnation"`
	FeatureLevel   int32  `json:"feature_level"`
	Quarantined    bool   `json:"quarantined"`
	ReportAddress  string `json:"report_address"`
	AdminAddress   string `json:"admin_address"`
	HTTPAddress    string `json:"http_address"`
	StartedAt      Time   `json:"started_at,omitzero"`

	InstanceID   string `json:"instance_id,omitempty"`
	RaftAddress  string `json:"raft_address,omitempty"`
	CommitIndex  int64  `json:"commit_index,omitempty"`
	MaxLevel     int32  `json:"max_feature_level,omitempty"` // the highest that its build knows
	Voters       int32  `json:"voters,omitempty"`
	LastSnapshot int64  `json:"last_snapshot_index,omitempty"`
	// LastContact is how long ago it heard from the leader, which is 0s on the leader;
	// nil: never.
	LastContact     *Duration `json:"last_contact,omitempty"`
	QuarantineCause string    `json:"quarantine_cause,omitempty"`
	QuarantinedAt   Time      `json:"quarantined_at,omitzero"`
	WaitingFor      string    `json:"waiting_for,omitempty"` // what a node without a cluster waits for
}

// Status asks the master at one address; it does not go to the leader.
func (c *Client) Status(ctx context.Context, address string) (*Status, error) {
	if err := checkAddress(address); err != nil {
		return nil, invalidf("%v", err)
	}
	var answer *admin.TStatusResponse
	op := read("reading the status")
	op.silent = true // it is about the master itself
	e, _ := c.attempt(ctx, address, op, func(ctx context.Context, a *admin.AdminServiceClient) (err error) {
		answer, err = a.Status(ctx, &admin.TListRequest{Ctx: c.caller()})
		return err
	})
	if e != nil {
		return nil, e
	}
	return statusOf(address, answer), nil
}

func statusOf(address string, w *admin.TStatusResponse) *Status {
	s := &Status{
		Address: address, NodeID: w.NodeID, Version: w.Version,
		Ready: w.Ready, NotReadyReason: w.GetNotReadyReason(),
		RaftState: w.RaftState, RaftTerm: w.RaftTerm, AppliedIndex: w.AppliedIndex,
		LeaderID: w.GetLeaderID(), LeaderAddress: w.GetLeaderAdminAddress(),
		ClusterID: w.ClusterID, Incarnation: w.Incarnation, FeatureLevel: w.FeatureLevel,
		Quarantined: w.Quarantined, ReportAddress: w.ReportAddress,
		AdminAddress: w.AdminAddress, HTTPAddress: w.HTTPAddress, StartedAt: timeOf(w.StartedAtMs),
		InstanceID: w.GetInstanceID(), RaftAddress: w.GetRaftAddress(), CommitIndex: w.GetCommitIndex(), MaxLevel: w.GetMaxLevel(),
		Voters: w.GetVoters(), LastSnapshot: w.GetLastSnapshotIndex(), QuarantineCause: w.GetQuarantineCause(),
		QuarantinedAt: timeOf(w.GetQuarantinedAtMs()), WaitingFor: w.GetWaitingFor(),
	}
	if w.LastContactMs != nil {
		s.LastContact = contactOf(*w.LastContactMs)
	}
	return s
}

// contactOf is nil for what has never been.
func contactOf(ms int64) *Duration {
	if ms < 0 {
		return nil
	}
	return ptr(durationOf(ms))
}

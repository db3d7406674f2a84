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
}

// Status asks the master at one address; it does not go to the leader.
func (c *Client) Status(ctx context.Context, address string) (*Status, error) {
	if err := checkAddress(address); err != nil {
		return nil, invalidf("%v", err)
	}
	var answer *admin.TStatusResponse
	e, _ := c.attempt(ctx, address, read("reading the status"), func(ctx context.Context, a *admin.AdminServiceClient) (err error) {
		answer, err = a.Status(ctx, &admin.TListRequest{Ctx: c.caller()})
		return err
	})
	if e != nil {
		return nil, e
	}
	return &Status{
		Address: address, NodeID: answer.NodeID, Version: answer.Version,
		Ready: answer.Ready, NotReadyReason: answer.GetNotReadyReason(),
		RaftState: answer.RaftState, RaftTerm: answer.RaftTerm, AppliedIndex: answer.AppliedIndex,
		LeaderID: answer.GetLeaderID(), LeaderAddress: answer.GetLeaderAdminAddress(),
		ClusterID: answer.ClusterID, Incarnation: answer.Incarnation, FeatureLevel: answer.FeatureLevel,
		Quarantined: answer.Quarantined, ReportAddress: answer.ReportAddress,
		AdminAddress: answer.AdminAddress, HTTPAddress: answer.HTTPAddress, StartedAt: timeOf(answer.StartedAtMs),
	}, nil
}

package client

import (
	"context"
	"fmt"
	"time"

	"github.com/lancemaster/lancemaster/gen-go/admin"
)

// Member is one member of the cluster as the master that answers knows it.
type Member struct {
	NodeID            string    `json:"node_id"`
	InstanceID        string    `json:"instance_id"`
	Address           string    `json:"address"`                      // of Raft, as registered
	ConfiguredAddress string    `json:"configured_address,omitempty"` // in the answering master's configuration, where that differs
	Voter             bool      `json:"voter"`
	Leader            bool      `json:"leader"`
	ThisNode          bool      `json:"this_node"` // the master that answers
	Reachable         bool      `json:"reachable"`
	LastContact       *Duration `json:"last_contact,omitempty"` // how long ago it was heard; nil: never
	AppliedIndex      int64     `json:"applied_index"`
	Version           string    `json:"version"`
	FeatureLevel      int32     `json:"feature_level"`
	MaxLevel          int32     `json:"max_feature_level"`
	ClockOffset       *Duration `json:"clock_offset,omitempty"` // how far its clock is ahead of the answering master's; nil: not known
	AdminAddress      string    `json:"admin_address"`
	ReportAddress     string    `json:"report_address"`
	HTTPAddress       string    `json:"http_address"`
	LastError         string    `json:"last_error,omitempty"`
	State             string    `json:"state"` // what it is doing, in words
}

// Cluster is the cluster as the leader sees it, or with Config.Stale one master.
type Cluster struct {
	Node              *Status  `json:"node"`    // the master that answers
	Members           []Member `json:"members"` // by node id
	Voters            int32    `json:"voters"`
	Quorum            int32    `json:"quorum"`
	FailuresTolerated int32    `json:"failures_tolerated"` // how many more voters may be lost
	Warnings          []string `json:"warnings"`
}

// Cluster tells who the members are and how they do.
func (c *Client) Cluster(ctx context.Context) (*Cluster, error) {
	op := read("reading the cluster's status")
	var address string
	op.served = func(a string) { address = a }
	w, err := invoke(ctx, c, op, func(ctx context.Context, a *admin.AdminServiceClient) (*admin.TClusterStatusResponse, error) {
		return a.ClusterStatus(ctx, &admin.TListRequest{Ctx: c.caller()})
	})
	if err != nil {
		return nil, err
	}
	if w.Node == nil {
		return nil, &Error{Code: CodeBadReply, Message: "the answer does not say which master it is from"}
	}
	out := &Cluster{
		Node: statusOf(address, w.Node), Members: []Member{}, Voters: w.Voters, Quorum: w.Quorum,
		FailuresTolerated: w.FailuresTolerated, Warnings: append([]string{}, w.Warnings...),
	}
	if c.cfg.Stale == nil {
		out.Node.Address = out.Node.AdminAddress // it may have been asked by way of another
	}
	for _, m := range w.Members {
		out.Members = append(out.Members, memberOf(m))
	}
	return out, nil
}

func memberOf(w *admin.TClusterMember) Member {
	m := Member{
		NodeID: w.NodeID, InstanceID: w.InstanceID, Address: w.Address, ConfiguredAddress: w.GetConfiguredAddress(),
		Voter: w.Voter, Leader: w.Leader, ThisNode: w.ThisNode, Reachable: w.Reachable, LastContact: contactOf(w.LastContactMs),
		AppliedIndex: w.AppliedIndex, Version: w.Version, FeatureLevel: w.Level, MaxLevel: w.MaxLevel,
		AdminAddress: w.AdminAddress, ReportAddress: w.ReportAddress, HTTPAddress: w.HTTPAddress, LastError: w.GetLastError(), State: w.State,
	}
	if w.ClockOffsetMs != nil {
		m.ClockOffset = ptr(durationOf(*w.ClockOffsetMs))
	}
	return m
}

// membershipTime is how long a change of the members may take beyond other calls.
const membershipTime = 30 * time.Second

func membership(name string) operation {
	op := change(name)
	op.extra = membershipTime
	op.next = "look with: lancemaster cluster status"
	return op
}

// AddMember lets a node join the cluster. It becomes a voter when it has caught up,
// which may be later.
func (c *Client) AddMember(ctx context.Context, nodeID, address string) (*Member, error) {
	return c.oneMember(ctx, membership(fmt.Sprintf("adding %s", nodeID)), func(ctx context.Context, a *admin.AdminServiceClient) (*admin.TClusterMember, error) {
		return a.AddMember(ctx, &admin.TAddMemberRequest{Ctx: c.caller(), NodeID: &nodeID, Address: &address})
	})
}

// ReplaceMember lets another instance take a member's place, as after a lost disk.
// Without an address it is where the member is registered.
func (c *Client) ReplaceMember(ctx context.Context, nodeID, address string) (*Member, error) {
	return c.oneMember(ctx, membership(fmt.Sprintf("replacing %s", nodeID)), func(ctx context.Context, a *admin.AdminServiceClient) (*admin.TClusterMember, error) {
		return a.ReplaceMember(ctx, &admin.TReplaceMemberRequest{Ctx: c.caller(), NodeID: &nodeID, Address: optional(address)})
	})
}

func (c *Client) oneMember(ctx context.Context, op operation, f func(context.Context, *admin.AdminServiceClient) (*admin.TClusterMember, error)) (*Member, error) {
	w, err := invoke(ctx, c, op, f)
	if err != nil {
		return nil, err
	}
	return ptr(memberOf(w)), nil
}

// RemoveMember takes a member out of the cluster.
func (c *Client) RemoveMember(ctx context.Context, nodeID string) error {
	_, err := invoke(ctx, c, membership(fmt.Sprintf("removing %s", nodeID)), func(ctx context.Context, a *admin.AdminServiceClient) (*admin.TRemoveResponse, error) {
		return a.RemoveMember(ctx, &admin.TMemberRequest{Ctx: c.caller(), NodeID: &nodeID})
	})
	return err
}

// TransferLeader hands the leadership over and returns the new leader's node id.
// Without a node id it goes to the voter whose log is the most complete.
func (c *Client) TransferLeader(ctx context.Context, nodeID string) (newLeader string, err error) {
	w, err := invoke(ctx, c, membership("handing over the leadership"), func(ctx context.Context, a *admin.AdminServiceClient) (*admin.TTransferLeaderResponse, error) {
		return a.TransferLeader(ctx, &admin.TTransferLeaderRequest{Ctx: c.caller(), NodeID: optional(nodeID)})
	})
	if err != nil {
		return "", err
	}
	return w.NewLeader_, nil
}

// Reopening is an operator's word that a cluster may be reopened.
type Reopening struct {
	Note string
	// MastersStopped: every master of the older incarnation is stopped.
	MastersStopped bool
	// BackendsRestarted: after that, 10 s later at the earliest, every backend was
	// restarted.
	BackendsRestarted bool
}

// Reopen ends the quarantine that a restore or a recovery began, and returns the
// leader's status. The gate stays closed and dispatch paused until settings open them.
func (c *Client) Reopen(ctx context.Context, r Reopening) (*Status, error) {
	w, err := invoke(ctx, c, membership("reopening the cluster"), func(ctx context.Context, a *admin.AdminServiceClient) (*admin.TReopenClusterResponse, error) {
		return a.ReopenCluster(ctx, &admin.TReopenClusterRequest{
			Ctx: c.caller(), Note: optional(r.Note), MastersStopped: &r.MastersStopped, BackendsRestarted: &r.BackendsRestarted,
		})
	})
	if err != nil {
		return nil, err
	}
	if w.Node == nil {
		return nil, &Error{Code: CodeBadReply, Message: "the answer has no status", Next: "look with: lancemaster cluster status"}
	}
	return statusOf(w.Node.AdminAddress, w.Node), nil
}

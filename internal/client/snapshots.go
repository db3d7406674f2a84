package client

import (
	"context"
	"time"

	"github.com/lancemaster/lancemaster/gen-go/admin"
)

// SnapshotInfo describes a snapshot that a master keeps open for reading.
type SnapshotInfo struct {
	ID           string `json:"id"`
	Size         int64  `json:"size_bytes"`
	SHA256       string `json:"sha256"` // of the bytes that SnapshotRead gives, hexadecimal
	RaftIndex    int64  `json:"raft_index"`
	RaftTerm     int64  `json:"raft_term"`
	ClusterID    int32  `json:"cluster_id"`
	Incarnation  int64  `json:"incarnation"`
	FeatureLevel int32  `json:"feature_level"`
	Jobs         int64  `json:"jobs"`
	CreatedAt    Time   `json:"created_at,omitzero"`
	NodeID       string `json:"node_id"` // whose state it is

	address string // the master that was asked
}

// MaxSnapshotChunk is the most that one SnapshotRead gives.
const MaxSnapshotChunk = 1 << 20

// snapshotTime is how long a master may take to make a snapshot, beyond other calls.
const snapshotTime = time.Minute

// SnapshotBegin makes a snapshot of the leader's state, or with Config.Stale of one
// master's, which keeps it open for a bounded time. The caller ends it.
func (c *Client) SnapshotBegin(ctx context.Context) (*SnapshotInfo, error) {
	op := read("making a snapshot")
	op.extra = snapshotTime
	var address string
	op.served = func(a string) { address = a }
	w, err := invoke(ctx, c, op, func(ctx context.Context, a *admin.AdminServiceClient) (*admin.TSnapshotInfo, error) {
		return a.SnapshotBegin(ctx, &admin.TSnapshotBeginRequest{Ctx: c.caller()})
	})
	if err != nil {
		return nil, err
	}
	return &SnapshotInfo{
		ID: w.ID, Size: w.SizeBytes, SHA256: w.Sha256, RaftIndex: w.RaftIndex, RaftTerm: w.RaftTerm, ClusterID: w.ClusterID,
		Incarnation: w.Incarnation, FeatureLevel: w.FeatureLevel, Jobs: w.Jobs, CreatedAt: timeOf(w.CreatedAtMs), NodeID: w.GetNodeID(),
		address: address,
	}, nil
}

// SnapshotRead returns a part of an open snapshot: fewer bytes than the limit only at
// its end, and none past it. It fails with NOT_FOUND when the snapshot is gone, as
// after a change of the leader; a new one must then be begun.
func (c *Client) SnapshotRead(ctx context.Context, s *SnapshotInfo, offset int64, limit int) ([]byte, error) {
	n := int32(min(max(limit, 1), MaxSnapshotChunk))
	w, err := invoke(ctx, c, c.ofSnapshot(s, "reading the snapshot"), func(ctx context.Context, a *admin.AdminServiceClient) (*admin.TSnapshotReadResponse, error) {
		return a.SnapshotRead(ctx, &admin.TSnapshotReadRequest{Ctx: c.caller(), ID: &s.ID, Offset: &offset, Limit: &n})
	})
	if err != nil {
		return nil, err
	}
	if len(w.Data) > int(n) {
		return nil, &Error{Code: CodeBadReply, Message: "the answer holds more of the snapshot than was asked for"}
	}
	return w.Data, nil
}

// SnapshotEnd closes a snapshot; one that is gone already is closed.
func (c *Client) SnapshotEnd(ctx context.Context, s *SnapshotInfo) error {
	_, err := invoke(ctx, c, c.ofSnapshot(s, "ending the snapshot"), func(ctx context.Context, a *admin.AdminServiceClient) (*admin.TSnapshotEndResponse, error) {
		return a.SnapshotEnd(ctx, &admin.TSnapshotEndRequest{Ctx: c.caller(), ID: &s.ID})
	})
	return err
}

// ofSnapshot is a call about an open snapshot. The leader's is known by way of any
// master; another one's only there.
func (c *Client) ofSnapshot(s *SnapshotInfo, name string) operation {
	op := read(name)
	op.silent = true
	if c.cfg.Stale != nil {
		op.only = s.address
	}
	return op
}

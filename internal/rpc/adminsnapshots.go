package rpc

import (
	"context"
	"encoding/hex"

	"github.com/lancemaster/lancemaster/gen-go/admin"
	"github.com/lancemaster/lancemaster/internal/job"
)

// MaxSnapshotChunk bounds what one snapshotRead gives: an answer stays well within what clients and
// other masters take.
const MaxSnapshotChunk = 1 << 20

// errNoSnapshots is the answer of a node that makes no snapshots.
func errNoSnapshots() error {
	return &job.Refusal{
		Code: job.CodeUnavailable, Message: "this master makes no snapshots", Next: "ask a master that was started with: lancemaster serve",
	}
}

// SnapshotBegin makes a snapshot for reading.
func (a *Admin) SnapshotBegin(ctx context.Context, req *admin.TSnapshotBeginRequest) (*admin.TSnapshotInfo, error) {
	return serve(ctx, a, "snapshotBegin", req, (*remote).SnapshotBegin, func(c call) (*admin.TSnapshotInfo, error) {
		if a.cfg.Snapshots == nil {
			return nil, errNoSnapshots()
		}
		s, err := a.cfg.Snapshots.Begin(c)
		if err != nil {
			return nil, inside(err)
		}
		return &admin.TSnapshotInfo{
			ID: s.ID, SizeBytes: s.Size, Sha256: hex.EncodeToString(s.SHA256[:]), RaftIndex: int64(s.RaftIndex), RaftTerm: int64(s.RaftTerm),
			ClusterID: s.ClusterID, Incarnation: s.Incarnation, FeatureLevel: s.Level, Jobs: s.Jobs, CreatedAtMs: int64(s.CreatedAt),
			NodeID: optional(a.cfg.Node.Status().NodeID),
		}, nil
	})
}

// SnapshotRead returns a part of an open snapshot.
func (a *Admin) SnapshotRead(ctx context.Context, req *admin.TSnapshotReadRequest) (*admin.TSnapshotReadResponse, error) {
	return serve(ctx, a, "snapshotRead", req, (*remote).SnapshotRead, func(c call) (*admin.TSnapshotReadResponse, error) {
		var f fields
		id, offset := f.named("id", req.ID), req.GetOffset()
		limit := int(f.upTo("limit", wide(req.Limit), MaxSnapshotChunk, MaxSnapshotChunk))
		if offset < 0 {
			f.refuse("offset", "is negative")
		}
		if f.refusal != nil {
			return nil, f.refusal
		}
		if a.cfg.Snapshots == nil {
			return nil, errNoSnapshots()
		}
		data, err := a.cfg.Snapshots.Read(c, id, offset, limit)
		if err != nil {
			return nil, inside(err)
		}
		if data == nil {
			data = []byte{}
		}
		return &admin.TSnapshotReadResponse{Data: data}, nil
	})
}

// SnapshotEnd closes an open snapshot; one that is not there is closed already.
func (a *Admin) SnapshotEnd(ctx context.Context, req *admin.TSnapshotEndRequest) (*admin.TSnapshotEndResponse, error) {
	return serve(ctx, a, "snapshotEnd", req, (*remote).SnapshotEnd, func(call) (*admin.TSnapshotEndResponse, error) {
		var f fields
		id := f.named("id", req.ID)
		if f.refusal != nil {
			return nil, f.refusal
		}
		if a.cfg.Snapshots == nil {
			return nil, errNoSnapshots()
		}
		a.cfg.Snapshots.Release(id)
		return &admin.TSnapshotEndResponse{}, nil
	})
}

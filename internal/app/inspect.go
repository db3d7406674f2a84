package app

import (
	"context"
	"fmt"

	"github.com/lancemaster/lancemaster/internal/admission"
	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/lance"
	"github.com/lancemaster/lancemaster/internal/rpc"
)

// inspector shows what a dataset holds and which of its index names are held.
type inspector struct {
	open  admission.Opener
	state interface{ Read(func(*job.Live)) }
}

// Inspect reads the newest version of a dataset. Refusals are *job.Refusal.
func (i inspector) Inspect(ctx context.Context, req rpc.InspectRequest) (rpc.Inspection, error) {
	locator, err := job.NormalizeLocator(req.DatasetURI)
	if err != nil {
		return rpc.Inspection{}, err
	}
	out := rpc.Inspection{Locator: locator}
	store := ""
	if req.Catalog != "" {
		var c *job.Catalog
		i.state.Read(func(l *job.Live) { c = l.Catalog(req.Catalog) })
		if c == nil {
			return rpc.Inspection{}, &job.Refusal{
				Code: job.CodeNotFound, Message: fmt.Sprintf("there is no catalog %.128q", req.Catalog),
				Next: "list them with: lancemaster catalog list",
			}
		}
		store = job.StoreFor(c, locator)
	}
	d, err := i.open(ctx, locator)
	if err != nil {
		return rpc.Inspection{}, admission.DatasetRefusal(err)
	}
	if req.Column != "" {
		f, err := d.Column(req.Column)
		if err != nil {
			return rpc.Inspection{}, admission.DatasetRefusal(err)
		}
		if out.SchemaContract, err = lance.SchemaContract(f); err != nil {
			return rpc.Inspection{}, admission.DatasetRefusal(err)
		}
		out.Column = f.Name
	}
	describe(&out, d)
	i.state.Read(func(l *job.Live) {
		for _, r := range l.Jobs() {
			if r.HoldsFence() && r.Target.Locator == locator && (store == "" || r.Target.Store == store) {
				out.Fences = append(out.Fences, rpc.DatasetFence{IndexKey: r.Target.IndexKey, Job: r.ID, Store: r.Target.Store})
			}
		}
	})
	return out, nil
}

func describe(out *rpc.Inspection, d *lance.Dataset) {
	out.Version = d.Version
	if !d.Timestamp.IsZero() {
		out.At = job.Millis(d.Timestamp.UnixMilli())
	}
	for _, f := range d.Fields {
		out.Fields = append(out.Fields, rpc.DatasetField{
			ID: f.ID, ParentID: f.ParentID, Name: f.Name, LogicalType: f.LogicalType, Nullable: f.Nullable,
		})
	}
	for _, x := range d.Indexes {
		index := rpc.DatasetIndex{
			Name: x.Name, Key: job.NormalizeIndexName(x.Name), Type: string(x.Type), DatasetVersion: x.DatasetVersion,
			Metric: string(x.Metric), NumBits: clampInt32(x.NumBits), NumSubVectors: clampInt32(x.NumSubVectors), UUID: x.UUID,
		}
		if index.Type == "" {
			index.Type = x.TypeURL
		}
		if !x.CreatedAt.IsZero() {
			index.CreatedAt = job.Millis(x.CreatedAt.UnixMilli())
		}
		for _, id := range x.FieldIDs {
			if f, ok := d.FieldByID(id); ok {
				index.Columns = append(index.Columns, f.Name)
			}
		}
		out.Indexes = append(out.Indexes, index)
	}
}

func clampInt32(n uint32) int32 { return int32(min(n, 1<<31-1)) }

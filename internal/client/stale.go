package client

import (
	"context"

	"github.com/lancemaster/lancemaster/gen-go/admin"
)

// Staleness says whose state a stale read was answered from.
type Staleness struct {
	Address string // the address that was asked
	NodeID  string
	// AppliedIndex is of the newest entry that the answer shows for certain; it may
	// show newer ones.
	AppliedIndex int64
	Leader       bool // that master leads, or thinks so
	// LastContact is how long before the read that master heard from the leader; nil:
	// never.
	LastContact *Duration
}

// stale has the master that is asked answer from its own state, after it has said on
// the same connection how new that is: what it says first, the answer cannot be older
// than.
func (c *Client) stale(address string, f callFunc, told *Staleness) callFunc {
	return func(ctx context.Context, s *admin.AdminServiceClient) error {
		w, err := s.Status(ctx, &admin.TListRequest{Ctx: c.caller()})
		if err != nil {
			return err
		}
		*told = Staleness{Address: address, NodeID: w.NodeID, AppliedIndex: w.AppliedIndex, Leader: w.RaftState == "Leader"}
		if w.LastContactMs != nil {
			told.LastContact = contactOf(*w.LastContactMs)
		}
		return f(ctx, s)
	}
}

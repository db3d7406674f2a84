package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/peer"
	"github.com/lancemaster/lancemaster/internal/raftnode"
)

// RemoveMember takes a member out. The leader itself is removed by its successor.
func (c *Cluster) RemoveMember(ctx context.Context, actor, id string) error {
	ctx, end, err := c.one(ctx)
	if err != nil {
		return err
	}
	defer end()
	servers := c.cfg.Raft.Servers()
	_, listed := c.listed(id)
	registered := c.member(id) != nil
	switch {
	case !listed && !registered:
		return refuse(job.CodeNotFound, fmt.Sprintf("there is no member %q", id), "see `lancemaster cluster status`")
	case listed && len(servers) == 1:
		return refuse(job.CodeInUse, fmt.Sprintf("%s is the only member", id), "a cluster keeps at least one member")
	case listed:
		c.peers.askAll(ctx, pollTimeout)
		if refusal := c.keepsQuorum(servers, id); refusal != nil {
			return refusal
		}
		if id == c.cfg.NodeID {
			return c.leaveTo(ctx, actor)
		}
		// Out of the Raft configuration first: a member that others refuse must not count for a quorum.
		if err := c.cfg.Raft.RemoveServer(ctx, id); err != nil {
			return journalError(err)
		}
	}
	if registered {
		if _, err := c.cfg.Journal.Propose(ctx, job.RemoveMember{Header: c.header(actor), NodeID: id}); err != nil && !job.IsCode(err, job.CodeNotFound) {
			return err
		}
	}
	c.recheck()
	return nil
}

// keepsQuorum refuses to go on without a member where the rest could then not elect a leader.
func (c *Cluster) keepsQuorum(servers []raftnode.Server, without string) *job.Refusal {
	voters, reachable, missing := 0, 0, ""
	for _, s := range servers {
		if !s.Voter || s.ID == without {
			continue
		}
		voters++
		if s.ID == c.cfg.NodeID || c.reachable(s.ID) {
			reachable++
		} else {
			missing = s.ID
		}
	}
	if voters > 0 && reachable*2 > voters {
		return nil
	}
	if voters == 0 {
		return refuse(job.CodeInUse, fmt.Sprintf("no voting member is left without %s", without), "wait until the others have caught up and vote; see `lancemaster cluster status`")
	}
	return refuse(job.CodeInUse,
		fmt.Sprintf("without %s, %d of %d voting members would be reachable, which is no quorum (%s is not reachable)", without, reachable, voters, missing),
		"bring the others back first; see `lancemaster cluster status`")
}

// reachable says whether a member answered lately, with the disk that is registered.
func (c *Cluster) reachable(id string) bool { return c.present(c.peers.get(id)) }

// present says that of what is known of a member.
func (c *Cluster) present(s sighting) bool { return s.fresh() && c.isRegistered(s) }

// farewell says in this node's log, once, that it was removed.
type farewell struct {
	c      *Cluster
	before bool // it was seen the last time
	said   bool
}

// look looks whether it was. Its registry ends before the removal. A node that is only being taken in follows
// the members of the past for a moment, also past its own registration, so it is looked at twice.
func (r *farewell) look() {
	instance, _, ok := r.c.registered(r.c.cfg.NodeID)
	now := r.c.Removed() && ok && instance == r.c.cfg.InstanceID
	if now && r.before && !r.said {
		r.said = true
		r.c.log.Warn(removedText)
	}
	r.before = now
}

// isRegistered says whether what was heard came from the disk that is registered.
func (c *Cluster) isRegistered(s sighting) bool {
	instance, _, ok := c.registered(s.member.ID)
	return ok && instance == s.identity.InstanceID
}

// leaveTo hands the leadership over and asks the new leader to remove this node.
func (c *Cluster) leaveTo(ctx context.Context, actor string) error {
	next, err := c.transfer(ctx, "") // to one that has just answered
	if err != nil {
		return err
	}
	payload, err := json.Marshal(removal{Actor: actor, NodeID: c.cfg.NodeID})
	if err != nil {
		return fmt.Errorf("cannot write the request: %w", err)
	}
	_, _, err = c.call(ctx, next, c.address(next), methodRemove, payload)
	if err == nil {
		return nil
	}
	if lost, ok := errors.AsType[*peer.CallError](err); ok && lost.Sent {
		return fmt.Errorf("the leadership went to %s, whose answer to removing this master was lost: %w", next, err)
	}
	return refuse(job.CodeUnavailable, fmt.Sprintf("the leadership went to %s, which did not remove this master: %v", next, err), "run the command again")
}

// removal asks the leader to remove the master that asks.
type removal struct {
	Actor  string `json:"actor"`
	NodeID string `json:"node_id"`
}

// onRemove removes the master that asks, which led until now.
func (c *Cluster) onRemove(ctx context.Context, from peer.Identity, payload []byte) ([]byte, error) {
	var r removal
	if err := json.Unmarshal(payload, &r); err != nil || r.NodeID != from.NodeID || r.NodeID == c.cfg.NodeID {
		return nil, errors.New("the request cannot be read, or is not about its sender")
	}
	if err := c.waitServing(ctx); err != nil {
		return nil, fmt.Errorf("this master does not lead and serve yet: %w", err)
	}
	if err := c.RemoveMember(ctx, r.Actor, r.NodeID); err != nil {
		return nil, err
	}
	return []byte("{}"), nil
}

// waitServing waits until this node leads and its services run.
func (c *Cluster) waitServing(ctx context.Context) error {
	return poll(ctx, func() bool {
		_, leads := c.cfg.Raft.Term()
		return leads && c.cfg.Report().Ready
	})
}

package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/raftnode"
)

// TransferLeader hands the leadership to a member, or to the live one that has applied most, and
// returns who leads then.
func (c *Cluster) TransferLeader(ctx context.Context, _, id string) (string, error) {
	ctx, end, err := c.one(ctx)
	if err != nil {
		return "", err
	}
	defer end()
	c.peers.askAll(ctx, pollTimeout)
	return c.transfer(ctx, id)
}

func (c *Cluster) transfer(ctx context.Context, id string) (string, error) {
	switch server, listed := c.listed(id); {
	case id == c.cfg.NodeID:
		return id, nil
	case id == "":
		if id = c.successor(); id == "" {
			return "", refuse(job.CodeUnavailable, "no other voting member is reachable", "see `lancemaster cluster status`")
		}
	case !listed:
		return "", refuse(job.CodeNotFound, fmt.Sprintf("there is no member %q", id), "see `lancemaster cluster status`")
	case !server.Voter:
		return "", refuse(job.CodeInvalid, fmt.Sprintf("%s does not vote yet", id), "wait until it has caught up; see `lancemaster cluster status`")
	case !c.reachable(id):
		return "", refuse(job.CodeUnavailable, fmt.Sprintf("%s is not reachable", id), "choose another member, or none to take the best")
	}
	if err := c.cfg.Raft.TransferLeadershipTo(ctx, id); err != nil {
		if errors.Is(err, raftnode.ErrNotLeader) {
			return "", journalError(err)
		}
		return "", refuse(job.CodeUnavailable, fmt.Sprintf("the leadership was not handed over to %s: %v", id, err), "see `lancemaster cluster status`, and try again")
	}
	leader := ""
	err := poll(ctx, func() bool {
		leader, _ = c.cfg.Raft.Leader()
		return leader != "" && leader != c.cfg.NodeID
	})
	if err != nil {
		return "", refuse(job.CodeTimeout, "this master gave the leadership up, and no new leader is known yet", "see `lancemaster cluster status`")
	}
	return leader, nil
}

// successor is the live voting member that has applied most, or nobody. Raft's own choice goes by the
// log alone, and would try one that is down.
func (c *Cluster) successor() (id string) {
	var applied uint64
	for _, s := range c.cfg.Raft.Servers() {
		if !s.Voter || s.ID == c.cfg.NodeID || !c.reachable(s.ID) {
			continue
		}
		seen := c.peers.get(s.ID)
		if seen.status.Stopping {
			continue
		}
		if id == "" || seen.status.Applied > applied {
			id, applied = s.ID, seen.status.Applied
		}
	}
	return id
}

// handOverPoll bounds the question who is live, when this node has little time left.
const handOverPoll = 500 * time.Millisecond

// HandOver gives the leadership to a live peer before this node stops, where it leads and there is
// one. It tries once.
func (c *Cluster) HandOver(ctx context.Context) error {
	if _, leads := c.cfg.Raft.Term(); !leads {
		return nil
	}
	c.peers.askAll(ctx, handOverPoll)
	if c.successor() == "" {
		return nil
	}
	next, err := c.transfer(ctx, "")
	if err != nil {
		return err
	}
	c.log.Info("the leadership was handed over before stopping", "to", next)
	return nil
}

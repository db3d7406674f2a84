package cluster

import (
	"context"
	"sync"
	"time"

	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/raftnode"
)

// catchUpLag is how many entries a new member may be behind and still be given its vote.
const catchUpLag = 128

// Tender is the leader's service that gives new members their vote when they have caught up, keeps
// the recorded addresses current, and raises the feature level when every member can follow.
type Tender struct {
	c      *Cluster
	mu     sync.Mutex
	cancel context.CancelFunc
	done   sync.WaitGroup
	// failed is what went wrong last, so that it is logged once.
	failed string
}

// Tender returns the service; the caller starts it with a term.
func (c *Cluster) Tender() *Tender { return &Tender{c: c} }

// Name names the service.
func (*Tender) Name() string { return "membership" }

// Start begins the term's work.
func (t *Tender) Start(ctx context.Context, _ uint64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	ctx, t.cancel = context.WithCancel(ctx)
	t.done.Go(func() { t.run(ctx) })
	return nil
}

// Stop ends the work and waits for it.
func (t *Tender) Stop() {
	t.mu.Lock()
	cancel := t.cancel
	t.cancel = nil
	t.mu.Unlock()
	if cancel != nil {
		cancel()
	}
	t.done.Wait()
}

func (t *Tender) run(ctx context.Context) {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		round, cancel := context.WithTimeout(ctx, verbTime)
		err := t.c.tend(round)
		cancel()
		switch {
		case err == nil:
			t.failed = ""
		case ctx.Err() == nil && err.Error() != t.failed:
			t.failed = err.Error()
			t.c.log.Warn("tending the membership failed; it is tried again", "error", err.Error())
		}
	}
}

// tend does at most one change. It leaves the way to an operator's verb that is under way.
func (c *Cluster) tend(ctx context.Context) error {
	select {
	case c.verbs <- struct{}{}:
		defer func() { <-c.verbs }()
	default:
		return nil
	}
	servers := c.cfg.Raft.Servers()
	commit := c.cfg.Raft.Stats().CommitIndex
	for _, s := range servers {
		changed, err := c.tendMember(ctx, s, commit)
		if changed || err != nil {
			return err
		}
	}
	return c.raiseLevel(ctx, servers)
}

func (c *Cluster) tendMember(ctx context.Context, s raftnode.Server, commit uint64) (changed bool, err error) {
	address, applied := c.cfg.Address, commit
	if s.ID != c.cfg.NodeID {
		if !c.reachable(s.ID) {
			return false, nil
		}
		seen := c.peers.get(s.ID)
		address, applied = seen.status.Address, seen.status.Applied
	}
	if moved, err := c.recordAddress(ctx, s, address); moved || err != nil {
		return moved, err
	}
	if s.Voter || applied+catchUpLag < commit {
		return false, nil
	}
	if err := c.cfg.Raft.AddVoter(ctx, s.ID, s.Address); err != nil {
		return false, err
	}
	c.log.Info("the new member has caught up and votes from now on", "member", s.ID)
	return true, nil
}

// recordAddress puts the address that a member advertises into the registry and the Raft
// configuration, so that members without it in their own configuration find it.
func (c *Cluster) recordAddress(ctx context.Context, s raftnode.Server, address string) (bool, error) {
	if address == "" {
		return false, nil
	}
	var known *job.Member
	c.cfg.State.Read(func(l *job.Live) { known = l.Member(s.ID) })
	if known != nil && known.Address != address {
		_, err := c.cfg.Journal.Propose(ctx, job.PutMember{
			Header: c.header(job.ActorSystem), NodeID: s.ID, InstanceID: known.InstanceID, Address: address,
		})
		return true, err
	}
	if s.Address == address {
		return false, nil
	}
	set := c.cfg.Raft.AddNonvoter
	if s.Voter {
		set = c.cfg.Raft.AddVoter
	}
	if err := set(ctx, s.ID, address); err != nil {
		return false, err
	}
	c.log.Info("a member's address has changed", "member", s.ID, "from", s.Address, "to", address)
	return true, nil
}

// raiseLevel allows what the oldest build among the members knows.
func (c *Cluster) raiseLevel(ctx context.Context, servers []raftnode.Server) error {
	var level int32
	c.cfg.State.Read(func(l *job.Live) { level = l.Cluster().Level })
	target := c.cfg.MaxLevel
	for _, s := range servers {
		if s.ID == c.cfg.NodeID {
			continue
		}
		if !c.reachable(s.ID) {
			return nil // nobody knows what it can read
		}
		target = min(target, c.peers.get(s.ID).identity.MaxLevel)
	}
	if target <= level {
		return nil
	}
	_, err := c.cfg.Journal.Propose(ctx, job.RaiseLevel{
		Header: c.header(job.ActorSystem), Level: target, Defaults: c.cfg.LevelDefaults(level, target),
	})
	if err == nil {
		c.log.Info("every member supports a higher feature level, which holds from now on; older builds cannot join any more", "from", level, "to", target)
	}
	return err
}

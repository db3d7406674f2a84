package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/raftnode"
)

const (
	// catchUpLag is how many entries a new member may be behind and still be given its vote.
	catchUpLag = 128
	// tendTime bounds a round, so that an operator's change need not wait long for it.
	tendTime = 10 * time.Second
)

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
	if t.cancel != nil {
		return errors.New("tending the membership is started already; stop it first")
	}
	ctx, t.cancel = context.WithCancel(ctx)
	since := time.Now()
	t.done.Go(func() { t.run(ctx, since) })
	return nil
}

// Stop ends the work and waits for it.
func (t *Tender) Stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cancel == nil {
		return
	}
	t.cancel()
	t.done.Wait()
	t.cancel = nil
}

func (t *Tender) run(ctx context.Context, since time.Time) {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		round, cancel := context.WithTimeout(ctx, tendTime)
		err := t.c.tend(round, since)
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

// tend does at most one change, in a term whose services started at since. It leaves the way to an operator's
// verb that is under way. What fails for one member does not keep the others waiting.
func (c *Cluster) tend(ctx context.Context, since time.Time) error {
	select {
	case c.verbs <- struct{}{}:
		defer func() { <-c.verbs }()
	default:
		return nil
	}
	servers := c.cfg.Raft.Servers()
	var faults []error
	for _, s := range servers {
		// Read once: a failure that comes in between would make an older answer look like one of this term.
		changed, err := c.tendMember(ctx, s, c.peers.get(s.ID), since)
		if changed {
			return err
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("member %s: %w", s.ID, err))
		}
	}
	if err := c.raiseLevel(ctx, servers); err != nil {
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

// tendMember does it for a member by what is known of it.
func (c *Cluster) tendMember(ctx context.Context, s raftnode.Server, seen sighting, since time.Time) (changed bool, err error) {
	if s.ID == c.cfg.NodeID {
		return c.recordAddress(ctx, s, c.cfg.Address)
	}
	if !c.present(seen) {
		return false, nil
	}
	if moved, err := c.recordAddress(ctx, s, seen.status.Address); moved || err != nil {
		return moved, err
	}
	if s.Voter || !c.caughtUp(seen, since) {
		return false, nil
	}
	if err := c.cfg.Raft.AddVoter(ctx, s.ID, s.Address); err != nil {
		return true, err
	}
	c.log.Info("the new member has caught up and votes from now on", "member", s.ID)
	return true, nil
}

// caughtUp says whether a member follows this leader, knows of its own registration, and has all but
// the newest entries of those that were there when it was asked: a busy journal has grown by more since then.
// In a young journal the newest may be all there are. It must have been asked in this term, whose services
// started at since, behind the term's barrier: before the first entry of its term is committed a leader may know
// of no other that is, none at all after a restart, and whoever has nothing would not be behind. The end of the
// leader's log instead, as in LeaderIndex, would ask for what is still under way to a quorum, in a busy journal
// more than a new member may lack, at each look.
func (c *Cluster) caughtUp(seen sighting, since time.Time) bool {
	known := c.member(seen.member.ID)
	applied := seen.status.Applied
	return known != nil && seen.asked.After(since) && seen.status.Leader == c.cfg.NodeID &&
		applied >= known.RegisteredAt && max(applied, seen.status.Passed)+catchUpLag >= seen.commit
}

// recordAddress puts the address that a member advertises into the registry and the Raft
// configuration, so that members without it in their own configuration find it.
func (c *Cluster) recordAddress(ctx context.Context, s raftnode.Server, address string) (changed bool, err error) {
	known := c.member(s.ID)
	if address == "" || known == nil || known.Address == address && s.Address == address {
		return false, nil
	}
	if c.misleads(ctx, s.ID, address) {
		return false, fmt.Errorf("it advertises %s, which the other members cannot reach: correct its raft.advertise; its recorded address stays %s", address, known.Address)
	}
	if known.Address != address {
		_, err := c.cfg.Journal.Propose(ctx, job.PutMember{
			Header: c.header(job.ActorSystem), NodeID: s.ID, InstanceID: known.InstanceID, Address: address,
		})
		return true, err
	}
	if c.holdsInRaft(s.ID, address) {
		return false, nil // until that one has moved; the registered address counts before Raft's
	}
	set := c.cfg.Raft.AddNonvoter
	if s.Voter {
		set = c.cfg.Raft.AddVoter
	}
	if err := set(ctx, s.ID, address); err != nil {
		return true, err
	}
	c.log.Info("a member's address has changed", "member", s.ID, "from", s.Address, "to", address)
	return true, nil
}

// holdsInRaft says whether another member has an address in the Raft configuration, which takes each
// only once.
func (c *Cluster) holdsInRaft(id, address string) bool {
	return slices.ContainsFunc(c.cfg.Raft.Servers(), func(s raftnode.Server) bool { return s.ID != id && s.Address == address })
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

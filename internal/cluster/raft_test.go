package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lancemaster/lancemaster/internal/raftnode"
)

// A Raft that follows the rules as far as membership goes.

func (n *node) HasState() (bool, error) {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	return len(n.servers) > 0 || n.voted > 0, nil
}

func (n *node) Bootstrap(members []raftnode.Server) error {
	return n.step("bootstrap", func() error {
		n.w.mu.Lock()
		defer n.w.mu.Unlock()
		if len(n.servers) > 0 || n.voted > 0 {
			return raftnode.ErrHasState
		}
		n.servers = slices.Clone(members)
		n.w.boots++
		return nil
	})
}

// raftOf is the node's Raft: a node's own Start is its Cluster's.
type raftOf struct{ *node }

func (r raftOf) Start() error {
	return r.step("start", func() error {
		r.w.mu.Lock()
		defer r.w.mu.Unlock()
		r.started = true
		return nil
	})
}

func (n *node) Servers() []raftnode.Server {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	if !n.started {
		return nil
	}
	return slices.Clone(n.servers)
}

func (n *node) Stats() raftnode.Stats {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	s := raftnode.Stats{State: "Shutdown", LastContact: -1}
	if !n.started {
		return s
	}
	s.State, s.Term, s.LastLogIndex = "Follower", n.voted, uint64(min(len(n.servers), 1))
	if n.follows {
		s.LeaderID, s.CommitIndex, s.LastLogIndex = n.w.leader, n.w.state.Position.Index-n.uncommitted, n.w.state.Position.Index-n.lag
	}
	s.PassedIndex = n.passed
	if n.w.leader == n.id {
		s.State, s.LastContact = "Leader", 0
	}
	return s
}

func (n *node) Leader() (id, address string) {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	if !n.started || !n.follows || n.w.leader == "" {
		return "", ""
	}
	return n.w.leader, n.w.nodes[n.w.leader].address
}

func (n *node) Term() (uint64, bool) {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	return n.w.term, n.started && n.w.leader == n.id
}

// change changes the member list.
func (n *node) change(step string, do func()) error {
	if _, leads := n.Term(); !leads {
		return fmt.Errorf("%w: %w", raftnode.ErrNotAppended, raftnode.ErrNotLeader)
	}
	return n.step(step, func() error {
		n.w.mu.Lock()
		defer n.w.mu.Unlock()
		do()
		return nil
	})
}

func (n *node) set(s raftnode.Server) {
	i := slices.IndexFunc(n.servers, func(have raftnode.Server) bool { return have.ID == s.ID })
	if i < 0 {
		n.servers = append(n.servers, s)
		return
	}
	s.Voter = s.Voter || n.servers[i].Voter
	n.servers[i] = s
}

func (n *node) AddNonvoter(_ context.Context, id, address string) error {
	return n.change("nonvoter "+id, func() { n.set(raftnode.Server{ID: id, Address: address}) })
}

func (n *node) AddVoter(_ context.Context, id, address string) error {
	return n.change("voter "+id, func() { n.set(raftnode.Server{ID: id, Address: address, Voter: true}) })
}

func (n *node) RemoveServer(_ context.Context, id string) error {
	return n.change("remove "+id, func() {
		n.servers = slices.DeleteFunc(n.servers, func(s raftnode.Server) bool { return s.ID == id })
	})
}

func (n *node) TransferLeadershipTo(_ context.Context, id string) error {
	if _, leads := n.Term(); !leads {
		return raftnode.ErrNotLeader
	}
	return n.step("transfer "+id, func() error {
		n.w.mu.Lock()
		defer n.w.mu.Unlock()
		if to := n.w.nodes[id]; to == nil || !to.started || !to.follows {
			return raftnode.ErrTimeout
		}
		n.w.leader = id
		n.w.term++
		return nil
	})
}

// pump lets Raft do what it would do by now: elect a leader, have it form the cluster, and replicate.
func (w *world) pump() {
	w.mu.Lock()
	var candidates []*node
	for _, n := range w.nodes {
		if n.started && len(n.servers) > 0 {
			candidates = append(candidates, n)
		}
	}
	slices.SortFunc(candidates, func(a, b *node) int { return strings.Compare(a.id, b.id) })
	w.mu.Unlock()
	for _, n := range candidates {
		w.elect(n)
	}
	w.mu.Lock()
	leader := w.nodes[w.leader]
	w.mu.Unlock()
	if leader == nil {
		return
	}
	w.mu.Lock()
	formed := w.state.Cluster().ClusterID != 0
	w.mu.Unlock()
	if !formed {
		if _, err := (journalOf{leader}).Propose(context.Background(), leader.Form()); err != nil && !errors.Is(err, errCrashed) {
			w.t.Errorf("form: %v", err)
		}
	}
	w.replicate(leader)
}

// elect makes a node the leader if a quorum of its own list listens to it.
func (w *world) elect(n *node) {
	voters, votes := 0, []*node{}
	self := false
	for _, s := range n.Servers() {
		if !s.Voter {
			continue
		}
		voters++
		if s.ID == n.id {
			self = true
		} else if to := w.link(n, s.ID); to != nil {
			votes = append(votes, to)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.leader != "" || !self || (len(votes)+1)*2 <= voters {
		return
	}
	w.term++
	w.leader = n.id
	n.follows = true
	for _, v := range votes {
		v.voted = w.term
	}
}

func (w *world) replicate(leader *node) {
	for _, s := range leader.Servers() {
		if s.ID == leader.id {
			continue
		}
		if to := w.link(leader, s.ID); to != nil {
			w.mu.Lock()
			to.servers, to.voted, to.follows = slices.Clone(leader.servers), w.term, true
			w.mu.Unlock()
		}
	}
}

package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/raftnode"
)

// MemberStatus is a member as this node knows it.
type MemberStatus struct {
	NodeID, InstanceID string
	Address            string // on record
	ConfiguredAddress  string // where this node's own configuration says otherwise
	Voter, Leader      bool
	Self, Reachable    bool
	// LastHeard is how long ago the member answered; negative: never.
	LastHeard       time.Duration
	RaftState       string
	Applied         uint64 // as last heard
	Version         string
	Level, MaxLevel int32
	// ClockDifference is how far this node's clock is ahead of the member's, where it answers.
	ClockDifference *time.Duration
	Report          Report
	LastError       string
}

// Overview is the cluster as this node knows it.
type Overview struct {
	Members []MemberStatus
	// Voters vote, Quorum of them decide, and Tolerated of the reachable ones may fail.
	Voters, Quorum, Tolerated int
	Warnings                  []string
}

// Overview tells what this node knows, after it has asked the others, for half a second at most.
func (c *Cluster) Overview(ctx context.Context) (Overview, error) {
	c.peers.refresh(ctx)
	if err := ctx.Err(); err != nil {
		return Overview{}, err
	}
	var o Overview
	reachable := 0
	for _, s := range c.cfg.Raft.Servers() {
		m := c.describe(s.ID)
		o.Members = append(o.Members, m)
		if m.Voter {
			o.Voters++
			if m.Reachable {
				reachable++
			}
		}
	}
	o.Quorum = o.Voters/2 + 1
	o.Tolerated = max(reachable-o.Quorum, 0)
	o.Warnings = c.warnings(o, reachable)
	return o, nil
}

func (c *Cluster) warnings(o Overview, reachable int) (out []string) {
	warn := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if o.Voters == 0 {
		if why := c.Waiting(); why != "" {
			warn("this master is waiting: %s", why)
		}
		return out
	}
	switch {
	case reachable < o.Quorum:
		warn("%d of %d voting members are reachable, which is no quorum: nothing can be changed", reachable, o.Voters)
	case o.Voters > 1 && o.Tolerated == 0:
		warn("no further voting member may fail")
	}
	if o.Voters == 2 {
		warn("two voting members tolerate no failure; add a third")
	} else if o.Voters > 2 && o.Voters%2 == 0 {
		warn("%d voting members tolerate no more failures than %d would", o.Voters, o.Voters-1)
	}
	removed := c.Removed()
	if removed {
		warn(removedText)
	}
	for _, m := range o.Members {
		out = append(out, c.warningsOf(m, removed)...)
	}
	for _, id := range c.unfenced(o) {
		warn("%s founds a cluster of its own if its disk is emptied: its cluster.members lists no other master; list all there", id)
	}
	c.cfg.State.Read(func(l *job.Live) {
		for _, m := range l.Members() {
			if removed && m.NodeID == c.cfg.NodeID {
				continue // its own registry ends before it was forgotten
			}
			if !slices.ContainsFunc(o.Members, func(s MemberStatus) bool { return s.NodeID == m.NodeID }) {
				warn("%s is registered, but no member: run `lancemaster cluster add %s %s` again to finish adding it, or `lancemaster cluster remove %s`", m.NodeID, m.NodeID, m.Address, m.NodeID)
			}
		}
	})
	return out
}

// warningsOf is what there is to say of one member. A master that was removed knows why others refuse it.
func (c *Cluster) warningsOf(m MemberStatus, removed bool) (out []string) {
	warn := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if !m.Reachable {
		warn("%s is not reachable: %s", m.NodeID, m.LastError)
	} else if r := c.peers.get(m.NodeID).refusal; r != nil && !r.Passing() && !removed {
		warn("%s refuses this master: %s", m.NodeID, r.Message)
	}
	if !m.Voter {
		warn("%s does not vote: it has not caught up yet", m.NodeID)
	}
	if m.ClockDifference != nil && m.ClockDifference.Abs() > maxClockDifference {
		warn("the clocks of this master and %s differ by %s: deadlines then run for their full time after a change of the leader, and nothing is removed by retention", m.NodeID, m.ClockDifference.Round(time.Second))
	}
	return out
}

// removedText says what a removed master is.
const removedText = "this master is no member any more: stop it; to come back it needs an empty data directory and `lancemaster cluster add`"

// Removed says that this master knows the members and is not among them.
func (c *Cluster) Removed() bool {
	servers := c.cfg.Raft.Servers()
	return len(servers) > 0 && !slices.ContainsFunc(servers, func(s raftnode.Server) bool { return s.ID == c.cfg.NodeID })
}

// RemovedText says what to do with a master that was removed; empty for any other.
func (c *Cluster) RemovedText() string {
	if c.Removed() {
		return removedText
	}
	return ""
}

// RefusedText says which other masters this one cannot talk to since one side refuses the other, and why:
// then waiting does not help. It is empty where there are none.
func (c *Cluster) RefusedText() string {
	var out []string
	for _, m := range c.others() {
		r := c.peers.get(m.ID).refusal
		if r == nil || r.Passing() {
			continue
		}
		who := "this master refuses " + m.ID
		if r.ByOther {
			who = m.ID + " refuses this master"
		}
		who = fmt.Sprintf("%s (%s)", who, r.Code)
		if len(out) == 0 { // one reason is enough to act on
			who += ": " + r.Message
		}
		out = append(out, who)
	}
	return strings.Join(out, "; ")
}

// unfenced are the members of a larger cluster that would form one of their own on an empty disk.
func (c *Cluster) unfenced(o Overview) (ids []string) {
	if len(o.Members) < 2 {
		return nil
	}
	for _, m := range o.Members {
		if m.Self && !c.fenced() || !m.Self && m.Reachable && !c.peers.get(m.NodeID).status.Fenced {
			ids = append(ids, m.NodeID)
		}
	}
	return ids
}

// fenced says that this node's configuration, as it is now, keeps it from founding a cluster of its
// own should its disk be emptied: it would look for the other members, or wait to be added.
func (c *Cluster) fenced() bool {
	if c.cfg.Join {
		return true
	}
	if c.cfg.AddressOf == nil {
		return len(c.cfg.Founders) > 1
	}
	listed := func(id string) bool { // now: the founders are those of the start
		_, listed := c.cfg.AddressOf(id)
		return listed && id != c.cfg.NodeID
	}
	return slices.ContainsFunc(c.cfg.Founders, func(m Member) bool { return listed(m.ID) }) ||
		slices.ContainsFunc(c.cfg.Raft.Servers(), func(s raftnode.Server) bool { return listed(s.ID) })
}

// describe tells what is known of one member.
func (c *Cluster) describe(id string) MemberStatus {
	m := MemberStatus{NodeID: id, Self: id == c.cfg.NodeID, LastHeard: -1}
	if s, ok := c.listed(id); ok {
		m.Voter, m.Address = s.Voter, s.Address
	}
	m.InstanceID, _, _ = c.registered(id)
	if c.cfg.AddressOf != nil {
		if address, ok := c.cfg.AddressOf(id); ok && address != m.Address {
			m.ConfiguredAddress = address
		}
	}
	leader, _ := c.cfg.Raft.Leader()
	m.Leader = leader == id
	if m.Self {
		c.fillSelf(&m)
		return m
	}
	s := c.peers.get(id)
	m.LastError = s.err
	if s.at.IsZero() {
		if m.LastError == "" {
			m.LastError = "not asked yet"
		}
		return m
	}
	m.Reachable, m.LastHeard = c.reachable(id), time.Since(s.at)
	m.RaftState, m.Applied, m.Report = s.status.RaftState, s.status.Applied, s.status.Report
	m.Version, m.Level, m.MaxLevel = s.identity.Version, s.identity.Level, s.identity.MaxLevel
	if d, ok := c.clockDifference(s); ok && m.Reachable {
		m.ClockDifference = &d
	}
	switch {
	case m.Reachable || m.LastError != "":
	case !c.isRegistered(s):
		// What it has applied says nothing of the member's disk.
		m.RaftState, m.Applied = stateOtherDisk, 0
		m.LastError = fmt.Sprintf("it answers with another disk than the registered one; if the old one is gone for good, run `lancemaster cluster replace %s`", id)
	default:
		m.LastError = fmt.Sprintf("it has not answered for %s", m.LastHeard.Round(time.Second))
	}
	return m
}

// stateOtherDisk is what a member does in whose place another disk answers: it is heard, and is not the member.
const stateOtherDisk = "another disk answers"

func (c *Cluster) fillSelf(m *MemberStatus) {
	self := c.Identity()
	stats := c.cfg.Raft.Stats()
	m.Reachable, m.LastHeard = true, 0
	m.InstanceID, m.RaftState, m.Applied = self.InstanceID, stats.State, c.cfg.State.Applied().Index
	m.Version, m.Level, m.MaxLevel, m.Report = self.Version, self.Level, self.MaxLevel, c.cfg.Report()
	if m.Address == "" {
		m.Address = c.cfg.Address
	}
}

// Members counts the members of the Raft configuration.
func (c *Cluster) Members() int { return len(c.cfg.Raft.Servers()) }

// Voters counts the members that vote.
func (c *Cluster) Voters() int {
	voters := 0
	for _, s := range c.cfg.Raft.Servers() {
		if s.Voter {
			voters++
		}
	}
	return voters
}

package cluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/peer"
)

// standing is the place in a cluster that counts. A plan counts only on a founder that has agreed to
// somebody else's: the coordinator's own becomes the cluster when its disk holds the first member
// list, and before that it must be free to talk to founders that still hold another plan.
func (c *Cluster) standing() Standing {
	s := c.cfg.Disk.Standing()
	if !c.written.Load() && s.RegisteredAt == 0 && (c.cfg.Join || c.coordinates()) {
		return Standing{}
	}
	return s
}

// Identity is what this node says of itself on every connection.
func (c *Cluster) Identity() peer.Identity {
	s := c.standing()
	id := peer.Identity{
		ClusterID: s.ClusterID, Incarnation: s.Incarnation, NodeID: c.cfg.NodeID, InstanceID: c.cfg.InstanceID,
		RegisteredAt: s.RegisteredAt, MaxLevel: c.cfg.MaxLevel, Version: c.cfg.Version,
	}
	c.cfg.State.Read(func(l *job.Live) {
		formed := l.Cluster()
		if formed.ClusterID == 0 {
			return
		}
		id.ClusterID, id.Level = formed.ClusterID, formed.Level
		id.Incarnation = max(id.Incarnation, formed.Incarnation)
		if m := l.Member(c.cfg.NodeID); m != nil && m.InstanceID == c.cfg.InstanceID {
			id.RegisteredAt = m.RegisteredAt
		}
	})
	return id
}

// Judge says whether the other end of a connection belongs to this cluster; see peer.Config.
func (c *Cluster) Judge(kind peer.Kind, other peer.Identity) (member bool, err error) {
	return peer.Decide(kind, c.check(other))
}

// check says why another node is no member of this cluster as this node knows it; nil: it is one.
func (c *Cluster) check(other peer.Identity) *peer.Refusal {
	// What the invitation said was true at this node's registration: only later ones are believed.
	asOf := max(c.cfg.State.Applied().Index, c.standing().RegisteredAt)
	return peer.Check(c.Identity(), c.registered, asOf, other)
}

// registered looks a member's disk up: in the state once it knows the members as of this node's own
// registration, before that in what the formation or the invitation said. A state that is still
// catching up would let in disks that have been replaced since.
func (c *Cluster) registered(nodeID string) (instanceID string, registeredAt uint64, ok bool) {
	s := c.standing()
	known := false
	if c.cfg.State.Applied().Index >= s.RegisteredAt {
		c.cfg.State.Read(func(l *job.Live) {
			known = len(l.Members()) > 0
			if m := l.Member(nodeID); m != nil {
				instanceID, registeredAt, ok = m.InstanceID, m.RegisteredAt, true
			}
		})
	}
	if !known {
		instanceID, ok = s.Instances[nodeID]
	}
	return instanceID, registeredAt, ok
}

// address returns where a member is reached: as configured, else as registered, else as in the Raft
// configuration.
func (c *Cluster) address(id string) string {
	if c.cfg.AddressOf != nil {
		if address, ok := c.cfg.AddressOf(id); ok {
			return address
		}
	}
	if m := c.member(id); m != nil {
		return m.Address
	}
	for _, s := range c.cfg.Raft.Servers() {
		if s.ID == id {
			return s.Address
		}
	}
	return ""
}

// member is a member as registered, or nil.
func (c *Cluster) member(id string) (m *job.Member) {
	c.cfg.State.Read(func(l *job.Live) { m = l.Member(id) })
	return m
}

// MemberAddress is address for Raft's transport, which falls back to its own configuration.
func (c *Cluster) MemberAddress(id string) (string, bool) {
	address := c.address(id)
	return address, address != ""
}

// others are the masters to ask: the founders until Raft has a member list, then that list's.
func (c *Cluster) others() []Member {
	var out []Member
	add := func(id, address string) {
		if id != c.cfg.NodeID {
			out = append(out, Member{ID: id, Address: address})
		}
	}
	if servers := c.cfg.Raft.Servers(); len(servers) > 0 {
		for _, s := range servers {
			add(s.ID, c.address(s.ID))
		}
		return out
	}
	for _, f := range c.cfg.Founders {
		add(f.ID, f.Address)
	}
	return out
}

// Form is the first command of the journal, as the founders agreed. It goes by the Raft configuration
// and not by cluster.members, which may have been changed since the founders agreed.
func (c *Cluster) Form() job.Form {
	s := c.cfg.Disk.Standing()
	form := job.Form{Header: c.header(job.ActorSystem), ClusterID: s.ClusterID, Level: c.cfg.MaxLevel}
	for _, server := range c.cfg.Raft.Servers() {
		if server.ID == c.cfg.NodeID {
			continue
		}
		instance, ok := s.Instances[server.ID]
		if !ok {
			c.log.Error("a founding member's disk is not known; run `lancemaster cluster replace` for it", "member", server.ID)
			continue
		}
		form.Members = append(form.Members, job.Member{NodeID: server.ID, InstanceID: instance, Address: server.Address})
		if seen := c.peers.get(server.ID); seen.fresh() {
			form.Level = min(form.Level, seen.identity.MaxLevel)
		} else {
			form.Level = 1 // nobody knows what it can read; the level is raised later
		}
	}
	form.Members = append(form.Members, c.self())
	slices.SortFunc(form.Members, func(a, b job.Member) int { return cmp.Compare(a.NodeID, b.NodeID) })
	if form.ClusterID == 0 {
		form.ClusterID = c.cfg.ClusterID
	}
	if form.ClusterID == 0 {
		form.ClusterID = RandomID()
	}
	form.Settings = c.cfg.LevelDefaults(0, form.Level)
	return form
}

// Survivor is this node as the only member, after its data directory was restored or recovered.
func (c *Cluster) Survivor() []job.Member { return []job.Member{c.self()} }

func (c *Cluster) self() job.Member {
	return job.Member{NodeID: c.cfg.NodeID, InstanceID: c.cfg.InstanceID, Address: c.cfg.Address}
}

// EnsureRegistered registers this node where the state does not know its disk or address. The
// leader calls it at the start of its term.
func (c *Cluster) EnsureRegistered(ctx context.Context) error {
	self, known := c.self(), c.member(c.cfg.NodeID)
	if known != nil && known.InstanceID == self.InstanceID && known.Address == self.Address {
		return nil
	}
	if known != nil && known.InstanceID != self.InstanceID {
		return fmt.Errorf("this node's disk (instance %s) is not the one registered for %s (instance %s); it must not lead",
			self.InstanceID, self.NodeID, known.InstanceID)
	}
	if known != nil && c.misleads(ctx, self.NodeID, self.Address) {
		c.log.Warn("this node advertises an address that the other members cannot reach; correct raft.advertise", "advertised", self.Address, "recorded", known.Address)
		return nil
	}
	_, err := c.cfg.Journal.Propose(ctx, job.PutMember{
		Header: c.header(job.ActorSystem), NodeID: self.NodeID, InstanceID: self.InstanceID, Address: self.Address,
	})
	if err != nil {
		return fmt.Errorf("cannot register this node: %w", err)
	}
	return nil
}

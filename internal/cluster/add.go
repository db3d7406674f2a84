package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/peer"
	"github.com/lancemaster/lancemaster/internal/raftnode"
)

// AddMember takes a node with an empty disk in. It does not vote before it has caught up. Repeating
// the call after a lost answer is safe.
func (c *Cluster) AddMember(ctx context.Context, actor, id, address string) (MemberStatus, error) {
	ctx, end, err := c.one(ctx)
	if err != nil {
		return MemberStatus{}, err
	}
	defer end()
	switch id {
	case "":
		return MemberStatus{}, refuse(job.CodeInvalid, "no node id was given", "give the node_id of the new master")
	case c.cfg.NodeID:
		return c.describe(id), nil
	}
	if refusal := c.checkAddress(ctx, id, address); refusal != nil {
		return MemberStatus{}, refusal
	}
	known := c.member(id)
	other, err := c.candidate(ctx, id, address, known)
	if err != nil {
		return MemberStatus{}, err
	}
	_, listed := c.listed(id)
	switch {
	case known != nil && known.InstanceID != other.InstanceID && listed:
		return MemberStatus{}, refuse(job.CodeInUse, fmt.Sprintf("%s is a member, and answers with another disk than the registered one", id),
			fmt.Sprintf("if its disk is gone for good, run `lancemaster cluster replace %s`; else start it with the disk it had", id))
	case known != nil && known.InstanceID == other.InstanceID && listed:
		return c.describe(id), nil // all is done; its address follows from what it advertises
	}
	return c.takeIn(ctx, actor, job.PutMember{NodeID: id, InstanceID: other.InstanceID, Address: address})
}

// ReplaceMember takes in an empty disk under the id of a member whose disk is gone. It votes once
// it has caught up. Repeating the call after a lost answer is safe.
func (c *Cluster) ReplaceMember(ctx context.Context, actor, id, address string) (MemberStatus, error) {
	ctx, end, err := c.one(ctx)
	if err != nil {
		return MemberStatus{}, err
	}
	defer end()
	if id == c.cfg.NodeID {
		return MemberStatus{}, refuse(job.CodeInvalid, fmt.Sprintf("%s leads with the disk it has", id), "a member is replaced when its disk is gone")
	}
	known := c.member(id)
	if known == nil {
		return MemberStatus{}, refuse(job.CodeNotFound, fmt.Sprintf("there is no member %q", id), "a new member is added with `lancemaster cluster add`")
	}
	if address == "" {
		address = c.address(id)
	}
	if refusal := c.checkAddress(ctx, id, address); refusal != nil {
		return MemberStatus{}, refusal
	}
	other, err := c.candidate(ctx, id, address, known)
	if err != nil {
		return MemberStatus{}, err
	}
	server, listed := c.listed(id)
	put := job.PutMember{NodeID: id, InstanceID: other.InstanceID, Address: address}
	if other.InstanceID == known.InstanceID {
		switch {
		case !listed:
			return c.takeIn(ctx, actor, put)
		case !server.Voter: // replaced before; it catches up
			return c.describe(id), nil
		}
		return MemberStatus{}, refuse(job.CodeAlreadyExists, fmt.Sprintf("%s answers with its registered disk; there is nothing to replace", id), "see `lancemaster cluster status`")
	}
	if listed {
		c.peers.askAll(ctx, pollTimeout)
		if refusal := c.keepsQuorum(c.cfg.Raft.Servers(), id); refusal != nil {
			return MemberStatus{}, refusal
		}
		// Out first: the votes of the old disk must not count for the new one.
		if err := c.cfg.Raft.RemoveServer(ctx, id); err != nil {
			return MemberStatus{}, journalError(err)
		}
	}
	put.Replaces = known.InstanceID
	return c.takeIn(ctx, actor, put)
}

// listed returns a member as the Raft configuration has it.
func (c *Cluster) listed(id string) (raftnode.Server, bool) {
	servers := c.cfg.Raft.Servers()
	i := slices.IndexFunc(servers, func(s raftnode.Server) bool { return s.ID == id })
	if i < 0 {
		return raftnode.Server{}, false
	}
	return servers[i], true
}

// candidate asks the node at an address whether it is the one meant and can be taken in.
func (c *Cluster) candidate(ctx context.Context, id, address string, known *job.Member) (peer.Identity, error) {
	s, other, err := c.askStatus(ctx, id, address)
	if peer.OfTLS(err) {
		return other, refuse(job.CodeUnavailable, fmt.Sprintf("%s cannot be talked to at %s: %v", id, address, err),
			fmt.Sprintf("see that raft.tls is the same on %s as here, that each one's tls.ca_file has the CA of the other's tls.cert_file, and that the certificates name the node and its address: docs/security.md", id))
	}
	if err != nil {
		return other, refuse(job.CodeUnavailable, fmt.Sprintf("no master %s answers at %s: %v", id, address, err),
			"start it with an empty data directory, cluster.join: true and this cluster's cluster.id; see that this master reaches the address")
	}
	self := c.Identity()
	registered := known != nil && known.InstanceID == other.InstanceID
	if _, listed := c.listed(id); registered && listed {
		return other, nil
	}
	switch {
	case registered && other.ClusterID == self.ClusterID: // taken in before; the rest may be missing
	case !s.Empty:
		return other, refuse(job.CodeInUse, fmt.Sprintf("the disk of %s belongs to cluster %d already", id, other.ClusterID),
			"a master is taken in with an empty data directory; move the old one away")
	case s.ClusterID != 0 && s.ClusterID != self.ClusterID:
		return other, refuse(job.CodeInvalid, fmt.Sprintf("%s is configured for cluster %d, and this is cluster %d", id, s.ClusterID, self.ClusterID),
			"correct cluster.id of the new master")
	case other.MaxLevel < self.Level:
		return other, refuse(job.CodeUnsupportedLevel, fmt.Sprintf("%s knows feature level %d, and the cluster is at %d", id, other.MaxLevel, self.Level),
			"install the version of the other masters on it")
	}
	if s.Address != address { // it would be recorded instead soon, and may be one that only that node reaches
		return other, refuse(job.CodeInvalid, fmt.Sprintf("%s answers at %s, but tells others to reach it at %s", id, address, s.Address),
			fmt.Sprintf("give the address that it advertises, or correct raft.advertise of %s", id))
	}
	return other, nil
}

// takeIn registers a disk, tells it, and adds it to the Raft configuration. Each step may be repeated.
func (c *Cluster) takeIn(ctx context.Context, actor string, put job.PutMember) (MemberStatus, error) {
	put.Header = c.header(actor)
	if _, err := c.cfg.Journal.Propose(ctx, put); err != nil {
		return MemberStatus{}, err
	}
	c.recheck() // of the disk that was replaced
	payload, err := json.Marshal(c.invitation(put.NodeID))
	if err != nil {
		return MemberStatus{}, fmt.Errorf("cannot write the invitation: %w", err)
	}
	again := fmt.Sprintf("see that %s runs, and run the command again", put.NodeID)
	ask, cancel := context.WithTimeout(ctx, askTime)
	_, _, err = c.call(ask, put.NodeID, put.Address, methodJoin, payload)
	cancel()
	if err != nil {
		return MemberStatus{}, refuse(job.CodeUnavailable,
			fmt.Sprintf("%s was registered, but did not take the invitation: %v", put.NodeID, err), again)
	}
	if err := c.cfg.Raft.AddNonvoter(ctx, put.NodeID, put.Address); err != nil {
		if errors.Is(err, raftnode.ErrNotLeader) {
			return MemberStatus{}, journalError(err)
		}
		return MemberStatus{}, refuse(job.CodeUnavailable, fmt.Sprintf("%s was registered, but may not have been added to the Raft configuration: %v", put.NodeID, err), again)
	}
	c.peers.hurry()
	return c.describe(put.NodeID), nil
}

// invitation is what a member that is taken in is told.
func (c *Cluster) invitation(id string) (in invitation) {
	in.Instances = map[string]string{}
	c.cfg.State.Read(func(l *job.Live) {
		in.ClusterID, in.Incarnation = l.Cluster().ClusterID, l.Cluster().Incarnation
		for _, m := range l.Members() {
			in.Instances[m.NodeID] = m.InstanceID
			if m.NodeID == id {
				in.RegisteredAt = m.RegisteredAt
			}
		}
	})
	return in
}

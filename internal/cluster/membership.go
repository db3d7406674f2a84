package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/peer"
	"github.com/lancemaster/lancemaster/internal/raftnode"
)

// The methods that masters call of each other.
const (
	methodStatus = "status"
	methodForm   = "form"
	methodJoin   = "join"
	methodRemove = "remove-member"
)

// verbTime bounds one change of the membership, the waits for other masters included.
const verbTime = 30 * time.Second

// Handlers serves what other masters ask. get returns nil while the node is being made.
func Handlers(get func() *Cluster) map[string]peer.Handler {
	type handler func(*Cluster, context.Context, peer.Identity, []byte) ([]byte, error)
	bind := func(h handler) func(context.Context, peer.Identity, []byte) ([]byte, error) {
		return func(ctx context.Context, from peer.Identity, payload []byte) ([]byte, error) {
			c := get()
			if c == nil {
				return nil, &peer.Refusal{Code: peer.CodeRefused, Message: "this node is starting; try again shortly"}
			}
			return h(c, ctx, from, payload)
		}
	}
	return map[string]peer.Handler{
		methodStatus: {Strangers: true, Timeout: pollTimeout, Do: bind((*Cluster).onStatus)},
		methodForm:   {Strangers: true, Timeout: 2 * pollTimeout, Do: bind((*Cluster).onForm)},
		methodJoin:   {Strangers: true, Timeout: 2 * pollTimeout, Do: bind((*Cluster).onJoin)},
		methodRemove: {Timeout: verbTime, Do: bind((*Cluster).onRemove)},
	}
}

func (c *Cluster) onStatus(context.Context, peer.Identity, []byte) ([]byte, error) {
	return json.Marshal(c.status())
}

// one makes this node's changes of the membership come one after the other, each with a bound.
func (c *Cluster) one(ctx context.Context) (context.Context, func(), error) {
	ctx, cancel := context.WithTimeout(ctx, verbTime)
	select {
	case c.verbs <- struct{}{}:
		return ctx, func() { <-c.verbs; cancel() }, nil
	case <-ctx.Done():
		cancel()
		return nil, nil, fmt.Errorf("%w: another change of the membership has not ended yet", job.ErrNotAppended)
	}
}

func refuse(code job.Code, message, next string) *job.Refusal {
	return &job.Refusal{Code: code, Message: message, Next: next}
}

// AddMember takes a node with an empty disk in. It does not vote before it has caught up. Repeating
// the call after a lost answer is safe.
func (c *Cluster) AddMember(ctx context.Context, actor, id, address string) (MemberStatus, error) {
	ctx, end, err := c.one(ctx)
	if err != nil {
		return MemberStatus{}, err
	}
	defer end()
	if refusal := c.checkAddress(ctx, address); refusal != nil {
		return MemberStatus{}, refusal
	}
	var known *job.Member
	c.cfg.State.Read(func(l *job.Live) { known = l.Member(id) })
	other, err := c.candidate(ctx, id, address, known)
	if err != nil {
		return MemberStatus{}, err
	}
	return c.takeIn(ctx, actor, job.PutMember{NodeID: id, InstanceID: other.InstanceID, Address: address})
}

// takeIn registers a disk, tells it, and adds it to the Raft configuration.
func (c *Cluster) takeIn(ctx context.Context, actor string, put job.PutMember) (MemberStatus, error) {
	put.Header = c.header(actor)
	if _, err := c.cfg.Journal.Propose(ctx, put); err != nil {
		return MemberStatus{}, err
	}
	in := invitation{Instances: map[string]string{}}
	c.cfg.State.Read(func(l *job.Live) {
		in.ClusterID, in.Incarnation = l.Cluster().ClusterID, l.Cluster().Incarnation
		for _, m := range l.Members() {
			in.Instances[m.NodeID] = m.InstanceID
			if m.NodeID == put.NodeID {
				in.RegisteredAt = m.RegisteredAt
			}
		}
	})
	payload, err := json.Marshal(in)
	if err != nil {
		return MemberStatus{}, fmt.Errorf("cannot write the invitation: %w", err)
	}
	again := fmt.Sprintf("see that %s runs, and run the command again", put.NodeID)
	if _, _, err := c.caller.Call(ctx, put.NodeID, put.Address, methodJoin, payload); err != nil {
		return MemberStatus{}, refuse(job.CodeUnavailable,
			fmt.Sprintf("%s was registered, but did not take the invitation: %v", put.NodeID, err), again)
	}
	if err := c.cfg.Raft.AddNonvoter(ctx, put.NodeID, put.Address); err != nil {
		if errors.Is(err, raftnode.ErrNotLeader) {
			return MemberStatus{}, fmt.Errorf("%w: %w", job.ErrNotAppended, err)
		}
		return MemberStatus{}, refuse(job.CodeUnavailable, fmt.Sprintf("%s was registered, but could not be added to the Raft configuration: %v", put.NodeID, err), again)
	}
	c.peers.hurry()
	return c.member(put.NodeID), nil
}

// candidate asks the node at an address whether it is the one meant and can be taken in.
func (c *Cluster) candidate(ctx context.Context, id, address string, known *job.Member) (peer.Identity, error) {
	s, other, err := c.askStatus(ctx, id, address)
	if err != nil {
		return other, refuse(job.CodeUnavailable, fmt.Sprintf("no master %s answers at %s: %v", id, address, err),
			"start it with an empty data directory, cluster.join: true and this cluster's cluster.id; see that this master reaches the address")
	}
	self := c.Identity()
	switch {
	case known != nil && known.InstanceID == other.InstanceID && other.ClusterID == self.ClusterID:
		return other, nil // taken in before; the rest may be missing
	case !s.Empty:
		return other, refuse(job.CodeInUse, fmt.Sprintf("the disk of %s belongs to cluster %d already", id, other.ClusterID),
			"a master joins with an empty data directory; move the old one away")
	case s.ClusterID != 0 && s.ClusterID != self.ClusterID:
		return other, refuse(job.CodeInvalid, fmt.Sprintf("%s is configured for cluster %d, and this is cluster %d", id, s.ClusterID, self.ClusterID),
			"correct cluster.id of the new master")
	case other.MaxLevel < self.Level:
		return other, refuse(job.CodeUnsupportedLevel, fmt.Sprintf("%s knows feature level %d, and the cluster is at %d", id, other.MaxLevel, self.Level),
			"install the version of the other masters on it")
	}
	return other, nil
}

// checkAddress refuses an address that the other members cannot reach.
func (c *Cluster) checkAddress(ctx context.Context, address string) *job.Refusal {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" || port == "" || port == "0" {
		return refuse(job.CodeInvalid, fmt.Sprintf("%q is not host:port", address), "give the raft.advertise address of the new master")
	}
	own, _, err := net.SplitHostPort(c.cfg.Address)
	if err != nil {
		return refuse(job.CodeInvalid, "this master's own raft address cannot be read", "set raft.advertise")
	}
	ours, theirs := loopback(ctx, own), loopback(ctx, host)
	switch {
	case theirs && !ours:
		return refuse(job.CodeInvalid, fmt.Sprintf("%s is a loopback address: it means another machine to each master", address),
			"give the address under which the other masters reach the new one")
	case ours && !theirs:
		return refuse(job.CodeInvalid, fmt.Sprintf("this master advertises a loopback address (%s), which the new one cannot reach", c.cfg.Address),
			"set raft.listen and raft.advertise of this master to an address that others reach, restart it, and run the command again")
	}
	return nil
}

// loopback says whether a host means this very machine only. A name counts when all its addresses do.
func loopback(ctx context.Context, host string) bool {
	if ip := net.ParseIP(host); ip != nil {
		return ip.IsLoopback() || ip.IsUnspecified()
	}
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	addrs, err := net.DefaultResolver.LookupIPAddr(ctx, host)
	if err != nil || len(addrs) == 0 {
		return host == "localhost"
	}
	return !slices.ContainsFunc(addrs, func(a net.IPAddr) bool { return !a.IP.IsLoopback() })
}

// RemoveMember takes a member out. The leader itself is removed by its successor.
func (c *Cluster) RemoveMember(ctx context.Context, actor, id string) error {
	ctx, end, err := c.one(ctx)
	if err != nil {
		return err
	}
	defer end()
	servers := c.cfg.Raft.Servers()
	i := slices.IndexFunc(servers, func(s raftnode.Server) bool { return s.ID == id })
	registered := false
	c.cfg.State.Read(func(l *job.Live) { registered = l.Member(id) != nil })
	switch {
	case i < 0 && !registered:
		return refuse(job.CodeNotFound, fmt.Sprintf("there is no member %q", id), "see `lancemaster cluster status`")
	case i >= 0 && len(servers) == 1:
		return refuse(job.CodeInUse, fmt.Sprintf("%s is the only member", id), "a cluster keeps at least one member")
	case i >= 0:
		if refusal := c.keepsQuorum(servers, id); refusal != nil {
			return refusal
		}
		if id == c.cfg.NodeID {
			return c.leaveTo(ctx, actor)
		}
		if err := c.cfg.Raft.RemoveServer(ctx, id); err != nil {
			return journalError(err)
		}
	}
	if registered {
		if _, err := c.cfg.Journal.Propose(ctx, job.RemoveMember{Header: c.header(actor), NodeID: id}); err != nil && !job.IsCode(err, job.CodeNotFound) {
			return err
		}
	}
	c.caller.Recheck()
	return nil
}

// journalError puts an error of a membership change into the journal's terms.
func journalError(err error) error {
	if errors.Is(err, raftnode.ErrNotLeader) || errors.Is(err, raftnode.ErrNotAppended) {
		return fmt.Errorf("%w: %w", job.ErrNotAppended, err)
	}
	return err
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
func (c *Cluster) reachable(id string) bool {
	s := c.peers.get(id)
	if !s.fresh() {
		return false
	}
	instance, _, ok := c.registered(id)
	return ok && instance == s.identity.InstanceID
}

// leaveTo hands the leadership over and asks the new leader to remove this node.
func (c *Cluster) leaveTo(ctx context.Context, actor string) error {
	next, err := c.transfer(ctx, "")
	if err != nil {
		return err
	}
	payload, err := json.Marshal(removal{Actor: actor, NodeID: c.cfg.NodeID})
	if err != nil {
		return fmt.Errorf("cannot write the request: %w", err)
	}
	if _, _, err := c.caller.Call(ctx, next, c.address(next), methodRemove, payload); err != nil {
		if remote, ok := errors.AsType[*peer.RemoteError](err); ok {
			return refuse(job.CodeUnavailable, fmt.Sprintf("the leadership went to %s, which did not remove this master: %s", next, remote.Message), "run the command again")
		}
		return fmt.Errorf("the leadership went to %s, whose answer to removing this master was lost: %w", next, err)
	}
	return nil
}

// removal asks the leader to remove the master that asks.
type removal struct {
	Actor  string `json:"actor"`
	NodeID string `json:"node_id"`
}

// onRemove removes the master that asks, which led until now.
func (c *Cluster) onRemove(ctx context.Context, from peer.Identity, payload []byte) ([]byte, error) {
	var r removal
	if err := json.Unmarshal(payload, &r); err != nil || r.NodeID != from.NodeID {
		return nil, errors.New("the request cannot be read, or is not about its sender")
	}
	if err := c.waitServing(ctx); err != nil {
		return nil, err
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

// poll waits until something that tells nobody when it changes holds.
func poll(ctx context.Context, holds func() bool) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
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
	var known *job.Member
	c.cfg.State.Read(func(l *job.Live) { known = l.Member(id) })
	if known == nil {
		return MemberStatus{}, refuse(job.CodeNotFound, fmt.Sprintf("there is no member %q", id), "a new member is added with `lancemaster cluster add`")
	}
	if address == "" {
		address = c.address(id)
	}
	if refusal := c.checkAddress(ctx, address); refusal != nil {
		return MemberStatus{}, refusal
	}
	other, err := c.candidate(ctx, id, address, known)
	if err != nil {
		return MemberStatus{}, err
	}
	servers := c.cfg.Raft.Servers()
	member := slices.ContainsFunc(servers, func(s raftnode.Server) bool { return s.ID == id })
	if other.InstanceID == known.InstanceID {
		if member {
			return MemberStatus{}, refuse(job.CodeAlreadyExists, fmt.Sprintf("%s answers with its registered disk; there is nothing to replace", id), "see `lancemaster cluster status`")
		}
		return c.takeIn(ctx, actor, job.PutMember{NodeID: id, InstanceID: other.InstanceID, Address: address})
	}
	if member {
		if refusal := c.keepsQuorum(servers, id); refusal != nil {
			return MemberStatus{}, refusal
		}
		// Out first: the votes of the old disk must not count for the new one.
		if err := c.cfg.Raft.RemoveServer(ctx, id); err != nil {
			return MemberStatus{}, journalError(err)
		}
	}
	return c.takeIn(ctx, actor, job.PutMember{NodeID: id, InstanceID: other.InstanceID, Address: address, Replaces: known.InstanceID})
}

// TransferLeader hands the leadership to a member, or to the one whose log is most complete, and
// returns who leads then.
func (c *Cluster) TransferLeader(ctx context.Context, _, id string) (string, error) {
	ctx, end, err := c.one(ctx)
	if err != nil {
		return "", err
	}
	defer end()
	return c.transfer(ctx, id)
}

func (c *Cluster) transfer(ctx context.Context, id string) (string, error) {
	servers := c.cfg.Raft.Servers()
	if id != "" {
		i := slices.IndexFunc(servers, func(s raftnode.Server) bool { return s.ID == id })
		switch {
		case id == c.cfg.NodeID:
			return id, nil
		case i < 0:
			return "", refuse(job.CodeNotFound, fmt.Sprintf("there is no member %q", id), "see `lancemaster cluster status`")
		case !servers[i].Voter:
			return "", refuse(job.CodeInvalid, fmt.Sprintf("%s does not vote yet", id), "wait until it has caught up; see `lancemaster cluster status`")
		case !c.reachable(id):
			return "", refuse(job.CodeUnavailable, fmt.Sprintf("%s is not reachable", id), "choose another member, or none to take the best")
		}
	}
	if !slices.ContainsFunc(servers, func(s raftnode.Server) bool { return s.Voter && s.ID != c.cfg.NodeID && c.reachable(s.ID) }) {
		return "", refuse(job.CodeUnavailable, "no other voting member is reachable", "see `lancemaster cluster status`")
	}
	if err := c.cfg.Raft.TransferLeadershipTo(ctx, id); err != nil {
		if errors.Is(err, raftnode.ErrNotLeader) {
			return "", fmt.Errorf("%w: %w", job.ErrNotAppended, err)
		}
		return "", refuse(job.CodeUnavailable, fmt.Sprintf("the leadership was not handed over: %v", err), "see `lancemaster cluster status`, and try again")
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

// HandOver gives the leadership to a live peer before this node stops, where it leads and there is
// one. It tries once.
func (c *Cluster) HandOver(ctx context.Context) error {
	if _, leads := c.cfg.Raft.Term(); !leads {
		return nil
	}
	if !slices.ContainsFunc(c.cfg.Raft.Servers(), func(s raftnode.Server) bool { return s.Voter && s.ID != c.cfg.NodeID && c.reachable(s.ID) }) {
		return nil
	}
	next, err := c.transfer(ctx, "")
	if err != nil {
		return err
	}
	c.log.Info("the leadership was handed over before stopping", "to", next)
	return nil
}

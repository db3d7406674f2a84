package raftnode

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// join adds a node with an empty disk to the transports of a cluster and starts it.
func (c *cluster) join(t *testing.T) int {
	t.Helper()
	i := len(c.nodes)
	_, below := raft.NewInmemTransportWithTimeout("", time.Second)
	fsm := &recorder{}
	config, _ := testConfig(t, fmt.Sprintf("m%d", i+1), t.TempDir(), fsm)
	steady(&config)
	config.NewTransport = func() (raft.Transport, error) { return below, nil }
	n := must(New(config))(t)
	t.Cleanup(func() { stop(t, n) })
	c.nodes, c.fsms, c.transports = append(c.nodes, n), append(c.fsms, fsm), append(c.transports, below)
	c.connect(i)
	ok(t, n.Start())
	return i
}

func (c *cluster) address(i int) string { return string(c.transports[i].LocalAddr()) }

// change makes a change of members on whoever leads, trying again while it certainly was not made.
func (c *cluster) change(t *testing.T, change func(lead *Node) error) {
	t.Helper()
	for {
		err := change(c.nodes[c.leader(t)])
		if err == nil {
			return
		}
		if !errors.Is(err, ErrNotAppended) || errors.Is(err, ErrNotMember) {
			t.Fatal(err)
		}
	}
}

func voters(n *Node) (ids []string) {
	for _, s := range n.Servers() {
		if s.Voter {
			ids = append(ids, s.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

func TestMembersComeAndGo(t *testing.T) {
	t.Parallel()
	c := startCluster(t, nil)
	c.propose(t, "x")
	i := c.join(t)
	id := c.nodes[i].config.ID
	c.change(t, func(n *Node) error { return n.AddNonvoter(within(t), id, c.address(i)) })
	eventually(t, "the new member does not follow", func() bool { return slices.Equal(c.fsms[i].applied(), []string{"x"}) })
	lead := c.nodes[c.leader(t)]
	if got := voters(lead); !slices.Equal(got, []string{"m1", "m2", "m3"}) {
		t.Errorf("%v vote", got)
	}
	if s := lead.Stats(); s.Members != 4 || s.Voters != 3 {
		t.Errorf("%+v", s)
	}
	if err := lead.TransferLeadershipTo(within(t), id); err == nil || !strings.Contains(err.Error(), "no vote") {
		t.Errorf("the leadership was given to a member without a vote: %v", err)
	}
	c.change(t, func(n *Node) error { return n.AddVoter(within(t), id, c.address(i)) })
	last := c.nodes[c.leader(t)].Stats().LastLogIndex
	c.change(t, func(n *Node) error { return n.AddVoter(within(t), id, c.address(i)) })
	c.change(t, func(n *Node) error { return n.AddNonvoter(within(t), id, c.address(i)) })
	if got := c.nodes[c.leader(t)]; got.Stats().LastLogIndex > last+3 || len(voters(got)) != 4 {
		t.Errorf("saying it again has changed something: %v vote", voters(got))
	}
	c.change(t, func(n *Node) error { return n.Demote(within(t), id) })
	if got := voters(c.nodes[c.leader(t)]); len(got) != 3 {
		t.Errorf("%v vote", got)
	}
	c.change(t, func(n *Node) error { return n.RemoveServer(within(t), id) })
	if got := c.nodes[c.leader(t)].Servers(); len(got) != 3 {
		t.Errorf("the members are %v", got)
	}
}

func TestChangesThatAreRefused(t *testing.T) {
	t.Parallel()
	c := startCluster(t, nil)
	lead := c.nodes[c.leader(t)]
	ctx := within(t)
	for name, test := range map[string]struct {
		err  error
		want error
	}{
		"no such member": {lead.RemoveServer(ctx, "m9"), ErrNotMember},
		"no such voter":  {lead.Demote(ctx, "m9"), ErrNotMember},
		"not appended":   {lead.AddVoter(ctx, "m9", c.address(0)), ErrNotAppended},
		"no address":     {lead.AddVoter(ctx, "m9", ""), ErrNotAppended},
		"a follower": {c.nodes[slices.IndexFunc(c.nodes, func(n *Node) bool { return n != lead })].
			RemoveServer(ctx, "m1"), ErrNotLeader},
		"to a stranger": {lead.TransferLeadershipTo(ctx, "m9"), ErrNotMember},
	} {
		if !errors.Is(test.err, test.want) || (strings.HasPrefix(name, "not") && !errors.Is(test.err, ErrNotAppended)) {
			t.Errorf("%s: %v", name, test.err)
		}
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if err := lead.RemoveServer(gone, lead.config.ID); !errors.Is(err, ErrNotAppended) {
		t.Errorf("nobody waits: %v", err)
	}
	config, _ := testConfig(t, "m1", t.TempDir(), &recorder{})
	single := startSingle(t, config)
	for _, err := range []error{single.RemoveServer(ctx, "m1"), single.Demote(ctx, "m1")} {
		if !errors.Is(err, ErrLastVoter) || !errors.Is(err, ErrNotAppended) {
			t.Errorf("the last voter: %v", err)
		}
	}
	ok(t, single.TransferLeadershipTo(ctx, "m1")) // it leads, as is wanted
	stop(t, single)
	if err := single.RemoveServer(ctx, "m1"); !errors.Is(err, ErrStopped) || !errors.Is(err, ErrNotAppended) {
		t.Errorf("stopped: %v", err)
	}
}

// A change that does not get through keeps the next out, and its outcome is open.
func TestOneChangeAtATime(t *testing.T) {
	t.Parallel()
	c := startCluster(t, nil)
	i := c.leader(t)
	lead := c.nodes[i]
	// A lease long enough that it leads for a while without the others.
	c.cut(i)
	ctx, cancel := context.WithTimeout(within(t), 50*time.Millisecond)
	defer cancel()
	err := lead.RemoveServer(ctx, c.nodes[(i+1)%3].config.ID)
	if err == nil || errors.Is(err, ErrNotAppended) {
		t.Fatalf("cut off: %v", err)
	}
	err = lead.AddVoter(within(t), "m9", "elsewhere")
	if !errors.Is(err, ErrNotAppended) || (!errors.Is(err, ErrChanging) && !errors.Is(err, ErrNotLeader)) {
		t.Errorf("while another is under way: %v", err)
	}
	// The future's goroutine has an end too: shutdown, in cleanup, waits for it.
}

func TestLeaderRemovesItself(t *testing.T) {
	t.Parallel()
	c := startCluster(t, nil)
	i := c.propose(t, "x")
	old := c.nodes[i]
	ok(t, old.RemoveServer(within(t), old.config.ID))
	next := c.leader(t, i)
	if got := c.nodes[next].Servers(); len(got) != 2 || slices.Contains(voters(c.nodes[next]), old.config.ID) {
		t.Errorf("the members are %v", got)
	}
	if _, leads := old.Term(); leads {
		t.Error("the removed member leads")
	}
	c.propose(t, "y")
	// It stays up, knows that it is out, and does not campaign.
	if got := old.Servers(); len(got) != 2 {
		t.Errorf("the removed member knows the members as %v", got)
	}
	if s := old.Stats(); s.State != raft.Follower.String() {
		t.Errorf("%+v", s)
	}
}

// A member that was down when it was removed comes back with its old list and campaigns. It wins no
// vote and raises no term: the leader stays.
func TestRemovedMemberDoesNotDisturb(t *testing.T) {
	t.Parallel()
	c := startCluster(t, nil)
	lead := c.leader(t)
	out := (lead + 1) % 3
	stop(t, c.nodes[out])
	c.change(t, func(n *Node) error { return n.RemoveServer(within(t), c.nodes[out].config.ID) })
	lead = c.leader(t, out)
	term, _ := c.nodes[lead].Term()
	_, _, changed := c.nodes[lead].Leadership()

	config := c.nodes[out].config
	config.Disk, config.MemberAddress = nil, nil
	address, below := raft.NewInmemTransportWithTimeout(raft.ServerAddress(c.address(out)), time.Second)
	asked := make(chan struct{}, 100)
	config.NewTransport = func() (raft.Transport, error) { return campaigning{below, asked}, nil }
	back := must(New(config))(t)
	t.Cleanup(func() { stop(t, back) })
	// One way only: the leader that removed it would still tell it, once.
	for i, other := range c.transports {
		if i != out {
			below.Connect(other.LocalAddr(), other)
		}
	}
	ok(t, back.Start())
	if got := back.Servers(); len(got) != 3 {
		t.Fatalf("%s at %s has the list %v", config.ID, address, got)
	}
	// It asks both others, several times.
	for range 6 {
		select {
		case <-asked:
		case <-time.After(patience):
			t.Fatalf("the removed member does not campaign: %+v", back.Stats())
		}
	}
	select {
	case <-changed:
		t.Error("the leader has lost its term")
	default:
	}
	if now, leads := c.nodes[lead].Term(); !leads || now != term {
		t.Errorf("term %d has become %d, led %v", term, now, leads)
	}
}

// campaigning tells of requests for votes.
type campaigning struct {
	*raft.InmemTransport
	asked chan struct{}
}

func (c campaigning) RequestPreVote(id raft.ServerID, target raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	err := c.InmemTransport.RequestPreVote(id, target, args, resp)
	if err == nil {
		c.asked <- struct{}{}
	}
	return err
}

func TestTransferToNamedMember(t *testing.T) {
	t.Parallel()
	c := startCluster(t, nil)
	for range 3 {
		eventually(t, "the leadership does not get to the named member", func() bool {
			lead := c.leader(t)
			to := (lead + 1) % 3
			if err := c.nodes[lead].TransferLeadershipTo(within(t), c.nodes[to].config.ID); err != nil {
				t.Log(err)
				return false
			}
			return c.leader(t) == to
		})
	}
}

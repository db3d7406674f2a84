package raftnode

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/lancemaster/lancemaster/internal/peer"
)

// These tests run nodes over identified connections, as the daemon does.

// world is who is who, as every node knows it.
type world struct {
	mu        sync.Mutex
	addresses map[string]string
}

func (w *world) address(id string) (string, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	address, ok := w.addresses[id]
	return address, ok
}

func (w *world) move(id, address string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.addresses[id] = address
}

// identified makes the endpoint of a node of the cluster's incarnation, and tells everybody where it is.
func (w *world) identified(t *testing.T, id string, incarnation int64, log *slog.Logger) *peer.Endpoint {
	t.Helper()
	self := peer.Identity{ClusterID: 1, Incarnation: incarnation, NodeID: id, InstanceID: "disk-" + id, RegisteredAt: 1, Level: 1, MaxLevel: 1}
	known := func(nodeID string) (string, uint64, bool) { return "disk-" + nodeID, 1, true }
	e, err := peer.Listen(peer.Config{
		Bind: "127.0.0.1:0", Self: func() peer.Identity { return self }, Logger: log,
		Judge: func(kind peer.Kind, other peer.Identity) (bool, error) {
			return peer.Decide(kind, peer.Check(self, known, 100, other))
		},
	})
	ok(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := e.Close(ctx); err != nil {
			t.Errorf("close of %s: %v", id, err)
		}
	})
	w.move(id, e.Addr())
	return e
}

// node makes a node over identified connections. Its endpoint outlives it.
func (w *world) node(t *testing.T, id, dir string, incarnation int64, fsm raft.FSM) *Node {
	t.Helper()
	config, _ := testConfig(t, id, dir, fsm)
	steady(&config)
	config.BindAddress = ""
	config.Stream = w.identified(t, id, incarnation, config.Logger).RaftStream()
	config.MemberAddress = w.address
	n := must(New(config))(t)
	t.Cleanup(func() { stop(t, n) })
	return n
}

func TestMembersOverIdentifiedConnections(t *testing.T) {
	t.Parallel()
	w := &world{addresses: map[string]string{}}
	c := &cluster{}
	var members []Server
	dirs := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	for i, dir := range dirs {
		fsm := &recorder{}
		n := w.node(t, fmt.Sprint("m", i+1), dir, 1, fsm)
		c.nodes, c.fsms = append(c.nodes, n), append(c.fsms, fsm)
		// The list holds what was true at formation and is not any more.
		members = append(members, Server{ID: n.config.ID, Address: fmt.Sprintf("gone-%d.invalid:1", i), Voter: true})
	}
	for _, n := range c.nodes {
		ok(t, n.Bootstrap(members))
		ok(t, n.Start())
	}
	c.propose(t, "x")
	for i, fsm := range c.fsms {
		eventually(t, "a member does not follow", func() bool { return slices.Equal(fsm.applied(), []string{"x"}) })
		eventually(t, "the leader is not known by its plain address", func() bool {
			lead := c.nodes[c.leader(t)]
			id, address := c.nodes[i].Leader()
			return id == lead.config.ID && address == lead.Addr()
		})
	}
	c.transfer(t)

	// All come back at other addresses. Their votes were for members, not for addresses.
	for _, n := range c.nodes {
		stop(t, n)
	}
	var votes []string
	for i, dir := range dirs {
		config, fsm := c.nodes[i].config, &recorder{}
		disk := must(openStorage(config, newRaftLogger(config.Logger)))(t)
		if vote, err := disk.stable.Get(keyVoteCandidate); err == nil {
			votes = append(votes, string(vote))
		}
		ok(t, disk.close())
		c.fsms[i] = fsm
		c.nodes[i] = w.node(t, config.ID, dir, 1, fsm)
	}
	for _, vote := range votes {
		id, address, found := strings.Cut(vote, "@")
		if _, _, err := net.SplitHostPort(address); !found || !strings.HasPrefix(id, "m") || err != nil {
			t.Errorf("a vote for %q does not say for whom", vote)
		}
	}
	if len(votes) < 2 {
		t.Errorf("only %d have voted", len(votes))
	}
	for _, n := range c.nodes {
		ok(t, n.Start())
	}
	c.propose(t, "y")
	for _, fsm := range c.fsms {
		eventually(t, "a member does not follow", func() bool { return slices.Contains(fsm.applied(), "y") })
	}
}

// The members that a recovered cluster has lost come back, elect a leader among themselves, and win
// terms that the recovered node has never heard of. They do not get to it.
func TestMembersOfBeforeARecoveryAreKeptOut(t *testing.T) {
	t.Parallel()
	w := &world{addresses: map[string]string{}}
	c := &cluster{}
	var members []Server
	dirs := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	for i, dir := range dirs {
		fsm := &recorder{}
		n := w.node(t, fmt.Sprint("m", i+1), dir, 1, fsm)
		c.nodes, c.fsms = append(c.nodes, n), append(c.fsms, fsm)
		members = append(members, Server{ID: n.config.ID, Address: n.Addr(), Voter: true})
	}
	for _, n := range c.nodes {
		ok(t, n.Bootstrap(members))
		ok(t, n.Start())
	}
	c.propose(t, "a")
	// Two are enough to commit it, and the one that is recovered may be the third.
	eventually(t, "the first member does not follow", func() bool { return slices.Contains(c.fsms[0].applied(), "a") })
	for _, n := range c.nodes {
		stop(t, n)
	}

	config, _ := restoring(t, dirs[0])
	ok(t, Recover(within(t), config, members[:1]))
	config, fsm := restoring(t, dirs[0])
	steady(&config)
	config.BindAddress = ""
	config.Stream = w.identified(t, "m1", 2, config.Logger).RaftStream()
	survivor := startSingle(t, config)
	term := waitLead(t, survivor)
	_, _, changed := survivor.Leadership()

	lost := &cluster{fsms: []*recorder{{}, {}}}
	for i, id := range []string{"m2", "m3"} {
		n := w.node(t, id, dirs[i+1], 1, lost.fsms[i])
		lost.nodes = append(lost.nodes, n)
		ok(t, n.Start())
	}
	// Terms of their own, higher and higher.
	for range 2 {
		lost.propose(t, "b")
		lost.transfer(t)
	}
	if theirs, _ := lost.nodes[lost.leader(t)].Term(); theirs <= term {
		t.Fatalf("the others lead in term %d only", theirs)
	}
	select {
	case <-changed:
		t.Error("the recovered node has lost its term")
	default:
	}
	propose(t, survivor, "d")
	if got := fsm.applied(); !slices.Equal(got, []string{"a", "d"}) {
		t.Errorf("applied are %q", got)
	}
}

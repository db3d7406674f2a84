package raftnode

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// sendHeartbeat sends a node a heartbeat of a leader of that term, as another member would.
func sendHeartbeat(n *Node, term uint64) error {
	stream, err := listen("127.0.0.1:0", "")
	if err != nil {
		return err
	}
	other := raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: stream, MaxPool: 1, Timeout: patience, Logger: newRaftLogger(n.config.Logger),
	})
	heartbeat := &raft.AppendEntriesRequest{
		RPCHeader: raft.RPCHeader{
			ProtocolVersion: raft.ProtocolVersionMax, ID: []byte("m2"), Addr: []byte(stream.Addr().String()),
		},
		Term: term,
	}
	var answer raft.AppendEntriesResponse
	err = other.AppendEntries(raft.ServerID(n.config.ID), raft.ServerAddress(n.Addr()), heartbeat, &answer)
	return errors.Join(err, other.Close())
}

// depose makes a node see a newer leader, without waiting for an answer.
func depose(t *testing.T, n *Node) {
	t.Helper()
	term, _ := n.Term()
	done := make(chan struct{})
	go func() {
		defer close(done)
		// A node whose disk fails meanwhile does not answer.
		_ = sendHeartbeat(n, term+1)
	}()
	t.Cleanup(func() { <-done })
}

// A leader that a heartbeat has just deposed writes nothing in the newer term. With the fast path of
// the library's transport it does: the command below is appended, and even answered, in a term that
// this node never won.
func TestHeartbeatDoesNotDeposeBehindRaftsBack(t *testing.T) {
	t.Parallel()
	config, _ := testConfig(t, "m1", t.TempDir(), &recorder{})
	// Long timeouts: an idle leader looks at its own state once a lease.
	config.HeartbeatTimeout, config.ElectionTimeout, config.LeaderLease = time.Second, time.Second, time.Second
	n := startSingle(t, config)
	term := waitLead(t, n)
	propose(t, n, "before")
	ok(t, sendHeartbeat(n, term+1))
	_, index, err := n.Propose(within(t), []byte("after"))
	if !errors.Is(err, ErrNotAppended) {
		t.Fatalf("a deposed leader took a command (index %d): %v", index, err)
	}
	if got, leads := n.Term(); leads || got != term+1 {
		t.Errorf("term %d, leads %v", got, leads)
	}
	var entry raft.Log
	for i := must(n.logs.FirstIndex())(t); i <= must(n.logs.LastIndex())(t); i++ {
		ok(t, n.logs.GetLog(i, &entry))
		if entry.Term > term {
			t.Errorf("entry %d is written in term %d, which m1 never won", i, entry.Term)
		}
	}
}

// probe is a transport that counts what must not be used.
type probe struct {
	*raft.InmemTransport
	handlers, pipelines *atomic.Int64
}

func (p probe) SetHeartbeatHandler(func(raft.RPC)) { p.handlers.Add(1) }

func (p probe) AppendEntriesPipeline(raft.ServerID, raft.ServerAddress) (raft.AppendPipeline, error) {
	p.pipelines.Add(1)
	return nil, raft.ErrPipelineReplicationNotSupported
}

func TestShortcutsAreNeverUsed(t *testing.T) {
	t.Parallel()
	var handlers, pipelines atomic.Int64
	c := startCluster(t, func(below *raft.InmemTransport) raft.Transport {
		return probe{below, &handlers, &pipelines}
	})
	for i := range 10 {
		c.propose(t, fmt.Sprint(i))
	}
	if handlers.Load() != 0 || pipelines.Load() != 0 {
		t.Errorf("%d heartbeat handlers installed, %d pipelines opened", handlers.Load(), pipelines.Load())
	}
}

// onlyRequired hides a transport's optional interfaces.
type onlyRequired struct{ raft.Transport }

func TestQuietKeepsWhatTheTransportCanDo(t *testing.T) {
	_, below := raft.NewInmemTransport("")
	if _, ok := quiet(below).(raft.WithPreVote); !ok {
		t.Error("pre-votes are lost")
	}
	if _, ok := quiet(onlyRequired{below}).(raft.WithPreVote); ok {
		t.Error("pre-votes are promised for a transport that has none")
	}
	ok(t, quiet(onlyRequired{below}).Close())
	ok(t, quiet(below).Close())
}

// Three members over TCP: names resolved at each dial, addresses from the configuration, and nothing
// left open at the end, on either side.
func TestThreeMembersOverTCP(t *testing.T) {
	t.Parallel()
	var nodes []*Node
	var fsms []*recorder
	var members []Server
	configured := map[string]string{}
	for i := range 3 {
		id, fsm := fmt.Sprint("m", i+1), &recorder{}
		config, _ := testConfig(t, id, t.TempDir(), fsm)
		steady(&config)
		config.MemberAddress = func(id string) (string, bool) { a, ok := configured[id]; return a, ok }
		n := must(New(config))(t)
		t.Cleanup(func() { stop(t, n) })
		_, port, err := net.SplitHostPort(n.Addr())
		ok(t, err)
		tcpOf(t, n).advertise = advertised("localhost:" + port)
		configured[id] = n.Addr()
		nodes, fsms = append(nodes, n), append(fsms, fsm)
		// The list holds what was true at formation and is not any more.
		members = append(members, Server{ID: id, Address: fmt.Sprintf("gone-%d.invalid:1", i), Voter: true})
	}
	for _, n := range nodes {
		ok(t, n.Bootstrap(members))
		ok(t, n.Start())
	}
	c := &cluster{nodes: nodes, fsms: fsms}
	c.propose(t, "x")
	for i, fsm := range fsms {
		eventually(t, "a member does not follow", func() bool { return slices.Equal(fsm.applied(), []string{"x"}) })
		eventually(t, "the leader is not known", func() bool {
			lead := nodes[c.leader(t)]
			id, address := nodes[i].Leader()
			return id == lead.config.ID && address == lead.Addr()
		})
	}
}

// tcpOf returns the node's own TCP stream.
func tcpOf(t *testing.T, n *Node) *tcpStream {
	t.Helper()
	stream, ok := n.stream.(*tcpStream)
	if !ok {
		t.Fatalf("the stream is a %T", n.stream)
	}
	return stream
}

func TestStreamClosesEverything(t *testing.T) {
	a, b := must(listen("127.0.0.1:0", ""))(t), must(listen("127.0.0.1:0", "other:9"))(t)
	if b.Addr().String() != "other:9" || b.Addr().Network() != "tcp" {
		t.Errorf("advertised %s", b.Addr())
	}
	out := must(a.Dial(raft.ServerAddress(b.listener.Addr().String()), patience))(t)
	in := must(b.Accept())(t)
	again := must(a.Dial(raft.ServerAddress(b.listener.Addr().String()), patience))(t)
	ok(t, again.Close())
	if len(a.conns) != 1 {
		t.Errorf("%d connections are known", len(a.conns))
	}
	ok(t, b.Close())
	ok(t, b.Close())
	if _, err := in.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("an incoming connection after the end: %v", err)
	}
	if _, err := b.Dial(raft.ServerAddress(a.listener.Addr().String()), patience); err == nil {
		t.Error("a dial after the end has passed")
	}
	ok(t, a.Close())
	if _, err := out.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("an outgoing connection after the end: %v", err)
	}
}

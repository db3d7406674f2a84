package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/peer"
)

// names is the name service of the tests with real connections: each machine's address to where it
// listens now.
type names struct {
	mu sync.Mutex
	at map[string]string
}

func (r *names) dial(ctx context.Context, network, address string) (net.Conn, error) {
	r.mu.Lock()
	at, known := r.at[address]
	r.mu.Unlock()
	if !known {
		return nil, errors.New("no such host")
	}
	var dialer net.Dialer
	return dialer.DialContext(ctx, network, at)
}

// startReal starts a node with an endpoint of its own on the loopback interface.
func (n *node) startReal(r *names) *node {
	n.w.t.Helper()
	c := n.make()
	listener, err := (&net.ListenConfig{}).Listen(n.w.t.Context(), "tcp", "127.0.0.1:0")
	ok(n.w.t, err)
	n.endpoint, err = peer.Listen(peer.Config{
		Advertise: n.address, Listener: listener, Dial: r.dial,
		Self: c.Identity, Judge: c.Judge, Handlers: Handlers(func() *Cluster { return c }),
	})
	ok(n.w.t, err)
	r.mu.Lock()
	r.at[n.address] = listener.Addr().String()
	r.mu.Unlock()
	go func(stream interface{ Accept() (net.Conn, error) }) { // ends when the endpoint is closed
		for {
			conn, err := stream.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}(n.endpoint.RaftStream())
	n.w.mu.Lock()
	n.runs, n.up = true, true
	n.w.mu.Unlock()
	ok(n.w.t, c.Start(n.endpoint, func(err error) { n.fatal <- err }))
	return n
}

func TestRealConnectionsFormOneClusterInAnyOrder(t *testing.T) {
	for _, order := range orders {
		t.Run(fmt.Sprint(order), func(t *testing.T) {
			w, r := newWorld(t), &names{at: map[string]string{}}
			defer w.stopAll()
			nodes := w.founders("a", "b", "c")
			for _, i := range order[:2] {
				nodes[i].startReal(r)
			}
			missing := nodes[order[2]]
			for _, i := range order[:2] {
				w.until("the missing member to be named", func() bool {
					return strings.Contains(nodes[i].Waiting(), fmt.Sprintf("member %s at %s: not sent: no such host", missing.id, missing.address))
				})
			}
			missing.startReal(r)
			w.until("a cluster of three", formed(nodes...))
			w.checkFormed(nodes...)
		})
	}
}

func TestRealConnectionsOfAWholeLife(t *testing.T) {
	w, r := newWorld(t), &names{at: map[string]string{}}
	defer w.stopAll()
	nodes := w.founders("a", "b", "c")
	for _, n := range nodes {
		n.startReal(r)
	}
	w.until("a cluster of three", formed(nodes...))

	// All restart; nothing is formed anew.
	for i, n := range nodes {
		nodes[i] = n.rebooted().startReal(r)
	}
	w.until("the cluster after the restart", formed(nodes...))
	w.checkFormed(nodes...)
	a := w.nodes[w.leaderID()]

	// The disk of another member is lost.
	lost := nodes[1]
	if lost.id == a.id {
		lost = nodes[2]
	}
	lost.stop()
	wiped := w.machine(lost.id).startReal(r)
	w.until("the empty disk to be refused", func() bool {
		return strings.Contains(wiped.Waiting(), "run `lancemaster cluster replace "+lost.id+"`")
	})
	if conn, err := a.endpoint.RaftStream().Dial("b@b.example:9010", time.Second); lost.id == "b" && err == nil {
		_ = conn.Close()
		t.Error("an empty disk under an old id talks to Raft")
	}
	w.until("the others to have a leader", func() bool { a = w.nodes[w.leaderID()]; return a != nil })
	_, err := a.ReplaceMember(within(t), "ops", lost.id, "")
	ok(t, err)
	w.until("the replaced member to take part", func() bool { return wiped.Waiting() == "" && len(wiped.Servers()) == 3 })

	// A fourth joins, and the leader leaves.
	d := w.machine("d")
	d.join, d.clusterID = true, w.state.Cluster().ClusterID
	d.startReal(r)
	_, err = a.AddMember(within(t), "ops", "d", d.address)
	ok(t, err)
	w.until("d to take part", func() bool { return d.Waiting() == "" && len(d.Servers()) == 4 && a.reachable("d") })
	w.until("d to vote", func() bool { ok(t, a.tend(within(t))); return len(w.voters()) == 4 })
	w.pump()
	ok(t, a.RemoveMember(within(t), "ops", a.id))
	next := w.nodes[w.leaderID()]
	if next == a || w.state.Member(a.id) != nil || len(next.Servers()) != 3 {
		t.Errorf("%s leads, %v is registered, the members are %v", next.id, w.state.Member(a.id), next.Servers())
	}
	conn, err := a.endpoint.RaftStream().Dial("d@d.example:9010", 5*time.Second)
	if refusal, refused := errors.AsType[*peer.Refusal](err); !refused || refusal.Code != peer.CodeUnknownMember {
		t.Errorf("a removed member dials for Raft: %v, %v", conn, err)
	}
	refusedWith(t, next.RemoveMember(within(t), "ops", a.id), job.CodeNotFound)
}

// Two clusters do not come of one list, and not of two lists that overlap.
func TestRealConnectionsOfOverlappingLists(t *testing.T) {
	w, r := newWorld(t), &names{at: map[string]string{}}
	defer w.stopAll()
	nodes := w.founders("a", "b", "c")
	nodes[2].founders = append([]Member{{"0", "0.example:9010"}}, nodes[2].founders...)
	for _, n := range nodes {
		n.startReal(r)
	}
	for _, n := range nodes {
		w.until(n.id+" to say that the lists differ", func() bool { return strings.Contains(n.Waiting(), "make cluster.members the same on all") })
	}
	again := nodes[2].rebooted()
	again.founders = nodes[0].founders
	nodes[2] = again.startReal(r)
	w.until("a cluster of three", formed(nodes...))
	w.checkFormed(nodes...)
}

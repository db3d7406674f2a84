package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/peer"
)

var errLost = &peer.CallError{Sent: true, Err: errors.New("the answer was lost")}

// voters are the members of the leader's Raft configuration that vote.
func (w *world) voters() (ids []string) {
	for _, s := range w.nodes[w.leaderID()].Servers() {
		if s.Voter {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

func TestOneGrowsToThree(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a := w.cluster("a")[0]
		for _, id := range []string{"b", "c"} {
			n := w.joiner(id)
			w.pass(time.Second)
			if why := n.Waiting(); !strings.Contains(why, fmt.Sprintf("to be added to cluster %d: run `lancemaster cluster add %s %s.example:9010`", a.Identity().ClusterID, id, id)) {
				t.Errorf("%s waits for %q", id, why)
			}
			m, err := a.AddMember(within(t), "ops", id, n.address)
			ok(t, err)
			if m.NodeID != id || m.Voter || m.InstanceID != n.instance || m.Address != n.address {
				t.Errorf("added %+v", m)
			}
			w.until(id+" to take part", func() bool { return n.Waiting() == "" && len(n.Servers()) > 1 })
			if got := w.state.Member(id); got == nil || got.AddedBy != "ops" || got.InstanceID != n.instance {
				t.Errorf("registered %+v", got)
			}
			w.pass(2 * time.Second)
			if member, err := n.Judge(peer.KindRaft, a.Identity()); !member || err != nil {
				t.Errorf("%s takes a for %v, %v", id, member, err)
			}
		}
	})
}

// Each step of adding may fail, before or after it was done: the command is run again and completes.
func TestAddingAgainAfterAnyFailure(t *testing.T) {
	for _, step := range []string{"propose PUT_MEMBER", "call join b", "standing", "nonvoter b"} {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s %v", step, after), func(t *testing.T) {
				bubble(t, func(t *testing.T, w *world) {
					a, b := w.cluster("a")[0], w.joiner("b")
					w.failOnce(step, after, errLost)
					if _, err := a.AddMember(within(t), "ops", "b", b.address); err == nil {
						t.Fatal("no error")
					}
					if step == "call join b" && after {
						b = b.restart()
					}
					w.pass(time.Second)
					_, err := a.AddMember(within(t), "ops", "b", b.address)
					ok(t, err)
					w.until("b to take part", func() bool { return b.Waiting() == "" && len(b.Servers()) == 2 })
					if got := w.state.Member("b"); got == nil || got.InstanceID != b.instance || b.standing.RegisteredAt != got.RegisteredAt {
						t.Errorf("registered %+v, b has %+v", got, b.standing)
					}
					// And once more, when all is done, changes nothing.
					before := w.state.Position
					_, err = a.AddMember(within(t), "ops", "b", b.address)
					ok(t, err)
					if w.state.Position != before || len(a.Servers()) != 2 {
						t.Error("adding a member again changed something")
					}
				})
			})
		}
	}
}

func TestRefusedToAdd(t *testing.T) {
	for name, tt := range map[string]struct {
		change  func(w *world, b *node) // before b starts
		id      string
		address string
		code    job.Code
		texts   []string
	}{
		"nobody there": {
			id: "d", address: "d.example:9010", code: job.CodeUnavailable,
			texts: []string{"no master d answers at d.example:9010", "connection refused", "cluster.join: true"},
		},
		"another node there": {id: "d", address: "b.example:9010", code: job.CodeUnavailable, texts: []string{"leads to node b, not to node d"}},
		"no id":              {id: "", address: "b.example:9010", code: job.CodeInvalid, texts: []string{"no node id"}},
		"no port":            {id: "b", address: "b.example", code: job.CodeInvalid, texts: []string{`"b.example" is not host:port`}},
		"port 0":             {id: "b", address: "b.example:0", code: job.CodeInvalid, texts: []string{"is not host:port"}},
		"no host":            {id: "b", address: ":9010", code: job.CodeInvalid, texts: []string{"is not host:port"}},
		"any host":           {id: "b", address: "0.0.0.0:9010", code: job.CodeInvalid, texts: []string{"an address to listen on"}},
		"loopback":           {id: "b", address: "127.0.0.1:9010", code: job.CodeInvalid, texts: []string{"127.0.0.1:9010 is a loopback address"}},
		"localhost":          {id: "b", address: "LocalHost:9010", code: job.CodeInvalid, texts: []string{"is a loopback address"}},
		"IPv6 loopback":      {id: "b", address: "[::1]:9010", code: job.CodeInvalid, texts: []string{"is a loopback address"}},
		"a name of loopback": {id: "b", address: "looped.example:9010", code: job.CodeInvalid, texts: []string{"is a loopback address here", "/etc/hosts"}},
		"taken":              {id: "b", address: "a.example:9010", code: job.CodeInvalid, texts: []string{"a.example:9010 is the address of member a"}},
		"disk of another cluster": {
			change: func(_ *world, b *node) { b.voted = 4 },
			id:     "b", address: "b.example:9010", code: job.CodeInUse, texts: []string{"the disk of b belongs to cluster", "empty data directory"},
		},
		"taken in elsewhere": {
			change: func(_ *world, b *node) {
				b.clusterID, b.standing = 77, Standing{ClusterID: 77, Incarnation: 1, RegisteredAt: 5}
			},
			id: "b", address: "b.example:9010", code: job.CodeUnavailable, texts: []string{"node b belongs to cluster 77"},
		},
		"for another cluster": {
			change: func(_ *world, b *node) { b.clusterID = 77 },
			id:     "b", address: "b.example:9010", code: job.CodeInvalid, texts: []string{"b is configured for cluster 77, and this is cluster"},
		},
		"too old": {
			change: func(w *world, b *node) {
				b.maxLevel = 0
			},
			id: "b", address: "b.example:9010", code: job.CodeUnavailable, texts: []string{"reads up to 0"},
		},
		"advertises another address": {
			change: func(_ *world, b *node) {
				// Reached at one address, but says another of itself.
				b.told = "127.0.0.1:9010"
			},
			id: "b", address: "b.example:9010", code: job.CodeInvalid, texts: []string{"b answers at b.example:9010, but tells others to reach it at 127.0.0.1:9010"},
		},
		"founds another": {
			change: func(_ *world, b *node) {
				b.join, b.clusterID = false, 0
				b.founders = []Member{{"b", "b.example:9010"}, {"x", "x.example:9010"}}
			},
			id: "b", address: "b.example:9010", code: job.CodeUnavailable, texts: []string{"b is set to found a cluster with others than a; give it cluster.join: true and cluster.id"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				a := w.cluster("a")[0]
				a.lookup = lookupLooped
				b := w.machine("b")
				b.join, b.clusterID = true, w.state.Cluster().ClusterID
				if tt.change != nil {
					tt.change(w, b)
				}
				b.start()
				w.pass(time.Second)
				_, err := a.AddMember(within(t), "ops", tt.id, tt.address)
				refusedWith(t, err, tt.code, tt.texts...)
				if len(a.Servers()) != 1 {
					t.Error("it was added to the Raft configuration")
				}
			})
		})
	}
}

// Where certificates do not fit, an empty data directory is no help.
func TestTLSThatFailsIsToldWhenAMemberIsTakenIn(t *testing.T) {
	for name, fault := range map[string]error{
		"theirs refuses ours": &peer.CallError{Err: fmt.Errorf("no answer: %w", &net.OpError{Op: "remote error", Err: errors.New("tls: unknown certificate authority")})},
		"ours is of another":  &peer.Refusal{Code: peer.CodeWrongCertificate, Message: "the certificate is of node x"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				a, b := w.cluster("a")[0], w.joiner("b")
				w.pass(time.Second)
				for _, take := range []func() error{
					func() error { _, err := a.AddMember(within(t), "ops", "b", b.address); return err },
					func() error { _, err := a.ReplaceMember(within(t), "ops", "b", ""); return err },
				} {
					w.failOnce("call status b", false, fault)
					err := take()
					refusedWith(t, err, job.CodeUnavailable, "b cannot be talked to at b.example:9010", fault.Error(), "tls.ca_file")
					if strings.Contains(err.Error(), "empty data directory") {
						t.Errorf("it says %v", err)
					}
					_, err = a.AddMember(within(t), "ops", "b", b.address)
					ok(t, err)
				}
			})
		})
	}
}

// lookupLooped resolves one name to the loopback address, and all others elsewhere.
func lookupLooped(_ context.Context, host string) ([]net.IPAddr, error) {
	if host == "looped.example" {
		return []net.IPAddr{{IP: net.IPv4(127, 0, 1, 1)}, {IP: net.IPv6loopback}}, nil
	}
	return []net.IPAddr{{IP: net.IPv4(10, 0, 0, 1)}}, nil
}

func TestAddressesOfOneMachine(t *testing.T) {
	for _, tt := range []struct {
		own, theirs string
		refused     string
	}{
		{"127.0.0.1:9010", "127.0.0.1:9011", ""},
		{"localhost:9010", "[::1]:9011", ""},
		{"127.0.0.1:9010", "10.0.0.2:9010", "this master advertises a loopback address (127.0.0.1:9010)"},
		{"127.0.0.1:9010", "b.example:9010", "this master advertises a loopback address"},
		// Debian maps a machine's own name to 127.0.1.1; others resolve it well.
		{"looped.example:9010", "b.example:9010", ""},
		{"looped.example:9010", "10.0.0.2:9010", ""},
		{"looped.example:9010", "looped.example:9011", ""},
		{"looped.example:9010", "127.0.0.1:9011", "127.0.0.1:9011 is a loopback address"},
		{"10.0.0.1:9010", "looped.example:9011", "looped.example:9011 is a loopback address here"},
		{"10.0.0.1:9010", "unknown.example:9011", ""},
	} {
		w := newWorld(t)
		n := w.machine("a")
		n.address = tt.own
		c := n.make()
		c.lookup = lookupLooped
		refusal := c.checkAddress(within(t), "b", tt.theirs)
		switch {
		case refusal == nil && tt.refused == "":
		case refusal == nil || tt.refused == "" || !strings.Contains(refusal.Message, tt.refused):
			t.Errorf("%s adds %s: %v, want %q", tt.own, tt.theirs, refusal, tt.refused)
		}
	}
}

// A node that was just taken in knows whom the invitation names, as of its own registration. It must
// not believe an older registration that its empty state does not show: a disk that was replaced
// would come back through it.
func TestAnInvitedNodeRefusesReplacedDisks(t *testing.T) {
	w := newWorld(t)
	n := w.machine("d")
	n.join, n.clusterID = true, 7
	n.standing = Standing{ClusterID: 7, Incarnation: 1, RegisteredAt: 50, Instances: map[string]string{"a": "disk-a", "b": "disk-b2", "d": "disk-d"}}
	c := n.make()
	identity := func(id, disk string, at uint64) peer.Identity {
		return peer.Identity{ClusterID: 7, Incarnation: 1, NodeID: id, InstanceID: disk, RegisteredAt: at, Level: 1, MaxLevel: 1}
	}
	for _, tt := range []struct {
		who  peer.Identity
		want bool
	}{
		{identity("a", "disk-a", 2), true},
		{identity("b", "disk-b", 2), false},  // replaced before
		{identity("b", "disk-b2", 40), true}, //
		{identity("b", "disk-b3", 60), true}, // replaced since: it knows better
		{identity("e", "disk-e", 3), false},  // removed before
		{identity("e", "disk-e", 51), true},  // added since
	} {
		if member, err := c.Judge(peer.KindRaft, tt.who); member != tt.want || (err == nil) != tt.want {
			t.Errorf("%+v: %v, %v", tt.who, member, err)
		}
	}
	// While it catches up, its state is older than the invitation, and says less.
	n.follows = true
	for _, command := range []job.Command{job.Form{
		Header:    job.Header{At: 1, Actor: job.ActorSystem},
		ClusterID: 7, Level: 1, Settings: job.DefaultSettings(), Members: []job.Member{
			{NodeID: "a", InstanceID: "disk-a", Address: "a:1"}, {NodeID: "b", InstanceID: "disk-b", Address: "b:1"},
		},
	}} {
		if _, refusal := w.state.Apply(command); refusal != nil {
			t.Fatal(refusal)
		}
	}
	if member, err := c.Judge(peer.KindRaft, identity("b", "disk-b", 1)); member || err == nil {
		t.Error("the replaced disk is let in while the state catches up")
	}
	w.state.Position.Index = 50
	if member, err := c.Judge(peer.KindRaft, identity("b", "disk-b", 1)); !member || err != nil {
		t.Errorf("a state that has caught up does not count: %v", err)
	}
}

func TestInvitations(t *testing.T) {
	leader := peer.Identity{ClusterID: 7, Incarnation: 2, NodeID: "a", InstanceID: "disk-a"}
	good := func() invitation {
		return invitation{ClusterID: 7, Incarnation: 2, RegisteredAt: 9, Instances: map[string]string{"a": "disk-a", "d": "disk-d"}}
	}
	for name, tt := range map[string]struct {
		change func(n *node, in *invitation)
		want   string // empty: accepted
	}{
		"good":                    {func(*node, *invitation) {}, ""},
		"again":                   {func(n *node, in *invitation) { n.standing = Standing(*in); n.voted = 3 }, ""},
		"again with new members":  {func(n *node, in *invitation) { n.standing = Standing(*in); n.standing.Instances = nil }, ""},
		"over a plan":             {func(n *node, _ *invitation) { n.standing = Standing{ClusterID: 3, Incarnation: 1} }, ""},
		"another disk":            {func(_ *node, in *invitation) { in.Instances["d"] = "other" }, "for another node"},
		"another sender":          {func(_ *node, in *invitation) { in.Instances["a"] = "other" }, "for another node"},
		"another cluster than it": {func(_ *node, in *invitation) { in.ClusterID = 8 }, "for another node"},
		"no registration":         {func(_ *node, in *invitation) { in.RegisteredAt = 0 }, "for another node"},
		"no incarnation":          {func(_ *node, in *invitation) { in.Incarnation = 0 }, "for another node"},
		"configured for another":  {func(n *node, _ *invitation) { n.clusterID = 5 }, "d is configured for cluster 5, not 7; correct cluster.id"},
		"with data":               {func(n *node, _ *invitation) { n.voted = 2 }, "d belongs to a cluster already"},
		"a failing disk":          {func(n *node, _ *invitation) { n.w.failOnce("standing", false, errors.New("EIO")) }, "d could not store the invitation; see its log"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newWorld(t).machine("d")
			n.join, n.clusterID = true, 7
			in := good()
			tt.change(n, &in)
			c := n.make()
			err := c.acceptInvitation(leader, in)
			if got := fmt.Sprint(err); tt.want == "" && err != nil || !strings.Contains(got, tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
			if stored := n.standing.RegisteredAt == 9; stored != (tt.want == "") {
				t.Errorf("stored %+v", n.standing)
			}
			if c.hasAccepted() != (tt.want == "") {
				t.Error("the node goes on wrongly")
			}
		})
	}
}

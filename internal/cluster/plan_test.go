package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lancemaster/lancemaster/internal/await"
	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/peer"
)

func TestPlansThatAreRefused(t *testing.T) {
	list := []Member{{"a", "a.example:9010"}, {"b", "b.example:9010"}, {"c", "c.example:9010"}}
	for name, tt := range map[string]struct {
		change func(n *node, from *peer.Identity, p *plan)
		want   string // empty: accepted
	}{
		"good":            {func(*node, *peer.Identity, *plan) {}, ""},
		"again":           {func(n *node, _ *peer.Identity, p *plan) { n.standing = Standing{p.ClusterID, 1, 0, p.Instances} }, ""},
		"another before":  {func(n *node, _ *peer.Identity, _ *plan) { n.standing = Standing{ClusterID: 3, Incarnation: 1} }, ""},
		"configured id":   {func(n *node, _ *peer.Identity, _ *plan) { n.clusterID = 7 }, ""},
		"another id":      {func(n *node, _ *peer.Identity, _ *plan) { n.clusterID = 8 }, "cluster id 7 is not what b is configured for"},
		"no id":           {func(_ *node, _ *peer.Identity, p *plan) { p.ClusterID = 0 }, "cluster id 0 is not"},
		"a negative id":   {func(_ *node, _ *peer.Identity, p *plan) { p.ClusterID = -1 }, "cluster id -1 is not"},
		"another list":    {func(_ *node, _ *peer.Identity, p *plan) { p.Founders = p.Founders[:2] }, "b has another member list: a=a.example:9010,b=b.example:9010,c=c.example:9010"},
		"another address": {func(_ *node, _ *peer.Identity, p *plan) { p.Founders[2].Address = "x:1" }, "b has another member list"},
		"set to join":     {func(n *node, _ *peer.Identity, _ *plan) { n.join, n.clusterID = true, 7 }, "b is set to join a cluster (cluster.join)"},
		"of another member": {func(_ *node, from *peer.Identity, p *plan) {
			from.NodeID, from.InstanceID = "c", "disk-c"
		}, "b takes the plan only of the member with the smallest id"},
		"another disk":        {func(_ *node, _ *peer.Identity, p *plan) { p.Instances["b"] = "x" }, "the plan is for other disks"},
		"another sender's":    {func(_ *node, from *peer.Identity, _ *plan) { from.InstanceID = "x" }, "the plan is for other disks"},
		"a disk is missing":   {func(_ *node, _ *peer.Identity, p *plan) { delete(p.Instances, "c") }, "the plan does not name the disk of c"},
		"with a vote":         {func(n *node, _ *peer.Identity, _ *plan) { n.voted = 2 }, "b belongs to a cluster already"},
		"taken in by another": {func(n *node, _ *peer.Identity, _ *plan) { n.standing = Standing{9, 1, 5, nil} }, "b belongs to a cluster already"},
		"a disk that fails":   {func(n *node, _ *peer.Identity, _ *plan) { n.w.failOnce("standing", false, errors.New("EIO")) }, "b could not store the plan; see its log"},
		"while Raft starts":   {func(n *node, _ *peer.Identity, _ *plan) { n.phase, n.started = raftStarting, true }, "b belongs to a cluster already"},
		"while Raft stops":    {func(n *node, _ *peer.Identity, _ *plan) { n.phase = raftRuns }, "b belongs to a cluster already"},
		"a vote in this life": {func(n *node, _ *peer.Identity, _ *plan) { n.phase, n.started, n.votedLater = raftRuns, true, true }, "b belongs to a cluster already"},
		"while Raft waits":    {func(n *node, _ *peer.Identity, _ *plan) { n.phase, n.started = raftRuns, true }, ""},
		"b objects":           {func(n *node, _ *peer.Identity, _ *plan) { n.objects = "c is down" }, "b does not agree yet: c is down"},
		"from itself, somehow": {func(n *node, _ *peer.Identity, _ *plan) {
			n.id, n.instance, n.address = "a", "disk-a", "a.example:9010"
		}, "a takes the plan only of"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			n := w.machine("b")
			n.founders = list
			from := peer.Identity{NodeID: "a", InstanceID: "disk-a"}
			p := plan{ClusterID: 7, Founders: slices.Clone(list), Instances: map[string]string{"a": "disk-a", "b": "disk-b", "c": "disk-c"}}
			tt.change(n, &from, &p)
			if n.join {
				n.founders = nil
			}
			c := n.make()
			c.raft, c.objection = n.phase, n.objects
			if n.votedLater {
				n.voted = 2
			}
			_, err := c.acceptPlan(from, p)
			if tt.want == "" && err != nil || tt.want != "" && !strings.Contains(fmt.Sprint(err), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
			if stored := n.standing.ClusterID == 7 && maps.Equal(n.standing.Instances, p.Instances); stored != (tt.want == "") {
				t.Errorf("stored %+v", n.standing)
			}
			if c.hasAccepted() != (tt.want == "") {
				t.Error("the node goes on wrongly")
			}
		})
	}
}

// Founders may hold plans of different clusters, none of which was carried out: of coordinators whose
// disks were lost, or with lists that were changed since.
func TestPlansThatWereNotCarriedOutAreReplaced(t *testing.T) {
	for name, configured := range map[string]int32{"any id": 0, "a configured id": 44} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				nodes := w.founders("a", "b", "c")
				for i, n := range nodes {
					n.standing = Standing{ClusterID: int32(100 + i), Incarnation: 1, Instances: map[string]string{"a": "lost", n.id: n.instance}}
					n.clusterID = configured
				}
				for _, n := range nodes {
					n.start()
				}
				w.until("one cluster", formed(nodes...))
				w.checkFormed(nodes...)
				if got := w.state.Cluster().ClusterID; configured != 0 && got != configured || configured == 0 && got != 100 {
					t.Errorf("cluster %d", got)
				}
				if nodes[1].rechecks == 0 {
					t.Error("connections that the plan before allowed were not looked at again")
				}
			})
		})
	}
}

// A plan says only what the founders agreed to: until there is a journal, the node waits and says so.
func TestAnAgreedFounderSaysWhatItWaitsFor(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		nodes := w.founders("a", "b", "c")
		b := nodes[1]
		b.standing = Standing{ClusterID: 9, Incarnation: 1, Instances: map[string]string{"a": "disk-a", "b": "disk-b", "c": "disk-c"}}
		b.start()
		w.pass(time.Second)
		if why := b.Waiting(); why != "for member a, which has the smallest id, to form cluster 9, to which this node has agreed" {
			t.Errorf("waits for %q", why)
		}
		if id := b.Identity(); id.ClusterID != 9 || id.Incarnation != 1 || id.RegisteredAt != 0 {
			t.Errorf("says of itself %+v", id)
		}
	})
}

func TestWhoIsAMemberDuringFormation(t *testing.T) {
	w := newWorld(t)
	nodes := w.founders("a", "b", "c")
	a, b := nodes[0], nodes[1]
	p := Standing{ClusterID: 9, Incarnation: 1, Instances: map[string]string{"a": "disk-a", "b": "disk-b", "c": "disk-c"}}
	a.standing, b.standing = p, p
	a.make()
	b.make()
	judge := func(n, other *node, kind peer.Kind, want bool, why string) {
		t.Helper()
		if member, err := n.Judge(kind, other.Identity()); member != want || kind == peer.KindRaft && (err == nil) != want {
			t.Errorf("%s takes %s for %v, %v: %s", n.id, other.id, member, err, why)
		}
	}
	if id := a.Identity(); id.ClusterID != 0 || id.Incarnation != 0 {
		t.Errorf("a coordinator that has written nothing says %+v", id)
	}
	judge(b, a, peer.KindRaft, false, "nothing is written")
	judge(b, a, peer.KindCall, false, "it may call as a stranger")
	if formed, err := a.bootstrap(a.founders); !formed || err != nil {
		t.Fatal(formed, err)
	}
	judge(b, a, peer.KindRaft, true, "the plan has become the cluster")
	judge(a, b, peer.KindRaft, true, "the plan has become the cluster")
	wiped := w.machine("b")
	wiped.make()
	judge(a, wiped, peer.KindRaft, false, "another disk")
	wiped.standing = p
	judge(a, wiped, peer.KindRaft, false, "another disk, whatever it says")
	old := w.machine("c")
	old.instance = "disk-c"
	old.standing, old.voted = p, 3
	old.make()
	judge(a, old, peer.KindRaft, true, "the disk of the plan")
	// The state knows better once it knows the members.
	a.follows = true
	_, refusal := w.state.Apply(job.Form{Header: job.Header{At: 1, Actor: job.ActorSystem}, ClusterID: 9, Level: 1, Settings: job.DefaultSettings(), Members: []job.Member{
		{NodeID: "a", InstanceID: "disk-a", Address: "a:1"}, {NodeID: "b", InstanceID: "disk-b", Address: "b:1"},
	}})
	if refusal != nil {
		t.Fatal(refusal)
	}
	judge(a, b, peer.KindRaft, true, "registered")
	judge(a, old, peer.KindRaft, false, "not registered")
	if _, err := a.Judge(peer.KindRaft, peer.Identity{ClusterID: 10, Incarnation: 1, NodeID: "c", InstanceID: "disk-c"}); err == nil || !strings.Contains(err.Error(), "belongs to cluster 10") {
		t.Errorf("another cluster: %v", err)
	}
}

// Others may call before the node has been started; a disk with data must not seem empty then.
func TestNobodyIsAnsweredBeforeTheStart(t *testing.T) {
	w := newWorld(t)
	n := w.founders("a", "b")[1]
	n.voted = 3
	c := n.make()
	if c.empty() {
		t.Error("a disk with a vote seems empty before the start")
	}
	for method, h := range Handlers(func() *Cluster { return c }) {
		if _, err := h.Do(within(t), peer.Identity{}, []byte("{}")); !errors.Is(err, errStarting) {
			t.Errorf("%s before the start: %v", method, err)
		}
	}
	for method, h := range Handlers(func() *Cluster { return nil }) {
		if _, err := h.Do(within(t), peer.Identity{}, nil); !errors.Is(err, errStarting) {
			t.Errorf("%s before there is anything: %v", method, err)
		}
	}
	if _, err := c.AddMember(within(t), "ops", "z", "z:1"); !errors.Is(err, job.ErrNotAppended) {
		t.Errorf("a change before the start: %v", err)
	}
	ok(t, c.Stop(within(t)))
}

func TestMessagesThatCannotBeRead(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		n := w.cluster("a", "b")[1]
		for method, h := range Handlers(func() *Cluster { return n.Cluster }) {
			for _, payload := range []string{"", "{", "[]", `{"cluster_id":"x"}`, `null`} {
				reply, err := h.Do(within(t), peer.Identity{NodeID: "a", InstanceID: "disk-a"}, []byte(payload))
				if (err == nil) != (method == methodStatus) {
					t.Errorf("%s of %q: %s, %v", method, payload, reply, err)
				}
			}
		}
	})
}

func TestConfigurationsThatAreRefused(t *testing.T) {
	many := []Member{}
	for i := range job.MaxMembers + 1 {
		many = append(many, Member{fmt.Sprintf("m%02d", i), fmt.Sprintf("m%02d:1", i)})
	}
	for want, founders := range map[string][]Member{
		"at most 16":                   many,
		"sorted by id":                 {{"b", "b.example:9010"}, {"a", "a:1"}},
		"each once":                    {{"b", "b.example:9010"}, {"b", "b:1"}},
		"does not list this node, b":   {{"a", "a:1"}, {"c", "c:1"}},
		"but cluster.members lists it": {{"a", "a:1"}, {"b", "other:9010"}},
	} {
		n := newWorld(t).machine("b")
		n.founders = founders
		if _, err := New(n.config()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", founders, err, want)
		}
	}
	n := newWorld(t).machine("b")
	n.standing, n.clusterID, n.voted = Standing{ClusterID: 7}, 8, 1
	if err := n.make().Start(network{n}, nil); err == nil || !strings.Contains(err.Error(), "cluster.id is 8, but this data directory belongs to cluster 7") {
		t.Errorf("another cluster's disk: %v", err)
	}
}

func TestAFailingDiskEndsTheNode(t *testing.T) {
	for _, step := range []string{"standing", "bootstrap", "start"} {
		bubble(t, func(t *testing.T, w *world) {
			eio := errors.New("EIO")
			nodes := w.founders("a", "b")
			w.failOnce(step, false, eio)
			nodes[0].start()
			nodes[1].start()
			select {
			case err := <-nodes[0].fatal:
				if !errors.Is(err, eio) {
					t.Errorf("%s: %v", step, err)
				}
			case err := <-nodes[1].fatal: // the first to start Raft
				if !errors.Is(err, eio) || step != "start" {
					t.Errorf("%s: %v", step, err)
				}
			case <-time.After(time.Minute):
				t.Errorf("%s: the node goes on", step)
			}
			if step == "bootstrap" && nodes[0].empty() {
				t.Error("the disk seems empty after a write to it has failed")
			}
		})
	}
	// A cluster of one finds out at its start.
	for _, step := range []string{"bootstrap", "start"} {
		bubble(t, func(t *testing.T, w *world) {
			n := w.machine("a")
			eio := errors.New("EIO")
			w.failOnce(step, false, eio)
			if err := n.make().Start(network{n}, func(error) {}); !errors.Is(err, eio) {
				t.Errorf("%s: %v", step, err)
			}
			ok(t, n.Stop(within(t)))
		})
	}
}

// The coordinator may be taken in by a cluster just when it has made a plan.
func TestAnInvitationWinsOverAPlan(t *testing.T) {
	n := newWorld(t).founders("a", "b")[0]
	n.clusterID = 7
	c := n.make()
	in := invitation{ClusterID: 7, Incarnation: 1, RegisteredAt: 5, Instances: map[string]string{"a": "disk-a", "d": "disk-d"}}
	ok(t, c.acceptInvitation(peer.Identity{ClusterID: 7, NodeID: "d", InstanceID: "disk-d"}, in))
	if kept, err := c.keepOwn(plan{ClusterID: 7}); kept || err != nil {
		t.Errorf("the plan was kept: %v", err)
	}
	if formed, err := c.bootstrap(n.founders); formed || err != nil || n.w.boots != 0 {
		t.Errorf("the cluster was formed: %v", err)
	}
	if n.standing.RegisteredAt != 5 {
		t.Errorf("the invitation is lost: %+v", n.standing)
	}
}

func TestStartAndStop(t *testing.T) {
	for i := range 20 {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			nodes := w.founders("a", "b", "c")
			for _, n := range nodes {
				n.start()
			}
			await.Pass(time.Duration(i) * 100 * time.Millisecond)
			w.nodes["b"].w.mu.Lock()
			nodes[1].hangs = true
			w.nodes["b"].w.mu.Unlock()
			if err := nodes[0].Start(network{nodes[0]}, nil); err == nil {
				t.Error("started twice")
			}
			w.stopAll()
		})
	}
	// What does not end is told.
	synctest.Test(t, func(t *testing.T) {
		n := newWorld(t).founders("a", "b")[0].start()
		end := make(chan struct{})
		n.done.Go(func() { <-end })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := n.Stop(ctx); err == nil {
			t.Error("a goroutine goes on and nobody says so")
		}
		close(end)
		ok(t, n.Stop(within(t)))
	})
}

package cluster

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func (n *node) warnings() string {
	n.w.t.Helper()
	o, err := n.Overview(within(n.w.t))
	ok(n.w.t, err)
	return strings.Join(o.Warnings, "\n")
}

func TestOverview(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		nodes := w.cluster("a", "b", "c")
		a := nodes[0]
		w.pass(time.Second)
		o, err := a.Overview(within(t))
		ok(t, err)
		if o.Voters != 3 || o.Quorum != 2 || o.Tolerated != 1 || len(o.Warnings) != 0 {
			t.Errorf("%+v", o)
		}
		self, b := o.Members[0], o.Members[1]
		if !self.Self || !self.Leader || !self.Voter || !self.Reachable || self.LastHeard != 0 || self.RaftState != "Leader" ||
			self.InstanceID != "disk-a" || self.Address != "a.example:9010" || !self.Report.Ready || self.Level != 1 || self.ClockDifference != nil {
			t.Errorf("itself: %+v", self)
		}
		if b.Self || b.Leader || !b.Voter || !b.Reachable || b.LastHeard < 0 || b.LastHeard > 2*time.Second || b.RaftState != "Follower" ||
			b.InstanceID != "disk-b" || b.Applied == 0 || b.Version != "v1" || b.Level != 1 || b.MaxLevel != 1 || b.Report.AdminAddress != "b:9021" ||
			b.ClockDifference == nil || b.LastError != "" || b.ConfiguredAddress != "" {
			t.Errorf("b: %+v", b)
		}

		nodes[2].stop()
		w.until("c to be missed", func() bool { return !a.reachable("c") })
		o, err = a.Overview(within(t))
		ok(t, err)
		want := "no further voting member may fail\nc is not reachable: not sent: dial c.example:9010: connection refused"
		if got := strings.Join(o.Warnings, "\n"); got != want || o.Tolerated != 0 {
			t.Errorf("tolerates %d, warnings:\n%s", o.Tolerated, got)
		}
		if o.Members[2].LastHeard < 0 || o.Members[2].Reachable {
			t.Errorf("c: %+v", o.Members[2])
		}
		nodes[1].stop()
		w.until("b to be missed", func() bool { return !a.reachable("b") })
		if got := a.warnings(); !strings.Contains(got, "1 of 3 voting members are reachable, which is no quorum: nothing can be changed") {
			t.Errorf("warnings:\n%s", got)
		}
	})
}

func TestOverviewsWarnings(t *testing.T) {
	for name, tt := range map[string]struct {
		ids    []string
		change func(w *world, a *node)
		want   string
	}{
		"two":  {[]string{"a", "b"}, nil, "two voting members tolerate no failure; add a third"},
		"four": {[]string{"a", "b", "c", "d"}, nil, "4 voting members tolerate no more failures than 3 would"},
		"a clock": {[]string{"a", "b", "c"}, func(w *world, _ *node) { w.nodes["b"].clock = -2 * time.Hour },
			"the clocks of this master and b differ by 2h0m0s: deadlines then run for their full time"},
		"another disk": {[]string{"a", "b", "c"}, func(w *world, _ *node) {
			w.mu.Unlock()
			w.nodes["b"].stop()
			w.machine("b").start()
			w.mu.Lock()
		}, "b is not reachable: it answers with another disk than the registered one; if the old one is gone for good, run `lancemaster cluster replace b`"},
		"removed": {[]string{"a", "b", "c"}, func(_ *world, a *node) { a.servers = a.servers[1:] }, "this master is no member any more: stop it"},
		"no vote": {[]string{"a", "b", "c"}, func(_ *world, a *node) { a.servers[2].Voter = false }, "c does not vote: it has not caught up yet"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				a := w.cluster(tt.ids...)[0]
				w.mu.Lock()
				if tt.change != nil {
					tt.change(w, a)
				}
				w.mu.Unlock()
				w.pass(3 * time.Second)
				if tt.change != nil && name == "no vote" {
					w.mu.Lock()
					a.servers[2].Voter = false
					w.mu.Unlock()
				}
				if got := a.warnings(); !strings.Contains(got, tt.want) {
					t.Errorf("warnings:\n%s\nwant %s", got, tt.want)
				}
				if name == "another disk" {
					if m := a.describe("b"); m.RaftState != "another disk answers" || m.Reachable || m.LastHeard < 0 || m.LastHeard > freshFor || m.Applied != 0 {
						t.Errorf("b is told as %+v", m)
					}
				}
				if got := a.warnings(); name == "removed" && strings.Contains(got, "a is registered, but no member") {
					t.Errorf("a removed master is told to be added and removed too:\n%s", got)
				}
			})
		})
	}
	bubble(t, func(t *testing.T, w *world) {
		a := w.founders("a", "b")[0].start()
		w.pass(time.Second)
		if got := a.warnings(); got != "this master is waiting: member b at b.example:9010: not sent: dial b.example:9010: connection refused" {
			t.Errorf("warnings:\n%s", got)
		}
	})
}

// A master without the list would found another cluster on an empty disk. A reload that brings the list
// ends the warning.
func TestMastersThatDoNotListTheOthers(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.cluster("a", "b", "c")
		for _, id := range []string{"a", "c"} {
			n := w.nodes[id].rebooted()
			n.founders = nil
			n.start()
		}
		w.pass(4 * time.Second)
		a := w.nodes["a"]
		list := func(id string, addresses map[string]string) {
			w.mu.Lock()
			w.nodes[id].configured = addresses
			w.mu.Unlock()
			w.pass(2 * time.Second)
		}
		const text = " founds a cluster of its own if its disk is emptied: its cluster.members lists no other master; list all there"
		if got := a.warnings(); strings.Contains(got, "b"+text) {
			t.Errorf("of one that was started with the list:\n%s", got)
		}
		list("b", map[string]string{}) // a reload takes it away
		for _, id := range []string{"b", "a", "c"} {
			if got := a.warnings(); !strings.Contains(got, id+text) {
				t.Errorf("warnings:\n%s", got)
			}
			list(id, map[string]string{id: id + ".example:9010"})
			if got := a.warnings(); !strings.Contains(got, id+text) {
				t.Errorf("a list of itself alone counts:\n%s", got)
			}
			list(id, map[string]string{"a": "a.example:9010", "b": "b.example:9010"})
			if got := a.warnings(); strings.Contains(got, id+text) {
				t.Errorf("warnings:\n%s", got)
			}
		}
	})
}

// Configuration may say otherwise than the record, and wins where a member is dialled.
func TestConfiguredAddresses(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a := w.cluster("a", "b", "c")[0]
		w.mu.Lock()
		a.configured = map[string]string{"b": "b9.example:9010", "c": "c.example:9010"}
		w.mu.Unlock()
		b, c := a.describe("b"), a.describe("c")
		if b.Address != "b.example:9010" || b.ConfiguredAddress != "b9.example:9010" || c.ConfiguredAddress != "" {
			t.Errorf("b: %+v, c: %+v", b, c)
		}
		if got, known := a.MemberAddress("b"); !known || got != "b9.example:9010" {
			t.Errorf("b is dialled at %s", got)
		}
		if _, known := a.MemberAddress("z"); known {
			t.Error("the address of nobody is known")
		}
		if got := a.Members(); got != 3 {
			t.Errorf("%d members", got)
		}
	})
}

func TestMetrics(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		nodes := w.cluster("a", "b", "c")
		a := nodes[0]
		w.mu.Lock()
		nodes[1].clock = 90 * time.Second
		w.mu.Unlock()
		nodes[2].stop()
		w.until("c to be missed", func() bool { return !a.reachable("c") })
		ok(t, a.AddNonvoter(within(t), "d", "d.example:9010"))
		w.pass(maxSampleAge)
		ok(t, a.Stop(within(t))) // nothing is heard any more
		a.peers.mu.Lock()
		b := a.peers.seen["b"]
		b.status.Applied = 42
		b.status.WallMillis, b.middle = time.Now().Add(90*time.Second).UnixMilli(), time.Now()
		a.peers.seen["b"] = b
		c := a.peers.seen["c"]
		c.status.Applied = 7
		a.peers.seen["c"] = c
		a.peers.mu.Unlock()
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(collector{a.Cluster})
		const want = `
# HELP lancemaster_clock_agrees 1 while this master's wall clock agrees with a majority of the masters within a minute, else 0.
# TYPE lancemaster_clock_agrees gauge
lancemaster_clock_agrees 0
# HELP lancemaster_cluster_waiting 1 while this master waits to form or join a cluster, else 0.
# TYPE lancemaster_cluster_waiting gauge
lancemaster_cluster_waiting 0
# HELP lancemaster_member_applied_index Raft index of the newest entry that another member had applied when it last answered.
# TYPE lancemaster_member_applied_index gauge
lancemaster_member_applied_index{member="b"} 42
lancemaster_member_applied_index{member="c"} 7
# HELP lancemaster_member_clock_offset_seconds How far this master's wall clock is ahead of another member's.
# TYPE lancemaster_member_clock_offset_seconds gauge
lancemaster_member_clock_offset_seconds{member="b"} -90
# HELP lancemaster_member_up 1 while another member answers this one with its registered disk, else 0.
# TYPE lancemaster_member_up gauge
lancemaster_member_up{member="b"} 1
lancemaster_member_up{member="c"} 0
lancemaster_member_up{member="d"} 0
# HELP lancemaster_members Members of the Raft configuration, by whether they vote.
# TYPE lancemaster_members gauge
lancemaster_members{voter="false"} 1
lancemaster_members{voter="true"} 3
`
		if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
			t.Error(err)
		}
		if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
			t.Errorf("promlint: %v, %v", problems, err)
		}
	})
	bubble(t, func(t *testing.T, w *world) {
		n := w.founders("a", "b")[0].start()
		w.pass(time.Second)
		if got := testutil.CollectAndCount(collector{n.Cluster}); got != 4 {
			t.Errorf("%d metrics while it waits", got)
		}
		const want = `
# HELP lancemaster_cluster_waiting 1 while this master waits to form or join a cluster, else 0.
# TYPE lancemaster_cluster_waiting gauge
lancemaster_cluster_waiting 1
`
		if err := testutil.CollectAndCompare(collector{n.Cluster}, strings.NewReader(want), "lancemaster_cluster_waiting"); err != nil {
			t.Error(err)
		}
	})
	n := newWorld(t).machine("a")
	cfg := n.config()
	cfg.Registerer = prometheus.NewRegistry()
	if _, err := New(cfg); err != nil {
		t.Fatal(err)
	}
	if _, err := New(cfg); err == nil {
		t.Error("one registry takes two clusters")
	}
}

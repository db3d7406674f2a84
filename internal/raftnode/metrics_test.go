package raftnode

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestMetricsOfOneNode(t *testing.T) {
	config, _ := testConfig(t, "m1", t.TempDir(), &recorder{})
	n := startSingle(t, config)
	index := propose(t, n, "x")
	ok(t, n.raft.Snapshot().Error())
	term, _ := n.Term()

	want := fmt.Sprintf(`# HELP lancemaster_raft_commit_index Raft index of the newest entry that this node knows to be committed.
# TYPE lancemaster_raft_commit_index gauge
lancemaster_raft_commit_index %[1]d
# HELP lancemaster_raft_last_contact_seconds Time since this node last heard from the leader; 0 on the leader. Missing if it never has.
# TYPE lancemaster_raft_last_contact_seconds gauge
lancemaster_raft_last_contact_seconds 0
# HELP lancemaster_raft_last_log_index Raft index of the newest entry in this node's log, committed or not.
# TYPE lancemaster_raft_last_log_index gauge
lancemaster_raft_last_log_index %[1]d
# HELP lancemaster_raft_leader_known 1 while this node knows who leads, else 0.
# TYPE lancemaster_raft_leader_known gauge
lancemaster_raft_leader_known 1
# HELP lancemaster_raft_role 1 for the role this node has in Raft, 0 for the others.
# TYPE lancemaster_raft_role gauge
lancemaster_raft_role{role="candidate"} 0
lancemaster_raft_role{role="follower"} 0
lancemaster_raft_role{role="leader"} 1
lancemaster_raft_role{role="shutdown"} 0
# HELP lancemaster_raft_snapshot_index Raft index that the newest snapshot on this node reaches; 0 if there is none.
# TYPE lancemaster_raft_snapshot_index gauge
lancemaster_raft_snapshot_index %[1]d
# HELP lancemaster_raft_snapshots_total Snapshots that this node has written, its own and those received from a leader, by result.
# TYPE lancemaster_raft_snapshots_total counter
lancemaster_raft_snapshots_total{result="failed"} 0
lancemaster_raft_snapshots_total{result="written"} 1
# HELP lancemaster_raft_term Newest Raft term this node knows.
# TYPE lancemaster_raft_term gauge
lancemaster_raft_term %[2]d
# HELP lancemaster_raft_voters_unreachable On the leader: voters that do not answer its heartbeats. 0 elsewhere.
# TYPE lancemaster_raft_voters_unreachable gauge
lancemaster_raft_voters_unreachable 0
`, index, term)
	names := []string{}
	for line := range strings.Lines(want) {
		if rest, is := strings.CutPrefix(line, "# TYPE "); is {
			names = append(names, strings.Fields(rest)[0])
		}
	}
	if err := testutil.CollectAndCompare(n.Collector(), strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(n.Collector())
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
	began := value(t, n, "lancemaster_raft_snapshot_timestamp_seconds")
	if age := time.Since(time.UnixMilli(int64(began * 1000))); age < 0 || age > patience {
		t.Errorf("the snapshot is %s old", age)
	}
	for _, positive := range []string{"lancemaster_raft_log_size_bytes", "lancemaster_raft_snapshot_size_bytes", "lancemaster_raft_log_append_duration_seconds"} {
		if value(t, n, positive) <= 0 {
			t.Errorf("%s is not positive", positive)
		}
	}
}

// value returns a metric without labels; of a histogram, the number of observations.
func value(t *testing.T, n *Node, name string) float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(n.Collector())
	families, err := registry.Gather()
	ok(t, err)
	for _, family := range families {
		if family.GetName() == name {
			m := family.GetMetric()[0]
			return m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}

// A leader tells of voters that do not answer, and of their return; a follower of the
// leaders it has had.
func TestMetricsOfACutMember(t *testing.T) {
	t.Parallel()
	c := startCluster(t, nil)
	lead := c.leader(t)
	cut, other := (lead+1)%3, (lead+2)%3
	c.cut(cut)
	const unreachable, changes = "lancemaster_raft_voters_unreachable", "lancemaster_raft_leader_changes_total"
	eventually(t, "the cut member does not count as unreachable", func() bool { return value(t, c.nodes[lead], unreachable) == 1 })
	if n := value(t, c.nodes[other], unreachable); n != 0 {
		t.Errorf("a follower tells of %v unreachable voters", n)
	}
	c.connect(cut)
	eventually(t, "the member that is back still counts as unreachable", func() bool {
		return value(t, c.nodes[c.leader(t)], unreachable) == 0
	})
	before := value(t, c.nodes[other], changes)
	c.transfer(t)
	eventually(t, "the change of the leader is not counted", func() bool { return value(t, c.nodes[other], changes) > before })
}

func TestMetricsBeforeStartAndAfterShutdown(t *testing.T) {
	config, _ := testConfig(t, "m1", t.TempDir(), &recorder{})
	n := must(New(config))(t)
	for _, when := range []string{"before the start", "after the shutdown"} {
		if n := testutil.CollectAndCount(n.Collector(), "lancemaster_raft_role"); n != len(roles) {
			t.Errorf("%s: %d roles", when, n)
		}
		if term := value(t, n, "lancemaster_raft_term"); term != 0 {
			t.Errorf("%s: term %v", when, term)
		}
		stop(t, n)
	}
}

//go:build faults

package faults

import (
	"strings"
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/internal/client"
	"github.com/lancemaster/lancemaster/internal/command"
	"github.com/lancemaster/lancemaster/internal/programs"
)

// restart tells a master to stop, and starts it again when it has: by its contract in time, and with
// its office handed over. It goes on when the master has caught up.
func (c *cluster) restart(n *node) {
	c.t.Helper()
	n.proc.Terminate()
	n.launch()
	now := c.leader().untilStatus("leading", func(s *client.Status) bool { return s.RaftState == "Leader" })
	n.untilStatus("caught up", func(s *client.Status) bool { return follows(s) && s.AppliedIndex >= now.AppliedIndex })
}

// followersFirst are the nodes in the order of a rolling restart.
func (c *cluster) followersFirst() []*node {
	c.t.Helper()
	leader := c.leader()
	var out []*node
	for _, n := range c.nodes {
		if n != leader {
			out = append(out, n)
		}
	}
	return append(out, leader)
}

// Each master is restarted under load, the leader last. No call that is safe to repeat fails, and what
// was under way is settled: no outcome is lost by it.
func TestLifeRollingRestart(t *testing.T) {
	t.Parallel()
	c := formed(t)
	l := newLoad(c)
	l.gentle.Store(true)
	l.start()
	l.until(5)
	for _, n := range c.followersFirst() {
		c.restart(n)
		l.until(3)
	}
	c.judge(l)
	l.noFailures()
}

// The leader is told to stop again and again: each time it hands over, ends in time, and nothing that
// was under way comes to harm.
func TestLifeLeaderStops(t *testing.T) {
	t.Parallel()
	c := formed(t)
	l := newLoad(c)
	l.start()
	l.until(5)
	for range 4 {
		leader := c.leader()
		before := leader.untilStatus("leading", func(s *client.Status) bool { return s.RaftState == "Leader" })
		began := time.Now()
		leader.proc.Terminate()
		stopped := time.Since(began)
		next := c.leader()
		s := next.untilStatus("leading", func(s *client.Status) bool { return s.RaftState == "Leader" && s.Ready })
		if next == leader || s.RaftTerm <= before.RaftTerm {
			t.Errorf("%s leads in term %d after %s led in term %d", next.id, s.RaftTerm, leader.id, before.RaftTerm)
		}
		t.Logf("%s stopped after %s, and %s led after %s", leader.id, stopped, next.id, time.Since(began))
		leader.launch()
		l.until(3)
	}
	c.judge(l)
	l.noFailures()
}

// All masters stop and come back at other addresses, which only their configuration says.
func TestLifeAddressesChange(t *testing.T) {
	t.Parallel()
	c := formed(t)
	l := newLoad(c)
	l.start()
	l.until(10)
	l.stop()
	for i, n := range c.nodes {
		if i == 0 { // one that does not expect it
			n.proc.Kill()
		} else {
			n.proc.Terminate()
		}
	}
	before := c.nodes[0].raft()
	for i, host := range newHosts(t, len(c.nodes)) {
		c.nodes[i].host = host
	}
	c.listMembers()
	c.api = c.newClient()
	c.startAll()
	l.start()
	l.until(10)
	programs.Eventually(t, patience, func() string {
		out := cli(t, c.nodes[0].binary, c.admins(), "cluster", "status", "-o", "json")
		if out.Code != 0 || strings.Contains(out.Stdout, `"`+before+`"`) || !strings.Contains(out.Stdout, `"`+c.nodes[0].raft()+`"`) {
			return "cluster status does not show the new addresses: " + out.String()
		}
		return ""
	})
	c.judge(l)
}

// Masters of a build that is a feature level ahead take the place of the old ones, one by one under
// load. When all support the new level it comes into force by itself; from then on an older build stops
// on such data and says why.
func TestLifeRollingUpgrade(t *testing.T) {
	t.Parallel()
	const next = 2
	if command.MaxLevel != next {
		t.Fatalf("these tests know level %d, and must know %d to read what the new build writes: run make faults", command.MaxLevel, next)
	}
	c := formed(t)
	old := c.nodes[0].binary
	l := newLoad(c)
	l.gentle.Store(true)
	l.start()
	l.until(5)
	nodes := c.followersFirst()
	for i, n := range nodes {
		if s := n.untilStatus("taking part", follows); s.FeatureLevel != 1 {
			t.Errorf("with %d new masters of %d, %s is at level %d", i, len(nodes), n.id, s.FeatureLevel)
		}
		n.binary = programs.Path(t, "nextlevel/lancemaster")
		c.restart(n)
		l.until(3)
	}
	for _, n := range nodes {
		n.untilStatus("at the new level", func(s *client.Status) bool { return s.FeatureLevel == next })
	}
	c.restart(c.leader()) // a term begins with what is new
	l.until(3)

	back := c.follower()
	back.proc.Terminate()
	back.binary = old
	back.launch()
	back.proc.Wait(patience)
	if out := back.proc.Out(); back.proc.ExitCode() == 0 || !strings.Contains(out, "level 2") {
		t.Errorf("an old build on new data ended with exit code %d and does not say why:\n%s", back.proc.ExitCode(), out)
	}
	back.binary = programs.Path(t, "nextlevel/lancemaster")
	back.launch()
	c.judge(l)
	l.noFailures()
}

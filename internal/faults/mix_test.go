//go:build faults

package faults

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/internal/await"
	"github.com/lancemaster/lancemaster/internal/client"
)

// A random mix under load: the leader or a follower is killed, or stopped for longer than an election
// takes, or the whole cluster is killed at once; now and then a backend's process is another one.
func TestMixKillsAndStops(t *testing.T) {
	t.Parallel()
	mix(formed(t))
}

// The same with snapshots all the time, and hardly any log behind them: a master that was away is sent a
// snapshot.
func TestMixTinySnapshots(t *testing.T) {
	t.Parallel()
	c := formed(t, "--raft-snapshot-threshold", "30", "--raft-snapshot-interval", "1s", "--raft-trailing-logs", "5")
	mix(c)
}

// mix hits the cluster for a while, and has the run judged.
func mix(c *cluster) {
	t := c.t
	t.Helper()
	l := newLoad(c)
	l.start()
	l.until(5)
	r := dice(t, "faults")
	var kills, stops, outages int
	for end := time.Now().Add(mixTime); time.Now().Before(end); {
		await.Moment(between(r, 100*time.Millisecond, 2*time.Second))
		victim := c.nodes[r.IntN(len(c.nodes))]
		if r.IntN(3) > 0 {
			victim = c.leader()
		}
		switch n := r.IntN(10); {
		case n < 5:
			kills++
			victim.proc.Kill()
			await.Moment(between(r, 0, 3*time.Second))
			victim.launch()
		case n < 8:
			stops++
			victim.proc.Signal(syscall.SIGSTOP)
			await.Moment(between(r, 1500*time.Millisecond, 5*time.Second))
			victim.proc.Signal(syscall.SIGCONT)
		case n < 9:
			outages++
			for _, n := range c.nodes {
				n.proc.Shoot()
			}
			for _, n := range c.nodes {
				n.proc.Kill()
				n.launch()
			}
		default:
			c.backends[r.IntN(len(c.backends))].Restart()
		}
		c.leader()
	}
	t.Logf("%d kills, %d stops, %d outages", kills, stops, outages)
	l.until(3)
	c.judge(l)
}

// A follower that was away for longer than the log reaches back is caught up by a snapshot.
func TestLifeInstallSnapshot(t *testing.T) {
	t.Parallel()
	c := formed(t, "--raft-snapshot-threshold", "20", "--raft-snapshot-interval", "1s", "--raft-trailing-logs", "2")
	l := newLoad(c)
	l.start()
	l.until(5)
	away := c.follower()
	before := away.untilStatus("taking part", follows)
	away.proc.Kill()
	for _, n := range c.others(away) { // either may lead
		first := n.untilStatus("past a snapshot that the follower lacks", func(s *client.Status) bool { return s.LastSnapshot > before.AppliedIndex+50 })
		// A snapshot is seen before the log behind it is gone; at the next one it is.
		n.untilStatus("rid of the log before its snapshot", func(s *client.Status) bool { return s.LastSnapshot > first.LastSnapshot })
	}
	leader := c.leader()
	leader.proc.Kill() // what is left of the log is read from the disk
	leader.launch()
	away.launch()
	now := c.leader().untilStatus("leading", func(s *client.Status) bool { return s.RaftState == "Leader" })
	away.untilStatus("caught up", func(s *client.Status) bool { return s.AppliedIndex >= now.AppliedIndex })
	if out := away.proc.Out(); !strings.Contains(out, "Installed remote snapshot") && !strings.Contains(out, "installed remote snapshot") {
		t.Errorf("%s caught up from entry %d to %d, and its log says of no snapshot that was sent to it", away.id, before.AppliedIndex, now.AppliedIndex)
	}
	l.until(3)
	c.judge(l)
}

//go:build faults

package faults

import (
	"syscall"
	"testing"
	"time"
)

// A random mix under load: the leader or a follower is killed, or stopped for longer than an election
// takes, or the whole cluster is killed at once; now and then a backend's process is another one.
func TestKillsAndStops(t *testing.T) {
	c := formed(t)
	l := newLoad(c)
	l.start()
	l.until(5)
	r := dice(t, "faults")
	var kills, stops, outages int
	for end := time.Now().Add(mixTime); time.Now().Before(end); {
		<-time.After(between(r, 100*time.Millisecond, 2*time.Second))
		victim := c.nodes[r.IntN(len(c.nodes))]
		if r.IntN(3) > 0 {
			victim = c.leader()
		}
		switch n := r.IntN(10); {
		case n < 5:
			kills++
			victim.proc.Kill()
			<-time.After(between(r, 0, 3*time.Second))
			victim.launch()
		case n < 8:
			stops++
			victim.proc.Signal(syscall.SIGSTOP)
			<-time.After(between(r, 1500*time.Millisecond, 5*time.Second))
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

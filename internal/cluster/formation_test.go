package cluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// orders are the orders of three.
var orders = [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}

func TestThreeFormOneClusterInAnyOrder(t *testing.T) {
	for _, order := range orders {
		t.Run(fmt.Sprint(order), func(t *testing.T) {
			bubble(t, func(_ *testing.T, w *world) {
				nodes := w.founders("a", "b", "c")
				for _, i := range order {
					nodes[i].start()
					w.pass(700 * time.Millisecond)
				}
				w.until("a cluster of three", formed(nodes...))
				w.checkFormed(nodes...)
			})
		})
	}
}

func TestAMissingMemberIsWaitedFor(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		nodes := w.founders("a", "b", "c")
		nodes[0].start()
		nodes[1].start()
		for _, n := range nodes[:2] {
			w.until(n.id+" to wait for c", func() bool {
				why := n.Waiting()
				return strings.Contains(why, "member c at c.example:9010: ") && strings.Contains(why, "connection refused")
			})
		}
		w.pass(20 * time.Second)
		if w.boots != 0 || nodes[0].standing.ClusterID != 0 {
			t.Errorf("%d cluster formed without c", w.boots)
		}
		nodes[2].start()
		w.until("a cluster of three", formed(nodes...))
		w.checkFormed(nodes...)
	})
}

// Two founders that do not reach each other would find out only when the third fails.
func TestFoundersAllReachEachOther(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		nodes := w.founders("a", "b", "c")
		w.cut[[2]string{"b", "c"}] = true
		for _, n := range nodes {
			n.start()
		}
		w.pass(10 * time.Second)
		if why := nodes[0].Waiting(); w.boots != 0 || !strings.Contains(why, "member b does not agree yet: member c at c.example:9010: ") {
			t.Errorf("%d clusters; the coordinator waits for %q", w.boots, why)
		}
		w.mu.Lock()
		clear(w.cut)
		w.mu.Unlock()
		w.until("a cluster of three", formed(nodes...))
		w.checkFormed(nodes...)
	})
}

func TestFoundersThatDisagree(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(w *world, a, b *node)
		inA    string
		inB    string
	}{
		"another list": {
			func(_ *world, _, b *node) {
				b.founders = append(slices.Clone(b.founders), Member{"z", "z.example:9010"})
			},
			"member b has another member list (a=a.example:9010,b=b.example:9010,c=c.example:9010,z=z.example:9010) than this node (a=a.example:9010,b=b.example:9010,c=c.example:9010); make cluster.members the same on all",
			"member a has another member list (a=a.example:9010,b=b.example:9010,c=c.example:9010) than this node",
		},
		"another cluster id": {
			func(_ *world, a, b *node) { a.clusterID, b.clusterID = 5, 6 },
			"member b has cluster.id 6, and others have 5; make it the same on all",
			"member a has cluster.id 5, and others have 6; make it the same on all",
		},
		"set to join": {
			func(_ *world, _, b *node) { b.join, b.founders, b.clusterID = true, nil, 9 },
			"member b is set to join a cluster (cluster.join), not to found one",
			"to be added to cluster 9: run `lancemaster cluster add b b.example:9010` against one of its masters",
		},
		"of a cluster": {
			func(w *world, _, b *node) {
				b.standing = Standing{ClusterID: 77, Incarnation: 1, Instances: map[string]string{"b": b.instance}}
				b.voted = 3
			},
			"this disk is empty, and member b is of cluster 77 already: if the disk of a was replaced, run `lancemaster cluster replace a`; if it is no member any more, run `lancemaster cluster add a a.example:9010`; else start it with the disk that it had",
			"",
		},
		"taken in elsewhere": {
			func(w *world, _, b *node) {
				b.standing = Standing{ClusterID: 77, Incarnation: 1, RegisteredAt: 12, Instances: map[string]string{"b": b.instance}}
			},
			"this disk is empty, and member b is of cluster 77 already",
			"for the leader of cluster 77, which has taken it in, to send its journal; if it does not come, run `lancemaster cluster add b b.example:9010` again",
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				nodes := w.founders("a", "b", "c")
				tt.change(w, nodes[0], nodes[1])
				for _, n := range nodes {
					n.start()
				}
				w.pass(10 * time.Second)
				if w.boots != 0 {
					t.Error("a cluster was formed")
				}
				if why := nodes[0].Waiting(); !strings.Contains(why, tt.inA) {
					t.Errorf("a waits for %q", why)
				}
				if why := nodes[1].Waiting(); !strings.Contains(why, tt.inB) {
					t.Errorf("b waits for %q", why)
				}
			})
		})
	}
}

// A machine may crash between any two steps of formation, before or after the step has reached the
// disk or the other side, and comes back with its disk.
func TestACrashAtAnyStepOfFormation(t *testing.T) {
	everyCrash(t, func(_ *world, n *node) bool { n.restart(); return false })
}

// ...or comes back with another disk. As long as nothing was written that others have heard of, it
// forms a cluster with them; afterwards it is refused, says what to do, and is taken in by that.
func TestADiskLostAtAnyStepOfFormation(t *testing.T) {
	replaced, anew := 0, 0
	everyCrash(t, func(w *world, n *node) bool {
		n.stop()
		w.mu.Lock()
		if len(n.servers) > 0 {
			w.boots-- // that list is gone
		}
		w.mu.Unlock()
		wiped := w.machine(n.id).start()
		hint := fmt.Sprintf("if the disk of %s was replaced, run `lancemaster cluster replace %s`", n.id, n.id)
		w.until("formed anew, or refused", func() bool {
			return wiped.Waiting() == "" && len(wiped.Servers()) == 3 || strings.Contains(wiped.Waiting(), hint)
		})
		if wiped.Waiting() == "" {
			anew++
			return false
		}
		replaced++
		w.until("the others to hear each other", func() bool {
			_, err := w.nodes[w.leaderID()].ReplaceMember(within(w.t), "ops", n.id, "")
			return err == nil
		})
		return true
	})
	if anew == 0 || replaced == 0 {
		t.Errorf("formed anew %d times, replaced %d times", anew, replaced)
	}
}

// everyCrash crashes each step of a formation once.
func everyCrash(t *testing.T, revive func(w *world, n *node) (replaced bool)) {
	steps := 0
	for at := 0; ; at++ {
		for _, after := range []bool{false, true} {
			bubble(t, func(t *testing.T, w *world) {
				var crashed *node
				count, name := 0, ""
				w.fault = func(n *node, step string, isAfter bool) error {
					w.mu.Lock()
					defer w.mu.Unlock()
					if n.dead {
						return errCrashed
					}
					if strings.HasPrefix(step, "call status") || isAfter != after || strings.HasPrefix(step, "propose") {
						return nil
					}
					if count++; count-1 == at && crashed == nil {
						n.crash()
						crashed, name = n, n.id+" "+step
						return errCrashed
					}
					return nil
				}
				nodes := w.founders("a", "b", "c")
				for _, n := range nodes {
					n.start()
				}
				w.until("a crash or a cluster", func() bool {
					w.mu.Lock()
					defer w.mu.Unlock()
					return crashed != nil || count > at || w.state.Cluster().ClusterID != 0
				})
				steps = max(steps, count)
				if crashed == nil {
					return
				}
				w.pass(2 * time.Second)
				replaced := revive(w, crashed)
				var now []*node
				for _, n := range nodes {
					now = append(now, w.nodes[n.id])
				}
				w.until("a cluster after the crash of "+name, formed(now...))
				if !replaced {
					w.checkFormed(now...)
				} else if m := w.state.Member(crashed.id); w.boots != 1 || m.InstanceID != w.nodes[crashed.id].instance {
					t.Errorf("%d first member lists; %s is registered with %s", w.boots, crashed.id, m.InstanceID)
				}
			})
			if t.Failed() {
				return
			}
		}
		if at >= steps {
			if steps < 8 {
				t.Fatalf("only %d steps", steps)
			}
			return
		}
	}
}

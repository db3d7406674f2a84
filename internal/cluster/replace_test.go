package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/peer"
)

func TestReplace(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		nodes := w.cluster("a", "b", "c")
		a := nodes[0]
		_, err := a.ReplaceMember(within(t), "ops", "c", "")
		refusedWith(t, err, job.CodeAlreadyExists, "c answers with its registered disk; there is nothing to replace")
		_, err = a.ReplaceMember(within(t), "ops", "a", "")
		refusedWith(t, err, job.CodeInvalid, "a leads with the disk it has")
		_, err = a.ReplaceMember(within(t), "ops", "z", "z.example:9010")
		refusedWith(t, err, job.CodeNotFound, "lancemaster cluster add")

		old := nodes[2].Identity()
		nodes[2].stop()
		_, err = a.ReplaceMember(within(t), "ops", "c", "")
		refusedWith(t, err, job.CodeUnavailable, "no master c answers at c.example:9010")
		c := w.machine("c").start()
		w.until("c to be refused", func() bool { return strings.Contains(c.Waiting(), "run `lancemaster cluster replace c`") })
		if member, err := a.Judge(peer.KindRaft, c.Identity()); member || err == nil {
			t.Error("an empty disk under an old id may talk to Raft")
		}
		_, err = a.AddMember(within(t), "ops", "c", c.address)
		refusedWith(t, err, job.CodeInUse, "c is a member, and answers with another disk than the registered one", "run `lancemaster cluster replace c`")

		var steps []string
		w.mu.Lock()
		w.fault = func(n *node, step string, after bool) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			if !after && !strings.HasPrefix(step, "call status") {
				steps = append(steps, n.id+" "+step)
			}
			return nil
		}
		w.mu.Unlock()
		_, err = a.ReplaceMember(within(t), "ops", "c", "")
		ok(t, err)
		w.mu.Lock()
		got := strings.Join(steps, ", ")
		w.mu.Unlock()
		if !strings.HasPrefix(got, "a remove c, a propose PUT_MEMBER, a call join c, c standing") {
			t.Errorf("the steps were %s", got)
		}
		w.until("c to take part", func() bool { return c.Waiting() == "" && len(c.Servers()) == 3 })
		if member, err := c.Judge(peer.KindRaft, old); member || err == nil {
			t.Error("the old disk is still a member to the new one")
		}
		// It catches up: the command again finds all done. Then it votes, and may lead.
		_, err = a.ReplaceMember(within(t), "ops", "c", "")
		ok(t, err)
		ok(t, a.AddVoter(within(t), "c", c.address))
		w.pump()
		w.lead("c")
		ok(t, c.EnsureRegistered(within(t)))
		_, err = c.ReplaceMember(within(t), "ops", "b", "")
		refusedWith(t, err, job.CodeAlreadyExists)
	})
}

func TestReplacingAgainAfterAnyFailure(t *testing.T) {
	for _, step := range []string{"remove c", "propose PUT_MEMBER", "call join c", "standing", "nonvoter c"} {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s %v", step, after), func(t *testing.T) {
				bubble(t, func(t *testing.T, w *world) {
					nodes := w.cluster("a", "b", "c")
					nodes[2].stop()
					c := w.machine("c").start()
					w.pass(2 * time.Second)
					w.failOnce(step, after, errLost)
					if _, err := nodes[0].ReplaceMember(within(t), "ops", "c", ""); err == nil {
						t.Fatal("no error")
					}
					w.pass(2 * time.Second)
					_, err := nodes[0].ReplaceMember(within(t), "ops", "c", "")
					ok(t, err)
					w.until("c to take part", func() bool { return c.Waiting() == "" && len(c.Servers()) == 3 })
					if got := w.state.Member("c").InstanceID; got != c.instance {
						t.Errorf("registered with %s", got)
					}
				})
			})
		}
	}
}

func TestReplaceKeepsAQuorum(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		nodes := w.cluster("a", "b", "c")
		nodes[1].stop()
		nodes[2].stop()
		c := w.machine("c").start()
		w.until("b to be missed", func() bool { return !nodes[0].reachable("b") })
		w.lead("a")
		_, err := nodes[0].ReplaceMember(within(t), "ops", "c", c.address)
		refusedWith(t, err, job.CodeInUse, "without c, 1 of 2 voting members would be reachable, which is no quorum (b is not reachable)")
	})
}

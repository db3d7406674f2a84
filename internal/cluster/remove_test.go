package cluster

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/peer"
	"github.com/lancemaster/lancemaster/internal/raftnode"
)

func TestRemove(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		nodes := w.cluster("a", "b", "c")
		a, c := nodes[0], nodes[2]
		refusedWith(t, a.RemoveMember(within(t), "ops", "z"), job.CodeNotFound, `no member "z"`)
		// The journal's answer is lost; the rest is made up for.
		w.failOnce("propose REMOVE_MEMBER", false, errLost)
		if err := a.RemoveMember(within(t), "ops", "c"); !errors.Is(err, errLost) {
			t.Fatalf("removed with %v", err)
		}
		if len(a.Servers()) != 2 || w.state.Member("c") == nil {
			t.Error("not out of the Raft configuration first")
		}
		o, err := a.Overview(within(t))
		ok(t, err)
		if warned := strings.Join(o.Warnings, "\n"); !strings.Contains(warned, "c is registered, but no member: run `lancemaster cluster add c c.example:9010` again to finish adding it, or `lancemaster cluster remove c`") {
			t.Errorf("warnings: %s", warned)
		}
		w.mu.Lock()
		before := nodes[1].rechecks
		w.mu.Unlock()
		ok(t, a.RemoveMember(within(t), "ops", "c"))
		if w.state.Member("c") != nil || a.rechecks == 0 {
			t.Error("c is still registered, or connected")
		}
		if member, err := a.Judge(peer.KindRaft, c.Identity()); member || err == nil || !strings.Contains(err.Error(), "never added, or was removed") {
			t.Errorf("c is taken for %v, %v", member, err)
		}
		// b sees the change and closes what c had with it.
		w.pass(3 * time.Second)
		w.mu.Lock()
		after := nodes[1].rechecks
		w.mu.Unlock()
		if after == before {
			t.Error("b keeps c's connections")
		}
		// c was cut off before it heard of it, by its own list it is a member: the others tell it.
		if c.Removed() {
			t.Fatal("c knows of its removal by itself")
		}
		if text := c.RefusedText(); !strings.HasPrefix(text, "a refuses this master (UNKNOWN_MEMBER): node c is not a member") || !strings.HasSuffix(text, "; b refuses this master (UNKNOWN_MEMBER)") {
			t.Errorf("c says of the others: %s", text)
		}
		if text := a.RefusedText(); text != "" {
			t.Errorf("a says of the others: %s", text)
		}
		o, err = c.Overview(within(t))
		ok(t, err)
		if warned := strings.Join(o.Warnings, "\n"); !strings.Contains(warned, "a refuses this master: node c is not a member") {
			t.Errorf("c warns: %s", warned)
		}
		refusedWith(t, a.RemoveMember(within(t), "ops", "c"), job.CodeNotFound)
		// With an emptied disk it can come back.
		c.stop()
		c = w.joiner("c")
		_, err = a.AddMember(within(t), "ops", "c", c.address)
		ok(t, err)
		w.until("c to take part", func() bool { return len(c.Servers()) == 3 })
	})
}

func TestRemoveKeepsAQuorum(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		nodes := w.cluster("a", "b", "c")
		a := nodes[0]
		nodes[2].stop()
		w.until("c to be missed", func() bool { return !a.reachable("c") })
		refusedWith(t, a.RemoveMember(within(t), "ops", "b"), job.CodeInUse, "without b, 1 of 2 voting members would be reachable", "c is not reachable")
		refusedWith(t, a.RemoveMember(within(t), "ops", "a"), job.CodeInUse, "without a, 1 of 2")
		ok(t, a.RemoveMember(within(t), "ops", "c"))
		ok(t, a.RemoveMember(within(t), "ops", "b"))
		refusedWith(t, a.RemoveMember(within(t), "ops", "a"), job.CodeInUse, "a is the only member")
		if b := nodes[1]; true {
			if _, err := b.AddMember(within(t), "ops", "d", "d.example:9010"); !errors.Is(err, job.ErrNotAppended) {
				t.Errorf("a node that does not lead adds: %v", err)
			}
		}
	})
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.cluster("a")[0], w.joiner("b")
		_, err := a.AddMember(within(t), "ops", "b", b.address)
		ok(t, err)
		refusedWith(t, a.RemoveMember(within(t), "ops", "a"), job.CodeInUse, "no voting member is left without a")
	})
}

func TestTheLeaderRemovesItself(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		nodes := w.cluster("a", "b", "c")
		a := nodes[0]
		// b lags, so c is the better successor.
		w.mu.Lock()
		nodes[1].lag = 1
		w.mu.Unlock()
		w.pass(2 * time.Second)
		ok(t, a.RemoveMember(within(t), "ops", "a"))
		if w.leaderID() != "c" || w.state.Member("a") != nil || len(nodes[2].Servers()) != 2 {
			t.Errorf("%s leads; registered %v; members %v", w.leaderID(), w.state.Member("a"), nodes[2].Servers())
		}
		if got := w.state.Members()[0].NodeID; got != "b" {
			t.Errorf("the first member is %s", got)
		}
	})
}

func TestTheLeaderRemovesItselfAndTheAnswerIsLost(t *testing.T) {
	for after, want := range map[bool]string{false: "was lost", true: "was lost"} {
		bubble(t, func(t *testing.T, w *world) {
			a := w.cluster("a", "b", "c")[0]
			w.failOnce("call remove-member b", after, errLost)
			err := a.RemoveMember(within(t), "ops", "a")
			if _, refused := job.AsRefusal(err); err == nil || refused || !strings.Contains(err.Error(), want) {
				t.Errorf("after %v: %v, which must leave the outcome open", after, err)
			}
			if gone := w.state.Member("a") == nil; gone != after {
				t.Errorf("a is removed: %v", gone)
			}
		})
	}
	bubble(t, func(t *testing.T, w *world) {
		a := w.cluster("a", "b", "c")[0]
		w.failOnce("call remove-member b", false, &peer.CallError{Err: errors.New("connection refused")})
		refusedWith(t, a.RemoveMember(within(t), "ops", "a"), job.CodeUnavailable, "the leadership went to b, which did not remove this master", "run the command again")
	})
	bubble(t, func(t *testing.T, w *world) { // the successor never gets ready
		nodes := w.cluster("a", "b", "c")
		w.mu.Lock()
		nodes[1].ready = false
		w.mu.Unlock()
		began := time.Now()
		if err := nodes[0].RemoveMember(within(t), "ops", "a"); err == nil || time.Since(began) > verbTime+time.Second {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
	})
}

// A removed master's own log says that it was removed, once, and not at a glimpse of members of the past.
func TestRemovedIsLogged(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		nodes := w.cluster("a", "b", "c")
		a, c := nodes[0], nodes[2]
		said := func() int { return strings.Count(c.log.String(), "no member any more: stop it") }
		w.failOnce("propose REMOVE_MEMBER", false, errLost) // which it does not hear of
		if err := a.RemoveMember(within(t), "ops", "c"); !errors.Is(err, errLost) {
			t.Fatalf("removed with %v", err)
		}
		set := func(servers []raftnode.Server) {
			w.mu.Lock()
			defer w.mu.Unlock()
			c.servers = servers
		}
		with := c.Servers()
		set(a.Servers())
		w.pass(pollInterval / 2)
		set(with)
		w.pass(3 * pollInterval)
		if said() != 0 {
			t.Fatalf("said of a member:\n%s", c.log.String())
		}
		set(a.Servers())
		w.pass(10 * pollInterval)
		if n := said(); n != 1 || strings.Contains(a.log.String(), "no member any more") {
			t.Errorf("said %d times:\n%s", n, c.log.String())
		}
	})
}

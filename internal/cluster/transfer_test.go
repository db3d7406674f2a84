package cluster

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/raftnode"
)

func TestTransfer(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		nodes := w.cluster("a", "b", "c")
		a := nodes[0]
		for id, want := range map[string]string{"a": "a", "c": "c"} {
			got, err := w.nodes[w.leaderID()].TransferLeader(within(t), "ops", id)
			ok(t, err)
			if got != want || w.leaderID() != want {
				t.Errorf("transfer to %s: %s leads", id, got)
			}
			w.lead("a")
		}
		_, err := a.TransferLeader(within(t), "ops", "z")
		refusedWith(t, err, job.CodeNotFound)
		if _, err := nodes[1].TransferLeader(within(t), "ops", "b"); !errors.Is(err, job.ErrNotAppended) || !errors.Is(err, raftnode.ErrNotLeader) {
			t.Errorf("a follower transfers: %v", err)
		}
		ok(t, a.AddNonvoter(within(t), "d", "d.example:9010"))
		_, err = a.TransferLeader(within(t), "ops", "d")
		refusedWith(t, err, job.CodeInvalid, "d does not vote yet")
		w.failOnce("transfer b", false, raftnode.ErrBusy)
		_, err = a.TransferLeader(within(t), "ops", "b")
		refusedWith(t, err, job.CodeUnavailable, "the leadership was not handed over to b")

		// b is down: whoever is live is chosen, though the logs are alike.
		nodes[1].stop()
		w.until("b to be missed", func() bool { return !a.reachable("b") })
		w.lead("a")
		_, err = a.TransferLeader(within(t), "ops", "b")
		refusedWith(t, err, job.CodeUnavailable, "b is not reachable")
		got, err := a.TransferLeader(within(t), "ops", "")
		ok(t, err)
		if got != "c" {
			t.Errorf("%s leads", got)
		}
		w.lead("a")
		nodes[2].stop()
		w.until("c to be missed", func() bool { return !a.reachable("c") })
		w.lead("a")
		_, err = a.TransferLeader(within(t), "ops", "")
		refusedWith(t, err, job.CodeUnavailable, "no other voting member is reachable")
		ok(t, a.HandOver(within(t))) // nobody there: nothing to do
		if w.leaderID() != "a" {
			t.Error("handed over to nobody")
		}
	})
}

func TestHandOver(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		nodes := w.cluster("a", "b", "c")
		ok(t, nodes[1].HandOver(within(t)))
		if w.leaderID() != "a" {
			t.Error("a follower handed over")
		}
		// b is stopping too.
		w.mu.Lock()
		nodes[1].stopping = true
		w.mu.Unlock()
		w.pass(2 * time.Second)
		ok(t, nodes[0].HandOver(within(t)))
		if w.leaderID() != "c" {
			t.Errorf("%s leads", w.leaderID())
		}
		tries := 0
		w.mu.Lock()
		w.fault = func(_ *node, step string, after bool) error {
			if strings.HasPrefix(step, "transfer") && !after {
				tries++
				return raftnode.ErrBusy
			}
			return nil
		}
		w.mu.Unlock()
		if err := nodes[2].HandOver(within(t)); err == nil || tries != 1 {
			t.Errorf("tried %d times: %v", tries, err)
		}
	})
}

// Who died a moment ago does not count for a quorum, nor as the one to hand over to.
func TestChangesGoByWhoIsLiveNow(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		nodes := w.cluster("a", "b", "c")
		w.mu.Lock()
		nodes[1].up = false
		w.mu.Unlock()
		if !nodes[0].reachable("b") {
			t.Fatal("b is missed already")
		}
		refusedWith(t, nodes[0].RemoveMember(within(t), "ops", "c"), job.CodeInUse, "without c, 1 of 2")
		w.mu.Lock()
		nodes[1].up, nodes[2].hangs = true, true
		w.mu.Unlock()
		_, err := nodes[0].TransferLeader(within(t), "ops", "c")
		refusedWith(t, err, job.CodeUnavailable, "c is not reachable")
		w.mu.Lock()
		nodes[1].lag, nodes[2].hangs = 1, false // c is the better one
		w.mu.Unlock()
		w.until("c to be heard", func() bool { return nodes[0].successor() == "c" })
		w.mu.Lock()
		nodes[2].hangs = true
		w.mu.Unlock()
		began := time.Now()
		ok(t, nodes[0].HandOver(within(t)))
		if took := time.Since(began); w.leaderID() != "b" || took > time.Second {
			t.Errorf("%s leads, after %s", w.leaderID(), took)
		}
	})
}

// One change at a time, and a bound for whoever waits; a master that hangs costs no more than that.
func TestChangesHaveABound(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.cluster("a")[0], w.joiner("b")
		w.mu.Lock()
		b.hangs = true
		w.mu.Unlock()
		began := time.Now()
		_, err := a.AddMember(within(t), "ops", "b", b.address)
		refusedWith(t, err, job.CodeUnavailable, "no master b answers")
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("a master that hangs took %s", took)
		}
		a.verbs <- struct{}{}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if err := a.RemoveMember(ctx, "ops", "b"); !errors.Is(err, job.ErrNotAppended) || !strings.Contains(err.Error(), "another change") {
			t.Errorf("beside another change: %v", err)
		}
		<-a.verbs
	})
}

package cluster

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/internal/await"
)

// overview tells of the member at a place of the list as well.
func (n *node) overview(at int) (MemberStatus, time.Duration) {
	n.w.t.Helper()
	before := time.Now()
	o, err := n.Overview(within(n.w.t))
	ok(n.w.t, err)
	return o.Members[at], time.Since(before)
}

// What is told of another master is as of the question, and of one that does not answer as of when it did.
func TestOverviewIsFresh(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a := w.cluster("a", "b", "c")[0]
		w.pass(5*time.Second + 300*time.Millisecond) // between two of the regular questions
		set := func(change func()) {
			w.mu.Lock()
			defer w.mu.Unlock()
			change()
		}
		set(func() { w.state.Position.Index += 100 })
		b, _ := a.overview(1)
		if self, _ := a.overview(0); b.Applied != self.Applied || b.LastHeard > refreshEvery {
			t.Errorf("b has applied %d of %d, as of %s ago", b.Applied, self.Applied, b.LastHeard)
		}
		w.nodes["c"].stop()
		await.Pass(2 * refreshEvery)
		c, _ := a.overview(2)
		if c.Reachable || c.ClockDifference != nil || c.Applied != b.Applied || !strings.Contains(c.LastError, "connection refused") {
			t.Errorf("of one that was stopped: %+v", c)
		}
	})
}

// Those who ask at once share the questions, and none waits long for a master that hangs; what was last
// heard of that stays.
func TestOverviewsShareTheirQuestions(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a := w.cluster("a", "b", "c")[0]
		w.pass(5*time.Second + 300*time.Millisecond)
		known, _ := a.overview(1)
		w.mu.Lock()
		w.nodes["b"].hangs = true
		var asked atomic.Int32
		w.fault = func(n *node, step string, after bool) error {
			if n == a && step == "call status c" && !after {
				asked.Add(1)
			}
			return nil
		}
		w.mu.Unlock()
		await.Pass(2 * refreshEvery)
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := a.Overview(gone); err == nil {
			t.Error("who has given up is told something")
		}
		await.Pass(2 * refreshEvery)
		asked.Store(0)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				b, took := a.overview(1)
				if took > refreshTimeout+10*time.Millisecond || !b.Reachable || b.Applied != known.Applied || b.LastError != "" {
					t.Errorf("after %s: %+v", took, b)
				}
			})
		}
		wg.Wait()
		// One round, and perhaps a regular question in that half second.
		if n := asked.Load(); n < 1 || n > 2 {
			t.Errorf("c was asked %d times", n)
		}
		w.until("b to be missed", func() bool { return !a.reachable("b") })
	})
}

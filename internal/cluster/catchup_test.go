package cluster

import (
	"context"
	"errors"
	"testing"
	"time"
)

// A follower has caught up when it has applied its leader's log: what a new leader has, and does not know to be
// committed yet, may have been acknowledged by the leader before it.
func TestCatchingUpGoesByTheLeadersLog(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		nodes := w.cluster("a", "b", "c")
		a, b := nodes[0], nodes[1]
		w.mu.Lock()
		w.state.Position.Index += 100
		w.mu.Unlock()
		set := func(lag, uncommitted uint64) {
			w.mu.Lock()
			defer w.mu.Unlock()
			b.lag, a.uncommitted = lag, uncommitted
		}
		catchUp := func(leader string) error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			return b.CatchUp(ctx, leader)
		}
		for name, behind := range map[string][2]uint64{"of what is committed": {3, 0}, "of what is not known to be": {3, 3}} {
			set(behind[0], behind[1])
			if err := catchUp("a"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%d entries behind, %s: %v", behind[0], name, err)
			}
		}
		set(0, 3)
		ok(t, catchUp("a"))
		set(0, 0)
		if err := catchUp("c"); err == nil {
			t.Error("it caught up with one that does not lead")
		}
	})
}

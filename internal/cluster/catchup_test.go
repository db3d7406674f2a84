package cluster

import (
	"context"
	"errors"
	"testing"
	"time"
)

// A follower has caught up when its state has what its leader's had. What Raft has passed on does not count, since
// that may be at work, nor does a leader that does not serve: what it has not applied yet may have been acknowledged
// by the leader before it.
func TestCatchingUpGoesByTheLeadersState(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		nodes := w.cluster("a", "b", "c")
		a, b := nodes[0], nodes[1]
		w.mu.Lock()
		w.state.Position.Index += 100
		w.mu.Unlock()
		set := func(lag, uncommitted, passed uint64) {
			w.mu.Lock()
			defer w.mu.Unlock()
			b.lag, a.uncommitted, b.passed = lag, uncommitted, passed
		}
		catchUp := func(leader string) error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			return b.CatchUp(ctx, leader)
		}
		for name, behind := range map[string][3]uint64{
			"of what is committed": {3, 0, 0}, "of what is not known to be": {3, 3, 0}, "of what is at work": {1, 0, 1 << 40},
		} {
			set(behind[0], behind[1], behind[2])
			if err := catchUp("a"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%d entries behind, %s: %v", behind[0], name, err)
			}
		}
		set(0, 3, 0)
		ok(t, catchUp("a"))
		set(0, 0, 0)
		serves := func(ready bool) {
			w.mu.Lock()
			defer w.mu.Unlock()
			a.ready = ready
		}
		serves(false)
		if err := catchUp("a"); err == nil {
			t.Error("it caught up with a leader that does not serve yet")
		}
		serves(true)
		if err := catchUp("c"); err == nil {
			t.Error("it caught up with one that does not lead")
		}
	})
}

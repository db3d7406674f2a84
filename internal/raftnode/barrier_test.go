package raftnode

import (
	"context"
	"errors"
	"testing"
	"time"
)

// Callers that arrive while a barrier is under way do not share it, but the next.
func TestBarrierBeginsAfterItsCallers(t *testing.T) {
	n := &Node{barriers: newBarriers(), raftEnded: make(chan struct{})}
	begun, finish := make(chan struct{}), make(chan error)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		n.runBarriers(func() error {
			begun <- struct{}{}
			return <-finish
		})
	}()
	first := n.barriers.join()
	<-begun
	second, third := n.barriers.join(), n.barriers.join()
	if first == second {
		t.Fatal("a caller shares a barrier that began before it arrived")
	}
	if second != third {
		t.Error("two callers that wait for the same barrier do not share it")
	}
	finish <- nil
	<-first.done
	select {
	case <-second.done:
		t.Fatal("the second barrier ended with the first")
	case <-begun:
	}
	lost := errors.New("lost")
	finish <- lost
	<-third.done
	if first.err != nil || !errors.Is(third.err, lost) {
		t.Errorf("the barriers said %v and %v", first.err, third.err)
	}

	running := n.barriers.join()
	<-begun
	waiting := n.barriers.join()
	n.barriers.close()
	<-waiting.done
	if !errors.Is(waiting.err, ErrStopped) {
		t.Errorf("a barrier that will never begin said %v", waiting.err)
	}
	if n.barriers.join() != nil {
		t.Error("a barrier can be joined after the end")
	}
	finish <- nil
	<-running.done
	close(n.raftEnded)
	<-ended
}

// What was acknowledged before the call has been applied when the barrier returns.
func TestReadBarrierSeesWhatWasAcknowledged(t *testing.T) {
	t.Parallel()
	c := startCluster(t, nil)
	c.propose(t, "x")
	c.transfer(t)
	next := c.leader(t) // leader waits for a barrier
	if got := c.fsms[next].applied(); len(got) != 1 || got[0] != "x" {
		t.Errorf("a new leader has applied %q", got)
	}
}

// A leader that was cut off, and does not know it yet, does not pass a barrier.
func TestReadBarrierOfALeaderCutOff(t *testing.T) {
	t.Parallel()
	c := startCluster(t, nil)
	lead := c.leader(t)
	c.cut(lead)
	err := c.nodes[lead].ReadBarrier(within(t))
	if !errors.Is(err, ErrLeadershipLost) && !errors.Is(err, ErrNotLeader) {
		t.Errorf("barrier: %v", err)
	}
}

// stuckContext stands for a command whose caller has given up just while it is given to Raft.
type stuckContext struct {
	context.Context
	asked chan struct{} // takes a token when the command is on its way
	goOn  chan struct{}
}

func (s stuckContext) Deadline() (time.Time, bool) {
	s.asked <- struct{}{}
	<-s.goOn
	return time.Time{}, false
}

// A barrier passes behind a command that is on its way, though its caller has given it up: after
// the barrier, a command that is not applied never will be.
func TestBarrierPassesBehindACommandGivenUp(t *testing.T) {
	t.Parallel()
	config, _ := testConfig(t, "m1", t.TempDir(), &recorder{})
	n := startSingle(t, config)
	ctx, cancel := context.WithCancel(t.Context())
	stuck := stuckContext{Context: ctx, asked: make(chan struct{}, 1), goOn: make(chan struct{})}
	proposed := make(chan error, 1)
	go func() {
		_, _, err := n.Propose(stuck, []byte("x"))
		proposed <- err
	}()
	<-stuck.asked
	cancel()
	if err := <-proposed; err == nil || errors.Is(err, ErrNotAppended) {
		t.Fatalf("a command given up on its way: %v, want an unknown outcome", err)
	}
	limit := within(t)
	passed := make(chan error, 1)
	go func() { passed <- n.ReadBarrier(limit) }()
	// It stands in the queue, which goes on only when the command was given to Raft or dropped. Taken out of it, it
	// need not wait for that any more.
	select {
	case p := <-n.queue:
		if p.done != nil {
			t.Errorf("the barrier proposes %q", p.data)
		}
	case err := <-passed:
		close(stuck.goOn)
		t.Fatalf("the barrier passed before the command was given to Raft or dropped: %v", err)
	case <-limit.Done():
		close(stuck.goOn)
		t.Fatal("the barrier does not stand in the queue")
	}
	if err := <-passed; err != nil {
		t.Error(err)
	}
	close(stuck.goOn)
	if err := n.ReadBarrier(limit); err != nil {
		t.Errorf("a barrier behind a command that was dropped: %v", err)
	}
}

package raftnode

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// barriers lets callers share barriers. One barrier is under way at a time; those who call meanwhile
// share the next, which begins after all of them have called.
type barriers struct {
	mu     sync.Mutex
	next   *barrierRound
	closed bool
	wake   chan struct{} // holds a token while next is set
}

// barrierRound is one barrier, and what it said.
type barrierRound struct {
	done chan struct{}
	err  error // set before done is closed
}

func newBarriers() *barriers {
	return &barriers{wake: make(chan struct{}, 1)}
}

// join returns the next round, or nil when there is none any more.
func (b *barriers) join() *barrierRound {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil
	}
	if b.next == nil {
		b.next = &barrierRound{done: make(chan struct{})}
		b.wake <- struct{}{}
	}
	return b.next
}

// take begins the next round: whoever joins from now on gets another one.
func (b *barriers) take() *barrierRound {
	b.mu.Lock()
	defer b.mu.Unlock()
	round := b.next
	b.next = nil
	return round
}

// close lets nobody join any more, and ends the round that has not begun.
func (b *barriers) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	if b.next != nil {
		b.next.end(ErrStopped)
		b.next = nil
	}
}

func (r *barrierRound) end(err error) {
	r.err = err
	close(r.done)
}

// ReadBarrier returns nil when all that any member acknowledged before the call has been applied to
// this node's state machine, and this node led when it was. It appends and applies an entry that
// does nothing; all callers that wait at the same moment share one.
//
// Its errors are ErrNotLeader, ErrLeadershipLost, ErrBusy, ErrTimeout, ErrDisk, ErrStopped, or ctx's.
func (n *Node) ReadBarrier(ctx context.Context) error {
	if _, leads := n.Term(); !leads {
		if n.running() == nil {
			return fmt.Errorf("read barrier: %w", ErrStopped)
		}
		return fmt.Errorf("read barrier: %w", ErrNotLeader)
	}
	round := n.barriers.join()
	if round == nil {
		return fmt.Errorf("read barrier: %w", ErrStopped)
	}
	select {
	case <-round.done:
		if round.err != nil {
			return fmt.Errorf("read barrier: %w", round.err)
		}
		return nil
	case <-ctx.Done():
		return waitError(ctx, "a read barrier")
	}
}

// runBarriers does one barrier after the other while somebody waits for one.
func (n *Node) runBarriers(do func() error) {
	for {
		select {
		case <-n.barriers.wake:
			if round := n.barriers.take(); round != nil {
				round.end(do())
			}
		case <-n.raftEnded:
			return
		}
	}
}

// barrier does one barrier. It stands behind every command that was proposed before it, also one that
// its caller has given up and that is only now on its way: after the barrier, what is not in the log
// of this leader never will be.
func (n *Node) barrier(r *raft.Raft) error {
	limit := time.NewTimer(n.config.BarrierTimeout)
	defer limit.Stop()
	if err := n.handedOver(limit.C); err != nil {
		return err
	}
	done := make(chan error, 1)
	n.background.Go(func() {
		done <- n.await(r.Barrier(n.config.EnqueueTimeout))
	})
	select {
	case err := <-done:
		return translate(err)
	case <-n.disk.troubled:
		return n.disk.Err()
	case <-limit.C:
		return fmt.Errorf("%w: not applied within %s", ErrTimeout, n.config.BarrierTimeout)
	}
}

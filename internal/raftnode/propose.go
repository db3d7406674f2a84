package raftnode

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/hashicorp/raft"
)

// proposal is one command on its way to Raft.
type proposal struct {
	ctx  context.Context
	data []byte
	done chan outcome // takes one outcome without blocking; nil for a mark, which is no command
}

// outcome is how a proposal ended.
type outcome struct {
	response any
	index    uint64
	err      error
}

// Propose replicates a command and returns what the state machine answered, and the command's index.
// It works on the leader only, and waits at most until ctx ends.
//
// An error that wraps ErrNotAppended says that the command is certainly not in the log: this node does
// not lead, or takes no commands now, or the command is too large. After any other error, the end of
// ctx included, the command may have been appended, and may yet be applied.
//
// A caller that waits for each of its commands, or gives one up and goes on, has them appended in the
// order of its calls.
func (n *Node) Propose(ctx context.Context, data []byte) (response any, index uint64, err error) {
	if len(data) > n.config.MaxCommandSize {
		return nil, 0, fmt.Errorf("%w: %w: %d bytes, at most %d are taken", ErrNotAppended, ErrTooLarge, len(data), n.config.MaxCommandSize)
	}
	if err := n.disk.Err(); err != nil {
		return nil, 0, fmt.Errorf("%w: %w", ErrNotAppended, err)
	}
	if n.running() == nil || !n.proposals.enter() {
		return nil, 0, fmt.Errorf("%w: %w", ErrNotAppended, ErrStopped)
	}
	// The caller may use data again after giving up.
	p := &proposal{ctx: ctx, data: bytes.Clone(data), done: make(chan outcome, 1)}
	select {
	case n.queue <- p:
	case <-ctx.Done():
		n.proposals.leave()
		return nil, 0, proposalError(waitError(ctx, "the leader to take the command"))
	case <-n.disk.troubled:
		n.proposals.leave()
		return nil, 0, fmt.Errorf("%w: %w", ErrNotAppended, n.disk.Err())
	case <-n.queueClosed:
		n.proposals.leave()
		return nil, 0, fmt.Errorf("%w: %w", ErrNotAppended, ErrStopped)
	}
	select {
	case o := <-p.done:
		return o.response, o.index, o.err
	case <-n.disk.troubled:
		return nil, 0, proposalError(n.disk.Err())
	case <-ctx.Done():
		return nil, 0, proposalError(waitError(ctx, "the command"))
	}
}

// handOver gives proposals to Raft, one after the other: Raft's own entrance does not keep an order
// among those who wait at it.
func (n *Node) handOver(r *raft.Raft) {
	for {
		select {
		case p := <-n.queue:
			if p.done != nil {
				n.propose(r, p)
			}
		case <-n.queueClosed:
			return
		}
	}
}

// handedOver waits until every proposal that was taken before the call has been given to Raft, or has
// been dropped. The queue holds nothing: what is taken next is taken after all of them.
func (n *Node) handedOver(limit <-chan time.Time) error {
	select {
	case n.queue <- &proposal{}:
		return nil
	case <-n.queueClosed:
		return ErrStopped
	case <-n.disk.troubled:
		return n.disk.Err()
	case <-limit:
		return fmt.Errorf("%w: the commands before the barrier were not taken in time", ErrTimeout)
	}
}

// propose hands one proposal to Raft and starts waiting for the answer.
func (n *Node) propose(r *raft.Raft, p *proposal) {
	wait := n.config.EnqueueTimeout
	if deadline, ok := p.ctx.Deadline(); ok {
		wait = min(wait, time.Until(deadline))
	}
	if p.ctx.Err() != nil || wait <= 0 {
		// The caller has gone; it was not told that the command is out of the log, but it is.
		n.proposals.leave()
		return
	}
	future := r.ApplyLog(raft.Log{Data: p.data}, wait)
	n.background.Go(func() {
		defer n.proposals.leave()
		if err := n.await(future); err != nil {
			p.done <- outcome{err: proposalError(err)}
			return
		}
		p.done <- outcome{response: future.Response(), index: future.Index()}
	})
}

// await waits for a future of Raft's, at the longest until Raft has ended altogether. Raft answers
// nobody whose entry was in the state machine's queue, or at the entrance, when it stopped: such a
// future would hang for ever, and the goroutine with it.
func (n *Node) await(future raft.Future) error {
	endWith(future, n.raftEnded)
	return future.Error()
}

// endWith makes a future end, with raft.ErrRaftShutdown, when ended is closed. A future has a field
// for this, ShutdownCh, which the library sets in some places only. Its type is not exported but
// the field is, so it can be set, before anybody waits. A future without that field is one that was
// answered when it was made.
func endWith(future raft.Future, ended chan struct{}) {
	value := reflect.ValueOf(future)
	if value.Kind() != reflect.Pointer || value.Elem().Kind() != reflect.Struct {
		return
	}
	field := value.Elem().FieldByName("ShutdownCh")
	if field.IsValid() && field.CanSet() && field.Type() == reflect.TypeOf(ended) {
		field.Set(reflect.ValueOf(ended))
	}
}

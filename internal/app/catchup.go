package app

import (
	"context"
	"errors"
	"sync"
	"time"
)

// catchUpTime bounds one question to the leader and the wait for what it tells of.
const catchUpTime = 2 * time.Second

// errNobodyToAsk is of a node that cannot tell whether its state is current.
var errNobodyToAsk = errors.New("no leader is known that could tell how far the cluster is")

// catchUp returns once this node's state shows all that the cluster had acknowledged before the call. It puts
// nothing into the journal: a leader that serves is current, and a follower asks its leader how far that is.
// All who wait at once share one question.
func (a *App) catchUp(ctx context.Context) error {
	return a.catchUps.do(ctx, func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), catchUpTime)
		defer cancel()
		if ready, _ := a.Ready(); ready {
			return nil
		}
		leader, _ := a.node.Leader()
		if leader == "" || leader == a.cfg.NodeID {
			return errNobodyToAsk
		}
		return a.members.CatchUp(ctx, leader)
	})
}

// together runs a function for all who ask for it meanwhile. A run serves those only who asked before it began,
// so that what it finds is no older than their question.
type together struct {
	mu      sync.Mutex
	next    *togetherRun
	running chan struct{} // holds a token while one runs
}

type togetherRun struct {
	done chan struct{}
	err  error // set before done is closed
}

func newTogether() *together { return &together{running: make(chan struct{}, 1)} }

// do returns what a run that began after the call has said. The run is of one of those who wait for it.
func (s *together) do(ctx context.Context, f func() error) error {
	s.mu.Lock()
	if s.next == nil {
		s.next = &togetherRun{done: make(chan struct{})}
	}
	run := s.next
	s.mu.Unlock()
	select {
	case <-run.done:
		return run.err
	case <-ctx.Done():
		return ctx.Err()
	case s.running <- struct{}{}:
	}
	defer func() { <-s.running }()
	s.mu.Lock()
	mine := s.next == run
	if mine {
		s.next = nil
	}
	s.mu.Unlock()
	if mine {
		run.err = errNobodyToAsk // should f panic
		defer close(run.done)
		run.err = f()
	}
	return run.err // whoever took it has ended it, or this would not be running
}

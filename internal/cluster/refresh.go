package cluster

import (
	"context"
	"sync"
	"time"
)

// How long a question about the cluster's state waits for the other masters, and how old their answers
// may be for them not to be asked again.
const (
	refreshTimeout = 500 * time.Millisecond
	refreshEvery   = 100 * time.Millisecond
)

// refreshing is the asking of all masters on request.
type refreshing struct {
	mu   sync.Mutex
	done chan struct{} // of the round under way, which all who want one share; nil: none is
	last time.Time     // when the newest round began
}

// refresh asks every master now, so that what is told is fresh. It returns when each has answered or
// refreshTimeout has passed. One that is slow keeps what was last heard of it: whether it is lost is for
// the regular questions to find out, which have more time.
func (p *peers) refresh(ctx context.Context) {
	r := &p.refreshing
	r.mu.Lock()
	if under := r.done; under != nil {
		r.mu.Unlock()
		select {
		case <-under:
		case <-ctx.Done():
		}
		return
	}
	now := time.Now()
	if !r.last.IsZero() && now.Sub(r.last) < refreshEvery {
		r.mu.Unlock()
		return
	}
	done := make(chan struct{})
	r.done, r.last = done, now
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.done = nil
		close(done)
	}()
	// Others may wait for the answers too, so it goes on where this caller gives up.
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), refreshTimeout)
	defer cancel()
	var asking sync.WaitGroup
	for _, m := range p.c.others() {
		asking.Go(func() { p.askWithin(bounded, m) })
	}
	asking.Wait()
}

// askWithin asks one master, and learns nothing where no answer came before ctx ended.
func (p *peers) askWithin(ctx context.Context, m Member) {
	before := p.question()
	s, identity, err := p.c.askStatus(ctx, m.ID, m.Address)
	if err != nil && ctx.Err() != nil {
		return
	}
	p.learn(m, before, s, identity, err)
}

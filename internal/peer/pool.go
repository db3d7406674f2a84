package peer

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// target is whom a call means, where, and which method: calls of one method that wait for long do not
// hold up those of another.
type target struct{ node, address, method string }

// pool keeps a few idle connections for calls to each node, and bounds the calls to each.
type pool struct {
	e      *Endpoint
	mu     sync.Mutex
	closed bool
	places map[target]*place
}

// place is one target's part of the pool. It is there while somebody calls or something is idle.
type place struct {
	pool   *pool
	target target
	slots  chan struct{} // one token for each call
	users  int
	idle   []*caller
}

func newPool(e *Endpoint) *pool {
	return &pool{e: e, places: make(map[target]*place)}
}

// enter waits for a call's turn. The caller must leave.
func (p *pool) enter(ctx context.Context, to target) (*place, error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, errClosed
	}
	at := p.places[to]
	if at == nil {
		at = &place{pool: p, target: to, slots: make(chan struct{}, maxCalls)}
		p.places[to] = at
	}
	at.users++
	p.mu.Unlock()
	select {
	case at.slots <- struct{}{}:
		return at, nil
	case <-ctx.Done():
		at.gone()
		return nil, fmt.Errorf("waited for one of %d calls of %s to %s to end: %w", maxCalls, to.method, to.address, context.Cause(ctx))
	case <-p.e.stopping:
		at.gone()
		return nil, errClosed
	}
}

func (at *place) leave() {
	<-at.slots
	at.gone()
}

func (at *place) gone() {
	at.pool.mu.Lock()
	defer at.pool.mu.Unlock()
	at.users--
	at.tidyLocked()
}

func (at *place) tidyLocked() {
	if at.users == 0 && len(at.idle) == 0 {
		delete(at.pool.places, at.target)
	}
}

// get returns a connection: the idle one used last, or a new one.
func (at *place) get(ctx context.Context, membersOnly bool) (c *caller, idle bool, err error) {
	e := at.pool.e
	for c := at.take(); c != nil; c = at.take() {
		if c.usable(membersOnly) {
			return c, true, nil
		}
		c.link.kill()
	}
	l, err := e.dial(ctx, KindCall, at.target.node, at.target.address, membersOnly)
	if err != nil {
		return nil, false, err
	}
	if c, err = e.newCaller(l); err != nil {
		l.kill()
		return nil, false, err
	}
	return c, false, nil
}

// usable says whether an idle connection may carry another call: it stands, this node says of itself
// what it said then, and the other is still what this call needs.
func (c *caller) usable(membersOnly bool) bool {
	select {
	case <-c.lost:
		return false
	default:
	}
	c.link.mu.Lock()
	told, other, dead := c.link.told, c.link.other, c.link.dead
	c.link.mu.Unlock()
	if dead || told != c.link.e.cfg.Self() || c.link.outlived() != nil {
		return false
	}
	member, refusal := c.link.e.judge(KindCall, other)
	return refusal == nil && (member || !membersOnly)
}

func (at *place) take() *caller {
	at.pool.mu.Lock()
	defer at.pool.mu.Unlock()
	if len(at.idle) == 0 {
		return nil
	}
	c := at.idle[len(at.idle)-1]
	at.idle = at.idle[:len(at.idle)-1]
	c.expiry.Stop()
	return c
}

// put gives a connection back.
func (at *place) put(c *caller) {
	at.pool.mu.Lock()
	defer at.pool.mu.Unlock()
	if at.pool.closed || len(at.idle) >= maxIdle {
		c.link.kill()
		return
	}
	at.idle = append(at.idle, c)
	c.expiry = time.AfterFunc(clientIdle, func() { at.expire(c) })
}

// expire closes a connection that nobody has used for a while, if it is still idle.
func (at *place) expire(c *caller) {
	at.pool.mu.Lock()
	defer at.pool.mu.Unlock()
	for i, idle := range at.idle {
		if idle == c {
			at.idle = append(at.idle[:i], at.idle[i+1:]...)
			c.link.kill()
			break
		}
	}
	at.tidyLocked()
}

// close closes what is idle and lets no call in any more.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, at := range p.places {
		for _, c := range at.idle {
			c.expiry.Stop()
			c.link.kill()
		}
		at.idle = nil
	}
	clear(p.places)
}

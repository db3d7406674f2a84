package raftnode

import "sync"

// gate counts what is under way, lets nothing more in once closed, and says when the last has left.
type gate struct {
	mu     sync.Mutex
	closed bool
	inside int
	empty  chan struct{}
}

func newGate() *gate {
	return &gate{empty: make(chan struct{})}
}

// enter reports whether the caller may go in; it must then leave.
func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.inside++
	return true
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	if g.closed && g.inside == 0 {
		close(g.empty)
	}
}

// close lets nobody in any more. The channel it returns is closed when nobody is inside. It may be
// called more than once.
func (g *gate) close() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.closed = true
		if g.inside == 0 {
			close(g.empty)
		}
	}
	return g.empty
}

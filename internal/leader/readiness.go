package leader

import (
	"context"
	"fmt"
	"sync"
)

// readiness is the term whose services all run, if there is one.
type readiness struct {
	mu      sync.Mutex
	term    uint64 // 0 for none
	changed chan struct{}
}

func newReadiness() *readiness {
	return &readiness{changed: make(chan struct{})}
}

func (r *readiness) set(term uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.term != term {
		r.term = term
		close(r.changed)
		r.changed = make(chan struct{})
	}
}

func (r *readiness) get() (term uint64, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.term, r.changed
}

// Ready returns the term this node leads at this moment with all services running, and true; or 0
// and false.
func (m *Manager) Ready() (term uint64, ok bool) {
	term, _ = m.ready.get()
	if led, leads, _ := m.config.Node.Leadership(); term == 0 || !leads || led != term {
		return 0, false
	}
	return term, true
}

// Changed returns a channel that is closed at the next change of readiness. To miss none, take the
// channel, then ask Ready, then wait.
func (m *Manager) Changed() <-chan struct{} {
	_, changed := m.ready.get()
	return changed
}

// Wait returns the term as soon as this node is ready in one.
func (m *Manager) Wait(ctx context.Context) (term uint64, err error) {
	for {
		changed := m.Changed()
		if term, ok := m.Ready(); ok {
			return term, nil
		}
		select {
		case <-changed:
		case <-m.stopped:
			return 0, fmt.Errorf("wait for the leader's services: %w", ErrStopped)
		case <-ctx.Done():
			return 0, fmt.Errorf("wait for the leader's services: %w", context.Cause(ctx))
		}
	}
}

package leader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// ErrStopped says that the manager has stopped, or is stopping.
var ErrStopped = errors.New("the leader's services are stopped for good")

// errTermLost is why the context of a term that was lost has ended.
var errTermLost = errors.New("the term is over")

// Manager runs a leader's services. See the package's documentation.
type Manager struct {
	config  Config
	log     *slog.Logger
	ready   *readiness
	metrics *metrics

	startOnce sync.Once
	// stopping ends when Stop is called, and stopped is closed when everything has ended.
	stopping context.Context
	stop     context.CancelFunc
	stopped  chan struct{}

	// failures counts the starts that failed in a row.
	failures int
}

// New returns a manager that has not been started.
func New(config Config) (*Manager, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	m := &Manager{config: config, log: config.Logger, ready: newReadiness(), metrics: newMetrics(), stopped: make(chan struct{})}
	m.stopping, m.stop = context.WithCancel(context.Background())
	return m, nil
}

// Start begins to follow the node's leadership. Further calls, and calls after Stop, do nothing.
func (m *Manager) Start() {
	m.startOnce.Do(func() { go m.run() })
}

// Stop withdraws readiness, stops what runs, and returns when all of it has ended or ctx has; the
// work goes on after that, and may be waited for by calling Stop again. The node should be shut
// down only afterwards, so that services may journal what they must.
func (m *Manager) Stop(ctx context.Context) error {
	m.stop()
	m.startOnce.Do(func() { close(m.stopped) }) // never started
	select {
	case <-m.stopped:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stop the leader's services: %w", context.Cause(ctx))
	}
}

// run leads one term after the other.
func (m *Manager) run() {
	defer close(m.stopped)
	for {
		term, leads, changed := m.config.Node.Leadership()
		if leads {
			m.lead(term)
			if m.stopping.Err() == nil {
				// What lead saw end may not have been the newest: look again.
				continue
			}
		}
		select {
		case <-changed:
		case <-m.stopping.Done():
			return
		}
	}
}

// lead does the work of one term, and returns when the term is over and its work has ended.
func (m *Manager) lead(term uint64) {
	t := m.begin(term)
	defer t.end()
	m.metrics.won.Inc()
	m.log.Info("won the leadership", "term", term)
	for !t.isOver() {
		err := t.serve()
		switch {
		case err == nil:
			m.failures = 0
			m.log.Info("left the leadership", "term", term)
			return
		case t.isOver():
			m.log.Info("lost the leadership before the services had started", "term", term, "error", err)
			return
		}
		m.failures++
		m.metrics.failures.Inc()
		m.log.Error("a leader's start failed", "term", term, "failures", m.failures, "error", err)
		if m.failures == m.config.MaxFailures {
			m.config.Fatal(fmt.Errorf("this node leads term %d and cannot do a leader's work: %d starts have failed: %w",
				term, m.failures, err))
		}
		t.giveUp()
	}
}

// backoff is the pause after the failures so far.
func (m *Manager) backoff() time.Duration {
	pause := m.config.MinBackoff
	for i := 1; i < m.failures && pause < m.config.MaxBackoff; i++ {
		pause *= 2
	}
	return min(pause, m.config.MaxBackoff)
}

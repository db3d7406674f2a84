package backend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lancemaster/lancemaster/internal/job"
)

// aliveIntervals is how many heartbeat intervals an OK answer keeps a backend
// alive.
const aliveIntervals = 3

// Bounds on the time that one heartbeat may take. It is the heartbeat interval
// within these, and never more than backend.rpc_timeout.
const (
	minHeartbeatTime = time.Second
	maxHeartbeatTime = time.Minute
)

// Pinger asks one backend for a sign of life. Heartbeat returns soon after its
// context ends.
type Pinger interface {
	Heartbeat(ctx context.Context, address job.Address, request job.HeartbeatRequest) (job.HeartbeatReply, error)
}

// Reader shows the replicated state: the registry, the settings, the cluster.
type Reader interface {
	Read(show func(*job.Live))
}

// Config is what a Monitor needs.
type Config struct {
	Pinger Pinger
	Reader Reader
	// ReportHost and ReportPort are where this master's report service listens, as
	// backends reach it; HTTPPort where its status pages are.
	ReportHost string
	ReportPort int32
	HTTPPort   int32
	Token      string // shared with the backends; never logged
	// Changed is called when a backend came alive or another process or address
	// answered. It must not block.
	Changed    func()
	Logger     *slog.Logger
	Registerer prometheus.Registerer // nil: the metrics are not exported
}

// Monitor is the leader's service of heartbeats.
type Monitor struct {
	cfg     Config
	metrics *metrics

	// lifecycle serializes Start and Stop. A channel, since Stop waits while it has
	// it, and the tests' clock stands still while anybody waits for a mutex.
	lifecycle chan struct{}

	mu    sync.Mutex
	watch *watch // nil while stopped
}

// NewMonitor returns a monitor that is not started.
func NewMonitor(cfg Config) (*Monitor, error) {
	if cfg.Pinger == nil || cfg.Reader == nil {
		return nil, errors.New("the heartbeat monitor needs a pinger and a reader")
	}
	if cfg.Changed == nil {
		cfg.Changed = func() {}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	m := &Monitor{cfg: cfg, metrics: newMetrics(), lifecycle: make(chan struct{}, 1)}
	if cfg.Registerer != nil {
		if err := cfg.Registerer.Register(newCollector(m)); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// Name names the service.
func (m *Monitor) Name() string { return "heartbeats" }

// Start begins the heartbeats of a term. What an earlier term observed is gone.
func (m *Monitor) Start(ctx context.Context, term uint64) error {
	m.lifecycle <- struct{}{}
	defer func() { <-m.lifecycle }()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.watch != nil {
		return fmt.Errorf("the heartbeats of term %d have not been stopped; term %d cannot start them", m.watch.term, term)
	}
	w := newWatch(m, term)
	w.ctx, w.cancel = context.WithCancel(ctx)
	m.watch = w
	w.running.Go(w.supervise)
	return nil
}

// Stop ends the heartbeats and waits for everything that Start began. It is safe
// to call at any time and more than once.
func (m *Monitor) Stop() {
	m.lifecycle <- struct{}{}
	defer func() { <-m.lifecycle }()
	m.mu.Lock()
	w := m.watch
	m.watch = nil
	m.mu.Unlock()
	if w == nil {
		return
	}
	w.cancel()
	w.running.Wait()
}

// Wake has the registry and the settings looked at again at once.
func (m *Monitor) Wake() {
	if w := m.current(); w != nil {
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
}

func (m *Monitor) current() *watch {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.watch
}

// Status returns what is known of a backend in the present term. It is false
// where the monitor is stopped or the backend is not registered.
func (m *Monitor) Status(id job.BackendID) (Status, bool) {
	w := m.current()
	if w == nil {
		return Status{}, false
	}
	return w.status(id)
}

// Statuses returns what is known of every watched backend, by ascending id.
func (m *Monitor) Statuses() []Status {
	w := m.current()
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make([]Status, 0, len(w.probes))
	for _, p := range w.probes {
		all = append(all, p.status(w.interval))
	}
	slices.SortFunc(all, func(a, b Status) int { return cmp.Compare(a.Backend, b.Backend) })
	return all
}

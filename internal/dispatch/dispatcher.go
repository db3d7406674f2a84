package dispatch

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lancemaster/lancemaster/internal/backend"
	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/refresh"
)

// Proposer journals a command. The error tells three ends apart: a *job.Refusal
// was not applied; one that wraps job.ErrNotAppended certainly never reached the
// journal; after any other the command may be applied, now or later. Propose
// returns soon after its context ends.
type Proposer interface {
	Propose(ctx context.Context, command job.Command) (job.Answer, error)
}

// Reader shows the replicated state as far as this master has applied it. Job
// also finds jobs that are not open; it returns nil for one that does not exist.
type Reader interface {
	Read(show func(*job.Live))
	Job(id job.ID) (*job.Record, error)
}

// Sender reaches backends. Dial opens a fresh connection and writes nothing of
// the call. Size is the invocation's size as sent, in compact form.
type Sender interface {
	Dial(ctx context.Context, address job.Address) (Conn, error)
	Size(invocation *job.Invocation) (int, error)
}

// Conn is one fresh connection, good for one call. An error of Submit that wraps
// job.ErrUnknownMethod is a complete answer; after any other error nobody knows
// what the backend did. Submit returns soon after its context ends.
type Conn interface {
	Submit(ctx context.Context, invocation *job.Invocation) (job.Reply, error)
	// RemoteAddr returns the resolved host:port that was reached.
	RemoteAddr() string
	Close() error
}

// Term tells the present Raft term and whether this master leads it.
type Term interface {
	Term() (term uint64, leader bool)
}

// Barrier returns once everything that was appended to the journal before the
// call, and will ever be applied, is applied here.
type Barrier interface {
	Barrier(ctx context.Context) error
}

// Membership counts the members of the Raft configuration.
type Membership interface {
	Members() int
}

// ClockAgreement tells whether this master's wall clock agrees, within a minute,
// with a majority of the masters, itself among them.
type ClockAgreement interface {
	AgreesWithMajority() bool
}

// Resolver resolves a reference to a secret, file:PATH or env:NAME. Its errors
// name the reference and never the secret.
type Resolver interface {
	Resolve(ctx context.Context, reference string) (string, error)
}

// Liveness tells what the heartbeats of the present term know of a backend.
type Liveness interface {
	Status(id job.BackendID) (backend.Status, bool)
}

// Config is what a Dispatcher needs. All but the last four are required.
type Config struct {
	Proposer       Proposer
	Reader         Reader
	Sender         Sender
	Liveness       Liveness
	Term           Term
	Barrier        Barrier
	Membership     Membership
	ClockAgreement ClockAgreement
	Resolver       Resolver
	Refreshers     *refresh.Registry
	Sends          *Sends // the process's one table

	Clock Clock // nil: BootClock
	// WallOffset is how far the wall clock is to be taken for ahead of the system's; nil: not at all.
	// Tests step the clock with it.
	WallOffset func() time.Duration
	Random     io.Reader // nil: crypto/rand
	Logger     *slog.Logger
	Registerer prometheus.Registerer // nil: the metrics are not exported
}

// Bounds in time that are no settings.
const (
	// proposeTime bounds the wait for one journal write.
	proposeTime = 10 * time.Second
	// stopTime is how long Stop lets sends under way end by themselves, and what is
	// known be journaled.
	stopTime = 2 * time.Second
	// maxSettleBackoff and maxPrepareBackoff bound the wait between two tries of one
	// job's conclusion and preparation.
	maxSettleBackoff  = 10 * time.Second
	maxPrepareBackoff = 60 * time.Second
)

// Dispatcher is the leader's service that sends jobs to backends, ends those
// whose time is up, and drives the refreshes they owe.
type Dispatcher struct {
	cfg     Config
	metrics *metrics

	// lifecycle serializes Start and Stop. A channel, since Stop waits while it has
	// it, and the tests' clock stands still while anybody waits for a mutex.
	lifecycle chan struct{}

	mu  sync.Mutex
	run *run // nil while stopped
}

// New returns a dispatcher that is not started.
func New(cfg Config) (*Dispatcher, error) {
	if cfg.Proposer == nil || cfg.Reader == nil || cfg.Sender == nil || cfg.Liveness == nil || cfg.Term == nil ||
		cfg.Barrier == nil || cfg.Membership == nil || cfg.ClockAgreement == nil || cfg.Resolver == nil ||
		cfg.Refreshers == nil || cfg.Sends == nil {
		return nil, errors.New("the dispatcher lacks a part that it cannot do without; see dispatch.Config")
	}
	if cfg.Clock == nil {
		cfg.Clock = BootClock{}
	}
	if cfg.Random == nil {
		cfg.Random = rand.Reader
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	d := &Dispatcher{cfg: cfg, metrics: newMetrics(cfg.Refreshers.Kinds()), lifecycle: make(chan struct{}, 1)}
	if cfg.Registerer != nil {
		if err := d.register(cfg.Registerer); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// Name names the service.
func (d *Dispatcher) Name() string { return "dispatch" }

// Start begins a term's rounds. It is called once the term is won and its barrier
// has passed. The end of ctx closes every OPEN latch and ends the rounds; Stop is
// still to be called.
func (d *Dispatcher) Start(ctx context.Context, term uint64) error {
	d.lifecycle <- struct{}{}
	defer func() { <-d.lifecycle }()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.run != nil {
		return fmt.Errorf("the dispatcher of term %d has not been stopped; term %d cannot start it", d.run.term, term)
	}
	d.run = newRun(ctx, d, term)
	d.run.start()
	return nil
}

// Stop ends the term's work: nothing that was not written is written any more,
// what is known of the sends is journaled where that still succeeds within two
// seconds, and everything that Start began has ended when it returns. It is safe
// to call at any time and more than once.
func (d *Dispatcher) Stop() {
	d.lifecycle <- struct{}{}
	defer func() { <-d.lifecycle }()
	d.mu.Lock()
	r := d.run
	d.run = nil
	d.mu.Unlock()
	if r != nil {
		r.stop()
	}
}

// Wake asks for a round at once. It never blocks, and calls that come while a
// round waits to begin are one.
func (d *Dispatcher) Wake() {
	d.mu.Lock()
	r := d.run
	d.mu.Unlock()
	if r != nil {
		r.wakeUp()
	}
}

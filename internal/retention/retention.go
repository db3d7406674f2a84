// Package retention removes jobs that are done with: not open, and closed longer
// ago than retention.keep. It is a service of the leader.
//
// A job that holds a fence or a slot is never removed, at any age; the state
// machine checks that again. Removal goes in bounded batches, the job closed
// longest ago first, each batch one command of the journal, so that a large
// backlog holds up nobody. When there is nothing to remove, nothing is written.
//
// A clock that is wrong could remove what is young. Nothing is removed unless the
// leader's clock agrees with a reachable majority of the masters.
package retention

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lancemaster/lancemaster/internal/job"
)

// Proposer journals a command.
type Proposer interface {
	Propose(ctx context.Context, c job.Command) (job.Answer, error)
}

// Reader shows the replicated state.
type Reader interface {
	Read(func(*job.Live))
	// Closed lists up to limit jobs that are not open and were closed before a time,
	// the one closed longest ago first.
	Closed(before job.Millis, limit int) ([]job.ID, error)
}

// ClockAgreement tells whether this master's wall clock agrees with a reachable
// majority of the masters.
type ClockAgreement interface{ AgreesWithMajority() bool }

// Config is what a Service needs. Logger and Registerer may be nil.
type Config struct {
	Proposer   Proposer
	Reader     Reader
	Clock      ClockAgreement
	Now        func() time.Time // the wall clock; nil: time.Now
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

const (
	// batch is how many jobs one command removes.
	batch = 256
	// pause between two batches lets other commands pass.
	pause = 100 * time.Millisecond
	// look is how often a changed retention.interval is looked for.
	look = time.Minute
)

// Service removes jobs while its node leads.
type Service struct {
	cfg     Config
	metrics *metrics

	mu     sync.Mutex
	cancel context.CancelFunc
	done   chan struct{}
}

// New returns a service that is not started.
func New(cfg Config) (*Service, error) {
	if cfg.Proposer == nil || cfg.Reader == nil || cfg.Clock == nil {
		return nil, errors.New("retention: Proposer, Reader and Clock are required")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	s := &Service{cfg: cfg, metrics: newMetrics()}
	if cfg.Registerer != nil {
		if err := s.metrics.register(cfg.Registerer); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Name names the service.
func (s *Service) Name() string { return "retention" }

// Start begins a term's removals: the first at once, since a leader may have been
// elected only now.
func (s *Service) Start(ctx context.Context, _ uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancel != nil {
		return errors.New("retention is started already; stop it first")
	}
	ctx, s.cancel = context.WithCancel(ctx)
	s.done = make(chan struct{})
	go s.run(ctx, s.done)
	return nil
}

// Stop ends the term's removals and waits for them.
func (s *Service) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancel == nil {
		return
	}
	s.cancel()
	<-s.done
	s.cancel, s.done = nil, nil
}

func (s *Service) run(ctx context.Context, done chan struct{}) {
	defer close(done)
	for ctx.Err() == nil {
		err := s.sweep(ctx)
		s.metrics.swept(ctx, err)
		if err != nil && ctx.Err() == nil {
			s.cfg.Logger.Warn("old jobs could not be removed; the next interval tries again", "error", err)
		}
		s.rest(ctx)
	}
}

// rest waits for the interval to pass. It looks at the setting now and then, so
// that a shorter one counts soon.
func (s *Service) rest(ctx context.Context) {
	for began := time.Now(); ctx.Err() == nil; {
		left := s.settings().RetentionInterval - time.Since(began)
		if left <= 0 {
			return
		}
		sleep(ctx, min(left, look))
	}
}

func (s *Service) settings() (out job.Settings) {
	s.cfg.Reader.Read(func(l *job.Live) { out = l.Settings() })
	return out
}

// sweep removes all that is due, batch by batch.
func (s *Service) sweep(ctx context.Context) error {
	removed := 0
	for ctx.Err() == nil {
		n, err := s.removeBatch(ctx)
		if err != nil {
			return err
		}
		removed += n
		if n < batch {
			break
		}
		sleep(ctx, pause)
	}
	if removed > 0 {
		s.cfg.Logger.Info("old jobs removed", "jobs", removed)
	}
	return nil
}

func (s *Service) removeBatch(ctx context.Context) (int, error) {
	now := s.cfg.Now()
	before := job.Millis(now.Add(-s.settings().RetentionKeep).UnixMilli())
	due, err := s.cfg.Reader.Closed(before, 1)
	if err != nil || len(due) == 0 {
		return 0, err
	}
	if !s.cfg.Clock.AgreesWithMajority() {
		return 0, errors.New("it is not certain that this master's clock agrees with a majority of the masters within a minute;" +
			" see that it does, and that they can reach each other")
	}
	answer, err := s.cfg.Proposer.Propose(ctx, job.RemoveResolved{
		Header: job.Header{At: job.Millis(now.UnixMilli()), Actor: job.ActorSystem}, Before: before, Limit: batch,
	})
	if err != nil {
		return 0, err
	}
	s.metrics.removed.Add(float64(answer.Count))
	return answer.Count, nil
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

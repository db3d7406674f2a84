package leader

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// Node is what the manager needs of the Raft node.
type Node interface {
	// Leadership returns the term this node leads, whether it leads one, and a channel that is
	// closed at the next change of the two.
	Leadership() (term uint64, leads bool, changed <-chan struct{})
	// ReadBarrier returns nil when all that was committed in earlier terms has been applied here.
	ReadBarrier(ctx context.Context) error
}

// Service is something only the leader runs.
type Service interface {
	// Name names the service in logs and errors.
	Name() string
	// Start begins the service's work for a term and returns. ctx ends when the term is lost; the
	// work must end with it or with Stop, whichever comes first. A service whose Start has failed is
	// stopped like one that runs.
	Start(ctx context.Context, term uint64) error
	// Stop ends the work and returns when everything that Start began has ended. It may be called
	// more than once, and without a Start.
	Stop()
}

// Config says what a manager runs. Node and Fatal have no default.
type Config struct {
	Node Node
	// Services are started in this order and stopped in the reverse one.
	Services []Service
	// OnTermStart is called after the barrier and before the services; it journals the term's
	// start. May be nil.
	OnTermStart func(ctx context.Context, term uint64) error
	// StepDown hands the leadership to another member when a start has failed. An error means that
	// it could not, as when there is no other. nil means that there is never another.
	StepDown func(ctx context.Context) error
	// Fatal is told that this node leads and cannot do a leader's work. The process must then end.
	// It runs on a goroutine of the manager and must not wait for Stop.
	Fatal func(error)
	// Logger gets the manager's lines (default: none).
	Logger *slog.Logger

	// StartTimeout bounds one start of a term, barrier and all services together (default 30s).
	StartTimeout time.Duration
	// StopTimeout bounds the stop of one service, and how late a start may return once its time is
	// over. What takes longer is fatal (default 30s).
	StopTimeout time.Duration
	// StepDownTimeout bounds StepDown and the wait for its effect (default 5s).
	StepDownTimeout time.Duration
	// MaxFailures is how many starts in a row may fail before Fatal is called (default 8).
	MaxFailures int
	// MinBackoff is the pause after the first failed start; it doubles with each further one, up to
	// MaxBackoff (defaults 100ms and 5s).
	MinBackoff, MaxBackoff time.Duration
}

const (
	defaultStartTimeout    = 30 * time.Second
	defaultStopTimeout     = 30 * time.Second
	defaultStepDownTimeout = 5 * time.Second
	defaultMaxFailures     = 8
	defaultMinBackoff      = 100 * time.Millisecond
	defaultMaxBackoff      = 5 * time.Second
)

func (c Config) withDefaults() (Config, error) {
	if c.Node == nil {
		return c, errors.New("leader: there is no raft node to lead with")
	}
	if c.Fatal == nil {
		return c, errors.New("leader: nobody is named to be told that a leader's work cannot be done")
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.MaxFailures <= 0 {
		c.MaxFailures = defaultMaxFailures
	}
	for _, bound := range []struct {
		value    *time.Duration
		fallback time.Duration
	}{
		{&c.StartTimeout, defaultStartTimeout}, {&c.StopTimeout, defaultStopTimeout},
		{&c.StepDownTimeout, defaultStepDownTimeout},
		{&c.MinBackoff, defaultMinBackoff}, {&c.MaxBackoff, defaultMaxBackoff},
	} {
		if *bound.value <= 0 {
			*bound.value = bound.fallback
		}
	}
	return c, nil
}

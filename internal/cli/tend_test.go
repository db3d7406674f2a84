package cli

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lancemaster/lancemaster/internal/await"
)

// fakeNode takes some time to stop, or never does.
type fakeNode struct {
	done    chan error
	stopFor time.Duration
	stopped atomic.Bool
	bounded atomic.Bool
}

func (n *fakeNode) Done() <-chan error { return n.done }

func (n *fakeNode) Stop(ctx context.Context) error {
	_, bounded := ctx.Deadline()
	n.bounded.Store(bounded)
	await.Pass(n.stopFor)
	n.stopped.Store(true)
	return nil
}

func TestTend(t *testing.T) {
	const bound = 10 * time.Second
	startFailed := errors.New("port taken")
	for _, tt := range []struct {
		name     string
		startFor time.Duration // the start ends early when it is told to
		startErr error
		deaf     bool // the start does not listen to its context
		stopFor  time.Duration
		upErr    error
		fatal    bool // a second after the start
		signals  []time.Duration
		want     string // part of the error, empty: none
		stopped  bool
		took     time.Duration
	}{
		{name: "a signal", signals: []time.Duration{time.Minute}, stopFor: time.Second, stopped: true, took: time.Minute + time.Second},
		{name: "a second signal", signals: []time.Duration{time.Minute, time.Minute + 2*time.Second}, stopFor: 9 * time.Second, want: "second signal", took: time.Minute + 2*time.Second},
		{name: "a stop that hangs", signals: []time.Duration{time.Minute}, stopFor: time.Hour, want: "did not stop within", took: time.Minute + bound + stopMargin},
		{name: "a fatal fault", fatal: true, want: "cannot go on: disk stalled", took: time.Second},
		{name: "no start", startErr: startFailed, want: "port taken"},
		{name: "a signal while starting", startFor: time.Hour, signals: []time.Duration{time.Second}, took: time.Second},
		{name: "a signal while starting, too late", startFor: 3 * time.Second, deaf: true, signals: []time.Duration{time.Second}, stopped: true, took: 3 * time.Second},
		{name: "a start that hangs", startFor: time.Hour, deaf: true, signals: []time.Duration{time.Second}, want: "start did not end", took: time.Second + bound + stopMargin},
		{name: "two signals while starting", startFor: time.Hour, deaf: true, signals: []time.Duration{time.Second, 2 * time.Second}, want: "while starting", took: 2 * time.Second},
		{name: "no output", upErr: errors.New("disk full"), want: "disk full", stopped: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &fakeNode{done: make(chan error, 1), stopFor: tt.stopFor}
				signals := make(chan os.Signal, 2)
				for _, at := range tt.signals {
					time.AfterFunc(at, func() { signals <- syscall.SIGTERM })
				}
				if tt.fatal {
					time.AfterFunc(time.Second, func() { n.done <- errors.New("disk stalled") })
				}
				begun := time.Now()
				err := tend(t.Context(), tending{
					bound:   func() time.Duration { return bound },
					signals: signals,
					up:      func() error { return tt.upErr },
					start: func(ctx context.Context) (node, error) {
						told := ctx.Done()
						if tt.deaf {
							told = nil
						}
						select {
						case <-time.After(tt.startFor):
							return n, tt.startErr
						case <-told:
							return nil, ctx.Err()
						}
					},
				})
				if took := time.Since(begun); took != tt.took {
					t.Errorf("it took %s, want %s", took, tt.took)
				}
				if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
					t.Errorf("the error is %v, want %q", err, tt.want)
				}
				if n.stopped.Load() != tt.stopped || tt.stopped && !n.bounded.Load() {
					t.Errorf("stopped: %v, with a bound: %v", n.stopped.Load(), n.bounded.Load())
				}
				await.Pass(2 * time.Hour)
			})
		})
	}
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// node is a master that runs in this process.
type node interface {
	Done() <-chan error // tells of a fault that the process must not survive
	Stop(context.Context) error
}

// stopMargin is what tend adds to a node's own bound before it gives up on it.
const stopMargin = 2 * time.Second

// tending is how a node is run until it is told to stop.
type tending struct {
	// start starts the node; when it fails nothing of the node is left.
	start func(context.Context) (node, error)
	// up is called once the node has started.
	up func() error
	// bound is how long the node gives itself to stop, which a reload may change.
	bound   func() time.Duration
	signals <-chan os.Signal
	// reload is called for reloads while the node runs; both may be nil. It reads files, on file systems
	// that may not answer, so it runs beside the wait for signals: one at a time, and once more for
	// signals that came during it. Its context ends when the node is to stop. slow is called when it has
	// taken slowReload.
	reload  func(context.Context)
	reloads <-chan os.Signal
	slow    func()
	// ending is called when a started node is about to stop; it may be nil.
	ending func()
}

// notifyReload makes the channel of the signal that reloads the configuration. It is taken from the
// beginning, since the default is to end the process.
func notifyReload() (signals chan os.Signal, end func()) {
	signals = make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP)
	return signals, func() { signal.Stop(signals) }
}

// notify makes the channel of the signals that stop a node; the caller ends it.
func notify() (signals chan os.Signal, end func()) {
	signals = make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	return signals, func() { signal.Stop(signals) }
}

// tend runs a node until a signal comes or ctx ends, and then stops it. A second
// signal ends the wait at once; what is then still under way ends with the process,
// as it would with kill -9, which the journal is made for. So does a fatal fault.
func tend(ctx context.Context, t tending) error {
	startCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	starting := make(chan started, 1)
	go func() {
		n, err := t.start(startCtx)
		starting <- started{n, err}
	}()
	select {
	case s := <-starting:
		if s.err != nil {
			return s.err
		}
		return t.run(ctx, s.n)
	case <-t.signals:
	case <-ctx.Done():
	}
	cancel()
	select {
	case s := <-starting:
		switch {
		case s.err == nil:
			return t.stop(ctx, s.n)
		case errors.Is(s.err, context.Canceled):
			return nil // as it was told
		}
		return s.err
	case <-t.signals:
		return errors.New("stopped at once by a second signal, while starting")
	case <-time.After(t.bound() + stopMargin):
		return fmt.Errorf("the start did not end within %s of being told to; stopped at once", t.bound()+stopMargin)
	}
}

// started is how a start ended.
type started struct {
	n   node
	err error
}

// run waits until a started node is to stop, and stops it.
func (t tending) run(ctx context.Context, n node) error {
	if err := t.up(); err != nil {
		return errors.Join(err, t.stop(ctx, n))
	}
	r := newReloader(ctx, t)
	for {
		select {
		case err := <-n.Done():
			r.cancel()
			return fmt.Errorf("the node cannot go on: %w", err)
		case <-r.asked():
			r.begin()
			continue
		case <-r.running:
			r.ended()
			continue
		case <-r.late:
			r.late = nil
			t.slow()
			continue
		case <-t.signals:
		case <-ctx.Done():
		}
		r.cancel()
		err := t.stop(ctx, n)
		r.wait()
		return err
	}
}

// stop stops the node, within its bound and until a second signal.
func (t tending) stop(ctx context.Context, n node) error {
	if t.ending != nil {
		t.ending()
	}
	bound := t.bound()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), bound)
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- n.Stop(ctx) }()
	select {
	case err := <-stopped:
		return err
	case <-t.signals:
		return errors.New("stopped at once by a second signal")
	case <-time.After(bound + stopMargin):
		return fmt.Errorf("the node did not stop within %s; stopped at once", bound+stopMargin)
	}
}

// nodeLogger logs to w.
func nodeLogger(w io.Writer, level slog.Leveler, format string) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// refuseFlags refuses flags of the root that mean nothing to a command that runs a
// node.
func refuseFlags(cmd *cobra.Command, names ...string) error {
	for _, name := range append(names, "token-file", "tls-ca", "tls-cert", "tls-key") {
		if cmd.Flags().Changed(name) {
			return usagef("%s runs a master here and calls none: --%s means nothing to it", cmd.CommandPath(), name)
		}
	}
	return nil
}

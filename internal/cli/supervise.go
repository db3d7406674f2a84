package cli

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// supervisor tells the service manager how a node is, where there is one that asks (sd_notify). It
// does nothing elsewhere.
type supervisor struct {
	log    *slog.Logger
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu   sync.Mutex
	over bool // it was told that the node stops: nothing else is true any more
}

// newSupervisor returns a supervisor whose environment was read: what the node starts later must not
// speak in its name.
func newSupervisor(log *slog.Logger) *supervisor { return &supervisor{log: log} }

// tell sends a state. A failure is no reason to stop a node.
func (s *supervisor) tell(state string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return
	}
	s.over = state == daemon.SdNotifyStopping
	if _, err := daemon.SdNotify(false, state); err != nil {
		s.log.Warn("the service manager could not be told", "state", state, "error", err.Error())
	}
}

// ready says that the node has started, and keeps the watchdog quiet while healthy holds. A node
// without a leader is healthy: restarting it helps nobody.
func (s *supervisor) ready(healthy func(context.Context) error) {
	s.tell(daemon.SdNotifyReady)
	limit, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		s.log.Warn("the watchdog's time cannot be read", "error", err.Error())
	}
	if err != nil || limit <= 0 {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.done.Go(func() { s.watch(ctx, limit, healthy) })
}

func (s *supervisor) watch(ctx context.Context, limit time.Duration, healthy func(context.Context) error) {
	tick := time.NewTicker(limit / 3)
	defer tick.Stop()
	for {
		look, cancel := context.WithTimeout(ctx, limit/3)
		err := healthy(look)
		cancel()
		switch {
		case err == nil:
			s.tell(daemon.SdNotifyWatchdog)
		case ctx.Err() == nil:
			s.log.Error("the node does not answer itself; the watchdog will end it", "error", err.Error())
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// reloading brackets a reload.
func (s *supervisor) reloading(reload func()) {
	s.tell(daemon.SdNotifyReloading + "\n" + daemon.SdNotifyMonotonicUsec())
	reload()
	s.tell(daemon.SdNotifyReady)
}

// stopping says that the node stops, and ends the watchdog's goroutine.
func (s *supervisor) stopping() {
	s.tell(daemon.SdNotifyStopping)
	if s.cancel != nil {
		s.cancel()
	}
	s.done.Wait()
}

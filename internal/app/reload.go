package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lancemaster/lancemaster/internal/config"
	"github.com/lancemaster/lancemaster/internal/job"
)

// reloads says how the last reading of the configuration went.
type reloads struct{ ok, at prometheus.Gauge }

func newReloads(r prometheus.Registerer, now time.Time) reloads {
	m := reloads{
		ok: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "lancemaster_config_last_reload_successful",
			Help: "1 while the configuration read last was valid, else 0: the node then runs on with the one before.",
		}),
		at: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "lancemaster_config_last_reload_success_timestamp_seconds",
			Help: "Unix time at which the configuration was last read and valid.",
		}),
	}
	r.MustRegister(m.ok, m.at)
	m.succeeded(now)
	return m
}

func (m reloads) succeeded(at time.Time) {
	m.ok.Set(1)
	m.at.Set(float64(at.UnixMilli()) / 1000)
}

func (m reloads) failed() { m.ok.Set(0) }

// Reload takes a configuration read anew, or the error of reading it, and looks at the
// files of certificates and tokens. What can change in a running node changes, what
// cannot is said to need a restart; a faulty configuration changes nothing. The log
// and the metrics say how it went. Where only a file was faulty, the configuration is
// taken once the file is well.
func (a *App) Reload(next config.Config, err error) {
	a.reload.Lock()
	defer a.reload.Unlock()
	a.owed, a.owedFor = nil, ""
	if err == nil {
		err = a.sameNode(next)
	}
	if err != nil {
		a.reloads.failed()
		a.log.Error("the configuration was not reloaded and stays as it is; correct it and send SIGHUP again", "error", err.Error())
		return
	}
	// The files first: where one is faulty, the configuration that names them changes nothing.
	if err := a.reloadFiles(); err != nil {
		a.reloads.failed()
		a.owed, a.owedFor = &next, err.Error()
		a.log.Error("a file that the configuration names cannot be used; the configuration was not reloaded and stays as it is; correct the file, and it is reloaded within a minute, or at once with SIGHUP",
			"error", err.Error())
		return
	}
	a.take(next)
}

// sameNode refuses a configuration with which the next start certainly fails: the data belongs to this node for
// ever. Another data directory may be meant, for when the data has been moved to it, unless it is another node's.
func (a *App) sameNode(next config.Config) error {
	if next.NodeID != a.cfg.NodeID {
		return fmt.Errorf("node_id: it cannot change from %q to %q: the data directory %s belongs to %q for good, and a start under another name is refused; set it back; a new node has a configuration and a data directory of its own",
			a.cfg.NodeID, next.NodeID, a.cfg.DataDir, a.cfg.NodeID)
	}
	if next.DataDir == a.cfg.DataDir {
		return nil
	}
	return checkDataDir(next.DataDir, next.NodeID)
}

func (a *App) reloadFiles() error { return errors.Join(a.certs.reload(), a.tokens.Reload()) }

// take makes a configuration the present one.
func (a *App) take(next config.Config) {
	changed, _ := config.Changed(*a.current.Load(), next)
	_, restart := config.Changed(a.cfg, next) // what the process was started with
	if a.opts.LogLevel != nil {
		a.opts.LogLevel.Set(next.LogLevel)
	}
	a.current.Store(&next)
	a.reloads.succeeded(a.now())
	if len(changed) > 0 {
		a.log.Info("configuration reloaded", "changed", strings.Join(changed, ","))
	} else {
		a.log.Info("configuration reloaded; it is as it was")
	}
	if len(restart) > 0 {
		a.log.Warn("these keys were changed too, and count only from the next start", "keys", strings.Join(restart, ","))
	}
}

// retryInterval is how often a reload that failed over a file is tried again: the files' own watches would
// load what was corrected, and nothing would take the configuration and clear the fault.
const retryInterval = 30 * time.Second

// startRetries tries reloads again that wait for a file.
func (a *App) startRetries() {
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(retryInterval)
		defer ticker.Stop()
		for {
			select {
			case <-stop:
				return
			case <-ticker.C:
				a.retryReload()
			}
		}
	}()
	a.onStop("retries of a reload", a.endWatch(func() error {
		close(stop)
		timer := time.NewTimer(time.Second)
		defer timer.Stop()
		select {
		case <-done:
			return nil
		case <-timer.C:
			return errors.New("a reload did not end within a second")
		}
	}))
}

func (a *App) retryReload() {
	a.reload.Lock()
	defer a.reload.Unlock()
	if a.owed == nil {
		return
	}
	if err := a.reloadFiles(); err != nil {
		// Another fault than before: what was corrected is not right yet.
		if said := err.Error(); said != a.owedFor {
			a.owedFor = said
			a.log.Error("a file that the configuration names still cannot be used; the configuration is not reloaded yet", "error", said)
		}
		return
	}
	next := *a.owed
	a.owed, a.owedFor = nil, ""
	a.take(next)
}

// ReloadIsSlow says that a reload has not ended after so long. Metric and log say it, until one ends.
func (a *App) ReloadIsSlow(after time.Duration) {
	a.reloads.failed()
	a.log.Error("the configuration, or a file that it names, is still being read; the file system may not answer; the node goes on with what it has",
		"after", after.String())
}

// Healthy returns nil when the node's own parts answer: the state, Raft and the
// disk. It asks no other node, so that a lost quorum is no reason to restart this one.
func (a *App) Healthy(ctx context.Context) error {
	answered := make(chan error, 1)
	go func() { // ends at the latest with the process, which the watchdog then ends
		a.machine.Read(func(*job.Live) {})
		a.node.Stats()
		answered <- errors.Join(a.machine.Err(), a.disk.Err())
	}()
	select {
	case err := <-answered:
		return err
	case <-ctx.Done():
		return fmt.Errorf("the state or Raft did not answer: %w", context.Cause(ctx))
	}
}

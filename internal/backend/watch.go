package backend

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lancemaster/lancemaster/internal/job"
)

// watch is the monitor's work in one term.
type watch struct {
	monitor *Monitor
	term    uint64
	ctx     context.Context
	cancel  context.CancelFunc
	wake    chan struct{}
	running sync.WaitGroup

	mu       sync.Mutex
	interval time.Duration
	probes   map[job.BackendID]*probe
}

// probe is the heartbeats of one backend. Its fields but the first are guarded
// by the watch's lock.
type probe struct {
	backend *job.Backend
	cancel  context.CancelFunc

	term         uint64
	firstAsked   time.Time
	lastOK       time.Time
	okAsked      time.Time
	failures     int64
	epoch        int64
	remote       string
	version      string
	lastError    string
	lastErrorAt  time.Time
	observations []Observation
}

// pace is what the settings and the cluster say of a heartbeat.
type pace struct {
	interval  time.Duration
	timeout   time.Duration
	clusterID int32
	epoch     int64
}

func newWatch(m *Monitor, term uint64) *watch {
	return &watch{
		monitor: m, term: term, wake: make(chan struct{}, 1),
		probes: make(map[job.BackendID]*probe),
	}
}

// supervise keeps one goroutine running for each registered backend.
func (w *watch) supervise() {
	var pacing pace
	for {
		var backends []*job.Backend
		var next pace
		w.monitor.cfg.Reader.Read(func(live *job.Live) {
			backends = live.Backends()
			next = paceOf(live.Settings(), live.Cluster(), w.term)
		})
		if next != pacing {
			w.restart(next)
			pacing = next
		}
		w.reconcile(backends, pacing)
		timer := time.NewTimer(pacing.interval)
		select {
		case <-w.wake:
		case <-timer.C:
		case <-w.ctx.Done():
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

func paceOf(settings job.Settings, cluster job.Cluster, term uint64) pace {
	interval := max(settings.HeartbeatInterval, time.Millisecond)
	timeout := min(max(interval, minHeartbeatTime), maxHeartbeatTime)
	if settings.RPCTimeout > 0 {
		timeout = min(timeout, settings.RPCTimeout)
	}
	return pace{
		interval: interval, timeout: timeout, clusterID: cluster.ClusterID,
		epoch: HeartbeatEpoch(cluster.Incarnation, term),
	}
}

// HeartbeatEpoch is the epoch that a backend is told: it grows with each term,
// and with each incarnation whatever the term.
func HeartbeatEpoch(incarnation int64, term uint64) int64 {
	return incarnation<<40 | int64(term&(1<<40-1))
}

// restart ends the goroutines that keep an outdated pace; what they learned
// stays. reconcile starts them anew.
func (w *watch) restart(next pace) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.interval = next.interval
	for _, p := range w.probes {
		if p.cancel != nil {
			p.cancel()
			p.cancel = nil
		}
	}
}

// reconcile starts the heartbeats of backends that have none and ends those of
// backends that are gone. An id's address never changes.
func (w *watch) reconcile(backends []*job.Backend, pacing pace) {
	w.mu.Lock()
	defer w.mu.Unlock()
	registered := make(map[job.BackendID]bool, len(backends))
	for _, b := range backends {
		registered[b.ID] = true
		p := w.probes[b.ID]
		if p == nil {
			p = &probe{backend: b, term: w.term, firstAsked: time.Now()}
			w.probes[b.ID] = p
		}
		if p.cancel == nil {
			var ctx context.Context
			ctx, p.cancel = context.WithCancel(w.ctx)
			w.running.Go(func() { w.beat(ctx, p, pacing) })
		}
	}
	for id, p := range w.probes {
		if registered[id] {
			continue
		}
		if p.cancel != nil {
			p.cancel()
		}
		delete(w.probes, id)
	}
}

// beat asks one backend, at once and then every interval from one request's
// begin to the next one's.
func (w *watch) beat(ctx context.Context, p *probe, pacing pace) {
	ticker := time.NewTicker(pacing.interval)
	defer ticker.Stop()
	for {
		w.ask(ctx, p, pacing)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// ask makes one heartbeat and keeps what it says.
func (w *watch) ask(ctx context.Context, p *probe, pacing pace) {
	bounded, cancel := context.WithTimeout(ctx, pacing.timeout)
	defer cancel()
	requestedAt := time.Now()
	reply, err := w.monitor.cfg.Pinger.Heartbeat(bounded, p.backend.Address, w.request(p.backend.ID, pacing))
	if ctx.Err() != nil {
		return // the term or the backend is over, or the pace has changed
	}
	if bounded.Err() != nil {
		err = errLate
	}
	result := judge(reply, err)
	w.monitor.metrics.heartbeats.WithLabelValues(string(result)).Inc()
	if w.record(ctx, p, requestedAt, reply, err, result) {
		w.monitor.cfg.Changed()
	}
}

func (w *watch) request(id job.BackendID, pacing pace) job.HeartbeatRequest {
	cfg := w.monitor.cfg
	return job.HeartbeatRequest{
		Backend: id, ClusterID: pacing.clusterID, Epoch: pacing.epoch,
		ReportHost: cfg.ReportHost, ReportPort: cfg.ReportPort, HTTPPort: cfg.HTTPPort, Token: cfg.Token,
	}
}

// errLate is what a heartbeat without an answer in time comes to; an answer that
// comes after it is not looked at.
var errLate = errors.New("no answer in time")

// record keeps the outcome of a heartbeat and reports whether the dispatcher
// should look.
func (w *watch) record(
	ctx context.Context, p *probe, requestedAt time.Time, reply job.HeartbeatReply, err error, result result,
) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ctx.Err() != nil {
		return false
	}
	now := time.Now()
	log := w.monitor.cfg.Logger.With("backend", p.backend.ID, "host", p.backend.Address.Host,
		"heartbeat_port", p.backend.Address.HeartbeatPort)
	if result != resultOK {
		p.failures++
		message := failure(reply, err, result)
		if message != p.lastError {
			log.Warn("the backend's heartbeat failed", "result", string(result), "error", message)
		}
		p.lastError, p.lastErrorAt = message, now
		return false
	}
	wasAlive := p.alive(now, w.interval)
	var isNew bool
	p.observations, isNew = observe(p.observations, Observation{
		ProcessEpoch: reply.ProcessEpoch, RemoteAddr: reply.RemoteAddr, Term: w.term, RequestedAt: requestedAt,
	})
	changed := !wasAlive || isNew || p.epoch != reply.ProcessEpoch || p.remote != reply.RemoteAddr
	if changed {
		log.Info("the backend answers", "process_epoch", reply.ProcessEpoch, "remote", reply.RemoteAddr)
	}
	p.lastOK, p.okAsked = now, requestedAt
	p.epoch, p.remote, p.version = reply.ProcessEpoch, reply.RemoteAddr, reply.Version
	p.lastError, p.lastErrorAt = "", time.Time{}
	return changed
}

func failure(reply job.HeartbeatReply, err error, r result) string {
	switch {
	case err != nil:
		return job.SanitizeMessage(err.Error())
	case r == resultNoStartTime:
		return "the answer does not say when the backend's process started (be_start_time)"
	default:
		message := fmt.Sprintf("the backend answered with status %d", reply.Status)
		if len(reply.Messages) > 0 {
			message += ": " + reply.Messages[0]
		}
		return job.SanitizeMessage(message)
	}
}

func (w *watch) status(id job.BackendID) (Status, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.probes[id]
	if p == nil {
		return Status{}, false
	}
	return p.status(w.interval), true
}

func (p *probe) alive(now time.Time, interval time.Duration) bool {
	return !p.lastOK.IsZero() && now.Sub(p.lastOK) <= aliveIntervals*interval
}

func (p *probe) status(interval time.Duration) Status {
	return Status{
		Backend: p.backend.ID, Term: p.term, Alive: p.alive(time.Now(), interval),
		FirstAsked: p.firstAsked, LastOK: p.lastOK, OKAsked: p.okAsked, Failures: p.failures,
		ProcessEpoch: p.epoch, RemoteAddr: p.remote, Version: p.version,
		LastError: p.lastError, LastErrorAt: p.lastErrorAt,
		Observations: append([]Observation(nil), p.observations...),
	}
}

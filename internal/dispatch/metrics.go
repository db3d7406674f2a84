package dispatch

import (
	"errors"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// class says how an attempt to send a job ended.
type class string

const (
	classAccepted      class = "accepted"       // the backend answered OK; its report is awaited
	classRefused       class = "refused"        // a complete answer with another known status
	classUnknownMethod class = "unknown_method" // a complete answer, of a backend without this service
	classDialFailed    class = "dial_failed"
	classClosed        class = "closed"    // the latch was closed before anything was written
	classUntrusted     class = "untrusted" // written, and no answer that says anything
	classCut           class = "cut"       // written, and the term ended before the answer
	classLost          class = "lost"      // MarkRunning was not applied
	classAmbiguous     class = "ambiguous" // nobody knows whether MarkRunning was applied
	classRejected      class = "rejected"  // over a bound; the job ends
	classUnprepared    class = "unprepared"
)

var classes = []class{
	classAccepted, classRefused, classUnknownMethod, classDialFailed, classClosed, classUntrusted,
	classCut, classLost, classAmbiguous, classRejected, classUnprepared,
}

// otherKind labels attempts with a refresher that this build does not know, so
// that what a catalog names cannot add series.
const otherKind = "other"

var (
	errNoCatalog  = errors.New("the job's catalog does not exist")
	errNoEvidence = errors.New("the refresher gave no evidence that can be stored")
)

type metrics struct {
	dispatches      *prometheus.CounterVec
	callDuration    prometheus.Histogram
	roundDuration   prometheus.Histogram
	roundLag        prometheus.Histogram
	refreshes       *prometheus.CounterVec
	refreshDuration *prometheus.HistogramVec
	kinds           []string
}

func newMetrics(kinds []string) *metrics {
	m := &metrics{
		kinds: kinds,
		dispatches: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lancemaster_dispatches_total",
			Help: "Attempts to send a job to a backend, by how they ended.",
		}, []string{"class"}),
		callDuration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "lancemaster_dispatch_call_duration_seconds",
			Help:    "Time from writing a job's call to a backend to its answer, or to giving up waiting for one.",
			Buckets: []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 30, 60, 120},
		}),
		roundDuration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "lancemaster_dispatch_round_duration_seconds",
			Help:    "Duration of the dispatcher's rounds; sends and refreshes run outside them.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 9),
		}),
		roundLag: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "lancemaster_dispatch_round_lag_seconds",
			Help:    "Time from when a round of the dispatcher was due, or asked for, to its begin.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 9),
		}),
		refreshes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lancemaster_refresh_attempts_total",
			Help: "Attempts at the metadata refresh that a job owes, by refresher and result.",
		}, []string{"refresher", "result"}),
		refreshDuration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "lancemaster_refresh_duration_seconds",
			Help:    "Duration of attempts at the metadata refresh that a job owes, by refresher.",
			Buckets: []float64{.01, .05, .1, .5, 1, 5, 10, 30, 60, 120, 300},
		}, []string{"refresher"}),
	}
	for _, c := range classes {
		m.dispatches.WithLabelValues(string(c))
	}
	for _, kind := range append(slices.Clone(kinds), otherKind) {
		m.refreshes.WithLabelValues(kind, "done")
		m.refreshes.WithLabelValues(kind, "failed")
		m.refreshDuration.WithLabelValues(kind)
	}
	return m
}

func (d *Dispatcher) register(r prometheus.Registerer) error {
	m := d.metrics
	var err error
	for _, c := range []prometheus.Collector{
		m.dispatches, m.callDuration, m.roundDuration, m.roundLag, m.refreshes, m.refreshDuration,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "lancemaster_dispatch_last_round_age_seconds",
			Help: "Time since the dispatcher's newest round of this term ended; 0 on a master that does not lead.",
		}, func() float64 { return d.sinceLastRound().Seconds() }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "lancemaster_dispatch_sends_in_flight",
			Help: "Attempts to send a job that are under way in this process.",
		}, func() float64 { return float64(d.cfg.Sends.activeCount()) }),
	} {
		err = errors.Join(err, r.Register(c))
	}
	return err
}

// sinceLastRound tells a dispatcher that hangs from one that has nothing to do.
func (d *Dispatcher) sinceLastRound() time.Duration {
	d.mu.Lock()
	r := d.run
	d.mu.Unlock()
	if r == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Since(r.roundEnded)
}

// activeCount counts the sends that an attempt works on.
func (s *Sends) activeCount() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.byJob {
		if e.active {
			n++
		}
	}
	return n
}

func (m *metrics) kind(kind string) string {
	if slices.Contains(m.kinds, kind) {
		return kind
	}
	return otherKind
}

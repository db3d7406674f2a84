package dispatch

import (
	"errors"
	"slices"

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
	dispatches    *prometheus.CounterVec
	roundDuration prometheus.Histogram
	refreshes     *prometheus.CounterVec
	kinds         []string
}

func newMetrics(registerer prometheus.Registerer, kinds []string) (*metrics, error) {
	m := &metrics{
		kinds: kinds,
		dispatches: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lancemaster_dispatches_total",
			Help: "Attempts to send a job to a backend, by how they ended.",
		}, []string{"class"}),
		roundDuration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "lancemaster_dispatch_round_duration_seconds",
			Help:    "Duration of the dispatcher's rounds; sends and refreshes run outside them.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 9),
		}),
		refreshes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lancemaster_refresh_attempts_total",
			Help: "Attempts at the metadata refresh that a job owes, by refresher and result.",
		}, []string{"refresher", "result"}),
	}
	for _, c := range classes {
		m.dispatches.WithLabelValues(string(c))
	}
	for _, kind := range append(slices.Clone(kinds), otherKind) {
		m.refreshes.WithLabelValues(kind, "done")
		m.refreshes.WithLabelValues(kind, "failed")
	}
	if registerer == nil {
		return m, nil
	}
	return m, errors.Join(registerer.Register(m.dispatches), registerer.Register(m.roundDuration),
		registerer.Register(m.refreshes))
}

func (m *metrics) kind(kind string) string {
	if slices.Contains(m.kinds, kind) {
		return kind
	}
	return otherKind
}

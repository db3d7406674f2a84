package rpc

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lancemaster/lancemaster/internal/thriftnet"
)

// Metrics are the counters of both services. Labels take few and fixed values; no job, name or
// address is among them.
type Metrics struct {
	reports   *prometheus.CounterVec
	requests  *prometheus.CounterVec
	seconds   *prometheus.HistogramVec
	incidents *prometheus.CounterVec
	forwards  *prometheus.CounterVec
}

// What became of a call that was forwarded.
const (
	forwardAnswered = "answered" // by the leader, a refusal too
	forwardUnsent   = "unsent"   // the leader could not be reached
	forwardLost     = "lost"     // it may have been served
)

// NewMetrics registers the metrics.
func NewMetrics(r prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		reports: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lancemaster_reports_total",
			Help: "Reports from backends, by kind (result, termination) and by what became of them.",
		}, []string{"kind", "result"}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lancemaster_rpc_requests_total",
			Help: "Thrift requests that reached a handler, by the code they were answered with.",
		}, []string{"service", "method", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "lancemaster_rpc_request_duration_seconds",
			Help:    "Time from a Thrift request's arrival at its handler to the handler's answer.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"service", "method"}),
		incidents: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lancemaster_rpc_incidents_total",
			Help: "What went wrong on a Thrift port outside of any handler: refused connections, unreadable requests, panics.",
		}, []string{"service", "kind"}),
		forwards: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lancemaster_rpc_forwarded_total",
			Help: "Thrift requests that this node handed to the leader, by whether they were answered, certainly not sent, or lost.",
		}, []string{"service", "result"}),
	}
	var err error
	for _, c := range []prometheus.Collector{m.reports, m.requests, m.seconds, m.incidents, m.forwards} {
		err = errors.Join(err, r.Register(c))
	}
	if err != nil {
		return nil, fmt.Errorf("register the metrics of the Thrift services: %w", err)
	}
	for _, kind := range []string{kindResult, kindTermination} {
		for _, f := range fates {
			m.reports.WithLabelValues(kind, string(f))
		}
	}
	for _, service := range []string{serviceReport, serviceAdmin} {
		for _, i := range incidents {
			m.incidents.WithLabelValues(service, string(i))
		}
		for _, result := range []string{forwardAnswered, forwardUnsent, forwardLost} {
			m.forwards.WithLabelValues(service, result)
		}
	}
	return m, nil
}

var incidents = []thriftnet.Incident{
	thriftnet.IncidentAccept, thriftnet.IncidentEvicted, thriftnet.IncidentFull, thriftnet.IncidentForeign,
	thriftnet.IncidentHandshake, thriftnet.IncidentUnreadable, thriftnet.IncidentUnknownMethod, thriftnet.IncidentPanic,
}

// answered counts one request that reached a handler.
func (m *Metrics) answered(service, method, code string, took time.Duration) {
	m.requests.WithLabelValues(service, method, code).Inc()
	m.seconds.WithLabelValues(service, method).Observe(took.Seconds())
}

// forwarded counts one request that was handed to the leader.
func (m *Metrics) forwarded(service, result string) {
	m.forwards.WithLabelValues(service, result).Inc()
}

// observe returns what a server of the service tells its incidents to.
func (m *Metrics) observe(service string) func(thriftnet.Incident) {
	return func(i thriftnet.Incident) { m.incidents.WithLabelValues(service, string(i)).Inc() }
}

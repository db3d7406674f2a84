package peer

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	e          *Endpoint
	registerer prometheus.Registerer

	handshakeFailures *prometheus.CounterVec
	refusals          *prometheus.CounterVec
	evicted           *prometheus.CounterVec
	calls             *prometheus.CounterVec
	acceptErrors      prometheus.Counter
}

var connectionsDesc = prometheus.NewDesc("lancemaster_peer_connections",
	"Open connections between masters, by kind and direction.", []string{"kind", "direction"}, nil)

func newMetrics(e *Endpoint, registerer prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		e: e, registerer: registerer,
		handshakeFailures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lancemaster_peer_handshake_failures_total",
			Help: "Connections between masters that ended before both sides knew each other, by reason.",
		}, []string{"reason"}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lancemaster_peer_refusals_total",
			Help: "Connections and calls between masters that were refused, by code and by whom.",
		}, []string{"code", "by"}),
		evicted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lancemaster_peer_evictions_total",
			Help: "Connections from other masters that were closed to make room for newer ones, by kind.",
		}, []string{"kind"}),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lancemaster_peer_calls_total",
			Help: "Calls between masters, by method, direction and result.",
		}, []string{"method", "direction", "result"}),
		acceptErrors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "lancemaster_peer_accept_errors_total",
			Help: "Failed attempts to accept a connection on the Raft port.",
		}),
	}
	for _, reason := range failures {
		m.handshakeFailures.WithLabelValues(string(reason))
	}
	for _, c := range classes {
		m.evicted.WithLabelValues(c.String())
	}
	if registerer == nil {
		return m, nil
	}
	return m, registerer.Register(m)
}

func (m *metrics) unregister() {
	if m.registerer != nil {
		m.registerer.Unregister(m)
	}
}

// Describe tells what Collect collects.
func (m *metrics) Describe(to chan<- *prometheus.Desc) {
	to <- connectionsDesc
	for _, c := range m.parts() {
		c.Describe(to)
	}
}

// Collect collects the metrics.
func (m *metrics) Collect(to chan<- prometheus.Metric) {
	for _, c := range m.parts() {
		c.Collect(to)
	}
	var in, out [4]int // by class
	for _, l := range m.e.snapshot() {
		l.mu.Lock()
		if l.incoming {
			in[l.class]++
		} else {
			out[l.class]++
		}
		l.mu.Unlock()
	}
	for _, c := range classes {
		to <- prometheus.MustNewConstMetric(connectionsDesc, prometheus.GaugeValue, float64(in[c]), c.String(), "in")
		to <- prometheus.MustNewConstMetric(connectionsDesc, prometheus.GaugeValue, float64(out[c]), c.String(), "out")
	}
}

func (m *metrics) parts() []prometheus.Collector {
	return []prometheus.Collector{m.handshakeFailures, m.refusals, m.evicted, m.calls, m.acceptErrors}
}

// refused counts a refusal. A code of a later version must not become a label.
func (m *metrics) refused(r *Refusal) {
	code, by := r.Code, "self"
	if !slices.Contains(codes, code) {
		code = "OTHER"
	}
	if r.ByOther {
		by = "other"
	}
	m.refusals.WithLabelValues(string(code), by).Inc()
}

// called counts a call. A method that this node does not know must not become a label.
func (m *metrics) called(method, direction, result string) {
	if _, ok := m.e.cfg.Handlers[method]; !ok {
		method = "other"
	}
	m.calls.WithLabelValues(method, direction, result).Inc()
}

package leader

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	won, failures prometheus.Counter
	starts        prometheus.Histogram
}

func newMetrics() *metrics {
	return &metrics{
		won: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "lancemaster_leader_terms_won_total",
			Help: "Terms that this node has won since its start.",
		}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "lancemaster_leader_start_failures_total",
			Help: "Starts of the leader's services that failed while the term went on.",
		}),
		starts: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "lancemaster_leader_start_duration_seconds",
			Help:    "Time from winning a term to serving in it: the barrier, the term's first entries and the start of the services.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2.5, 13),
		}),
	}
}

// collector exports what the manager has counted.
type collector struct {
	m     *metrics
	ready *prometheus.Desc
	is    func() (uint64, bool)
}

// Collector exports the manager's metrics; the owner registers it once.
func (m *Manager) Collector() prometheus.Collector {
	return &collector{
		m: m.metrics, is: m.Ready,
		ready: prometheus.NewDesc("lancemaster_leader", "1 while this node leads and serves, else 0.", nil, nil),
	}
}

// Describe names the metrics.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.ready
	for _, of := range []prometheus.Collector{c.m.won, c.m.failures, c.m.starts} {
		of.Describe(ch)
	}
}

// Collect reads the counters.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	leads := 0.0
	if _, ok := c.is(); ok {
		leads = 1
	}
	ch <- prometheus.MustNewConstMetric(c.ready, prometheus.GaugeValue, leads)
	for _, of := range []prometheus.Collector{c.m.won, c.m.failures, c.m.starts} {
		of.Collect(ch)
	}
}

package thriftnet

import "github.com/prometheus/client_golang/prometheus"

// String returns the state as metrics name it.
func (s connState) String() string {
	switch s {
	case idle:
		return "idle"
	case reading:
		return "reading"
	default:
		return "handling"
	}
}

// collector exports how full a server is, read at each scrape.
type collector struct {
	s                  *Server
	connections, limit *prometheus.Desc
}

// Collector exports the server's metrics, under its name as the label service; the owner
// registers it once.
func (s *Server) Collector() prometheus.Collector {
	service := prometheus.Labels{"service": s.cfg.Name}
	return &collector{
		s: s,
		connections: prometheus.NewDesc("lancemaster_rpc_connections",
			"Open connections to a Thrift service, by what they do: idle between requests, reading one, handling one.", []string{"state"}, service),
		limit: prometheus.NewDesc("lancemaster_rpc_connections_limit",
			"Connections that a Thrift service holds at once; a further one costs an idle one its place, or is refused.", nil, service),
	}
}

// Describe names the metrics.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.connections
	ch <- c.limit
}

// Collect counts the connections.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	var count [handling + 1]int
	c.s.mu.Lock()
	for conn := range c.s.conns {
		count[conn.state]++
	}
	c.s.mu.Unlock()
	for state := idle; state <= handling; state++ {
		ch <- prometheus.MustNewConstMetric(c.connections, prometheus.GaugeValue, float64(count[state]), state.String())
	}
	ch <- prometheus.MustNewConstMetric(c.limit, prometheus.GaugeValue, float64(c.s.cfg.MaxConns))
}

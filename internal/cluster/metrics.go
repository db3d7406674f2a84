package cluster

import "github.com/prometheus/client_golang/prometheus"

// collector exports what this node knows of the others, read at each scrape. A member's id is a
// label: there are at most job.MaxMembers.
type collector struct{ c *Cluster }

var (
	descMembers = prometheus.NewDesc("lancemaster_members", "Members of the Raft configuration, by whether they vote.", []string{"voter"}, nil)
	descUp      = prometheus.NewDesc("lancemaster_member_up", "1 while another member answers this one with its registered disk, else 0.", []string{"member"}, nil)
	descClock   = prometheus.NewDesc("lancemaster_member_clock_offset_seconds", "How far this master's wall clock is ahead of another member's.", []string{"member"}, nil)
	descApplied = prometheus.NewDesc("lancemaster_member_applied_index", "Raft index of the newest entry that another member had applied when it last answered.", []string{"member"}, nil)
	descAgree   = prometheus.NewDesc("lancemaster_clock_agrees", "1 while this master's wall clock agrees with a majority of the masters within a minute, else 0.", nil, nil)
	descWaiting = prometheus.NewDesc("lancemaster_cluster_waiting", "1 while this master waits to form or join a cluster, else 0.", nil, nil)
)

// Describe names the metrics.
func (collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descMembers, descUp, descClock, descApplied, descAgree, descWaiting} {
		ch <- d
	}
}

// Collect reads what is known.
func (k collector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	truth := func(b bool) float64 {
		if b {
			return 1
		}
		return 0
	}
	servers := k.c.cfg.Raft.Servers()
	voters := 0
	for _, s := range servers {
		if s.Voter {
			voters++
		}
		if s.ID == k.c.cfg.NodeID {
			continue
		}
		seen := k.c.peers.get(s.ID)
		gauge(descUp, truth(k.c.reachable(s.ID)), s.ID)
		if d, ok := k.c.clockDifference(seen); ok {
			gauge(descClock, d.Seconds(), s.ID)
		}
		if !seen.at.IsZero() {
			gauge(descApplied, float64(seen.status.Applied), s.ID)
		}
	}
	gauge(descMembers, float64(voters), "true")
	gauge(descMembers, float64(len(servers)-voters), "false")
	gauge(descAgree, truth(k.c.AgreesWithMajority()))
	gauge(descWaiting, truth(k.c.Waiting() != ""))
}

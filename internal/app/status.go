package app

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lancemaster/lancemaster/internal/config"
	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/rpc"
	"github.com/lancemaster/lancemaster/internal/store"
)

// nodeStatus is what the node says of itself, without asking anybody.
type nodeStatus struct{ a *App }

// Status returns the node's present state.
func (n nodeStatus) Status() rpc.NodeStatus {
	a := n.a
	stats := a.node.Stats()
	var cluster job.Cluster
	a.machine.Read(func(l *job.Live) { cluster = l.Cluster() })
	ready, reason := a.Ready()
	addrs := a.Addrs()
	s := rpc.NodeStatus{
		NodeID: a.cfg.NodeID, Version: config.BuildInfo().Version, RaftState: stats.State, RaftTerm: stats.Term,
		AppliedIndex: a.machine.Applied().Index, ClusterID: cluster.ClusterID, Incarnation: cluster.Incarnation,
		Level: cluster.Level, Ready: ready, NotReadyReason: reason, LeaderID: stats.LeaderID, Quarantined: cluster.Quarantined,
		ReportAddress: addrs.Report, AdminAddress: addrs.Admin, HTTPAddress: addrs.HTTP,
		StartedAt: job.Millis(a.started.UnixMilli()),
	}
	if stats.LeaderID == a.cfg.NodeID {
		s.LeaderAdminAddress = addrs.Admin
	}
	return s
}

// stateCollector exports what the replicated state and Raft say, read at each
// scrape.
type stateCollector struct {
	a                                                         *App
	jobs, unresolved, applied, leads, term, admission, paused *prometheus.Desc
}

func newStateCollector(a *App) stateCollector {
	d := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("lancemaster_"+name, help, labels, nil)
	}
	return stateCollector{
		a:          a,
		jobs:       d("jobs", "Jobs on record, by mutation state and refresh state.", "state", "refresh_state"),
		unresolved: d("jobs_unresolved", "Jobs that hold their fence."),
		applied:    d("raft_applied_index", "Raft index of the newest entry applied to the state."),
		leads:      d("leader", "1 while this node leads and serves, else 0."),
		term:       d("raft_term", "Newest Raft term this node knows."),
		admission:  d("admission_enabled", "1 while setting admission.enabled is true, else 0."),
		paused:     d("dispatch_paused", "1 while setting dispatch.paused is true, else 0."),
	}
}

// Describe names the metrics.
func (c stateCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.jobs, c.unresolved, c.applied, c.leads, c.term, c.admission, c.paused} {
		ch <- d
	}
}

// Collect reads the state.
func (c stateCollector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	truth := func(b bool) float64 {
		if b {
			return 1
		}
		return 0
	}
	var settings job.Settings
	var unresolved int
	c.a.machine.Read(func(l *job.Live) { settings, unresolved = l.Settings(), l.Unresolved() })
	counts, err := c.a.machine.StateCounts()
	if err != nil {
		ch <- prometheus.NewInvalidMetric(c.jobs, err)
	}
	for _, n := range allStates(counts) {
		gauge(c.jobs, float64(n.Jobs), n.State.String(), n.Refresh.String())
	}
	ready, _ := c.a.Ready()
	term, _ := c.a.node.Term()
	gauge(c.unresolved, float64(unresolved))
	gauge(c.applied, float64(c.a.machine.Applied().Index))
	gauge(c.leads, truth(ready))
	gauge(c.term, float64(term))
	gauge(c.admission, truth(settings.AdmissionEnabled))
	gauge(c.paused, truth(settings.DispatchPaused))
}

// allStates adds a zero for each state that no job is in, so that no series comes
// and goes.
func allStates(counts []store.StateCount) []store.StateCount {
	for _, s := range []job.State{job.StatePending, job.StateRunning, job.StateCommitted, job.StateNotCommitted, job.StateUnknown} {
		if !slices.ContainsFunc(counts, func(n store.StateCount) bool { return n.State == s && n.Refresh == job.RefreshNotRequired }) {
			counts = append(counts, store.StateCount{State: s, Refresh: job.RefreshNotRequired})
		}
	}
	return counts
}

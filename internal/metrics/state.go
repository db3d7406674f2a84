package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lancemaster/lancemaster/internal/backend"
	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/store"
)

// StateReader shows the replicated state as far as this node has applied it.
type StateReader interface {
	Read(show func(*job.Live))
	StateCounts() ([]store.StateCount, error)
	Applied() job.Position
}

// state exports what the replicated state says, read at each scrape. Its cost follows
// the open jobs and never the history.
type state struct {
	from StateReader
	now  func() time.Time
	gauges
}

// gauges are the names of what the state says.
type gauges struct {
	jobs, unresolved, oldest, oldestRefresh, pastDeadline *prometheus.Desc
	quotaRatio, quotaLimit                                *prometheus.Desc
	slots, slotsLimit, backends, catalogs                 *prometheus.Desc
	admission, paused, quarantined, level, incarnation    *prometheus.Desc
	applied                                               *prometheus.Desc
}

// NewState returns the collector of the replicated state. now is the wall clock, which
// ages are counted by.
func NewState(from StateReader, now func() time.Time) prometheus.Collector {
	d := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("lancemaster_"+name, help, labels, nil)
	}
	return state{from: from, now: now, gauges: gauges{
		jobs:       d("jobs", "Jobs on record, by mutation state and refresh state.", "state", "refresh_state"),
		unresolved: d("jobs_unresolved", "Jobs that hold the fence on their index name and count against the quotas, by mutation state.", "state"),
		oldest: d("oldest_job_age_seconds", "How long the job that has waited longest is in a state: PENDING since its admission, RUNNING since it was"+
			" marked so, UNKNOWN and not released since it became so. 0 if there is none.", "state"),
		oldestRefresh: d("oldest_refresh_age_seconds", "How long the job that has waited longest for its metadata refresh has had its outcome; 0 if none waits."),
		pastDeadline:  d("jobs_past_deadline", "RUNNING jobs whose deadline has passed by this node's clock."),
		quotaRatio:    d("quota_usage_ratio", "Unresolved jobs by their limit: of the cluster, of its fullest catalog, of its fullest table.", "scope"),
		quotaLimit:    d("quota_limit", "Unresolved jobs that the settings allow: in the cluster, in one catalog, at one table.", "scope"),
		slots: d("backend_slots_held", "Slots that jobs hold on a backend. Backends after the first 64 share the series of the backend_id other.",
			"backend_id"),
		slotsLimit:  d("backend_slots_limit", "Setting dispatch.max_inflight_per_backend: slots of each backend."),
		backends:    d("backends", "Registered backends, by what an operator wants of them.", "state"),
		catalogs:    d("catalogs", "Catalogs on record."),
		admission:   d("admission_enabled", "1 while setting admission.enabled is true, else 0."),
		paused:      d("dispatch_paused", "1 while setting dispatch.paused is true, else 0."),
		quarantined: d("quarantined", "1 after a restore or a recovery until an operator reopens the cluster, else 0."),
		level:       d("feature_level", "Feature level of the cluster's commands and records; 0 before the formation."),
		incarnation: d("incarnation", "Incarnation of the cluster: 1 at the formation, one more with each restore or recovery; 0 before the formation."),
		applied:     d("raft_applied_index", "Raft index of the newest entry applied to the state."),
	}}
}

// Describe names the metrics.
func (s state) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		s.jobs, s.unresolved, s.oldest, s.oldestRefresh, s.pastDeadline, s.quotaRatio, s.quotaLimit, s.slots, s.slotsLimit,
		s.backends, s.catalogs, s.admission, s.paused, s.quarantined, s.level, s.incarnation, s.applied,
	} {
		ch <- d
	}
}

// seen is what is copied from the state while applying waits; the sums are made after.
type seen struct {
	cluster    job.Cluster
	settings   job.Settings
	jobs       []*job.Record // open, or owing a late refresh
	refreshing []*job.Record
	backends   []*job.Backend
	slots      []int // of each backend
	catalogs   int
}

func (s state) look() (v seen) {
	s.from.Read(func(l *job.Live) {
		v = seen{
			cluster: l.Cluster(), settings: l.Settings(), jobs: l.Jobs(), refreshing: l.RefreshQueue(),
			backends: l.Backends(), catalogs: len(l.Catalogs()),
		}
		for _, b := range v.backends {
			v.slots = append(v.slots, l.SlotsHeld(b.ID))
		}
	})
	return v
}

// sink takes one value of a gauge.
type sink func(d *prometheus.Desc, v float64, labels ...string)

// Collect reads the state.
func (s state) Collect(ch chan<- prometheus.Metric) {
	gauge := sink(func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	})
	counts, err := s.from.StateCounts()
	if err != nil {
		ch <- prometheus.NewInvalidMetric(s.jobs, err)
	} else {
		s.countJobs(gauge, counts)
	}
	v := s.look()
	s.openJobs(gauge, v)
	s.fences(gauge, v)
	s.registries(gauge, v)
	gauge(s.admission, truth(v.settings.AdmissionEnabled))
	gauge(s.paused, truth(v.settings.DispatchPaused))
	gauge(s.quarantined, truth(v.cluster.Quarantined))
	gauge(s.level, float64(v.cluster.Level))
	gauge(s.incarnation, float64(v.cluster.Incarnation))
	gauge(s.applied, float64(s.from.Applied().Index))
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

var states = []job.State{job.StatePending, job.StateRunning, job.StateCommitted, job.StateNotCommitted, job.StateUnknown}

// countJobs adds a zero for each state that no job is in, so that no series of it comes
// and goes.
func (s state) countJobs(gauge sink, counts []store.StateCount) {
	plain := make(map[job.State]bool)
	for _, n := range counts {
		gauge(s.jobs, float64(n.Jobs), n.State.String(), n.Refresh.String())
		if n.Refresh == job.RefreshNotRequired {
			plain[n.State] = true
		}
	}
	for _, state := range states {
		if !plain[state] {
			gauge(s.jobs, 0, state.String(), job.RefreshNotRequired.String())
		}
	}
}

// waitingSince returns since when an open job is what it is.
func waitingSince(rec *job.Record) job.Millis {
	switch {
	case rec.State == job.StatePending:
		return rec.CreatedAt
	case rec.State == job.StateRunning:
		return rec.Dispatch.StartedAt
	case rec.Result != nil:
		return rec.Result.At
	default:
		return rec.UpdatedAt
	}
}

func (s state) openJobs(gauge sink, v seen) {
	now := job.Millis(s.now().UnixMilli())
	age := func(since job.Millis) float64 { return float64(max(now-since, 0)) / 1000 }
	oldest := make(map[job.State]float64)
	past := 0
	for _, rec := range v.jobs {
		if !rec.HoldsFence() {
			continue
		}
		oldest[rec.State] = max(oldest[rec.State], age(waitingSince(rec)))
		if rec.State == job.StateRunning && now > rec.Dispatch.DeadlineAt {
			past++
		}
	}
	for _, state := range []job.State{job.StatePending, job.StateRunning, job.StateUnknown} {
		gauge(s.oldest, oldest[state], state.String())
	}
	gauge(s.pastDeadline, float64(past))
	waited := 0.0
	for _, rec := range v.refreshing {
		since := waitingSince(rec)
		if n := len(rec.LateResults); rec.State == job.StateUnknown && n > 0 {
			since = rec.LateResults[n-1].At
		}
		waited = max(waited, age(since))
	}
	gauge(s.oldestRefresh, waited)
}

// fences counts what the quotas count, without naming a catalog or a table.
func (s state) fences(gauge sink, v seen) {
	byState := make(map[job.State]int)
	catalogs, tables := make(map[string]int), make(map[job.TableKey]int)
	total, catalog, table := 0, 0, 0
	for _, rec := range v.jobs {
		if !rec.HoldsFence() {
			continue
		}
		total++
		byState[rec.State]++
		catalogs[rec.Target.Catalog]++
		catalog = max(catalog, catalogs[rec.Target.Catalog])
		tables[rec.Target.TableKey()]++
		table = max(table, tables[rec.Target.TableKey()])
	}
	for _, state := range states {
		gauge(s.unresolved, float64(byState[state]), state.String())
	}
	for _, quota := range []struct {
		scope       string
		used, limit int
	}{
		{"global", total, v.settings.MaxUnresolvedGlobal}, {"catalog", catalog, v.settings.MaxUnresolvedPerCatalog},
		{"table", table, v.settings.MaxUnresolvedPerTable},
	} {
		gauge(s.quotaRatio, float64(quota.used)/float64(max(quota.limit, 1)), quota.scope)
		gauge(s.quotaLimit, float64(quota.limit), quota.scope)
	}
}

func (s state) registries(gauge sink, v seen) {
	byState := map[job.BackendState]int{}
	var labels []string
	held := make(map[string]int)
	for i, b := range v.backends {
		byState[b.State]++
		label := backend.SeriesLabel(i, b.ID)
		if _, known := held[label]; !known {
			labels = append(labels, label)
		}
		held[label] += v.slots[i]
	}
	for _, label := range labels {
		gauge(s.slots, float64(held[label]), label)
	}
	gauge(s.slotsLimit, float64(v.settings.MaxInflightPerBackend))
	for _, state := range []job.BackendState{job.BackendActive, job.BackendDraining} {
		gauge(s.backends, float64(byState[state]), state.String())
	}
	gauge(s.catalogs, float64(v.catalogs))
}

package metrics_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/lancemaster/lancemaster/internal/backend"
	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/job/jobtest"
	"github.com/lancemaster/lancemaster/internal/metrics"
	"github.com/lancemaster/lancemaster/internal/store"
)

// world is a replicated state, and what counts its transitions.
type world struct {
	*jobtest.State
	t      *testing.T
	jobs   *metrics.Jobs
	counts *prometheus.Registry // of jobs
	at     job.Millis
	fails  error // of StateCounts
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{State: jobtest.Formed(), t: t, counts: prometheus.NewPedanticRegistry(), at: 1000}
	w.jobs = metrics.NewJobs(w.counts)
	w.do(job.PutCatalog{Header: w.head(), Catalog: job.Catalog{Name: "c", Refresher: job.Refresher{Kind: job.RefresherNone}}})
	w.set("admission.enabled", "true")
	return w
}

func (w *world) Read(show func(*job.Live)) { show(w.Live) }
func (w *world) Applied() job.Position     { return w.Position }

func (w *world) StateCounts() ([]store.StateCount, error) {
	var counts []store.StateCount
	for _, rec := range w.All() {
		counts = append(counts, store.StateCount{State: rec.State, Refresh: rec.Refresh.State, Jobs: 1})
	}
	// The store has one count for each pair; the tests that look have one job of each.
	return counts, w.fails
}

func (w *world) head() job.Header { return job.Header{At: w.at, Actor: "test"} }

func (w *world) do(c job.Command) job.Answer {
	w.t.Helper()
	change, refusal := w.Apply(c)
	if refusal != nil {
		w.t.Fatal(refusal)
	}
	w.jobs.Applied(change)
	return change.Answer
}

func (w *world) set(name, value string) {
	w.t.Helper()
	w.do(job.ChangeSettings{Header: w.head(), Values: []job.SettingValue{{Name: name, Value: value}}})
}

func (w *world) admit(table string, index int) *job.Record {
	w.t.Helper()
	name := fmt.Sprintf("idx%d", index)
	return w.do(job.Admit{
		Header: w.head(),
		Target: job.Target{
			Catalog: "c", Store: "s3", Database: "d", Table: table, Provider: job.Provider, Locator: "s3://b/" + table,
			IndexName: name, IndexKey: name,
		},
		Spec:     job.Spec{Mutation: job.MutationDrop, MaxNumPartitions: 1, MaxNumSubVectors: 1, ExecuteDeadline: 3_600_000},
		Snapshot: job.Snapshot{DatasetVersion: 1, Source: job.SnapshotCaller},
	}).Job
}

func (w *world) backend(i int) job.BackendID {
	w.t.Helper()
	return w.do(job.AddBackend{Header: w.head(), Address: job.Address{Host: fmt.Sprint("be", i), BePort: 9060, HeartbeatPort: 9050}}).Backend.ID
}

func (w *world) run(rec *job.Record, on job.BackendID) *job.Record {
	w.t.Helper()
	return w.do(job.MarkRunning{
		Header: w.head(), Job: rec.ID, Expected: rec.Revision, Backend: on, ProcessEpoch: 7, InvocationID: fmt.Sprint("inv-", rec.ID),
		SecretHash: job.Hash{1}, DeadlineAt: w.at + 3_600_000,
	}).Job
}

func (w *world) complete(rec *job.Record, code job.ResultCode) *job.Record {
	w.t.Helper()
	d := rec.Dispatch
	return w.do(job.Complete{Header: w.head(), Identity: job.Identity{
		Job: rec.ID, Revision: d.Revision, InvocationID: d.InvocationID, ProcessEpoch: d.ProcessEpoch,
	}, Code: code, Proof: job.ProofNone}).Job
}

// gathered returns all series of a collector by name.
func gathered(t *testing.T, c prometheus.Collector) map[string]int {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	series := make(map[string]int)
	for _, f := range families {
		series[f.GetName()] = len(f.GetMetric())
	}
	return series
}

func TestState(t *testing.T) {
	w := newWorld(t)
	be := w.backend(1)
	w.do(job.SetBackendState{Header: w.head(), Backend: w.backend(2), State: job.BackendDraining})
	w.set("dispatch.max_inflight_per_backend", "3")
	unknown := w.complete(w.run(w.admit("a", 1), be), job.CodeNoTrustedResult)
	w.at += 10_000
	committed := w.run(w.admit("a", 2), be)
	w.at += 10_000
	w.run(w.admit("b", 3), be)
	w.at += 10_000
	w.complete(committed, job.CodeNativeOK)
	w.at += 10_000
	w.admit("c", 4)
	w.at += 5_000
	w.set("dispatch.paused", "true")

	const want = `# HELP lancemaster_admission_enabled 1 while setting admission.enabled is true, else 0.
# TYPE lancemaster_admission_enabled gauge
lancemaster_admission_enabled 1
# HELP lancemaster_backend_slots_held Slots that jobs hold on a backend. Backends after the first 64 share the series of the backend_id other.
# TYPE lancemaster_backend_slots_held gauge
lancemaster_backend_slots_held{backend_id="1"} 3
lancemaster_backend_slots_held{backend_id="2"} 0
# HELP lancemaster_backend_slots_limit Setting dispatch.max_inflight_per_backend: slots of each backend.
# TYPE lancemaster_backend_slots_limit gauge
lancemaster_backend_slots_limit 3
# HELP lancemaster_backends Registered backends, by what an operator wants of them.
# TYPE lancemaster_backends gauge
lancemaster_backends{state="active"} 1
lancemaster_backends{state="draining"} 1
# HELP lancemaster_catalogs Catalogs on record.
# TYPE lancemaster_catalogs gauge
lancemaster_catalogs 1
# HELP lancemaster_dispatch_paused 1 while setting dispatch.paused is true, else 0.
# TYPE lancemaster_dispatch_paused gauge
lancemaster_dispatch_paused 1
# HELP lancemaster_feature_level Feature level of the cluster's commands and records; 0 before the formation.
# TYPE lancemaster_feature_level gauge
lancemaster_feature_level 1
# HELP lancemaster_incarnation Incarnation of the cluster: 1 at the formation, one more with each restore or recovery; 0 before the formation.
# TYPE lancemaster_incarnation gauge
lancemaster_incarnation 1
# HELP lancemaster_jobs Jobs on record, by mutation state and refresh state.
# TYPE lancemaster_jobs gauge
lancemaster_jobs{refresh_state="NOT_REQUIRED",state="COMMITTED"} 0
lancemaster_jobs{refresh_state="NOT_REQUIRED",state="NOT_COMMITTED"} 0
lancemaster_jobs{refresh_state="NOT_REQUIRED",state="PENDING"} 1
lancemaster_jobs{refresh_state="NOT_REQUIRED",state="RUNNING"} 1
lancemaster_jobs{refresh_state="NOT_REQUIRED",state="UNKNOWN"} 1
lancemaster_jobs{refresh_state="REQUIRED",state="COMMITTED"} 1
# HELP lancemaster_jobs_past_deadline RUNNING jobs whose deadline has passed by this node's clock.
# TYPE lancemaster_jobs_past_deadline gauge
lancemaster_jobs_past_deadline 0
# HELP lancemaster_jobs_unresolved Jobs that hold the fence on their index name and count against the quotas, by mutation state.
# TYPE lancemaster_jobs_unresolved gauge
lancemaster_jobs_unresolved{state="COMMITTED"} 1
lancemaster_jobs_unresolved{state="NOT_COMMITTED"} 0
lancemaster_jobs_unresolved{state="PENDING"} 1
lancemaster_jobs_unresolved{state="RUNNING"} 1
lancemaster_jobs_unresolved{state="UNKNOWN"} 1
# HELP lancemaster_oldest_job_age_seconds How long the job that has waited longest is in a state: PENDING since its admission, RUNNING since it was marked so, UNKNOWN and not released since it became so. 0 if there is none.
# TYPE lancemaster_oldest_job_age_seconds gauge
lancemaster_oldest_job_age_seconds{state="PENDING"} 5
lancemaster_oldest_job_age_seconds{state="RUNNING"} 25
lancemaster_oldest_job_age_seconds{state="UNKNOWN"} 45
# HELP lancemaster_oldest_refresh_age_seconds How long the job that has waited longest for its metadata refresh has had its outcome; 0 if none waits.
# TYPE lancemaster_oldest_refresh_age_seconds gauge
lancemaster_oldest_refresh_age_seconds 15
# HELP lancemaster_quarantined 1 after a restore or a recovery until an operator reopens the cluster, else 0.
# TYPE lancemaster_quarantined gauge
lancemaster_quarantined 0
# HELP lancemaster_quota_limit Unresolved jobs that the settings allow: in the cluster, in one catalog, at one table.
# TYPE lancemaster_quota_limit gauge
lancemaster_quota_limit{scope="catalog"} 64
lancemaster_quota_limit{scope="global"} 256
lancemaster_quota_limit{scope="table"} 8
# HELP lancemaster_quota_usage_ratio Unresolved jobs by their limit: of the cluster, of its fullest catalog, of its fullest table.
# TYPE lancemaster_quota_usage_ratio gauge
lancemaster_quota_usage_ratio{scope="catalog"} 0.0625
lancemaster_quota_usage_ratio{scope="global"} 0.015625
lancemaster_quota_usage_ratio{scope="table"} 0.25
# HELP lancemaster_raft_applied_index Raft index of the newest entry applied to the state.
# TYPE lancemaster_raft_applied_index gauge
lancemaster_raft_applied_index `
	now := func() time.Time { return time.UnixMilli(int64(w.at)) }
	c := metrics.NewState(w, now)
	expected := want + fmt.Sprintln(w.Position.Index)
	if err := testutil.CollectAndCompare(c, strings.NewReader(expected)); err != nil {
		t.Error(err)
	}
	if problems, err := testutil.CollectAndLint(c); err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}

	w.do(job.ForceRelease{Header: w.head(), Job: unknown.ID, Expected: unknown.Revision, Note: "gone", Warning: "w"})
	w.at += 3_600_000
	for name, value := range map[string]string{
		"jobs_past_deadline": "lancemaster_jobs_past_deadline 1\n",
		"oldest_job_age_seconds": `lancemaster_oldest_job_age_seconds{state="PENDING"} 3605
lancemaster_oldest_job_age_seconds{state="RUNNING"} 3625
lancemaster_oldest_job_age_seconds{state="UNKNOWN"} 0
`,
	} {
		head := want[strings.Index(want, "# HELP lancemaster_"+name):]
		head = strings.Join(strings.SplitAfter(head, "\n")[:2], "")
		if err := testutil.CollectAndCompare(c, strings.NewReader(head+value), "lancemaster_"+name); err != nil {
			t.Error(err)
		}
	}

	w.fails = errors.New("the state file is closed")
	if _, err := testutil.CollectAndLint(c); err == nil {
		t.Error("counts that cannot be read are no error")
	}
}

// Whatever there is of jobs, tables, catalogs and backends, the series stay few, and
// none has a name in it.
func TestSeriesAreBounded(t *testing.T) {
	w := newWorld(t)
	now := func() time.Time { return time.UnixMilli(int64(w.at)) }
	w.set("admission.max_unresolved_global", "10000")
	w.set("admission.max_unresolved_per_catalog", "10000")
	w.set("dispatch.max_inflight_per_backend", "100")
	var last job.BackendID
	for i := range 200 {
		last = w.backend(i)
	}
	for i := range 1000 {
		rec := w.admit(fmt.Sprint("table", i), i)
		if i < 70 {
			w.complete(w.run(rec, last), job.CodeNoTrustedResult)
		}
	}
	c := metrics.NewState(&uncounted{w}, now)
	total := 0
	for name, n := range gathered(t, c) {
		total += n
		if name == "lancemaster_backend_slots_held" && n != backend.MaxSeries+1 {
			t.Errorf("%d series of the slots", n)
		}
	}
	if total > backend.MaxSeries+50 {
		t.Errorf("%d series", total)
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if text := m.String(); strings.Contains(text, "table1") || strings.Contains(text, "idx") || strings.Contains(text, "be1") {
				t.Errorf("a name in %s", text)
			}
			for _, l := range m.GetLabel() {
				if l.GetValue() == backend.OtherBackends && m.GetGauge().GetValue() != 70 {
					t.Errorf("the other backends hold %v slots", m.GetGauge().GetValue())
				}
			}
		}
	}
	before := 0
	for _, n := range gathered(t, jobsOf(w)) {
		before += n
	}
	if before > 60 {
		t.Errorf("%d series of transitions and outcomes", before)
	}
}

// uncounted is a world whose jobs are not counted one by one.
type uncounted struct{ *world }

func (uncounted) StateCounts() ([]store.StateCount, error) {
	return []store.StateCount{{State: job.StatePending, Refresh: job.RefreshNotRequired, Jobs: 1000}}, nil
}

// jobsOf is a world's registry as a collector.
func jobsOf(w *world) prometheus.Collector { return w.counts }

func TestJobs(t *testing.T) {
	w := newWorld(t)
	be := w.backend(1)
	first := w.admit("a", 1)
	w.at += 4_000
	running := w.run(first, be)
	w.at += 60_000
	w.complete(running, job.CodeNativeOK)
	second := w.admit("a", 2)
	w.do(job.Cancel{Header: w.head(), Job: second.ID, Expected: second.Revision})

	series := func(name string) string {
		t.Helper()
		families, err := w.counts.Gather()
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, f := range families {
			if f.GetName() != name {
				continue
			}
			for _, m := range f.GetMetric() {
				labels := ""
				for _, l := range m.GetLabel() {
					labels += l.GetValue() + " "
				}
				if v := m.GetCounter().GetValue(); v > 0 {
					out = append(out, fmt.Sprint(labels, v))
				}
				if h := m.GetHistogram(); h.GetSampleCount() > 0 {
					out = append(out, fmt.Sprint(labels, h.GetSampleCount(), " in ", h.GetSampleSum()))
				}
			}
		}
		return strings.Join(out, ", ")
	}
	for name, want := range map[string]string{
		"lancemaster_job_transitions_total":        "ADMITTED 2, CANCELLED 1, COMPLETED 1, MARK_RUNNING 1",
		"lancemaster_job_outcomes_total":           "NATIVE_OK COMMITTED 1, NONE NOT_COMMITTED 1",
		"lancemaster_job_pending_duration_seconds": "1 in 4",
		"lancemaster_job_running_duration_seconds": "COMMITTED 1 in 60",
	} {
		if got := series(name); got != want {
			t.Errorf("%s: %s, not %s", name, got, want)
		}
	}
	if problems, err := testutil.GatherAndLint(w.counts); err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
}

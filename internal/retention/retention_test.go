package retention_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/lancemaster/lancemaster/internal/await"
	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/job/jobtest"
	"github.com/lancemaster/lancemaster/internal/retention"
)

// world is a state whose journal counts what it is asked to remove.
type world struct {
	mu       sync.Mutex
	state    *jobtest.State
	removals int
	fails    error
	agrees   bool
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{state: jobtest.Formed(), agrees: true}
	w.must(t, job.ChangeSettings{Header: w.head(), Values: []job.SettingValue{
		{Name: "admission.enabled", Value: "true"},
		{Name: "admission.max_unresolved_global", Value: "100000"},
		{Name: "admission.max_unresolved_per_catalog", Value: "100000"},
		{Name: "admission.max_unresolved_per_table", Value: "100000"},
	}})
	w.must(t, job.PutCatalog{Header: w.head(), Catalog: job.Catalog{Name: "lake", Refresher: job.Refresher{Kind: job.RefresherNone}}})
	return w
}

func (w *world) head() job.Header {
	return job.Header{At: job.Millis(time.Now().UnixMilli()), Actor: "test"}
}

func (w *world) must(t *testing.T, c job.Command) job.Answer {
	t.Helper()
	change, refusal := w.state.Apply(c)
	if refusal != nil {
		t.Fatal(refusal)
	}
	return change.Answer
}

// closed admits and cancels n jobs.
func (w *world) closed(t *testing.T, n int) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for range n {
		rec := w.admit(t)
		w.must(t, job.Cancel{Header: w.head(), Job: rec.ID, Expected: rec.Revision})
	}
}

func (w *world) admit(t *testing.T) *job.Record {
	t.Helper()
	name := fmt.Sprintf("i%d", len(w.state.Records)+1)
	return w.must(t, job.Admit{
		Header:   w.head(),
		Target:   job.Target{Catalog: "lake", Store: "s3", Database: "d", Table: "t", Provider: job.Provider, Locator: "s3://b/t.lance", IndexName: name, IndexKey: name},
		Spec:     job.Spec{Mutation: job.MutationDrop, MaxNumPartitions: 1, MaxNumSubVectors: 1, ExecuteDeadline: 1000},
		Snapshot: job.Snapshot{DatasetVersion: 1, Source: job.SnapshotCaller},
	}).Job
}

func (w *world) Read(f func(*job.Live)) { w.mu.Lock(); defer w.mu.Unlock(); f(w.state.Live) }
func (w *world) Closed(before job.Millis, limit int) ([]job.ID, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state.Closed(before, limit), nil
}
func (w *world) AgreesWithMajority() bool { w.mu.Lock(); defer w.mu.Unlock(); return w.agrees }
func (w *world) Propose(_ context.Context, c job.Command) (job.Answer, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.removals++
	if w.fails != nil {
		return job.Answer{}, w.fails
	}
	change, refusal := w.state.Apply(c)
	if refusal != nil {
		return job.Answer{}, refusal
	}
	return change.Answer, nil
}

func (w *world) look() (jobs, removals int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.state.Records), w.removals
}

func run(t *testing.T, test func(*testing.T, *world, *retention.Service)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s, err := retention.New(retention.Config{Proposer: w, Reader: w, Clock: w})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Stop()
		test(t, w, s)
	})
}

func start(t *testing.T, s *retention.Service) {
	t.Helper()
	if err := s.Start(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}

// pass lets time go by; it is virtual.
func pass(d time.Duration) { await.Pass(d); synctest.Wait() }

func TestJobsGoAfterTheirTimeAndNothingIsWrittenBefore(t *testing.T) {
	run(t, func(t *testing.T, w *world, s *retention.Service) {
		w.closed(t, 3)
		start(t, s)
		pass(167 * time.Hour)
		if jobs, removals := w.look(); jobs != 3 || removals != 0 {
			t.Errorf("after 167h: %d jobs, %d commands", jobs, removals)
		}
		pass(3 * time.Hour)
		if jobs, removals := w.look(); jobs != 0 || removals != 1 {
			t.Errorf("after 170h: %d jobs, %d commands", jobs, removals)
		}
		pass(1000 * time.Hour)
		if _, removals := w.look(); removals != 1 {
			t.Errorf("an idle sweep wrote: %d commands", removals)
		}
	})
}

func TestOpenJobsStayAtAnyAge(t *testing.T) {
	run(t, func(t *testing.T, w *world, s *retention.Service) {
		w.admit(t)
		w.closed(t, 1)
		start(t, s)
		pass(100 * 168 * time.Hour)
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.state.Records) != 1 || w.state.Records[1] == nil {
			t.Errorf("left are %v", w.state.Records)
		}
	})
}

func TestABacklogGoesInBatches(t *testing.T) {
	run(t, func(t *testing.T, w *world, s *retention.Service) {
		w.closed(t, 600)
		pass(200 * time.Hour)
		start(t, s)
		if jobs, removals := w.look(); jobs != 600-256 || removals != 1 {
			t.Errorf("at first: %d jobs, %d commands", jobs, removals)
		}
		pass(time.Minute)
		if jobs, removals := w.look(); jobs != 0 || removals != 3 {
			t.Errorf("in the end: %d jobs, %d commands", jobs, removals)
		}
	})
}

// A leader with a wrong clock removes nothing, and goes on once it is right.
func TestAWrongClockRemovesNothing(t *testing.T) {
	run(t, func(t *testing.T, w *world, s *retention.Service) {
		w.closed(t, 1)
		w.agrees = false
		start(t, s)
		pass(1000 * time.Hour)
		if jobs, removals := w.look(); jobs != 1 || removals != 0 {
			t.Errorf("%d jobs, %d commands", jobs, removals)
		}
		w.mu.Lock()
		w.agrees = true
		w.mu.Unlock()
		pass(2 * time.Hour)
		if jobs, _ := w.look(); jobs != 0 {
			t.Errorf("%d jobs", jobs)
		}
	})
}

// output is what a logger writes, for a test to read meanwhile.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}
func (o *output) String() string { o.mu.Lock(); defer o.mu.Unlock(); return o.text.String() }

// A clock that nobody vouches for is a warning only while it holds something up.
func TestAnUncertainClockIsToldOfOnceItMatters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.agrees = false
		w.closed(t, 1)
		said := &output{}
		s, err := retention.New(retention.Config{Proposer: w, Reader: w, Clock: w, Logger: slog.New(slog.NewTextHandler(said, nil))})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Stop()
		start(t, s)
		pass(167 * time.Hour)
		if text := said.String(); text != "" {
			t.Errorf("nothing is due, and it says %s", text)
		}
		pass(3 * time.Hour)
		if text := said.String(); !strings.Contains(text, "not certain that this master's clock agrees") {
			t.Errorf("a job is due, and it says %q", text)
		}
	})
}

func TestAFailureIsTriedAgain(t *testing.T) {
	run(t, func(t *testing.T, w *world, s *retention.Service) {
		w.closed(t, 1)
		w.fails = errors.New("leadership lost")
		start(t, s)
		pass(170 * time.Hour)
		w.mu.Lock()
		w.fails = nil
		w.mu.Unlock()
		pass(2 * time.Hour)
		if jobs, _ := w.look(); jobs != 0 {
			t.Errorf("%d jobs", jobs)
		}
	})
}

func TestAShorterIntervalCountsSoon(t *testing.T) {
	run(t, func(t *testing.T, w *world, s *retention.Service) {
		set := func(name, value string) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.must(t, job.ChangeSettings{Header: w.head(), Values: []job.SettingValue{{Name: name, Value: value}}})
		}
		set("retention.interval", "168h")
		set("retention.keep", "1h")
		w.closed(t, 1)
		start(t, s)
		pass(2 * time.Hour)
		set("retention.interval", "1m")
		pass(2 * time.Minute)
		if jobs, _ := w.look(); jobs != 0 {
			t.Errorf("%d jobs", jobs)
		}
	})
}

func TestStartAndStop(t *testing.T) {
	run(t, func(t *testing.T, w *world, s *retention.Service) {
		s.Stop()
		for range 3 {
			start(t, s)
			if err := s.Start(t.Context(), 2); err == nil {
				t.Error("it started twice")
			}
			s.Stop()
			s.Stop()
		}
		w.closed(t, 1)
		pass(1000 * time.Hour)
		if jobs, _ := w.look(); jobs != 1 {
			t.Error("it removes after Stop")
		}
	})
}

func TestMetricsText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r := prometheus.NewPedanticRegistry()
		s, err := retention.New(retention.Config{Proposer: w, Reader: w, Clock: w, Registerer: r})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Stop()
		w.closed(t, 3)
		pass(169 * time.Hour)
		w.fails = errors.New("leadership lost")
		start(t, s)
		w.mu.Lock()
		w.fails = nil
		w.mu.Unlock()
		pass(2*time.Hour + time.Minute)
		want := `# HELP lancemaster_retention_removed_jobs_total Jobs that this leader removed because retention.keep had passed since they were closed.
# TYPE lancemaster_retention_removed_jobs_total counter
lancemaster_retention_removed_jobs_total 3
# HELP lancemaster_retention_sweeps_total Looks of this leader for jobs to remove, by result; one that found nothing is done.
# TYPE lancemaster_retention_sweeps_total counter
lancemaster_retention_sweeps_total{result="done"} 2
lancemaster_retention_sweeps_total{result="failed"} 1
`
		if err := testutil.GatherAndCompare(r, strings.NewReader(want)); err != nil {
			t.Error(err)
		}
	})
}

func TestMetric(t *testing.T) {
	w := newWorld(t)
	r := prometheus.NewPedanticRegistry()
	if _, err := retention.New(retention.Config{Proposer: w, Reader: w, Clock: w, Registerer: r}); err != nil {
		t.Fatal(err)
	}
	if problems, err := testutil.GatherAndLint(r); err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
	if _, err := retention.New(retention.Config{Proposer: w, Reader: w, Clock: w, Registerer: r}); err == nil {
		t.Error("a second registration passed")
	}
	if _, err := retention.New(retention.Config{}); err == nil {
		t.Error("an empty configuration passed")
	}
}

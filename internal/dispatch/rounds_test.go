package dispatch

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"github.com/lancemaster/lancemaster/internal/await"
	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/refresh"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestOrderOfARound has one round find work of every kind.
func TestOrderOfARound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		for _, text := range []string{
			"elect a", "backend add", "set dispatch.max_inflight_per_backend=3", "catalog lake refresher=http",
			"refresh 3 fails", "set refresh.retry_interval=10m",
			"admit deadline=10m", "admit", "admit", "report 3 NATIVE_OK proof=CHILD_REAPED",
			"set dispatch.paused=true", "admit", "advance 599s", "heartbeat 1 epoch=100", "journal RECORD_TERMINATION not-appended",
			"heartbeat 1 epoch=200",
		} {
			w.do(text)
		}
		// No wake: at ten minutes the deadline of job 1, the slots of jobs 1 and 2 and the
		// refresh of job 3 are due, and job 4 is PENDING.
		w.must(job.ChangeSettings{Header: w.header(), Values: []job.SettingValue{{Name: "dispatch.paused", Value: "false"}}})
		await.Pass(time.Second)
		synctest.Wait()
		w.mu.Lock()
		var got []string
		for _, l := range w.lines {
			if verb, _, ok := strings.Cut(strings.TrimPrefix(l.text, "journal "), ":"); ok {
				got = append(got, verb)
			}
		}
		w.mu.Unlock()
		want := []string{"COMPLETE job 1", "RECORD_TERMINATION job 1", "RECORD_TERMINATION job 2"}
		if len(got) < 5 || !slices.Equal(got[:3], want) {
			t.Fatalf("the round began with %v, want %v", got, want)
		}
		rest := got[3:]
		slices.Sort(rest) // a refresh and a send do not wait for each other
		if want := []string{"MARK_RUNNING job 4", "REFRESH_FINISH job 3", "REFRESH_START job 3"}; !slices.Equal(rest, want) {
			t.Errorf("the round went on with %v, want %v", rest, want)
		}
	})
}

// TestIdleRoundsProposeNothing lets rounds go by with open jobs and
// nothing to do.
func TestIdleRoundsProposeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		for _, text := range []string{
			"elect a", "backend add", "admit", "backend 1 answer=eof", "admit", "set dispatch.paused=true", "admit",
			"report 1 NATIVE_OK",
		} {
			w.do(text)
		}
		w.mu.Lock()
		before := w.state.Position.Index
		w.mu.Unlock()
		w.do("advance 50m")
		w.mu.Lock()
		defer w.mu.Unlock()
		if after := w.state.Position.Index; after != before {
			t.Errorf("%d commands were journaled in 50 idle minutes", after-before)
		}
	})
}

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		registry := prometheus.NewRegistry()
		w.registerer = registry
		for _, text := range []string{
			"elect a", "backend add", "set dispatch.max_inflight_per_backend=100", "catalog lake refresher=http",
			"refresh 1 fails", "admit", "report 1 NATIVE_OK proof=CHILD_REAPED",
			"backend 1 answer=status:3", "admit", "backend 1 answer=unknown-method", "admit", "backend 1 answer=eof", "admit",
			"backend 1 dial=fails", "admit", "journal MARK_RUNNING applied-lost", "admit",
			"journal MARK_RUNNING not-appended", "admit", "backend 1 dial=waits", "admit",
		} {
			w.do(text)
		}
		w.do("stop a")
		want := `# HELP lancemaster_dispatches_total Attempts to send a job to a backend, by how they ended.
# TYPE lancemaster_dispatches_total counter
lancemaster_dispatches_total{class="accepted"} 1
lancemaster_dispatches_total{class="ambiguous"} 1
lancemaster_dispatches_total{class="closed"} 1
lancemaster_dispatches_total{class="cut"} 0
lancemaster_dispatches_total{class="dial_failed"} 1
lancemaster_dispatches_total{class="lost"} 1
lancemaster_dispatches_total{class="refused"} 1
lancemaster_dispatches_total{class="rejected"} 0
lancemaster_dispatches_total{class="unknown_method"} 1
lancemaster_dispatches_total{class="unprepared"} 0
lancemaster_dispatches_total{class="untrusted"} 1
# HELP lancemaster_refresh_attempts_total Attempts at the metadata refresh that a job owes, by refresher and result.
# TYPE lancemaster_refresh_attempts_total counter
lancemaster_refresh_attempts_total{refresher="http",result="done"} 0
lancemaster_refresh_attempts_total{refresher="http",result="failed"} 1
lancemaster_refresh_attempts_total{refresher="none",result="done"} 0
lancemaster_refresh_attempts_total{refresher="none",result="failed"} 0
lancemaster_refresh_attempts_total{refresher="other",result="done"} 0
lancemaster_refresh_attempts_total{refresher="other",result="failed"} 0
`
		if err := testutil.GatherAndCompare(registry, bytes.NewBufferString(want),
			"lancemaster_dispatches_total", "lancemaster_refresh_attempts_total"); err != nil {
			t.Error(err)
		}
		if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
			t.Error(problems, err)
		}
	})
}

// A round that was due, or asked for, while another one hung is late; and that one hangs
// is seen while it does.
func TestMetricsOfARoundThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &Dispatcher{metrics: newMetrics(nil), cfg: Config{Logger: slog.New(slog.DiscardHandler), Sends: NewSends()}}
		registry := prometheus.NewPedanticRegistry()
		if err := d.register(registry); err != nil {
			t.Fatal(err)
		}
		r := newRun(t.Context(), d, 1)
		defer r.stopRounds()
		defer r.stopSends()
		d.run = r
		d.cfg.Sends.add(&send{identity: job.Identity{Job: 1}})
		pass := func(duration time.Duration) {
			await.Pass(duration)
		}
		r.endRound(r.beginRound(time.Now())) // not late
		began := r.beginRound(time.Now().Add(-time.Second))
		pass(3 * time.Second)
		r.wakeUp()
		pass(2 * time.Second)
		r.wakeUp()
		want := `# HELP lancemaster_dispatch_last_round_age_seconds Time since the dispatcher's newest round of this term ended; 0 on a master that does not lead.
# TYPE lancemaster_dispatch_last_round_age_seconds gauge
lancemaster_dispatch_last_round_age_seconds 5
# HELP lancemaster_dispatch_sends_in_flight Attempts to send a job that are under way in this process.
# TYPE lancemaster_dispatch_sends_in_flight gauge
lancemaster_dispatch_sends_in_flight 1
`
		gauges := []string{"lancemaster_dispatch_last_round_age_seconds", "lancemaster_dispatch_sends_in_flight"}
		if err := testutil.GatherAndCompare(registry, strings.NewReader(want), gauges...); err != nil {
			t.Error(err)
		}
		r.endRound(began)
		r.endRound(r.beginRound(time.Now().Add(time.Minute))) // asked for 2s ago
		for name, want := range map[string]float64{"lag": 0 + 1 + 2, "duration": 0 + 5 + 0} {
			families, err := registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range families {
				h := f.GetMetric()[0].GetHistogram()
				if f.GetName() == "lancemaster_dispatch_round_"+name+"_seconds" && (h.GetSampleSum() != want || h.GetSampleCount() != 3) {
					t.Errorf("the rounds' %s is %v in %d rounds, not %v", name, h.GetSampleSum(), h.GetSampleCount(), want)
				}
			}
		}
		d.run = nil
		want = strings.Replace(want, "age_seconds 5", "age_seconds 0", 1)
		if err := testutil.GatherAndCompare(registry, strings.NewReader(want), gauges...); err != nil {
			t.Error(err)
		}
	})
}

// TestStartStop starts and stops terms while sends, preparations and refreshes are
// under way, from several goroutines; nothing is left when Stop has returned.
func TestStartStop(t *testing.T) {
	for seed := range 20 {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			defer w.end()
			for _, text := range []string{
				"backend add", "catalog lake refresher=http", "refresher takes:1s", "set dispatch.max_inflight_per_backend=100",
				fmt.Sprintf("backend 1 dial=takes:%dms answer=takes:%dms", seed*20, 500+seed*100),
				"elect a", "admit", "admit", "admit", "report 1 NATIVE_OK",
			} {
				w.do(text)
			}
			d := w.node("a").d
			var all sync.WaitGroup
			for i := range 4 {
				all.Go(func() {
					await.Pass(time.Duration(seed*i) * 10 * time.Millisecond)
					d.Stop()
					d.Wake()
					if err := d.Start(context.Background(), 1); err != nil && !strings.Contains(err.Error(), "has not been stopped") {
						t.Error(err)
					}
					d.Wake()
				})
			}
			all.Wait()
			d.Stop()
			d.Stop()
			if _, ok := d.Explain(&job.Record{ID: 1}); ok {
				t.Error("a stopped dispatcher explains")
			}
		})
	}
}

// TestEndOfContextClosesLatches: the term's context may end before Stop is called.
func TestEndOfContextClosesLatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		n := w.node("a")
		w.term, w.leader = 1, "a"
		w.do("backend add")
		w.do("backend 1 dial=waits")
		ctx, cancel := context.WithCancel(t.Context())
		if err := n.d.Start(ctx, 1); err != nil {
			t.Fatal(err)
		}
		w.do("admit")
		if err := n.d.Start(ctx, 2); err == nil {
			t.Error("a second term was started over the first")
		}
		cancel()
		synctest.Wait()
		w.mu.Lock()
		rec := w.state.Job(1)
		w.mu.Unlock()
		if rec.State != job.StateNotCommitted || rec.Dispatch.Proof != job.ProofNotEnqueued {
			t.Errorf("job 1 is %s with the proof %s", rec.State, rec.Dispatch.Proof)
		}
	})
}

func TestNewRefusesWhatIsMissing(t *testing.T) {
	if _, err := New(Config{Refreshers: refresh.NewRegistry(nil), Sends: NewSends()}); err == nil {
		t.Error("a dispatcher was made without a journal")
	}
}

// TestTokensUnderTrouble: whatever the journal does to the proposals, no interval
// sees more applied MARK_RUNNINGs than dispatch.max_per_round, and every job goes.
func TestTokensUnderTrouble(t *testing.T) {
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			defer w.end()
			r := rand.New(rand.NewPCG(seed, 2))
			for _, text := range []string{
				"elect a", "backend add", "backend add", "set dispatch.max_inflight_per_backend=100", "set dispatch.max_per_round=3",
			} {
				w.do(text)
			}
			var marked []time.Duration
			for range 40 {
				w.do("journal MARK_RUNNING " + pick(r, "lost", "late", "not-appended", "applied-lost", "OK", "OK", "takes:1s"))
				w.do(pick(r, "admit", "advance 1s", "advance 4s"))
				marked = append(marked, w.marked()...)
			}
			w.mu.Lock()
			clear(w.answers)
			w.mu.Unlock()
			for range 30 {
				w.do("advance 5s")
				marked = append(marked, w.marked()...)
			}
			for i := range len(marked) - 3 {
				if marked[i+3]-marked[i] < 10*time.Second {
					t.Errorf("seed %d: four jobs were marked running between %s and %s", seed, marked[i], marked[i+3])
				}
			}
			for _, rec := range w.state.All() {
				if rec.State == job.StatePending {
					t.Errorf("seed %d: job %d is PENDING in the end", seed, rec.ID)
				}
			}
		})
	}
}

// marked returns when MARK_RUNNINGs were applied since the last call.
func (w *world) marked() []time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	marked := w.markedAt
	w.markedAt = nil
	return marked
}

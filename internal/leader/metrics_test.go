package leader

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/lancemaster/lancemaster/internal/await"
)

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newBench(t, nil)
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(x.Collector())
		expect := func(leads, won, failures string, started uint64, took float64) {
			t.Helper()
			want := `# HELP lancemaster_leader 1 while this node leads and serves, else 0.
# TYPE lancemaster_leader gauge
lancemaster_leader ` + leads + `
# HELP lancemaster_leader_start_failures_total Starts of the leader's services that failed while the term went on.
# TYPE lancemaster_leader_start_failures_total counter
lancemaster_leader_start_failures_total ` + failures + `
# HELP lancemaster_leader_terms_won_total Terms that this node has won since its start.
# TYPE lancemaster_leader_terms_won_total counter
lancemaster_leader_terms_won_total ` + won + `
`
			if err := testutil.GatherAndCompare(registry, strings.NewReader(want),
				"lancemaster_leader", "lancemaster_leader_start_failures_total", "lancemaster_leader_terms_won_total"); err != nil {
				t.Error(err)
			}
			families, err := registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range families {
				if h := f.GetMetric()[0].GetHistogram(); h != nil && (h.GetSampleCount() != started || h.GetSampleSum() != took) {
					t.Errorf("%d starts in %vs, not %d in %vs", h.GetSampleCount(), h.GetSampleSum(), started, took)
				}
			}
		}
		expect("0", "0", "0", 0, 0)
		x.a.onStart = func(context.Context, uint64) error {
			await.Pass(2 * time.Second)
			return nil
		}
		x.Start()
		x.node.lead(3)
		pass(3 * time.Second)
		expect("1", "1", "0", 1, 2)
		x.node.lead(0)
		synctest.Wait()
		expect("0", "1", "0", 1, 2)
		x.a.onStart = func(context.Context, uint64) error { return errors.New("not today") }
		x.node.lead(5)
		synctest.Wait()
		expect("0", "2", "1", 1, 2)
		x.stop(t)
		if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
			t.Error(problems, err)
		}
	})
}

package admission_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/lancemaster/lancemaster/internal/job"
)

func TestMetrics(t *testing.T) {
	c := newCluster(t)
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c.service.Collector())
	submit := func(change func(*job.Submission)) {
		sub := ivf(t)
		if change != nil {
			change(&sub)
		}
		_, _ = c.service.Submit(t.Context(), sub)
	}
	again := func(sub *job.Submission) { sub.RequestID = "once" }
	submit(again)
	submit(again)
	submit(nil) // the name is held
	submit(func(sub *job.Submission) { sub.DryRun = true })
	submit(func(sub *job.Submission) { sub.Column = "none" })
	submit(func(sub *job.Submission) { sub.IndexName = "" })
	submit(func(sub *job.Submission) {
		sub.Mutation, sub.IndexName, sub.IfExists = job.MutationDrop, "absent", true
		sub.IndexType, sub.Column, sub.Properties = "", "", nil
	})
	c.fails = errors.New("the answer is lost")
	submit(func(sub *job.Submission) { sub.IndexName = "other" })
	c.set("admission.enabled", "false")
	submit(nil)
	submit(nil)

	want := `# HELP lancemaster_submission_refusals_total Submissions of index jobs that this node has refused, by the code of the refusal.
# TYPE lancemaster_submission_refusals_total counter
lancemaster_submission_refusals_total{code="COLUMN"} 1
lancemaster_submission_refusals_total{code="DATASET_DAMAGED"} 0
lancemaster_submission_refusals_total{code="DATASET_MISSING"} 0
lancemaster_submission_refusals_total{code="DATASET_UNREADABLE"} 0
lancemaster_submission_refusals_total{code="FENCE_HELD"} 1
lancemaster_submission_refusals_total{code="GATE_CLOSED"} 2
lancemaster_submission_refusals_total{code="INDEX_EXISTS"} 0
lancemaster_submission_refusals_total{code="INDEX_MISSING"} 0
lancemaster_submission_refusals_total{code="INVALID"} 1
lancemaster_submission_refusals_total{code="LOCAL_DATASET"} 0
lancemaster_submission_refusals_total{code="NOT_FORMED"} 0
lancemaster_submission_refusals_total{code="NOT_FOUND"} 0
lancemaster_submission_refusals_total{code="QUARANTINED"} 0
lancemaster_submission_refusals_total{code="QUOTA_CATALOG"} 0
lancemaster_submission_refusals_total{code="QUOTA_GLOBAL"} 0
lancemaster_submission_refusals_total{code="QUOTA_TABLE"} 0
lancemaster_submission_refusals_total{code="REQUEST_CONFLICT"} 0
# HELP lancemaster_submissions_total Submissions of index jobs that this node has decided, by what they came to.
# TYPE lancemaster_submissions_total counter
lancemaster_submissions_total{result="admitted"} 1
lancemaster_submissions_total{result="dry_run"} 1
lancemaster_submissions_total{result="error"} 1
lancemaster_submissions_total{result="existing"} 1
lancemaster_submissions_total{result="noop"} 1
lancemaster_submissions_total{result="refused"} 5
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "lancemaster_submissions_total", "lancemaster_submission_refusals_total"); err != nil {
		t.Error(err)
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
}

package admission

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lancemaster/lancemaster/internal/job"
)

// What a submission came to, other than a refusal.
const (
	resultAdmitted = "admitted"
	resultExisting = "existing" // a request id that was used before
	resultNoop     = "noop"     // there is nothing to do
	resultDryRun   = "dry_run"
	resultRefused  = "refused" // see the refusals by code
	resultError    = "error"   // no answer, or an ambiguous one
)

// refusals are the codes that a submission is refused with as a rule. Their series are
// there from the start; another code's comes with its first refusal.
var refusals = []job.Code{
	job.CodeInvalid, job.CodeNotFound, job.CodeGateClosed, job.CodeFenceHeld, job.CodeQuotaTable, job.CodeQuotaCatalog,
	job.CodeQuotaGlobal, job.CodeRequestConflict, job.CodeNotFormed, job.CodeQuarantined, job.CodeIndexExists,
	job.CodeIndexMissing, job.CodeColumn, job.CodeDatasetMissing, job.CodeDatasetDamaged, job.CodeDatasetUnreadable,
	job.CodeLocalDataset,
}

// metrics count submissions.
type metrics struct {
	submissions *prometheus.CounterVec
	refused     *prometheus.CounterVec
	duration    prometheus.Histogram
}

// Collector exports the service's metrics; the owner registers it once.
func (s *Service) Collector() prometheus.Collector { return s.metrics }

func newMetrics() *metrics {
	m := &metrics{
		submissions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lancemaster_submissions_total",
			Help: "Submissions of index jobs that this node has decided, by what they came to.",
		}, []string{"result"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lancemaster_submission_refusals_total",
			Help: "Submissions of index jobs that this node has refused, by the code of the refusal.",
		}, []string{"code"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "lancemaster_submission_duration_seconds",
			Help:    "Time to decide a submission, the reading of its dataset and the journal's answer included.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}),
	}
	for _, result := range []string{resultAdmitted, resultExisting, resultNoop, resultDryRun, resultRefused, resultError} {
		m.submissions.WithLabelValues(result)
	}
	for _, code := range refusals {
		m.refused.WithLabelValues(code.String())
	}
	return m
}

// Describe names the metrics.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	m.submissions.Describe(ch)
	m.refused.Describe(ch)
	m.duration.Describe(ch)
}

// Collect reads the counters.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	m.submissions.Collect(ch)
	m.refused.Collect(ch)
	m.duration.Collect(ch)
}

func (m *metrics) count(out job.SubmissionOutcome, err error, took time.Duration) {
	m.duration.Observe(took.Seconds())
	m.submissions.WithLabelValues(resultOf(out, err)).Inc()
	if refusal, ok := job.AsRefusal(err); ok {
		m.refused.WithLabelValues(refusal.Code.String()).Inc()
	}
}

func resultOf(out job.SubmissionOutcome, err error) string {
	if _, ok := job.AsRefusal(err); ok {
		return resultRefused
	}
	if err != nil {
		return resultError
	}
	switch out.Kind {
	case job.SubmissionAdmitted:
		return resultAdmitted
	case job.SubmissionExisting:
		return resultExisting
	case job.SubmissionNoop:
		return resultNoop
	case job.SubmissionDryRun:
		return resultDryRun
	default:
		return resultError
	}
}

// Submit admits a job, finds that there is nothing to do, or refuses. The
// caller has waited for a read barrier, so that a request id it used before is
// known here.
func (s *Service) Submit(ctx context.Context, sub job.Submission) (job.SubmissionOutcome, error) {
	began := time.Now()
	out, err := s.answer(ctx, sub)
	s.metrics.count(out, err, time.Since(began))
	return out, err
}

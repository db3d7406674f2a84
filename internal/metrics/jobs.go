package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lancemaster/lancemaster/internal/job"
)

// Jobs counts what happens to jobs. Each transition is counted once in the cluster, by
// the leader that journaled it; one whose answer was lost is counted nowhere.
type Jobs struct {
	transitions *prometheus.CounterVec
	outcomes    *prometheus.CounterVec
	pending     prometheus.Histogram
	running     *prometheus.HistogramVec
}

// codeNone labels the outcome of a job that was never invoked.
const codeNone = "NONE"

var events = []job.EventKind{
	job.EventAdmitted, job.EventRunning, job.EventCompleted, job.EventTermination, job.EventRefreshRunning, job.EventRefreshDone,
	job.EventRefreshFailed, job.EventRefreshReset, job.EventCancelled, job.EventRejected, job.EventForceReleased,
	job.EventSlotReleased, job.EventLateResult, job.EventQuarantined, job.EventLeaderChanged,
}

var codes = []job.ResultCode{
	job.CodeStaleAdmission, job.CodeUnsupportedSchemaContract, job.CodeCredentialExpired, job.CodeResourceRejected,
	job.CodeNativeOK, job.CodeNativeCommitConflict, job.CodeNativeNotFound, job.CodeNativeInvalidArgument,
	job.CodeNativeNotSupported, job.CodeNativeIndex, job.CodeNativeIO, job.CodeNativeInternal, job.CodeNoTrustedResult,
}

// NewJobs registers the metrics of jobs.
func NewJobs(r prometheus.Registerer) *Jobs {
	j := &Jobs{
		transitions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lancemaster_job_transitions_total",
			Help: "Transitions of jobs that this leader has journaled, by kind.",
		}, []string{"kind"}),
		outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lancemaster_job_outcomes_total",
			Help: "Jobs that came to an outcome under this leader, by the outcome and the result code it rests on; NONE where the job was never sent.",
		}, []string{"state", "code"}),
		pending: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "lancemaster_job_pending_duration_seconds",
			Help:    "Time from a job's admission to its being marked RUNNING.",
			Buckets: []float64{.1, .5, 1, 5, 15, 60, 300, 900, 3600, 14400, 86400},
		}),
		running: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "lancemaster_job_running_duration_seconds",
			Help:    "Time from a job's being marked RUNNING to its outcome, by the outcome.",
			Buckets: []float64{.1, 1, 5, 15, 60, 300, 900, 1800, 3600, 7200, 14400, 43200, 86400},
		}, []string{"state"}),
	}
	for _, kind := range events {
		j.transitions.WithLabelValues(string(kind))
	}
	for _, mutation := range []job.Mutation{job.MutationCreate, job.MutationReplace, job.MutationDrop} {
		for _, code := range codes {
			state := job.Classify(mutation, false, code, false).State.String()
			j.outcomes.WithLabelValues(state, code.String())
			j.running.WithLabelValues(state)
		}
	}
	j.outcomes.WithLabelValues(job.StateNotCommitted.String(), codeNone)
	r.MustRegister(j.transitions, j.outcomes, j.pending, j.running)
	return j
}

// Applied takes a command that this leader has journaled. It does not block.
func (j *Jobs) Applied(c job.Change) {
	for _, change := range c.Jobs {
		if change.Event == nil || change.New == nil {
			continue
		}
		j.transitions.WithLabelValues(string(change.Event.Kind)).Inc()
		if was := change.Event.From; was != change.New.State && was.Valid() {
			j.moved(was, change.New)
		}
	}
}

// moved counts a job that has left one mutation state for another.
func (j *Jobs) moved(from job.State, rec *job.Record) {
	if rec.State == job.StateRunning {
		j.pending.Observe(seconds(rec.CreatedAt, rec.Dispatch.StartedAt))
		return
	}
	code := codeNone
	if rec.Result != nil && rec.Result.Code != 0 {
		code = rec.Result.Code.String()
	}
	j.outcomes.WithLabelValues(rec.State.String(), code).Inc()
	if from == job.StateRunning && rec.Result != nil {
		j.running.WithLabelValues(rec.State.String()).Observe(seconds(rec.Dispatch.StartedAt, rec.Result.At))
	}
}

// seconds is the time between two moments that different masters may have noted.
func seconds(from, to job.Millis) float64 {
	return (time.Duration(max(to-from, 0)) * time.Millisecond).Seconds()
}

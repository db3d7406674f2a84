package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lancemaster/lancemaster/internal/command"
	"github.com/lancemaster/lancemaster/internal/fsm"
	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/metrics"
	"github.com/lancemaster/lancemaster/internal/raftnode"
)

// proposeTimeout bounds a proposal whose caller set no nearer end. A command
// that takes longer has an unknown outcome.
const proposeTimeout = 30 * time.Second

// proposer is the part of a Raft node that the journal needs.
type proposer interface {
	Propose(ctx context.Context, data []byte) (response any, index uint64, err error)
}

// journal proposes typed commands. It is the one place where the state machine's
// refusal, which is a value, is told apart from a failure to replicate.
type journal struct {
	node     proposer
	level    func() int32 // the feature level in force
	log      *slog.Logger
	observe  func(*fsm.Result) // told of each applied command; must not block
	duration *prometheus.HistogramVec
	jobs     *metrics.Jobs
}

func newJournal(node proposer, log *slog.Logger, r prometheus.Registerer, observe func(*fsm.Result)) *journal {
	j := &journal{node: node, level: func() int32 { return 1 }, log: log, observe: observe, duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "lancemaster_journal_apply_duration_seconds",
		Help:    "Time from proposing a command on this leader to its being applied, by how it ended.",
		Buckets: prometheus.ExponentialBuckets(0.0005, 2, 15),
	}, []string{"result"})}
	for _, result := range []string{"applied", "refused", "not_appended", "unknown"} {
		j.duration.WithLabelValues(result)
	}
	r.MustRegister(j.duration)
	j.jobs = metrics.NewJobs(r)
	return j
}

// Propose journals a command and returns what it answered. The error is a
// *job.Refusal when the state machine refused, wraps job.ErrNotAppended when the
// command certainly never reached the log, and is ambiguous otherwise.
func (j *journal) Propose(ctx context.Context, c job.Command) (job.Answer, error) {
	start := time.Now()
	result, answer, err := j.propose(ctx, c)
	j.duration.WithLabelValues(result).Observe(time.Since(start).Seconds())
	return answer, err
}

func (j *journal) propose(ctx context.Context, c job.Command) (string, job.Answer, error) {
	// At the level in force: what comes with a higher one would stop the older builds among the masters.
	data, err := command.EncodeAt(j.level(), c)
	if err != nil {
		return "not_appended", job.Answer{}, fmt.Errorf("%w: %w", job.ErrNotAppended, err)
	}
	ctx, cancel := context.WithTimeout(ctx, proposeTimeout)
	defer cancel()
	response, _, err := j.node.Propose(ctx, data)
	switch {
	case errors.Is(err, raftnode.ErrNotAppended):
		return "not_appended", job.Answer{}, fmt.Errorf("%w: %w", job.ErrNotAppended, err)
	case err != nil:
		return "unknown", job.Answer{}, fmt.Errorf("command %s may or may not have been applied: %w", c.Name(), err)
	}
	result, ok := response.(*fsm.Result)
	if !ok {
		return "unknown", job.Answer{}, fmt.Errorf("command %s: the state machine answered with %T", c.Name(), response)
	}
	if result.Replayed { // what it did the first time is not known any more
		return "unknown", job.Answer{}, fmt.Errorf("command %s was applied before; its answer is lost", c.Name())
	}
	if result.Err != nil {
		// Its text only: whatever it wraps, it must not be taken for a refusal.
		return "unknown", job.Answer{}, fmt.Errorf("command %s may or may not have been applied: %s", c.Name(), result.Err.Error())
	}
	if result.Refusal != nil {
		return "refused", job.Answer{}, result.Refusal
	}
	j.logTransitions(ctx, result)
	j.jobs.Applied(result.Changes)
	j.observe(result)
	return "applied", result.Answer, nil
}

// logTransitions writes one line for each transition of a job.
func (j *journal) logTransitions(ctx context.Context, r *fsm.Result) {
	for _, c := range r.Changes.Jobs {
		e := c.Event
		if e == nil {
			continue
		}
		from := "-"
		if e.From.Valid() {
			from = e.From.String()
		}
		j.log.LogAttrs(ctx, slog.LevelInfo, "job transition",
			slog.Int64("job", int64(e.Job)), slog.Int64("revision", int64(e.Revision)), slog.String("kind", string(e.Kind)),
			slog.String("from", from), slog.String("to", e.To.String()), slog.String("refresh", e.ToRefresh.String()),
			slog.Uint64("term", e.Term), slog.String("actor", e.Actor), slog.String("reason", e.Reason))
	}
}

package rpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/lancemaster/lancemaster/gen-go/report"
	"github.com/lancemaster/lancemaster/gen-go/shared"
	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/thriftnet"
)

// The kinds of reports.
const (
	kindResult      = "result"
	kindTermination = "termination"
)

// fate is what became of a report: the label of its metric.
type fate string

// The fates. All but unavailable and refused are answered OK.
const (
	fateApplied         fate = "applied"
	fateLate            fate = "late"            // kept as evidence of an UNKNOWN job
	fateStale           fate = "stale"           // of another dispatch, or of a job that is settled or gone
	fateMalformed       fate = "malformed"       //
	fateDuplicate       fate = "duplicate"       //
	fateUnauthenticated fate = "unauthenticated" //
	fateForwarded       fate = "forwarded"       // the leader decided
	fateUnavailable     fate = "unavailable"     // the call failed: the backend will try again
	fateRefused         fate = "refused"         // the call failed: the connection's certificate will not do
)

var fates = []fate{
	fateApplied, fateLate, fateStale, fateMalformed, fateDuplicate, fateUnauthenticated, fateForwarded, fateUnavailable,
	fateRefused,
}

// holdTime is how long a report waits for a leader.
const holdTime = 10 * time.Second

// ReportConfig is what the report service stands on.
type ReportConfig struct {
	Journal    Journal
	State      State
	Leadership Leadership
	Latches    LatchCloser
	Forward    Forwarder // nil: this node forwards nothing, which is right for a cluster of one
	// Admit refuses a call because of the connection that ctx is of; nil: every connection will do. It is
	// not asked about what another master forwards, who has asked itself.
	Admit   func(ctx context.Context) error
	Clock   Clock
	Logger  *slog.Logger
	Metrics *Metrics
	Hold    time.Duration // how long to wait for a leader; default 10 s
}

// Reports serves the report service.
type Reports struct {
	cfg ReportConfig
	// drops bounds the lines about dropped reports; silenced counts those without one.
	drops    *rate.Limiter
	silenced atomic.Int64
}

// Lines about dropped reports: so many at once, and then so many each second.
const (
	dropBurst  = 50
	dropPerSec = 2
)

var _ report.ReportService = (*Reports)(nil)

// NewReports makes the handler of the report service.
func NewReports(cfg ReportConfig) *Reports {
	if cfg.Hold <= 0 {
		cfg.Hold = holdTime
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Reports{cfg: cfg, drops: rate.NewLimiter(dropPerSec, dropBurst)}
}

// What a backend is told when its call fails. It reads none of it; people do.
var (
	errNoArgument  = errors.New("the call has no argument")
	errNoLeader    = errors.New("this master does not lead and no leader is known; send the report again")
	errNotRecorded = errors.New("the report was not recorded; send it again")
	errStopping    = errors.New("this master is stopping; send the report again")
)

// ReportLanceIndexJobResult_ takes the outcome of an invocation.
//
//nolint:revive // the name is the generated interface's
func (s *Reports) ReportLanceIndexJobResult_(ctx context.Context, r *report.TLanceIndexJobReport) (*shared.TStatus, error) {
	return s.serve(ctx, kindResult, "reportLanceIndexJobResult", func(ctx context.Context) (verdict, *shared.TStatus, error) {
		if r == nil {
			return verdict{}, nil, errNoArgument
		}
		e := resultEnvelope(r)
		return s.handle(ctx, e, func(ctx context.Context) (*shared.TStatus, error) {
			return s.leaderService().ReportLanceIndexJobResult_(ctx, r)
		})
	})
}

// ReportLanceIndexJobTermination takes the proof that a worker is gone.
func (s *Reports) ReportLanceIndexJobTermination(ctx context.Context, r *report.TLanceIndexJobTerminationReport) (*shared.TStatus, error) {
	return s.serve(ctx, kindTermination, "reportLanceIndexJobTermination", func(ctx context.Context) (verdict, *shared.TStatus, error) {
		if r == nil {
			return verdict{}, nil, errNoArgument
		}
		e := terminationEnvelope(r)
		return s.handle(ctx, e, func(ctx context.Context) (*shared.TStatus, error) {
			return s.leaderService().ReportLanceIndexJobTermination(ctx, r)
		})
	})
}

// serve counts a call and makes the answer: a verdict's, or that of the leader it was forwarded to.
func (s *Reports) serve(ctx context.Context, kind, method string,
	handle func(context.Context) (verdict, *shared.TStatus, error),
) (*shared.TStatus, error) {
	began := s.cfg.Clock.Now()
	if err := s.admit(ctx, kind); err != nil {
		s.cfg.Metrics.reports.WithLabelValues(kind, string(fateRefused)).Inc()
		s.cfg.Metrics.answered(serviceReport, method, "UNAUTHENTICATED", s.cfg.Clock.Now().Sub(began))
		return nil, err
	}
	v, forwarded, err := handle(ctx)
	took := s.cfg.Clock.Now().Sub(began)
	if err != nil {
		s.cfg.Metrics.reports.WithLabelValues(kind, string(fateUnavailable)).Inc()
		s.cfg.Metrics.answered(serviceReport, method, "UNAVAILABLE", took)
		return nil, err
	}
	s.cfg.Metrics.answered(serviceReport, method, "OK", took)
	if forwarded != nil {
		s.cfg.Metrics.reports.WithLabelValues(kind, string(fateForwarded)).Inc()
		return forwarded, nil
	}
	s.cfg.Metrics.reports.WithLabelValues(kind, string(v.fate)).Inc()
	s.log(ctx, kind, v)
	return v.status(), nil
}

// admit refuses a call over a connection whose certificate will not do any more. Its sender is told so by
// an exception: what it reports may well be true, and it sends it again over a new connection.
func (s *Reports) admit(ctx context.Context, kind string) error {
	if s.cfg.Admit == nil || forwarded(ctx) {
		return nil
	}
	err := s.cfg.Admit(ctx)
	if err == nil {
		return nil
	}
	if s.mayLog(ctx) {
		s.cfg.Logger.WarnContext(ctx, "a report was refused because of its sender's certificate; its sender will try again", "kind", kind,
			"error", err.Error(), "peer", thriftnet.Peer(ctx))
	}
	return fmt.Errorf("the report was not recorded; send it again over a new connection: %w", err)
}

// mayLog reports whether there may be another line about a report that was not taken: whoever can connect
// could fill the disk, and the metric counts them all.
func (s *Reports) mayLog(ctx context.Context) bool {
	if !s.drops.Allow() {
		s.silenced.Add(1)
		return false
	}
	if n := s.silenced.Swap(0); n > 0 {
		s.cfg.Logger.WarnContext(ctx, "more reports were dropped than are logged one by one", "not_logged", n)
	}
	return true
}

// log says what became of a report. Nothing a report carries goes into the log but its job's number.
func (s *Reports) log(ctx context.Context, kind string, v verdict) {
	level := slog.LevelInfo
	if v.dropped() {
		level = slog.LevelWarn
		if !s.mayLog(ctx) {
			return
		}
	}
	s.cfg.Logger.Log(ctx, level, "report from a backend", "kind", kind, "fate", string(v.fate), "job", int64(v.job),
		"detail", v.detail, "peer", thriftnet.Peer(ctx))
}

// handle finds who decides and, where that is this node, decides.
func (s *Reports) handle(ctx context.Context, e envelope, forward func(context.Context) (*shared.TStatus, error)) (verdict, *shared.TStatus, error) {
	if why := e.malformed(); why != "" {
		return verdict{fate: fateMalformed, job: e.id.Job, detail: why}, nil, nil
	}
	if v, forged := s.forged(e); forged {
		return v, nil, nil
	}
	leader, answer, err := s.find(ctx, e, forward)
	if err != nil || !leader.Self {
		return verdict{}, answer, err
	}
	v, err := s.decide(ctx, e)
	if err != nil && draining(ctx) {
		s.cfg.Logger.Info("a report was not recorded because this master is stopping; its sender will try again", "job", int64(e.id.Job))
		return verdict{}, nil, errStopping
	}
	if err != nil {
		s.cfg.Logger.Error("a report could not be recorded; its sender will try again", "job", int64(e.id.Job), "error", err.Error())
		return verdict{}, nil, errNotRecorded
	}
	return v, nil, nil
}

// find holds a report until a leader is known. One that is another node gets the report, once: only a
// report that certainly did not leave this node is held on for the next one.
func (s *Reports) find(ctx context.Context, e envelope, forward func(context.Context) (*shared.TStatus, error)) (Leader, *shared.TStatus, error) {
	hold, end := untilDraining(ctx, s.cfg.Hold)
	defer end()
	for pause := leadPause; ; pause = min(2*pause, maxLeadPause) {
		leader, err := s.lead(hold)
		switch {
		case err != nil && draining(ctx):
			return leader, nil, errStopping
		case err != nil || leader.Self:
			return leader, nil, err
		case s.cfg.Forward == nil || forwarded(ctx):
			return leader, nil, errNoLeader
		}
		answer, err := forward(ctx)
		switch {
		case err == nil && answer != nil:
			s.cfg.Metrics.forwarded(serviceReport, forwardAnswered)
			return leader, answer, nil
		case err != nil && isUnsent(err):
			s.cfg.Metrics.forwarded(serviceReport, forwardUnsent)
			if rest(hold, pause) {
				continue
			}
			if draining(ctx) {
				return leader, nil, errStopping
			}
		default:
			s.cfg.Metrics.forwarded(serviceReport, forwardLost)
		}
		s.cfg.Logger.Warn("a report could not be forwarded; its sender will try again", "job", int64(e.id.Job), "leader", leader.NodeID)
		return leader, nil, errNotRecorded
	}
}

// forged drops a report without the right secret before it costs the journal anything. A job's secret
// is set once, so no newer state than this node's would accept it.
func (s *Reports) forged(e envelope) (verdict, bool) {
	if !e.hasSecret && e.result == nil {
		return verdict{}, false // a setting may allow it, and settings change
	}
	rec, err := s.cfg.State.Job(e.id.Job)
	if err != nil || rec == nil || !rec.Dispatch.Dispatched() || e.authentic(rec.Dispatch) {
		return verdict{}, false
	}
	return s.refuse(e, rec)
}

// lead waits for a leader. Where that is this node, the state is then no older than the report's
// arrival.
func (s *Reports) lead(ctx context.Context) (Leader, error) {
	for {
		leader, err := s.cfg.Leadership.WaitLeader(ctx)
		if err != nil {
			return Leader{}, errNoLeader
		}
		if !leader.Self {
			return leader, nil
		}
		err = s.cfg.Leadership.ReadBarrier(ctx)
		if err == nil {
			return leader, nil
		}
		if ctx.Err() != nil || !errors.Is(err, ErrNotLeader) {
			return Leader{}, errNotRecorded
		}
		// Lost between the two; a little later somebody leads.
		if !rest(ctx, leadPause) {
			return Leader{}, errNoLeader
		}
	}
}

// untilDraining returns a context for a wait inside a request: it ends after d, and when the server
// begins to stop. Whoever waited calls the function.
func untilDraining(ctx context.Context, d time.Duration) (context.Context, func()) {
	waiting, cancel := context.WithTimeout(ctx, d)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-thriftnet.Draining(ctx):
			cancel()
		case <-waiting.Done():
		}
	}()
	return waiting, func() { cancel(); <-done }
}

func draining(ctx context.Context) bool {
	select {
	case <-thriftnet.Draining(ctx):
		return true
	default:
		return false
	}
}

// verdict is what became of a report that was decided.
type verdict struct {
	fate   fate
	job    job.ID
	detail string
}

func (v verdict) dropped() bool { return v.fate != fateApplied && v.fate != fateLate }

// status is the answer: always OK, with the class of the reason where the report was dropped.
func (v verdict) status() *shared.TStatus {
	answer := &shared.TStatus{StatusCode: shared.TStatusCode_OK}
	if v.dropped() {
		answer.ErrorMsgs = []string{fmt.Sprintf("%s: %s", v.fate, v.detail)}
	}
	return answer
}

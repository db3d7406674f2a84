package admission

import (
	"context"
	"time"

	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/lance"
)

// Journal proposes commands. Its error is a *job.Refusal, wraps
// job.ErrNotAppended, or is ambiguous.
type Journal interface {
	Propose(ctx context.Context, c job.Command) (job.Answer, error)
}

// State is what admission reads of the replicated state.
type State interface {
	Read(func(*job.Live))
	Job(job.ID) (*job.Record, error)
	Request(creator, requestID string) (job.ID, bool, error)
}

// Opener reads the latest version of a dataset.
type Opener func(ctx context.Context, locator string) (*lance.Dataset, error)

// Service admits index jobs. It keeps no state of its own but its metrics.
type Service struct {
	state   State
	journal Journal
	open    Opener
	now     func() time.Time
	members func() int
	metrics *metrics
}

// New returns a Service. members counts the members of the Raft configuration,
// on which local datasets depend.
func New(state State, journal Journal, open Opener, now func() time.Time, members func() int) *Service {
	return &Service{state: state, journal: journal, open: open, now: now, members: members, metrics: newMetrics()}
}

// answer is Submit, not counted.
func (s *Service) answer(ctx context.Context, sub job.Submission) (job.SubmissionOutcome, error) {
	hash := job.RequestHash(sub)
	if rec, err := s.known(sub, hash); rec != nil || err != nil {
		return job.SubmissionOutcome{Kind: job.SubmissionExisting, Job: rec}, err
	}
	out, err := s.submit(ctx, sub, hash)
	if _, refused := job.AsRefusal(err); refused || err == nil && out.Kind == job.SubmissionNoop {
		// What answers it so may be the work of the same request's first attempt, which
		// was still under way above: the fence it has taken, the index it has made.
		if rec, err := s.known(sub, hash); rec != nil || err != nil {
			return job.SubmissionOutcome{Kind: job.SubmissionExisting, Job: rec}, err
		}
	}
	return out, err
}

// submit is answer for a request that was not known a moment ago.
func (s *Service) submit(ctx context.Context, sub job.Submission, hash job.Hash) (job.SubmissionOutcome, error) {
	p := &plan{sub: sub}
	var gate *job.Refusal
	s.state.Read(func(l *job.Live) { p.settings, gate = l.Settings(), job.CheckGate(l) })
	if gate != nil && !sub.DryRun {
		return job.SubmissionOutcome{}, gate
	}
	noop, err := s.prepare(ctx, p)
	if err != nil {
		return job.SubmissionOutcome{}, err
	}
	if noop != "" {
		return job.SubmissionOutcome{Kind: job.SubmissionNoop, Detail: noop}, nil
	}
	limits := s.limits(p)
	if sub.DryRun {
		return p.dryRun(append(limits, gate), s.now()), nil
	}
	for _, refusal := range limits {
		if refusal != nil {
			return job.SubmissionOutcome{}, refusal
		}
	}
	admit := p.admit(hash, s.now())
	answer, err := s.journal.Propose(ctx, admit)
	if err != nil {
		return job.SubmissionOutcome{}, err
	}
	kind := job.SubmissionAdmitted
	if answer.Existing {
		kind = job.SubmissionExisting
	}
	return job.SubmissionOutcome{Kind: kind, Job: answer.Job}, nil
}

// known answers a repeated request id without looking at anything else, so that
// a retry is answered even when the gate has closed or the dataset has moved on.
func (s *Service) known(sub job.Submission, hash job.Hash) (*job.Record, error) {
	if sub.RequestID == "" {
		return nil, nil
	}
	id, ok, err := s.state.Request(sub.Actor, sub.RequestID)
	if err != nil || !ok {
		return nil, err
	}
	rec, err := s.state.Job(id)
	if err != nil || rec == nil { // removed between the two reads
		return nil, err
	}
	if rec.RequestHash != hash {
		return nil, job.RequestConflict(rec)
	}
	return rec, nil
}

// plan is a submission on its way to becoming an Admit.
type plan struct {
	sub      job.Submission
	settings job.Settings
	target   job.Target
	spec     job.Spec
	snapshot job.Snapshot
	// subVectors is num_sub_vectors of an IVF_PQ index.
	subVectors int32
}

// prepare makes the checks between the gate and the limits. A non-empty noop
// says why there is nothing to do.
func (s *Service) prepare(ctx context.Context, p *plan) (noop string, err error) {
	for _, step := range []func(*plan) error{checkNames, checkType, checkLocator, s.checkCatalog, s.checkLocal} {
		if err := step(p); err != nil {
			return "", err
		}
	}
	return s.takeSnapshot(ctx, p)
}

// limits makes the checks that other jobs decide: fence and quotas.
func (s *Service) limits(p *plan) []*job.Refusal {
	var out []*job.Refusal
	s.state.Read(func(l *job.Live) {
		out = append(out, job.CheckFence(l, p.target), job.CheckQuotas(l, p.target))
	})
	return out
}

func (p *plan) admit(hash job.Hash, now time.Time) job.Admit {
	a := job.Admit{
		Header:    job.Header{At: job.Millis(now.UnixMilli()), Actor: p.sub.Actor},
		RequestID: p.sub.RequestID,
		Target:    p.target,
		Spec:      p.spec,
		Snapshot:  p.snapshot,
	}
	if a.RequestID != "" {
		a.RequestHash = hash
	}
	return a
}

func (p *plan) dryRun(refusals []*job.Refusal, now time.Time) job.SubmissionOutcome {
	at := job.Millis(now.UnixMilli())
	out := job.SubmissionOutcome{Kind: job.SubmissionDryRun, Job: &job.Record{
		Creator: p.sub.Actor, RequestID: p.sub.RequestID, CreatedAt: at, UpdatedAt: at,
		Target: p.target, Spec: p.spec, Snapshot: p.snapshot,
		State: job.StatePending, Refresh: job.Refresh{State: job.RefreshNotRequired},
		LateRefresh: job.Refresh{State: job.RefreshNotRequired},
	}}
	for _, r := range refusals {
		if r != nil {
			out.Advice = append(out.Advice, job.Advice{Code: r.Code, Message: r.Error()})
		}
	}
	return out
}

package rpc

import (
	"context"
	"errors"
	"fmt"

	"github.com/lancemaster/lancemaster/internal/job"
)

// maxDecisions bounds how often a report is decided anew because its job moved on in between. A job
// has few states left once it is RUNNING, so that two are enough but for a fault.
const maxDecisions = 4

var errMovesOn = errors.New("the job changed each time the report was about to be recorded")

// decide applies a report to its job's present state, or drops it. An error means that nothing may
// have been recorded.
func (s *Reports) decide(ctx context.Context, e envelope) (verdict, error) {
	for range maxDecisions {
		rec, err := s.cfg.State.Job(e.id.Job)
		if err != nil {
			return verdict{}, fmt.Errorf("read job %d: %w", e.id.Job, err)
		}
		if v, dropped := s.refuse(e, rec); dropped {
			return v, nil
		}
		v, again, err := s.record(ctx, e, rec)
		if err != nil || !again {
			return v, err
		}
	}
	return verdict{}, errMovesOn
}

// refuse drops what is not of this job's one dispatch. Nothing of the report is believed, not even
// what it says it is of, before its secret is.
func (s *Reports) refuse(e envelope, rec *job.Record) (verdict, bool) {
	drop := func(f fate, detail string) (verdict, bool) {
		return verdict{fate: f, job: e.id.Job, detail: detail}, true
	}
	if rec == nil {
		return drop(fateStale, "there is no such job")
	}
	if !rec.Dispatch.Dispatched() {
		return drop(fateUnauthenticated, "the job was never sent to a backend")
	}
	switch {
	case e.authentic(rec.Dispatch):
	case e.hasSecret:
		return drop(fateUnauthenticated, "the invocation secret is not this job's")
	case e.result != nil:
		return drop(fateUnauthenticated, "the report carries no invocation secret")
	case !s.trustsBareTermination():
		return drop(fateUnauthenticated, "the termination report carries no invocation secret")
	}
	if !e.matches(rec.Dispatch) {
		return drop(fateStale, "the report is of another dispatch")
	}
	if e.badProof {
		return drop(fateMalformed, "the termination proof is none of this contract's")
	}
	if e.result == nil && !e.proof.Proves() {
		return drop(fateMalformed, "the termination report proves nothing")
	}
	return verdict{}, false
}

func (s *Reports) trustsBareTermination() (trusted bool) {
	s.cfg.State.Read(func(v View) { trusted = v.Settings().UnauthenticatedTermination })
	return trusted
}

// record journals an authenticated report of the job's dispatch. It reports true when the job has
// moved on and the report is to be decided anew.
func (s *Reports) record(ctx context.Context, e envelope, rec *job.Record) (verdict, bool, error) {
	// The backend knows of the invocation: if it has not been sent, it never must be.
	s.cfg.Latches.CloseLatch(e.id.Job, e.id.InvocationID)
	switch {
	case e.result == nil:
		return s.recordProof(ctx, e, rec, verdict{fate: fateApplied, job: e.id.Job, detail: "termination proof " + e.proof.String()})
	case e.result.bad != "":
		return s.recordProof(ctx, e, rec, verdict{fate: fateMalformed, job: e.id.Job, detail: e.result.bad})
	}
	switch rec.State {
	case job.StateRunning:
		return s.complete(ctx, e, rec)
	case job.StateUnknown:
		return s.recordLate(ctx, e, rec)
	case job.StateCommitted, job.StateNotCommitted, job.StatePending:
	}
	v := verdict{fate: fateStale, job: e.id.Job, detail: "the job is " + rec.State.String() + " already"}
	if rec.Result != nil && rec.Result.Code == e.result.code {
		v.fate = fateDuplicate
	}
	return s.recordProof(ctx, e, rec, v)
}

func (s *Reports) header(rec *job.Record) job.Header {
	return job.Header{At: millis(s.cfg.Clock), Actor: fmt.Sprintf("backend:%d", rec.Dispatch.BackendID)}
}

func (s *Reports) complete(ctx context.Context, e envelope, rec *job.Record) (verdict, bool, error) {
	_, err := s.cfg.Journal.Propose(ctx, job.Complete{
		Header: s.header(rec), Identity: e.id, Code: e.result.code, Message: e.result.message,
		MetadataAdvanced: e.result.advanced, Proof: e.proof,
	})
	v := verdict{fate: fateApplied, job: e.id.Job, detail: e.result.code.String()}
	return s.settle(v, err)
}

func (s *Reports) recordLate(ctx context.Context, e envelope, rec *job.Record) (verdict, bool, error) {
	answer, err := s.cfg.Journal.Propose(ctx, job.RecordLateResult{
		Header: s.header(rec), Identity: e.id, Code: e.result.code, Message: e.result.message,
		MetadataAdvanced: e.result.advanced, Proof: e.proof,
	})
	v := verdict{fate: fateLate, job: e.id.Job, detail: e.result.code.String() + " came after the job was UNKNOWN"}
	if err == nil && answer.Job != nil && len(answer.Job.LateResults) <= len(rec.LateResults) {
		v = verdict{fate: fateDuplicate, job: e.id.Job, detail: "the result is known already; its proof was recorded"}
	}
	return s.settle(v, err)
}

// recordProof records the proof that a report carries, if any, and goes on to the verdict on the rest.
func (s *Reports) recordProof(ctx context.Context, e envelope, rec *job.Record, v verdict) (verdict, bool, error) {
	if !e.proof.Proves() {
		return v, false, nil
	}
	_, err := s.cfg.Journal.Propose(ctx, job.RecordTermination{
		Header: s.header(rec), Identity: e.id, Backend: rec.Dispatch.BackendID, Proof: e.proof,
	})
	settled, again, err := s.settle(v, err)
	if err == nil && !again && e.result != nil {
		if settled == v {
			v.detail += "; the termination proof was recorded"
		}
		return v, false, nil // the proof's own fate does not change the report's
	}
	return settled, again, err
}

// settle turns the journal's answer into a verdict.
func (s *Reports) settle(applied verdict, err error) (verdict, bool, error) {
	if err == nil {
		return applied, false, nil
	}
	refusal, ok := job.AsRefusal(err)
	if !ok {
		return verdict{}, false, err
	}
	dropped := verdict{job: applied.job, detail: refusal.Message}
	switch refusal.Code {
	case job.CodeWrongState:
		return verdict{}, true, nil
	case job.CodeDuplicate:
		dropped.fate = fateDuplicate
	case job.CodeIdentityMismatch, job.CodeNotFound, job.CodeEvidenceFull:
		dropped.fate = fateStale
	case job.CodeInvalid:
		dropped.fate = fateMalformed
	default:
		return verdict{}, false, fmt.Errorf("the journal refused the report: %w", refusal)
	}
	return dropped, false, nil
}

package dispatch

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lancemaster/lancemaster/internal/job"
)

// settle journals what is known of sends that have ended and could not be
// journaled by their attempts, and forgets sends that nobody needs any more. An
// answer to MarkRunning that was lost is certain after a barrier. With force, what
// waits for its next try is tried now.
func (r *run) settle(ctx context.Context, force bool) {
	var certain, asked bool
	for _, e := range r.d.cfg.Sends.all() {
		s := r.d.cfg.Sends.state(e)
		if s.active || ctx.Err() != nil {
			continue
		}
		if s.journaled {
			r.forgetSend(e)
			continue
		}
		if !force && time.Now().Before(s.retryAt) {
			continue
		}
		if s.ambiguous && !asked {
			certain, asked = r.barrier(ctx), true
		}
		r.conclude(ctx, e, certain)
	}
}

func (r *run) barrier(ctx context.Context) bool {
	bounded, cancel := context.WithTimeout(ctx, proposeTime)
	defer cancel()
	if err := r.d.cfg.Barrier.Barrier(bounded); err != nil {
		r.log.Warn("the barrier that would settle a lost journal answer failed; it is tried again", "error", err)
		return false
	}
	return true
}

// settleDue returns when the next try at a conclusion is due.
func (r *run) settleDue() time.Time {
	var due time.Time
	for _, e := range r.d.cfg.Sends.all() {
		if s := r.d.cfg.Sends.state(e); !s.active && !s.journaled {
			due = earliest(due, s.retryAt)
		}
	}
	return due
}

// forgetSend drops a settled send once its slot is released: until then the end
// of this term's send is what the possible-live sweep counts from. A send of an
// earlier term is swept as an inherited one.
func (r *run) forgetSend(e *send) {
	rec, err := r.d.cfg.Reader.Job(e.identity.Job)
	if err != nil {
		return
	}
	if e.term != r.term || rec == nil || !sameDispatch(rec, e) || !rec.HoldsSlot() {
		r.d.cfg.Sends.remove(e)
	}
}

// sameDispatch reports whether the record shows exactly this send as its job's
// dispatch.
func sameDispatch(rec *job.Record, e *send) bool {
	d := rec.Dispatch
	return d.Dispatched() && d.Revision == e.identity.Revision && d.InvocationID == e.identity.InvocationID
}

// concludeTries bounds how often one call follows a record that moves meanwhile.
const concludeTries = 3

// conclude journals what is known of an ended send, or finds that it is moot.
// certain says that a barrier has passed since the send's MarkRunning.
func (r *run) conclude(ctx context.Context, e *send, certain bool) {
	for range concludeTries {
		rec, err := r.d.cfg.Reader.Job(e.identity.Job)
		if err != nil {
			r.log.Warn("a job's record could not be read; its conclusion waits", "job", e.identity.Job, "error", err)
			break
		}
		s := r.d.cfg.Sends.state(e)
		if rec == nil || !sameDispatch(rec, e) {
			if s.ambiguous && !certain {
				break
			}
			r.moot(e)
			return
		}
		command, ok := r.conclusionCommand(rec, e, s.conclusion)
		if !ok {
			r.settled(e)
			return
		}
		_, how, err := r.propose(ctx, command)
		if how == applied || how == refused && command.Name() == (job.RecordTermination{}).Name() {
			r.settled(e)
			return
		}
		r.log.Info("a send's conclusion was not journaled", "job", e.identity.Job, "error", err)
		if how != refused {
			break
		}
	}
	r.d.cfg.Sends.postpone(e)
}

// conclusionCommand is what the conclusion means for the record as it is now. It
// is false when there is nothing left to say.
func (r *run) conclusionCommand(rec *job.Record, e *send, c *conclusion) (job.Command, bool) {
	switch {
	case rec.State == job.StateRunning && c.notEnqueued:
		return job.Complete{
			Header: r.header(), Identity: e.identity, Code: job.CodeResourceRejected,
			Message: c.message, Proof: job.ProofNone, NotEnqueued: true,
		}, true
	case rec.State == job.StateRunning:
		return job.Complete{
			Header: r.header(), Identity: e.identity, Code: job.CodeNoTrustedResult,
			Message: c.message, Proof: job.ProofNone,
		}, true
	case c.notEnqueued && !hasProof(rec, job.ProofNotEnqueued):
		return job.RecordTermination{
			Header: r.header(), Identity: e.identity, Backend: e.backend, Proof: job.ProofNotEnqueued,
		}, true
	default:
		return nil, false
	}
}

func hasProof(rec *job.Record, proof job.Proof) bool {
	return rec.Dispatch.Proof == proof ||
		slices.ContainsFunc(rec.Dispatch.Evidence, func(e job.Evidence) bool { return e.Proof == proof })
}

// settled is the end of a conclusion that is journaled. A MarkRunning whose
// answer was lost turned out to be applied: it has cost its token.
func (r *run) settled(e *send) {
	r.d.cfg.Sends.settled(e)
	r.release(e.identity.Job, true)
	r.forgetSend(e)
	r.wakeUp()
}

// moot is the end of a send whose job shows another dispatch or none: its
// MarkRunning was not applied and never will be.
func (r *run) moot(e *send) {
	r.d.cfg.Sends.remove(e)
	r.release(e.identity.Job, false)
	r.wakeUp()
}

// safeToResubmit begins the message of everything that was proven not enqueued.
const safeToResubmit = "nothing was sent or nothing was accepted; safe to resubmit"

func notEnqueued(format string, args ...any) *conclusion {
	return &conclusion{notEnqueued: true, message: message(safeToResubmit + ": " + fmt.Sprintf(format, args...))}
}

func untrusted(format string, args ...any) *conclusion {
	return &conclusion{message: message(fmt.Sprintf(format, args...))}
}

// message makes text fit to be stored: one clean, bounded line.
func message(text string) string { return job.SanitizeMessage(text) }

package dispatch

import (
	"net"
	"slices"
	"time"

	"github.com/lancemaster/lancemaster/internal/backend"
	"github.com/lancemaster/lancemaster/internal/job"
)

// deadline is when a RUNNING job's time is up, on the monotonic clock: a stepped
// wall clock moves nothing.
type deadline struct {
	invocation string
	at         time.Time
	// fixed: counted by this process, or by a wall clock that agrees with the other
	// masters'. Until then an inherited job has its full duration.
	fixed bool
}

// sweepDeadlines ends the RUNNING jobs whose time is up and returns when the next
// one's is. Where nothing was sent yet it only closes the latch, and the latch's
// owner says so; otherwise nobody can say what the backend did.
func (r *run) sweepDeadlines(s *state) time.Time {
	var next time.Time
	for _, rec := range s.running {
		now := time.Now()
		e := r.d.cfg.Sends.find(rec.ID, rec.Dispatch.InvocationID)
		at := r.deadlineOf(rec, e, now)
		if now.Before(at) {
			next = earliest(next, at)
			continue
		}
		if e != nil && r.ownerConcludes(e) {
			continue
		}
		if wait := r.proposeAfter(rec.ID); now.Before(wait) {
			next = earliest(next, wait)
			continue
		}
		took := time.Duration(rec.Spec.ExecuteDeadline) * time.Millisecond
		_, how, err := r.propose(r.rounds, job.Complete{
			Header: r.header(), Identity: identityOf(rec), Code: job.CodeNoTrustedResult,
			Message: untrusted("the execute deadline of %s passed without a report", took).message, Proof: job.ProofNone,
		})
		if how == applied {
			r.log.Info("a job's deadline has passed", "job", rec.ID)
			continue
		}
		next = earliest(next, r.holdBack(rec.ID, err))
		if how != refused {
			return next // the journal is in trouble; the others fare no better
		}
	}
	return next
}

// ownerConcludes reports whether the send's owner will say how it ended: its
// latch was OPEN and is closed now, or was CLOSED before, or it has a conclusion
// that waits for the journal.
func (r *run) ownerConcludes(e *send) bool {
	e.latch.close()
	s := r.d.cfg.Sends.state(e)
	return !e.latch.sent() || s.conclusion != nil && !s.journaled
}

func identityOf(rec *job.Record) job.Identity {
	d := rec.Dispatch
	return job.Identity{
		Job: rec.ID, Revision: d.Revision, InvocationID: d.InvocationID, ProcessEpoch: d.ProcessEpoch,
	}
}

// deadlineOf returns when a RUNNING job's time is up.
func (r *run) deadlineOf(rec *job.Record, e *send, now time.Time) time.Time {
	full := time.Duration(rec.Spec.ExecuteDeadline) * time.Millisecond
	r.mu.Lock()
	defer r.mu.Unlock()
	st := r.remembered(rec.ID)
	if st.deadline == nil || st.deadline.invocation != rec.Dispatch.InvocationID {
		st.deadline = &deadline{invocation: rec.Dispatch.InvocationID, at: now.Add(full)}
		if e != nil {
			st.deadline.at, st.deadline.fixed = e.proposedAt.Add(e.duration), true
		}
	}
	if !st.deadline.fixed && r.d.cfg.ClockAgreement.AgreesWithMajority() {
		st.deadline.fixed = true
		at := now.Add(remaining(rec.Dispatch.DeadlineAt, full, r.d.wall(now)))
		if at.Before(st.deadline.at) {
			st.deadline.at = at
		}
	}
	return st.deadline.at
}

// remaining is the time to a point in wall time, between nothing and full.
func remaining(until job.Millis, full time.Duration, now time.Time) time.Duration {
	left := min(max(int64(until)-nowMillis(now), 0), full.Milliseconds())
	return time.Duration(left) * time.Millisecond
}

// proposeAfter returns when a sweep may propose about this job again.
func (r *run) proposeAfter(id job.ID) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.remembered(id).proposeAfter
}

// holdBack keeps a sweep from proposing about this job for a while and returns
// when it may again.
func (r *run) holdBack(id job.ID, err error) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	st := r.remembered(id)
	st.lastError = err.Error()
	st.proposeAfter = time.Now().Add(firstBackoff)
	return st.proposeAfter
}

// sweepPossibleLive releases the slots of jobs whose backend process is proven
// gone: two processes answered at one address, both asked after the send ended.
// One epoch that merely differs proves nothing: it may be that process which took
// the job. It returns when a proposal that failed is due again.
func (r *run) sweepPossibleLive(s *state) time.Time {
	var next time.Time
	for _, rec := range s.holding {
		after, host, known := r.sendEnded(rec)
		if !known {
			continue
		}
		status, ok := r.d.cfg.Liveness.Status(rec.Dispatch.BackendID)
		if !ok || !processGone(status.Observations, r.term, after, host) {
			continue
		}
		if wait := r.proposeAfter(rec.ID); time.Now().Before(wait) {
			next = earliest(next, wait)
			continue
		}
		_, how, err := r.propose(r.rounds, job.RecordTermination{
			Header: r.header(), Identity: identityOf(rec), Backend: rec.Dispatch.BackendID,
			Proof: job.ProofProcessEpochGone,
		})
		if how == applied {
			r.log.Info("a backend process is gone; its job's slot is released", "job", rec.ID,
				"backend", rec.Dispatch.BackendID)
			r.wakeUp() // a slot is free
			continue
		}
		next = earliest(next, r.holdBack(rec.ID, err))
		if how != refused {
			break
		}
	}
	return next
}

// sendEnded returns when the last byte of a job's send may have been written, and
// the resolved host it went to; that is empty where another master sent it. It is
// false while a send is under way, and for a dispatch that this run can say nothing
// about.
func (r *run) sendEnded(rec *job.Record) (after time.Time, host string, known bool) {
	if e := r.d.cfg.Sends.find(rec.ID, rec.Dispatch.InvocationID); e != nil && e.term == r.term {
		s := r.d.cfg.Sends.state(e)
		return s.endedAt, s.host, !s.endedAt.IsZero()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.inherited[rec.ID] != rec.Dispatch.InvocationID {
		return time.Time{}, "", false
	}
	// The leader that sent it may have been writing for as long as this.
	return r.startedAt.Add(job.MaxSendWindow + r.rpcTimeout), "", true
}

// processGone is the rule of the two heartbeats.
func processGone(observations []backend.Observation, term uint64, after time.Time, host string) bool {
	return len(heardSince(observations, term, after, host)) > 1
}

// heardSince returns the processes that answered at one address in this term, asked
// for after a time: of several addresses, those of the one where most did. Where it is
// known to which host the send went, only answers of that host count: a name that
// leads to another machine now says nothing of the process on the first one.
func heardSince(observations []backend.Observation, term uint64, after time.Time, host string) []int64 {
	var most []int64
	epochs := make(map[string][]int64)
	for _, o := range observations {
		if o.Term != term || !o.RequestedAt.After(after) || host != "" && hostOf(o.RemoteAddr) != host {
			continue
		}
		heard := epochs[o.RemoteAddr]
		if !slices.Contains(heard, o.ProcessEpoch) {
			heard = append(heard, o.ProcessEpoch)
			epochs[o.RemoteAddr] = heard
		}
		if len(heard) > len(most) {
			most = heard
		}
	}
	return most
}

// hostOf returns an address without its port.
func hostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}

package job

import "fmt"

// refreshStart begins an attempt at the refresh that a known outcome owes, or at
// the one that a late NATIVE_OK of an UNKNOWN job owes.
func refreshStart(v View, p Position, c RefreshStart) (Change, *Refusal) {
	r, refusal := at(v, c.Job, c.Expected, "refreshed", StateCommitted, StateNotCommitted, StateUnknown)
	if refusal != nil {
		return Change{}, refusal
	}
	state := r.dueRefresh().State
	// A late refresh is tried once: it holds nothing, so nothing waits for it.
	retry := state == RefreshFailed && r.State != StateUnknown
	if state != RefreshRequired && !retry {
		return Change{}, wrongState(r, fmt.Sprintf("job %d was not refreshed: its refresh is %s", r.ID, state),
			"only a refresh that is REQUIRED, or FAILED and not a late one, can begin")
	}
	attempt := r.dueRefresh().Attempt + 1
	return one(transition(r, p, c.Header, EventRefreshRunning, fmt.Sprintf("attempt %d", attempt), func(r *Record) {
		f := r.dueRefresh()
		f.State, f.Attempt, f.StartedAt = RefreshRunning, attempt, c.At
	})), nil
}

// refreshFinish ends the attempt under way. It names the attempt and no revision:
// what else happened to the job meanwhile does not invalidate it.
func refreshFinish(v View, p Position, c RefreshFinish) (Change, *Refusal) {
	r, refusal := find(v, c.Job)
	if refusal != nil {
		return Change{}, refusal
	}
	if due := r.dueRefresh(); due.State != RefreshRunning || due.Attempt != c.Attempt {
		refusal := refuse(CodeAttemptMismatch,
			fmt.Sprintf("attempt %d at the refresh of job %d is not under way: the refresh is %s, attempt %d",
				c.Attempt, r.ID, due.State, due.Attempt),
			"its outcome is dropped; a new attempt decides")
		refusal.Present = r
		return Change{}, refusal
	}
	if c.Failed {
		return refreshFailed(r, p, c)
	}
	if c.Evidence == "" {
		return Change{}, invalid("the refresh of job %d is not done without evidence", r.ID)
	}
	if refusal := checkText("the refresh's evidence", c.Evidence, MaxMessage); refusal != nil {
		return Change{}, refusal
	}
	return one(transition(r, p, c.Header, EventRefreshDone, c.Evidence, func(r *Record) {
		f := r.dueRefresh()
		f.State, f.FinishedAt, f.Evidence = RefreshDone, c.At, c.Evidence
	})), nil
}

func refreshFailed(r *Record, p Position, c RefreshFinish) (Change, *Refusal) {
	if refusal := checkText("the refresh's failure", c.Message, MaxMessage); refusal != nil {
		return Change{}, refusal
	}
	return one(transition(r, p, c.Header, EventRefreshFailed, c.Message, func(r *Record) {
		f := r.dueRefresh()
		f.State, f.LastFailure = RefreshFailed, &Failure{At: c.At, Message: c.Message}
	})), nil
}

// dueRefresh returns the refresh that can be due: an UNKNOWN outcome owes none of
// its own, only a late one.
func (r *Record) dueRefresh() *Refresh {
	if r.State == StateUnknown {
		return &r.LateRefresh
	}
	return &r.Refresh
}

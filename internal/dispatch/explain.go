package dispatch

import (
	"time"

	"github.com/lancemaster/lancemaster/internal/job"
)

// Explanation is what the dispatcher's memory says about one open job. It goes
// with the leader's term.
type Explanation struct {
	Job job.ID
	// Hold and Reason say why a PENDING job is not sent; empty for others.
	Hold   Hold
	Reason string
	// LastError is the newest error of preparing, marking or refreshing it.
	LastError string
	// NextTry is when the job, or its refresh, is tried again; zero: at the next
	// chance.
	NextTry time.Time
	// Deadline is when a RUNNING job's time is up in this term.
	Deadline time.Time
	// Refreshing: an attempt at its refresh is under way.
	Refreshing bool
	// SendEnded is, of a job that holds a slot, when the last byte of its send may have
	// been written, which may be yet to come; zero: not known, or the send is under way.
	SendEnded time.Time
	// Heard are the processes, by their epochs, that answered heartbeats asked for after
	// that at one address. Two prove that the process which took the job is gone; one
	// alone may be that process, whichever its epoch.
	Heard []int64
}

// Explain returns what is known of a job. It is false on a master that does not
// lead, and for a job that no round has seen and that holds no slot.
func (d *Dispatcher) Explain(rec *job.Record) (Explanation, bool) {
	d.mu.Lock()
	r := d.run
	d.mu.Unlock()
	if r == nil {
		return Explanation{}, false
	}
	x, seen := r.remembers(rec.ID)
	if !rec.HoldsSlot() {
		return x, seen
	}
	after, host, known := r.sendEnded(rec)
	if !known {
		return x, seen
	}
	x.SendEnded = after
	if status, ok := d.cfg.Liveness.Status(rec.Dispatch.BackendID); ok {
		x.Heard = heardSince(status.Observations, r.term, after, host)
	}
	return x, true
}

// remembers returns what the rounds remember of a job.
func (r *run) remembers(id job.ID) (Explanation, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	st, item := r.jobs[id], r.refreshes[id]
	x := Explanation{Job: id}
	now := time.Now()
	if st != nil {
		x.Hold, x.Reason, x.LastError = st.reason.code, st.reason.text, st.lastError
		if st.notBefore.After(now) {
			x.NextTry = st.notBefore
		}
		if st.deadline != nil {
			x.Deadline = st.deadline.at
		}
	}
	if item != nil {
		x.Refreshing, x.LastError = item.running, item.lastError
		if item.notBefore.After(now) {
			x.NextTry = item.notBefore
		}
	}
	return x, st != nil || item != nil
}

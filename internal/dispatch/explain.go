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
}

// Explain returns what is known of a job. It is false on a master that does not
// lead, and for a job that no round has seen.
func (d *Dispatcher) Explain(id job.ID) (Explanation, bool) {
	d.mu.Lock()
	r := d.run
	d.mu.Unlock()
	if r == nil {
		return Explanation{}, false
	}
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

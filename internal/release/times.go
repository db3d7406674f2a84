package release

import (
	"sync"
	"time"

	"github.com/lancemaster/lancemaster/internal/job"
)

// times remembers, on the monotonic clock, since when jobs could have been sent. It
// holds open jobs only.
type times struct {
	mu    sync.Mutex
	byJob map[job.ID]moment
	// termBegan is when this process's newest term as the leader of several masters had begun; zero
	// where there was none, or no master besides.
	termBegan time.Time
	// pruned is how many there must be before the next pruning.
	pruned int
}

// moment is when this process saw a job for the first time: as it became RUNNING,
// or, of a job that another process made so, as somebody wanted to release it.
type moment struct {
	dispatch job.Revision
	at       time.Time
	exact    bool
}

// pruneAt is how many moments are kept before those of jobs that are open no more,
// resolved under another leader, are looked for.
const pruneAt = 256

// applied keeps the moment at which jobs became RUNNING, and forgets those of jobs
// that hold no name any more.
func (t *times) applied(changes []job.JobChange, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range changes {
		switch {
		case c.New == nil:
			delete(t.byJob, c.Old.ID)
		case !c.New.HoldsFence():
			delete(t.byJob, c.New.ID)
		case c.New.State == job.StateRunning && c.Old != nil && c.Old.State == job.StatePending:
			t.byJob[c.New.ID] = moment{dispatch: c.New.Dispatch.Revision, at: now, exact: true}
		}
	}
}

// prune forgets the moments of jobs that hold no name, once there are many.
func (t *times) prune(holds func(job.ID) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.byJob) < max(pruneAt, t.pruned) {
		return
	}
	for id := range t.byJob {
		if !holds(id) {
			delete(t.byJob, id)
		}
	}
	t.pruned = 2 * len(t.byJob)
}

// began is told that a term has begun; several says that other masters may have led
// the one before.
func (t *times) began(now time.Time, several bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.termBegan = time.Time{}
	if several {
		t.termBegan = now
	}
}

// since returns how long ago the job became RUNNING or was quarantined, whichever
// came last. It never says more than is known to have passed where this process
// knows it. What another master journaled was before this term began, and nothing
// more is believed of it: that master's clock may have been wrong by hours, whatever
// this one's is. Where there is no other master, it believes the wall clock, which is
// offset ahead of now's, while that does not run backwards; else it counts from when
// it was first asked.
func (t *times) since(rec *job.Record, now time.Time, offset time.Duration, agrees bool) time.Duration {
	last := max(rec.Dispatch.StartedAt, rec.QuarantinedAt)
	wall := now.Add(offset).Sub(time.UnixMilli(int64(last))) // the wall clock: UnixMilli has no other
	quarantined := rec.QuarantinedAt > rec.Dispatch.StartedAt
	t.mu.Lock()
	defer t.mu.Unlock()
	m, known := t.byJob[rec.ID]
	known = known && m.dispatch == rec.Dispatch.Revision
	if !agrees {
		wall = 0
	}
	if !t.termBegan.IsZero() {
		wall = min(wall, now.Sub(t.termBegan))
	}
	switch {
	case known && m.exact && !quarantined:
		return now.Sub(m.at)
	case known && !m.exact:
		return max(wall, now.Sub(m.at))
	case (wall < 0 || !agrees) && rec.HoldsFence():
		t.byJob[rec.ID] = moment{dispatch: rec.Dispatch.Revision, at: now}
	}
	return max(wall, 0)
}

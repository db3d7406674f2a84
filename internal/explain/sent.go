package explain

import (
	"fmt"
	"slices"
	"time"

	"github.com/lancemaster/lancemaster/internal/job"
)

// running says how long a job has left and whether its backend still answers.
func (x *explanation) running() {
	d := x.rec.Dispatch
	x.say(Running, "", "it was sent to backend %d at %s; its report is awaited", d.BackendID, at(d.StartedAt))
	until := x.memory.Deadline
	if until.IsZero() {
		until = time.UnixMilli(int64(d.DeadlineAt))
	}
	keeps := "its index name"
	if x.rec.HoldsSlot() {
		keeps += " and its slot"
	}
	x.say(Deadline, "", "%s are left of its %s, until %s; without a report by then it becomes UNKNOWN and keeps %s",
		span(until.Sub(x.now)), job.FormatDuration(time.Duration(x.rec.Spec.ExecuteDeadline)*time.Millisecond), clock(until), keeps)
	x.backend()
	x.slot()
	x.say(FenceHeld, "", "it holds the index name %s until its outcome is known and the refresh that this owes is done", x.rec.Target.IndexKey)
}

// backend says what the heartbeats know of the process that the job was sent to.
func (x *explanation) backend() {
	d := x.rec.Dispatch
	status, known := x.e.cfg.Liveness.Status(d.BackendID)
	switch {
	case !x.registered():
		x.say(BackendRemoved, "", "backend %d is no longer registered", d.BackendID)
	case known && status.ProcessEpoch != 0 && status.ProcessEpoch != d.ProcessEpoch:
		x.say(BackendRestarted, "",
			"another process answers for backend %d than the one it was sent to (process epoch %d, not %d); if that one took the job, it died with it",
			d.BackendID, status.ProcessEpoch, d.ProcessEpoch)
	case known && status.Alive:
		text := fmt.Sprintf("backend %d answers its heartbeats, the last one %s ago", d.BackendID, span(x.now.Sub(status.LastOK)))
		if status.LastError != "" {
			text = fmt.Sprintf("backend %d answered a heartbeat %s ago, but not the newest one: %s",
				d.BackendID, span(x.now.Sub(status.LastOK)), status.LastError)
		}
		x.say(BackendAlive, "", "%s", text)
	default:
		x.say(BackendSilent, "see that it runs and that the leader can reach its heartbeat port", "backend %d %s", d.BackendID, x.silent(d.BackendID))
	}
}

// slot says what would free the slot, where one is held.
func (x *explanation) slot() {
	if !x.rec.HoldsSlot() {
		return
	}
	d := x.rec.Dispatch
	text := fmt.Sprintf("it holds a slot on backend %d, since nothing proves that its worker is gone; a termination proof frees it,"+
		" or the backend's restart, seen as two heartbeats of different processes after the send", d.BackendID)
	heard, restart := x.heard()
	next := ""
	if x.rec.State.Terminal() {
		text += ", or an operator who knows"
		next = fmt.Sprintf("%s, or, when you know that its worker is gone: lancemaster job release-slot %d --note TEXT", restart, x.rec.ID)
	}
	x.say(SlotHeld, next, "%s%s", text, heard)
}

// heard says how far the proof by two heartbeats has come, and what completes it.
func (x *explanation) heard() (text, restart string) {
	const once = "restart the backend"
	ended, heard := x.memory.SendEnded, x.memory.Heard
	settled := x.rec.State.Terminal()
	switch {
	case ended.IsZero() || !x.registered():
		return "", once
	case len(heard) == 1 && heard[0] != x.rec.Dispatch.ProcessEpoch:
		return "; only one process was heard since the send, which proves nothing: it may be the one that took the job", once + " once more"
	case settled && ended.After(x.now):
		return fmt.Sprintf("; heartbeats count from %s on, since the master that sent it may have been writing until then", clock(ended)),
			"let the backend answer a heartbeat after that, then restart it"
	case settled && len(heard) == 0:
		return "; no process was heard since the send", "let the backend answer a heartbeat, then restart it"
	default:
		return "", once
	}
}

// registered reports whether the backend that the job was sent to still is.
func (x *explanation) registered() bool {
	return slices.ContainsFunc(x.backends, func(b *job.Backend) bool { return b.ID == x.rec.Dispatch.BackendID })
}

// unknown says what an UNKNOWN job holds and what would release it.
func (x *explanation) unknown() {
	rec := x.rec
	if text := x.ended(); text != "" {
		look := "look at the dataset with a Lance client"
		if job.LocatorScheme(rec.Target.Locator) == "file" {
			look = "look at the dataset: lancemaster dataset inspect " + shellQuoted(rec.Target.Locator)
		}
		x.say(OutcomeUnknown, look, "nobody can tell whether the dataset was changed: %s", text)
	}
	if rec.HoldsFence() {
		x.say(FenceHeld, fmt.Sprintf("make sure that its worker is gone, then: lancemaster job force-release %d --note TEXT", rec.ID),
			"it holds the index name %s and its share of the quotas of its table, its catalog and the cluster; only an operator's force release frees them",
			rec.Target.IndexKey)
		if wait := x.e.cfg.ReleasableIn(rec); wait > 0 {
			x.say(TooEarly, "", "it can be force released in %s at the earliest: the master that sent it may still have been writing", span(wait+time.Second))
		}
	}
	if r := rec.ForceRelease; r != nil {
		x.say(ForceReleased, "", "%s force released it at %s (%s); %s", r.Actor, at(r.At), r.Note, r.Warning)
	}
	x.slotReleased()
	if rec.Dispatch.Dispatched() {
		x.slot()
		if rec.Open() {
			x.backend()
		}
	}
	for _, l := range rec.LateResults {
		text := fmt.Sprintf("its backend reported %s at %s, after the outcome was UNKNOWN; it is kept as evidence and changes nothing", l.Code, at(l.At))
		if l.Message != "" {
			text += ": " + l.Message
		}
		x.say(LateResult, "", "%s", text)
	}
	x.lateRefresh()
}

func (x *explanation) lateRefresh() {
	f := x.rec.LateRefresh
	switch f.State {
	case job.RefreshRequired, job.RefreshRunning:
		x.say(LateRefresh, "", "the late result owes one refresh, which is %s; it holds nothing", f.State)
	case job.RefreshDone:
		x.say(LateRefresh, "", "the refresh for the late result was done at %s", at(f.FinishedAt))
	case job.RefreshFailed:
		if f.LastFailure != nil {
			x.say(LateRefresh, "refresh the catalog by hand if readers depend on it",
				"the one refresh for the late result failed at %s: %s", at(f.LastFailure.At), f.LastFailure.Message)
		}
	case job.RefreshNotRequired:
	}
}

// known says what a job with a known outcome still waits for.
func (x *explanation) known() {
	if x.rec.HoldsFence() {
		x.refresh()
		x.say(FenceHeld, "", "it holds the index name %s until the refresh is done", x.rec.Target.IndexKey)
	}
	x.slotReleased()
	x.slot()
	if x.rec.HoldsSlot() {
		x.backend()
	}
}

func (x *explanation) refresh() {
	f := x.rec.Refresh
	if x.catalog == nil {
		x.say(CatalogMissing, "lancemaster catalog create "+x.rec.Target.Catalog,
			"its catalog %q does not exist, so nobody knows how to refresh it", x.rec.Target.Catalog)
	}
	switch {
	case x.memory.Refreshing || f.State == job.RefreshRunning:
		x.say(RefreshRunning, "", "attempt %d at its metadata refresh is under way", max(f.Attempt, 1))
	case f.State == job.RefreshFailed:
		next := x.memory.NextTry
		if next.IsZero() && f.LastFailure != nil {
			next = time.UnixMilli(int64(f.LastFailure.At)).Add(x.settings.RefreshRetryInterval)
		}
		failure := "no reason was recorded"
		if f.LastFailure != nil {
			failure = fmt.Sprintf("%s at %s", f.LastFailure.Message, at(f.LastFailure.At))
		}
		x.say(RefreshFailed, fmt.Sprintf("see to what the error names; the refresher is shown by: lancemaster catalog show %s", x.rec.Target.Catalog),
			"attempt %d at its metadata refresh failed: %s; it is tried again in %s, at %s",
			f.Attempt, failure, span(next.Sub(x.now)), clock(next))
	default:
		text := "its metadata refresh is due and begins when its turn comes"
		if x.memory.LastError != "" {
			text += "; the last try failed: " + x.memory.LastError
		}
		x.say(RefreshRequired, "", "%s", text)
	}
}

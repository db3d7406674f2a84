package job

import "fmt"

// ForceReleaseWarning is what an operator who releases an UNKNOWN job is told,
// and what is stored with the release.
const ForceReleaseWarning = "the old worker may still overwrite, remove or bring back the index;" +
	" the outcome of this job stays UNKNOWN"

// forceRelease releases what an UNKNOWN job holds. Repeated, it is a success
// whatever revision it carries: the answer to the first may have been lost.
func forceRelease(v View, p Position, c ForceRelease) (Change, *Refusal) {
	r, refusal := find(v, c.Job)
	if refusal != nil {
		return Change{}, refusal
	}
	if r.ForceRelease != nil {
		return unchanged(r), nil
	}
	if refusal := inState(r, "force released", StateUnknown); refusal != nil {
		refusal.Next = "only an UNKNOWN job can be force released; others are resolved by their outcome"
		return Change{}, refusal
	}
	if refusal := checkNote("the note", c.Note); refusal != nil {
		return Change{}, refusal
	}
	if refusal := checkNote("the warning", c.Warning); refusal != nil {
		return Change{}, refusal
	}
	if refusal := atRevision(r, c.Expected, "force released"); refusal != nil {
		return Change{}, refusal
	}
	return one(transition(r, p, c.Header, EventForceReleased, firstLine(c.Note), func(r *Record) {
		r.ForceRelease = &Release{Actor: c.Actor, At: c.At, Note: c.Note, Warning: c.Warning}
		r.Dispatch.SlotHeld = false
	})), nil
}

// releaseSlot releases the slot of a terminal job whose worker an operator knows
// to be gone. The outcome, the fence and the quota stay as they are.
func releaseSlot(v View, p Position, c ReleaseSlot) (Change, *Refusal) {
	if refusal := checkNote("the note", c.Note); refusal != nil {
		return Change{}, refusal
	}
	r, refusal := at(v, c.Job, c.Expected, "relieved of its slot", StateCommitted, StateNotCommitted, StateUnknown)
	if refusal != nil {
		return Change{}, refusal
	}
	if !r.HoldsSlot() {
		return Change{}, wrongState(r, fmt.Sprintf("job %d holds no slot", r.ID), "nothing needs to be done")
	}
	return one(transition(r, p, c.Header, EventSlotReleased, firstLine(c.Note), func(r *Record) {
		r.Dispatch.SlotHeld = false
		r.SlotRelease = &Release{Actor: c.Actor, At: c.At, Note: c.Note}
	})), nil
}

// removeResolved removes jobs that hold nothing and were closed before a time.
func removeResolved(v View, c RemoveResolved) (Change, *Refusal) {
	if c.Limit < 1 || c.Limit > MaxRemoveBatch {
		return Change{}, invalid("the number of jobs to remove is %d; it must be between 1 and %d", c.Limit, MaxRemoveBatch)
	}
	if c.Before > c.At {
		return Change{}, invalid("jobs are removed that were closed before a time to come")
	}
	var change Change
	for _, id := range v.Closed(c.Before, int(c.Limit)) {
		r := v.Job(id)
		if r == nil || r.Open() || r.ClosedAt >= c.Before {
			// The index of closed jobs is wrong about this one; what is held is
			// never removed on its word.
			continue
		}
		change.Jobs = append(change.Jobs, JobChange{Old: r})
	}
	change.Answer.Count = len(change.Jobs)
	return change, nil
}

// firstLine is the part of a note that fits an event's one line.
func firstLine(s string) string {
	for i, r := range s {
		if r == '\n' || r == '\r' {
			return s[:i]
		}
	}
	return s
}

package job

import "fmt"

// Apply answers a command: what it changes, or why it changes nothing. It is a
// function of its arguments alone. The caller writes the Change, whole, before
// the next command is applied.
func Apply(v View, p Position, c Command) (Change, *Refusal) {
	if c == nil {
		return Change{}, refuse(CodeInvalid, "there is no command", "")
	}
	if r := checkHeader(c); r != nil {
		return Change{}, r
	}
	if c, ok := c.(Form); ok {
		return form(v, p, c)
	}
	if v.Cluster().ClusterID == 0 {
		return Change{}, refuse(CodeNotFormed, fmt.Sprintf("%s was refused: the cluster has not been formed", c.Name()),
			"form it first; nothing else is accepted by an empty state")
	}
	if r := checkLevel(v, c); r != nil {
		return Change{}, r
	}
	return applyFormed(v, p, c)
}

func applyFormed(v View, p Position, c Command) (Change, *Refusal) {
	switch c := c.(type) {
	case Admit:
		return admit(v, p, c)
	case MarkRunning:
		return markRunning(v, p, c)
	case Complete:
		return complete(v, p, c)
	case RecordTermination:
		return recordTermination(v, p, c)
	case RefreshStart:
		return refreshStart(v, p, c)
	case RefreshFinish:
		return refreshFinish(v, p, c)
	case Cancel:
		return cancel(v, p, c)
	case RejectBeforeDispatch:
		return rejectBeforeDispatch(v, p, c)
	case ForceRelease:
		return forceRelease(v, p, c)
	case ReleaseSlot:
		return releaseSlot(v, p, c)
	case RecordLateResult:
		return recordLateResult(v, p, c)
	default:
		return applyCluster(v, p, c)
	}
}

// applyCluster answers the commands that are not about one job.
func applyCluster(v View, p Position, c Command) (Change, *Refusal) {
	switch c := c.(type) {
	case Quarantine:
		return quarantine(v, p, c)
	case TermStart:
		return termStart(v, p, c)
	case RemoveResolved:
		return removeResolved(v, c)
	case PutCatalog:
		return putCatalog(v, c)
	case RemoveCatalog:
		return removeCatalog(v, c)
	case AddBackend:
		return addBackend(v, c)
	case SetBackendState:
		return setBackendState(v, c)
	case RemoveBackend:
		return removeBackend(v, c)
	case ChangeSettings:
		return changeSettings(v, c)
	case RaiseLevel:
		return raiseLevel(v, c)
	default:
		return applyRegistry(v, p, c)
	}
}

// applyRegistry answers the commands about who belongs to the cluster and who may
// call it.
func applyRegistry(v View, p Position, c Command) (Change, *Refusal) {
	switch c := c.(type) {
	case Reopen:
		return reopen(v, c)
	case PutMember:
		return putMember(v, p, c)
	case RemoveMember:
		return removeMember(v, c)
	case PutToken:
		return putToken(v, c)
	case RemoveToken:
		return removeToken(v, c)
	default:
		return applyLater(v, p, c)
	}
}

func checkHeader(c Command) *Refusal {
	h := c.Head()
	if h.At <= 0 {
		return refuse(CodeInvalid, fmt.Sprintf("%s was refused: it carries no time", c.Name()), "")
	}
	return checkName("the actor", h.Actor)
}

// transition makes one job's change: edit works on a copy of the record, and the
// revision, the times and the event follow from what it did.
func transition(old *Record, p Position, h Header, kind EventKind, reason string, edit func(*Record)) JobChange {
	r := old.Clone()
	edit(r)
	r.Revision++
	r.UpdatedAt = h.At
	if old.HoldsFence() && !r.HoldsFence() {
		r.ResolvedAt = h.At
	}
	if old.Open() && !r.Open() {
		r.ClosedAt = h.At
	}
	return JobChange{Old: old, New: r, Event: &Event{
		Job: r.ID, Revision: r.Revision, Index: p.Index, Term: p.Term, At: h.At, Actor: h.Actor,
		Kind: kind, From: old.State, To: r.State,
		FromRefresh: old.dueRefresh().State, ToRefresh: r.dueRefresh().State, Reason: reason,
	}}
}

// one is the Change of a command that moved one job.
func one(c JobChange) Change {
	return Change{Jobs: []JobChange{c}, Answer: Answer{Job: c.New}}
}

// unchanged is the Change of a command about a job that found its work done.
func unchanged(r *Record) Change { return Change{Answer: Answer{Job: r, Existing: true}} }

// find returns a job that a command names.
func find(v View, id ID) (*Record, *Refusal) {
	if r := v.Job(id); r != nil {
		return r, nil
	}
	return nil, refuse(CodeNotFound, fmt.Sprintf("there is no job %d", id),
		"list the jobs; jobs long closed are removed by retention")
}

// at returns a job that stands in one of the states wanted, at exactly the
// revision its caller has seen.
func at(v View, id ID, expected Revision, what string, wanted ...State) (*Record, *Refusal) {
	r, refusal := find(v, id)
	if refusal != nil {
		return nil, refusal
	}
	if refusal := inState(r, what, wanted...); refusal != nil {
		return nil, refusal
	}
	return r, atRevision(r, expected, what)
}

func inState(r *Record, what string, wanted ...State) *Refusal {
	for _, s := range wanted {
		if r.State == s {
			return nil
		}
	}
	return wrongState(r, fmt.Sprintf("job %d was not %s: it is %s", r.ID, what, r.State),
		"look at the job as it is now")
}

func atRevision(r *Record, expected Revision, what string) *Refusal {
	if r.Revision == expected {
		return nil
	}
	refusal := refuse(CodeRevisionMismatch,
		fmt.Sprintf("job %d was not %s: it is at revision %d, not %d", r.ID, what, r.Revision, expected),
		"look at the job as it is now, and ask again if you still want it")
	refusal.Present = r
	return refusal
}

func wrongState(r *Record, message, next string) *Refusal {
	refusal := refuse(CodeWrongState, message, next)
	refusal.Present = r
	return refusal
}

package job

import "fmt"

// markRunning gives the permission to send. It takes the backend's slot before
// any byte leaves, so that no crash can leave a worker that no slot stands for.
func markRunning(v View, p Position, c MarkRunning) (Change, *Refusal) {
	r, refusal := at(v, c.Job, c.Expected, "marked running", StatePending)
	if refusal != nil {
		return Change{}, refusal
	}
	if refusal := checkSend(c); refusal != nil {
		return Change{}, refusal
	}
	if v.Settings().DispatchPaused {
		return Change{}, refuse(CodeDispatchPaused,
			fmt.Sprintf("job %d was not marked running: the setting dispatch.paused is true", c.Job),
			"it stays PENDING; set dispatch.paused=false to go on")
	}
	if refusal := checkRoom(v, c.Backend); refusal != nil {
		return Change{}, refusal
	}
	return one(transition(r, p, c.Header, EventRunning, fmt.Sprintf("backend %d", c.Backend), func(r *Record) {
		r.State = StateRunning
		r.Dispatch = Dispatch{
			BackendID: c.Backend, ProcessEpoch: c.ProcessEpoch, Revision: c.Expected + 1,
			InvocationID: c.InvocationID, SecretHash: c.SecretHash,
			StartedAt: c.At, DeadlineAt: c.DeadlineAt, SlotHeld: true, Proof: ProofNone,
		}
	})), nil
}

func checkSend(c MarkRunning) *Refusal {
	if r := checkName("the invocation id", c.InvocationID); r != nil {
		return r
	}
	if r := checkText("the invocation id", c.InvocationID, MaxInvocationID); r != nil {
		return r
	}
	if c.ProcessEpoch <= 0 {
		return invalid("the process epoch is %d; it must be positive", c.ProcessEpoch)
	}
	if c.SecretHash == (Hash{}) {
		return invalid("the hash of the invocation secret is missing")
	}
	if c.DeadlineAt <= c.At {
		return invalid("the deadline is not after the dispatch")
	}
	return nil
}

func checkRoom(v View, id BackendID) *Refusal {
	b, refusal := findBackend(v, id)
	if refusal != nil {
		return refusal
	}
	if b.State != BackendActive {
		return refuse(CodeBackendNotActive, fmt.Sprintf("backend %d takes no new jobs: it is %s", id, b.State),
			"choose another, or undrain it")
	}
	if held, limit := v.SlotsHeld(id), v.Settings().MaxInflightPerBackend; held >= limit {
		return refuse(CodeNoSlot, fmt.Sprintf("backend %d has no free slot: %d of %d are held", id, held, limit),
			"wait for one to be released, choose another, or raise dispatch.max_inflight_per_backend")
	}
	return nil
}

// cancel ends a job that has not been sent, by an operator's word.
func cancel(v View, p Position, c Cancel) (Change, *Refusal) {
	if r := checkText("the note", c.Note, MaxNote); r != nil {
		return Change{}, r
	}
	e := ending{
		kind: EventCancelled, reason: ReasonCancelledBeforeDispatch, what: "cancelled",
		message: "cancelled before dispatch; nothing was sent",
	}
	if c.Note != "" {
		e.message = cut(e.message+": "+c.Note, MaxMessage)
		e.note = firstLine(c.Note)
	}
	return endPending(v, p, c.Header, c.Job, c.Expected, e)
}

// rejectBeforeDispatch ends a job that turned out to be impossible to send.
func rejectBeforeDispatch(v View, p Position, c RejectBeforeDispatch) (Change, *Refusal) {
	if r := checkText("the message", c.Message, MaxMessage); r != nil {
		return Change{}, r
	}
	return endPending(v, p, c.Header, c.Job, c.Expected, ending{
		kind: EventRejected, reason: ReasonRefusedBeforeDispatch, what: "rejected", message: c.Message,
	})
}

type ending struct {
	kind          EventKind
	reason        Reason
	what, message string
	note          string // for the history; may be empty
}

func endPending(v View, p Position, h Header, id ID, expected Revision, e ending) (Change, *Refusal) {
	r, refusal := at(v, id, expected, e.what, StatePending)
	if refusal != nil {
		return Change{}, refusal
	}
	reason := e.reason.String()
	if e.note != "" {
		reason += ": " + e.note
	}
	return one(transition(r, p, h, e.kind, reason, func(r *Record) {
		r.State = StateNotCommitted
		r.Result = &Result{Reason: e.reason, Message: e.message, At: h.At}
	})), nil
}

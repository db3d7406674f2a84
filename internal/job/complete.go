package job

import "fmt"

// complete settles the outcome of a RUNNING job. A report's proof and result are
// one command and so one revision.
func complete(v View, p Position, c Complete) (Change, *Refusal) {
	r, refusal := dispatched(v, c.Identity)
	if refusal != nil {
		return Change{}, refusal
	}
	if r.State != StateRunning {
		return Change{}, wrongState(r, fmt.Sprintf("the result for job %d was refused: it is %s already", r.ID, r.State),
			"an outcome never changes; a late report for an UNKNOWN job is kept as a late result")
	}
	if refusal := checkResult(c.Code, c.Message, c.Proof); refusal != nil {
		return Change{}, refusal
	}
	if c.NotEnqueued && (!c.Code.PreInvocation() || c.Proof != ProofNone) {
		return Change{}, invalid("proven-not-enqueued goes with a PRE_INVOCATION code and no other proof, not with %s and %s",
			c.Code, c.Proof)
	}
	proof := c.Proof
	if c.NotEnqueued {
		proof = ProofNotEnqueued
	}
	outcome := Classify(r.Spec.Mutation, r.Spec.IfExists, c.Code, c.MetadataAdvanced)
	return one(transition(r, p, c.Header, EventCompleted, resultReason(c.Code, proof), func(r *Record) {
		r.State = outcome.State
		r.Refresh.State = outcome.Refresh
		r.Result = &Result{
			Code: c.Code, Reason: outcome.Reason, Message: c.Message,
			MetadataAdvanced: c.MetadataAdvanced, At: c.At,
		}
		r.Dispatch.addProof(proof, c.At)
	})), nil
}

// recordLateResult keeps an authenticated report for a job whose outcome is
// UNKNOWN. It settles nothing: whoever reads the evidence decides.
func recordLateResult(v View, p Position, c RecordLateResult) (Change, *Refusal) {
	r, refusal := dispatched(v, c.Identity)
	if refusal != nil {
		return Change{}, refusal
	}
	if r.State != StateUnknown {
		return Change{}, wrongState(r, fmt.Sprintf("the late result for job %d was refused: it is %s", r.ID, r.State),
			"late results are kept for UNKNOWN jobs only")
	}
	if !c.Code.OnWire() {
		return Change{}, invalid("a late result needs a code that a backend may report, not %s", c.Code)
	}
	if refusal := checkResult(c.Code, c.Message, c.Proof); refusal != nil {
		return Change{}, refusal
	}
	if refusal := lateResultRefusal(r, c); refusal != nil {
		return proofAlone(r, p, c, refusal)
	}
	return one(transition(r, p, c.Header, EventLateResult, resultReason(c.Code, c.Proof), func(r *Record) {
		r.LateResults = append(r.LateResults, LateResult{
			Code: c.Code, Message: c.Message, MetadataAdvanced: c.MetadataAdvanced, At: c.At,
		})
		if c.Code == CodeNativeOK && r.LateRefresh.State == RefreshNotRequired {
			r.LateRefresh.State = RefreshRequired
		}
		r.Dispatch.addProof(c.Proof, c.At)
	})), nil
}

// proofAlone answers for a late result that adds nothing: the proof that came with
// it may.
func proofAlone(r *Record, p Position, c RecordLateResult, refusal *Refusal) (Change, *Refusal) {
	if !r.Dispatch.wants(c.Proof) {
		return Change{}, refusal
	}
	return one(transition(r, p, c.Header, EventTermination, c.Proof.String(), func(r *Record) {
		r.Dispatch.addProof(c.Proof, c.At)
	})), nil
}

// lateResultRefusal says why a late result is not kept: it is known already, as
// the outcome or among the late ones, or there is no room.
func lateResultRefusal(r *Record, c RecordLateResult) *Refusal {
	duplicate := r.Result != nil && r.Result.Code == c.Code && r.Result.Message == c.Message &&
		r.Result.MetadataAdvanced == c.MetadataAdvanced
	for _, l := range r.LateResults {
		duplicate = duplicate || l.Code == c.Code && l.Message == c.Message && l.MetadataAdvanced == c.MetadataAdvanced
	}
	if duplicate {
		return refuse(CodeDuplicate, fmt.Sprintf("job %d has this very result already", r.ID), "nothing needs to be done")
	}
	if len(r.LateResults) >= MaxLateResults {
		return refuse(CodeEvidenceFull, fmt.Sprintf("job %d has %d late results already; no more are kept", r.ID, MaxLateResults),
			"look at those; further ones say nothing new")
	}
	return nil
}

// dispatched returns the job that made exactly this dispatch.
func dispatched(v View, id Identity) (*Record, *Refusal) {
	r, refusal := find(v, id.Job)
	if refusal != nil {
		return nil, refusal
	}
	d := r.Dispatch
	if !d.Dispatched() {
		return nil, wrongState(r, fmt.Sprintf("the report for job %d was refused: the job was never sent (it is %s)", r.ID, r.State),
			"drop it; it is not about this job")
	}
	if d.Revision != id.Revision || d.InvocationID != id.InvocationID || d.ProcessEpoch != id.ProcessEpoch {
		return nil, refuse(CodeIdentityMismatch, fmt.Sprintf("the report is not about the dispatch that job %d made", r.ID),
			"drop it; it is about another invocation")
	}
	return r, nil
}

func checkResult(code ResultCode, message string, proof Proof) *Refusal {
	if !code.Valid() {
		return invalid("the result code %s is not of this contract", code)
	}
	if !proof.Valid() {
		return invalid("the termination proof %s is not of this contract", proof)
	}
	return checkText("the result's message", message, MaxMessage)
}

func resultReason(code ResultCode, proof Proof) string {
	if proof.Proves() {
		return code.String() + ", " + proof.String()
	}
	return code.String()
}

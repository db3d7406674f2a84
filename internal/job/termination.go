package job

import "fmt"

// recordTermination keeps a proof that a job's worker is gone. It releases the
// slot where one is held and changes neither outcome, fence nor quota.
func recordTermination(v View, p Position, c RecordTermination) (Change, *Refusal) {
	r, refusal := dispatched(v, c.Identity)
	if refusal != nil {
		return Change{}, refusal
	}
	if r.Dispatch.BackendID != c.Backend {
		return Change{}, refuse(CodeIdentityMismatch,
			fmt.Sprintf("the proof comes from backend %d, and job %d was sent to backend %d", c.Backend, r.ID, r.Dispatch.BackendID),
			"drop it")
	}
	if !c.Proof.Proves() {
		return Change{}, invalid("%s proves no termination", c.Proof)
	}
	if !r.Dispatch.wants(c.Proof) {
		return Change{}, refuse(CodeDuplicate, fmt.Sprintf("job %d has the proof %s already", r.ID, c.Proof),
			"nothing needs to be done")
	}
	return one(transition(r, p, c.Header, EventTermination, c.Proof.String(), func(r *Record) {
		r.Dispatch.addProof(c.Proof, c.At)
	})), nil
}

// wants reports whether a proof would add anything.
func (d *Dispatch) wants(proof Proof) bool {
	if !proof.Proves() {
		return false
	}
	if !d.Proof.Proves() {
		return true
	}
	if d.Proof == proof || len(d.Evidence) >= MaxEvidence {
		return false
	}
	for _, e := range d.Evidence {
		if e.Proof == proof {
			return false
		}
	}
	return true
}

// addProof keeps a proof. The first one stands for good and releases the slot,
// unless an operator has done so before; later ones are evidence.
func (d *Dispatch) addProof(proof Proof, at Millis) {
	switch {
	case !d.wants(proof):
	case d.Proof.Proves():
		d.Evidence = append(d.Evidence, Evidence{Proof: proof, At: at})
	default:
		d.Proof, d.ProofAt = proof, at
		d.SlotHeld = false
	}
}

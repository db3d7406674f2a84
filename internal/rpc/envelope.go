package rpc

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"log/slog"

	"github.com/lancemaster/lancemaster/gen-go/report"
	"github.com/lancemaster/lancemaster/internal/job"
)

// envelope is a report in the domain's terms. Its secret is unexported, hashed at once and shown by
// no way of printing.
type envelope struct {
	id        job.Identity
	hasSecret bool
	secret    job.Hash // of the secret echoed
	proof     job.Proof
	badProof  bool // the proof's number is none of this contract's
	result    *reported
}

// reported is the result part of a report.
type reported struct {
	code     job.ResultCode
	bad      string // why it is malformed; empty: it is not
	message  string
	advanced bool
}

// Format keeps every verb from reaching the fields.
func (e envelope) Format(f fmt.State, _ rune) { _, _ = fmt.Fprintf(f, "report(job %d)", e.id.Job) }

// LogValue keeps slog from reaching the fields.
func (e envelope) LogValue() slog.Value { return slog.StringValue(fmt.Sprint(e)) }

func setSecret(e *envelope, secret *string) {
	if secret != nil {
		e.hasSecret, e.secret = true, sha256.Sum256([]byte(*secret))
	}
}

func setProof(e *envelope, number int64) {
	e.proof = job.ProofNone
	if number < int64(job.ProofNone) || number > int64(job.ProofNeverLaunched) {
		e.badProof = true
		return
	}
	e.proof = job.Proof(uint8(number))
}

func resultEnvelope(r *report.TLanceIndexJobReport) envelope {
	e := envelope{
		id: job.Identity{
			Job: job.ID(r.JobID), Revision: job.Revision(r.DispatchRevision),
			InvocationID: r.InvocationID, ProcessEpoch: r.BeProcessEpoch,
		},
		proof: job.ProofNone,
		result: &reported{
			message:  job.SanitizeMessage(r.GetSanitizedMessage()),
			advanced: r.GetExternalMetadataAdvanced(),
		},
	}
	setSecret(&e, r.InvocationSecret)
	if r.TerminationProof != nil {
		setProof(&e, int64(*r.TerminationProof))
	}
	switch code := int64(r.ResultCode); {
	case code < int64(job.CodeStaleAdmission) || code > int64(job.CodeNativeInternal):
		e.result.bad = "the result code is none of this contract's"
	default:
		e.result.code = job.ResultCode(uint8(code))
	}
	if reason := r.CompletionReason; reason != nil && (*reason < 1 || *reason > 2) {
		e.result.bad = "the completion reason is none of this contract's"
	}
	return e
}

func terminationEnvelope(r *report.TLanceIndexJobTerminationReport) envelope {
	e := envelope{id: job.Identity{
		Job: job.ID(r.JobID), Revision: job.Revision(r.DispatchRevision),
		InvocationID: r.InvocationID, ProcessEpoch: r.BeProcessEpoch,
	}}
	setSecret(&e, r.InvocationSecret)
	setProof(&e, int64(r.Proof))
	return e
}

// malformed says what no report may look like, whoever sent it.
func (e envelope) malformed() string {
	switch {
	case e.id.Job <= 0:
		return "the job id is not positive"
	case e.id.Revision <= 0:
		return "the dispatch revision is not positive"
	case e.id.InvocationID == "":
		return "the invocation id is empty"
	case len(e.id.InvocationID) > job.MaxInvocationID:
		return "the invocation id is too long"
	}
	return ""
}

// authentic compares the secret with the stored hash in constant time.
func (e envelope) authentic(d job.Dispatch) bool {
	return subtle.ConstantTimeCompare(e.secret[:], d.SecretHash[:]) == 1 && e.hasSecret && d.SecretHash != (job.Hash{})
}

// matches reports whether the report is of this very dispatch.
func (e envelope) matches(d job.Dispatch) bool {
	return e.id.Revision == d.Revision && e.id.InvocationID == d.InvocationID && e.id.ProcessEpoch == d.ProcessEpoch
}

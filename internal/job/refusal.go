package job

import (
	"errors"
	"fmt"
)

// Code types a refusal for programs. The numbers travel in the admin service and
// never change.
type Code int32

// The codes of refusals.
const (
	CodeInvalid           Code = 1  // a field is malformed or out of bounds
	CodeNotFound          Code = 2  // no such job, catalog or backend
	CodeAlreadyExists     Code = 3  // the name or address is taken
	CodeGateClosed        Code = 4  // admission.enabled is false
	CodeFenceHeld         Code = 5  // another job holds the index name
	CodeQuotaTable        Code = 6  // unresolved quota of the table
	CodeQuotaCatalog      Code = 7  // unresolved quota of the catalog
	CodeQuotaGlobal       Code = 8  // unresolved quota of the cluster
	CodeRequestConflict   Code = 9  // the request id was used with another body
	CodeRevisionMismatch  Code = 10 // the job has moved on
	CodeWrongState        Code = 11 // the transition does not leave this state
	CodeIdentityMismatch  Code = 12 // not the dispatch this job made
	CodeDispatchPaused    Code = 13
	CodeBackendNotActive  Code = 14
	CodeNoSlot            Code = 15 // the backend's slots are all held
	CodeDuplicate         Code = 16 // the very same is recorded already
	CodeEvidenceFull      Code = 17 // no room for more late results or proofs
	CodeInUse             Code = 18 // open jobs or held slots stand against it
	CodeNotFormed         Code = 19 // the cluster has not been formed
	CodeAlreadyFormed     Code = 20
	CodeQuarantined       Code = 21 // restored or recovered and not yet reopened
	CodeAttemptMismatch   Code = 22 // not the refresh attempt under way
	CodeStaleTerm         Code = 23 // a newer term has begun
	CodeUnsupportedLevel  Code = 24
	CodeIndexExists       Code = 25 // admission: the dataset has this index
	CodeIndexMissing      Code = 26 // admission: the dataset lacks this index
	CodeColumn            Code = 27 // admission: column missing, nested, nullable, of the wrong type
	CodeDatasetMissing    Code = 28
	CodeDatasetDamaged    Code = 29
	CodeDatasetUnreadable Code = 30 // unsupported, or out of this master's reach
	CodeLocalDataset      Code = 31 // file: datasets are not allowed here
	CodeTooEarly          Code = 32 // a wait that safety asks for has not passed
	CodeNotLeader         Code = 33
	CodeUnavailable       Code = 34 // no leader, no quorum, stopping
	CodeOutcomeUnknown    Code = 35 // the command may or may not have been applied
	CodeInternal          Code = 36
	CodeUnauthenticated   Code = 37
	CodePermission        Code = 38
	CodeTimeout           Code = 39
	CodeRefreshFailed     Code = 40 // force release: the refresher failed
)

var refusalNames = map[Code]string{
	CodeInvalid: "INVALID", CodeNotFound: "NOT_FOUND", CodeAlreadyExists: "ALREADY_EXISTS",
	CodeGateClosed: "GATE_CLOSED", CodeFenceHeld: "FENCE_HELD", CodeQuotaTable: "QUOTA_TABLE",
	CodeQuotaCatalog: "QUOTA_CATALOG", CodeQuotaGlobal: "QUOTA_GLOBAL", CodeRequestConflict: "REQUEST_CONFLICT",
	CodeRevisionMismatch: "REVISION_MISMATCH", CodeWrongState: "WRONG_STATE",
	CodeIdentityMismatch: "IDENTITY_MISMATCH", CodeDispatchPaused: "DISPATCH_PAUSED",
	CodeBackendNotActive: "BACKEND_NOT_ACTIVE", CodeNoSlot: "NO_SLOT", CodeDuplicate: "DUPLICATE",
	CodeEvidenceFull: "EVIDENCE_FULL", CodeInUse: "IN_USE", CodeNotFormed: "NOT_FORMED",
	CodeAlreadyFormed: "ALREADY_FORMED", CodeQuarantined: "QUARANTINED", CodeAttemptMismatch: "ATTEMPT_MISMATCH",
	CodeStaleTerm: "STALE_TERM", CodeUnsupportedLevel: "UNSUPPORTED_LEVEL", CodeIndexExists: "INDEX_EXISTS",
	CodeIndexMissing: "INDEX_MISSING", CodeColumn: "COLUMN", CodeDatasetMissing: "DATASET_MISSING",
	CodeDatasetDamaged: "DATASET_DAMAGED", CodeDatasetUnreadable: "DATASET_UNREADABLE",
	CodeLocalDataset: "LOCAL_DATASET", CodeTooEarly: "TOO_EARLY", CodeNotLeader: "NOT_LEADER",
	CodeUnavailable: "UNAVAILABLE", CodeOutcomeUnknown: "OUTCOME_UNKNOWN", CodeInternal: "INTERNAL",
	CodeUnauthenticated: "UNAUTHENTICATED", CodePermission: "PERMISSION", CodeTimeout: "TIMEOUT",
	CodeRefreshFailed: "REFRESH_FAILED",
}

// String returns the code's name.
func (c Code) String() string {
	if n, ok := refusalNames[c]; ok {
		return n
	}
	return fmt.Sprintf("unknown(%d)", int32(c))
}

// Refusal is why a command or request changes nothing. It is an answer, not a
// fault: the same command in the same state is refused the same way everywhere.
type Refusal struct {
	Code    Code
	Message string // what was refused and why
	Next    string // what to do next; may be empty
	// Holder is the job that stands in the way, where one does.
	Holder ID
	// Present is the job's record as it is now, where the refusal is about its
	// revision or state. It is shown to those who may read the job.
	Present *Record
}

// Error returns the message and the next step.
func (r *Refusal) Error() string {
	if r.Next == "" {
		return r.Message
	}
	return r.Message + "; " + r.Next
}

// AsRefusal returns the refusal in err's chain.
func AsRefusal(err error) (*Refusal, bool) {
	var r *Refusal
	ok := errors.As(err, &r)
	return r, ok
}

// IsCode reports whether err is a refusal with this code.
func IsCode(err error, c Code) bool {
	r, ok := AsRefusal(err)
	return ok && r.Code == c
}

// ErrNotAppended wraps a failure to propose a command that certainly never
// reached the journal. Any error that is neither a Refusal nor this is
// ambiguous: the command may be applied, now or later.
var ErrNotAppended = errors.New("the command was not appended to the journal")

// ErrUnknownMethod wraps a backend's answer that it does not know the method
// called: a complete refusal, nothing ran.
var ErrUnknownMethod = errors.New("the backend does not know this method")

package client

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/lancemaster/lancemaster/gen-go/admin"
	"github.com/lancemaster/lancemaster/gen-go/shared"
)

// The states of a job.
const (
	StatePending      = "PENDING"
	StateRunning      = "RUNNING"
	StateCommitted    = "COMMITTED"
	StateNotCommitted = "NOT_COMMITTED"
	StateUnknown      = "UNKNOWN"
)

// ReasonNoop is the result's reason when the index was as asked for already.
const ReasonNoop = "IF_CONDITION_NOOP"

// Job is one index job. Every field but the refresh's and the dispatch's live
// state is what the journal holds.
type Job struct {
	ID           int64     `json:"job_id"`
	State        string    `json:"state"`
	Revision     int64     `json:"revision"`
	Creator      string    `json:"creator"`
	RequestID    string    `json:"request_id,omitempty"`
	CreatedAt    Time      `json:"created_at,omitzero"`
	UpdatedAt    Time      `json:"updated_at,omitzero"`
	ResolvedAt   Time      `json:"resolved_at,omitzero"`
	ClosedAt     Time      `json:"closed_at,omitzero"`
	Quarantined  Time      `json:"quarantined_at,omitzero"`
	Target       Target    `json:"target"`
	Intent       Intent    `json:"intent"`
	Snapshot     Snapshot  `json:"snapshot"`
	Dispatch     *Dispatch `json:"dispatch,omitempty"`
	Result       *Result   `json:"result,omitempty"`
	LateResults  []Result  `json:"late_results,omitempty"`
	Refresh      Refresh   `json:"refresh"`
	LateRefresh  *Refresh  `json:"late_refresh,omitempty"`
	ForceRelease *Release  `json:"force_release,omitempty"`
	SlotRelease  *Release  `json:"slot_release,omitempty"`
	FenceHeld    bool      `json:"fence_held"`
	SlotHeld     bool      `json:"slot_held"`
	Open         bool      `json:"open"`
}

// Terminal reports whether the job's outcome is settled.
func (j *Job) Terminal() bool {
	return j.State == StateCommitted || j.State == StateNotCommitted || j.State == StateUnknown
}

// Resolved reports whether the job holds its index name no more.
func (j *Job) Resolved() bool { return !j.FenceHeld }

// Noop reports whether the job ended because there was nothing to do.
func (j *Job) Noop() bool {
	return j.State == StateNotCommitted && j.Result != nil && j.Result.Reason == ReasonNoop
}

// Target is the index that a job changes.
type Target struct {
	Catalog   string `json:"catalog"`
	Store     string `json:"store"`
	Database  string `json:"database"`
	Table     string `json:"table"`
	Provider  string `json:"provider"`
	Locator   string `json:"locator"`
	IndexName string `json:"index_name"` // as given
	IndexKey  string `json:"index_key"`  // normalized: what the fence is about
}

// Intent is what a job was asked to do, with the bounds in force at admission.
type Intent struct {
	Mutation         string   `json:"mutation"` // CREATE, REPLACE or DROP
	IfNotExists      bool     `json:"if_not_exists"`
	IfExists         bool     `json:"if_exists"`
	IndexType        string   `json:"index_type,omitempty"`
	Column           string   `json:"column,omitempty"`
	Properties       string   `json:"properties_json,omitempty"`
	MaxNumPartitions int32    `json:"max_num_partitions"`
	MaxNumSubVectors int32    `json:"max_num_sub_vectors"`
	ExecuteDeadline  Duration `json:"execute_deadline"`
}

// Snapshot is the dataset as admission saw it.
type Snapshot struct {
	DatasetVersion int64  `json:"dataset_version"`
	SchemaContract string `json:"schema_contract_json,omitempty"`
	Source         string `json:"source"` // manifest or caller
}

// Dispatch is the one send of a job.
type Dispatch struct {
	BackendID    int64      `json:"backend_id"`
	ProcessEpoch int64      `json:"process_epoch"`
	Revision     int64      `json:"dispatch_revision"`
	InvocationID string     `json:"invocation_id"`
	StartedAt    Time       `json:"started_at,omitzero"`
	DeadlineAt   Time       `json:"deadline_at,omitzero"`
	SlotHeld     bool       `json:"slot_held"`
	Proof        string     `json:"proof"` // why the worker is gone; NONE when nothing proves it
	ProofAt      Time       `json:"proof_at,omitzero"`
	Evidence     []Evidence `json:"evidence,omitempty"`
}

// Evidence is a proof that came when no slot was held.
type Evidence struct {
	Proof string `json:"proof"`
	At    Time   `json:"at,omitzero"`
}

// Refresh is what has become of the metadata refresh that an outcome owes.
type Refresh struct {
	State         string `json:"state"`
	Attempt       int64  `json:"attempt"`
	StartedAt     Time   `json:"started_at,omitzero"`
	FinishedAt    Time   `json:"finished_at,omitzero"`
	Evidence      string `json:"evidence,omitempty"`
	LastFailureAt Time   `json:"last_failure_at,omitzero"`
	LastFailure   string `json:"last_failure,omitempty"`
	NextRetryAt   Time   `json:"next_retry_at,omitzero"`
}

// Result is an outcome and where it came from.
type Result struct {
	Code                     string `json:"code"`
	Reason                   string `json:"reason"`
	Message                  string `json:"message,omitempty"`
	ExternalMetadataAdvanced bool   `json:"external_metadata_advanced"`
	At                       Time   `json:"at,omitzero"`
}

// Release is an operator's release of a fence or a slot.
type Release struct {
	Actor   string `json:"actor"`
	At      Time   `json:"at,omitzero"`
	Note    string `json:"note,omitempty"`
	Warning string `json:"warning,omitempty"`
}

// Property is one property of an index as given.
type Property struct{ Key, Value string }

// Submission asks for an index mutation.
type Submission struct {
	RequestID       string // makes the submission safe to repeat; see NewRequestID
	Catalog         string
	Database, Table string
	Dataset         string
	IndexName       string
	Mutation        string // CREATE, REPLACE or DROP
	IfNotExists     bool
	IfExists        bool
	IndexType       string
	Column          string
	// Properties are sent one by one, so that the master can refuse a repeated key.
	Properties      []Property
	ExecuteDeadline time.Duration // 0: the setting dispatch.execute_deadline
	DryRun          bool
	// Snapshot, where the master cannot read the dataset.
	Snapshot *CallerSnapshot
}

// CallerSnapshot is a dataset snapshot that the caller vouches for.
type CallerSnapshot struct {
	DatasetVersion  int64
	SchemaContract  string // JSON; empty for DROP
	StoredIndexName string // empty: the name given
}

// The outcomes of a submission.
const (
	OutcomeAdmitted = "ADMITTED" // a job was admitted
	OutcomeExisting = "EXISTING" // the request id was used with this body: that job
	OutcomeNoop     = "NOOP"     // nothing to do, no job
	OutcomeDryRun   = "DRY_RUN"
)

// Submitted is the answer to a submission.
type Submitted struct {
	Outcome    string   `json:"outcome"`
	RequestID  string   `json:"request_id,omitempty"`
	Detail     string   `json:"detail,omitempty"` // NOOP: why there is nothing to do
	Job        *Job     `json:"job,omitempty"`
	WouldAdmit *Job     `json:"would_admit,omitempty"` // DRY_RUN
	Advice     []Advice `json:"advice,omitempty"`      // DRY_RUN: what would refuse it now
}

// Advice is what would refuse a dry run's request if it were real.
type Advice struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// NewRequestID returns a random request id of 32 hexadecimal digits.
func NewRequestID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: it ends the process instead
	return hex.EncodeToString(b[:])
}

// Submit asks for an index mutation. With a request id (or as a dry run) it is
// repeated as needed; without one it is sent at most once.
func (c *Client) Submit(ctx context.Context, s Submission) (*Submitted, error) {
	m, err := shared.TLanceIndexMutationTypeFromString(s.Mutation)
	if err != nil {
		return nil, &Error{Code: CodeInvalid, Message: fmt.Sprintf("%q is not CREATE, REPLACE or DROP", s.Mutation), cause: err}
	}
	request := submissionWire(s, m)
	request.Ctx = c.caller()
	op := change("the submission")
	switch {
	case s.DryRun:
		op.kind = reading
	case s.RequestID != "":
		op.kind = repeatable
		op.next = fmt.Sprintf("repeat the submission with the same request id, %s: it is admitted at most once", s.RequestID)
	default:
		op.next = "look for the job with: lancemaster job list; a submission with a request id is safe to repeat"
	}
	answer, err := invoke(ctx, c, op, func(ctx context.Context, a *admin.AdminServiceClient) (*admin.TSubmitResponse, error) {
		return a.Submit(ctx, request)
	})
	if err != nil {
		return nil, err
	}
	out := submittedOf(answer)
	if (out.Outcome == OutcomeAdmitted || out.Outcome == OutcomeExisting) && out.Job == nil {
		return nil, &Error{Code: CodeBadReply, Message: "the answer to the submission has no job", Next: op.next}
	}
	if !s.DryRun {
		out.RequestID = s.RequestID
	}
	return out, nil
}

// Job returns one job.
func (c *Client) Job(ctx context.Context, id int64) (*Job, error) {
	return c.oneJob(ctx, read("reading the job"), func(ctx context.Context, a *admin.AdminServiceClient) (*admin.TJob, error) {
		return a.GetJob(ctx, &admin.TGetJobRequest{Ctx: c.caller(), JobID: &id})
	})
}

// MaxWait is the longest that one WaitJob is held.
const MaxWait = time.Minute

// WaitJob answers once the job's revision is above after, or after wait with the
// job as it then is. It is one call; see Follow for a wait that survives a master.
func (c *Client) WaitJob(ctx context.Context, id, after int64, wait time.Duration) (*Job, error) {
	ms := min(max(wait, time.Millisecond), MaxWait).Milliseconds()
	op := read("waiting for the job")
	op.extra = min(wait, MaxWait)
	return c.oneJob(ctx, op, func(ctx context.Context, a *admin.AdminServiceClient) (*admin.TJob, error) {
		return a.WaitJob(ctx, &admin.TWaitJobRequest{Ctx: c.caller(), JobID: &id, AfterRevision: &after, WaitMs: &ms})
	})
}

func (c *Client) oneJob(ctx context.Context, op operation, f func(context.Context, *admin.AdminServiceClient) (*admin.TJob, error)) (*Job, error) {
	j, err := invoke(ctx, c, op, f)
	if err != nil {
		return nil, err
	}
	return jobOf(j), nil
}

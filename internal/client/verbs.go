package client

import (
	"context"
	"time"

	"github.com/lancemaster/lancemaster/gen-go/admin"
)

// JobVerb is what an operator's verb needs.
type JobVerb struct {
	JobID int64
	// ExpectedRevision, where given, guards against a job that moved on in between.
	ExpectedRevision *int64
	Note             string
}

// CancelJob ends a PENDING job as NOT_COMMITTED.
func (c *Client) CancelJob(ctx context.Context, v JobVerb) (*Job, error) {
	return c.oneJob(ctx, change("the cancellation"), func(ctx context.Context, a *admin.AdminServiceClient) (*admin.TJob, error) {
		return a.CancelJob(ctx, c.verb(v))
	})
}

// ReleaseSlot frees the backend slot of a terminal job on an operator's word.
func (c *Client) ReleaseSlot(ctx context.Context, v JobVerb) (*Job, error) {
	return c.oneJob(ctx, change("the slot's release"), func(ctx context.Context, a *admin.AdminServiceClient) (*admin.TJob, error) {
		return a.ReleaseSlot(ctx, c.verb(v))
	})
}

func (c *Client) verb(v JobVerb) *admin.TJobVerbRequest {
	return &admin.TJobVerbRequest{Ctx: c.caller(), JobID: &v.JobID, ExpectedRevision: v.ExpectedRevision, Note: optional(v.Note)}
}

// releaseTime is how long a force release may take beyond other calls: the master
// reads the dataset and runs the catalog's refresher first.
const releaseTime = time.Minute

// ForceRelease releases what an UNKNOWN job holds. Repeated it is a success that
// returns the job as it was released, so it is repeated as needed.
func (c *Client) ForceRelease(ctx context.Context, v JobVerb) (*Job, error) {
	op := change("the force release")
	op.kind, op.extra = repeatable, releaseTime
	op.next = "run it again: a job that is released already is answered with its record"
	return c.oneJob(ctx, op, func(ctx context.Context, a *admin.AdminServiceClient) (*admin.TJob, error) {
		return a.ForceReleaseJob(ctx, c.verb(v))
	})
}

// Explanation says why a job is where it is.
type Explanation struct {
	Job     *Job     `json:"job"`
	Reasons []Reason `json:"reasons"` // what matters most first
}

// Reason is one part of an explanation.
type Reason struct {
	Code    string `json:"code"` // for programs
	Message string `json:"message"`
	Next    string `json:"next_step,omitempty"`
}

// Explain says why a job is where it is, and what it holds.
func (c *Client) Explain(ctx context.Context, id int64) (*Explanation, error) {
	answer, err := invoke(ctx, c, read("explaining the job"), func(ctx context.Context, a *admin.AdminServiceClient) (*admin.TExplainJobResponse, error) {
		return a.ExplainJob(ctx, &admin.TGetJobRequest{Ctx: c.caller(), JobID: &id})
	})
	if err != nil {
		return nil, err
	}
	out := &Explanation{Job: jobOf(answer.Job), Reasons: []Reason{}}
	for _, r := range answer.Reasons {
		out.Reasons = append(out.Reasons, Reason{Code: r.Code, Message: r.Message, Next: r.GetNextStep()})
	}
	return out, nil
}

package rpc

import (
	"context"
	"fmt"

	"github.com/lancemaster/lancemaster/gen-go/admin"
	"github.com/lancemaster/lancemaster/internal/job"
)

// CancelJob ends a PENDING job.
func (a *Admin) CancelJob(ctx context.Context, req *admin.TJobVerbRequest) (*admin.TJob, error) {
	return a.verb(ctx, "cancelJob", req, (*remote).CancelJob, func(h job.Header, id job.ID, expected job.Revision, note string) job.Command {
		return job.Cancel{Header: h, Job: id, Expected: expected, Note: note}
	})
}

// ReleaseSlot releases the slot of a terminal job.
func (a *Admin) ReleaseSlot(ctx context.Context, req *admin.TJobVerbRequest) (*admin.TJob, error) {
	return a.verb(ctx, "releaseSlot", req, (*remote).ReleaseSlot, func(h job.Header, id job.ID, expected job.Revision, note string) job.Command {
		return job.ReleaseSlot{Header: h, Job: id, Expected: expected, Note: note}
	})
}

// verb proposes what an operator does to a job. Without an expected revision it is the one the job
// has now.
func (a *Admin) verb(ctx context.Context, name string, req *admin.TJobVerbRequest, there elsewhere[*admin.TJobVerbRequest, *admin.TJob],
	command func(job.Header, job.ID, job.Revision, string) job.Command,
) (*admin.TJob, error) {
	return serve(ctx, a, name, req, there, func(c call) (*admin.TJob, error) {
		var f fields
		id := job.ID(f.positive("job_id", req.JobID))
		note := f.optionalText("note", req.Note)
		if f.refusal != nil {
			return nil, f.refusal
		}
		var expected job.Revision
		if req.ExpectedRevision != nil {
			expected = job.Revision(*req.ExpectedRevision)
		} else {
			if err := a.barrier(c); err != nil {
				return nil, err
			}
			rec, err := a.job(req.JobID)
			if err != nil {
				return nil, err
			}
			expected = rec.Revision
		}
		answer, err := a.cfg.Journal.Propose(c, command(a.header(c), id, expected, note))
		if err != nil {
			return nil, err
		}
		return a.wireJob(answer.Job), nil
	})
}

// ForceReleaseJob releases what an UNKNOWN job holds.
func (a *Admin) ForceReleaseJob(ctx context.Context, req *admin.TJobVerbRequest) (*admin.TJob, error) {
	return serve(ctx, a, "forceReleaseJob", req, (*remote).ForceReleaseJob, func(c call) (*admin.TJob, error) {
		var f fields
		id := job.ID(f.positive("job_id", req.JobID))
		note := f.optionalText("note", req.Note)
		if f.refusal != nil {
			return nil, f.refusal
		}
		if err := a.barrier(c); err != nil {
			return nil, err
		}
		var expected *job.Revision
		if req.ExpectedRevision != nil {
			revision := job.Revision(*req.ExpectedRevision)
			expected = &revision
		}
		rec, err := a.cfg.Releaser.ForceRelease(c, c.actor, id, expected, note)
		if err != nil {
			return nil, err
		}
		return a.wireJob(rec), nil
	})
}

// ExplainJob says why a job is where it is.
func (a *Admin) ExplainJob(ctx context.Context, req *admin.TGetJobRequest) (*admin.TExplainJobResponse, error) {
	return serve(ctx, a, "explainJob", req, (*remote).ExplainJob, func(call) (*admin.TExplainJobResponse, error) {
		rec, err := a.job(req.JobID)
		if err != nil {
			return nil, err
		}
		answer := &admin.TExplainJobResponse{Job: a.wireJob(rec), Reasons: []*admin.TReason{}}
		for _, r := range a.cfg.Explainer.Explain(rec) {
			answer.Reasons = append(answer.Reasons, &admin.TReason{Code: r.Code, Message: r.Message, NextStep: optional(r.Next)})
		}
		return answer, nil
	})
}

// job reads the job that a request names.
func (a *Admin) job(number *int64) (*job.Record, error) {
	var f fields
	id := job.ID(f.positive("job_id", number))
	if f.refusal != nil {
		return nil, f.refusal
	}
	rec, err := a.cfg.State.Job(id)
	if err != nil {
		return nil, inside(err)
	}
	if rec == nil {
		return nil, &job.Refusal{
			Code: job.CodeNotFound, Message: fmt.Sprintf("there is no job %d", id),
			Next: "list the jobs with: lancemaster job list; one that ended long ago may have been removed",
		}
	}
	return rec, nil
}

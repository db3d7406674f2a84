package rpc

import (
	"context"
	"fmt"
	"strings"

	"github.com/lancemaster/lancemaster/gen-go/admin"
	"github.com/lancemaster/lancemaster/internal/job"
)

// Submit admits a job, or says why not, or says what it would do.
func (a *Admin) Submit(ctx context.Context, req *admin.TSubmitRequest) (*admin.TSubmitResponse, error) {
	return serve(ctx, a, "submit", req, (*remote).Submit, func(c call) (*admin.TSubmitResponse, error) {
		s, refusal := submissionOf(req)
		if refusal != nil {
			return nil, refusal
		}
		s.Actor = c.actor
		outcome, err := a.cfg.Submitter.Submit(c, s)
		if err != nil {
			return nil, err
		}
		return a.wireOutcome(outcome), nil
	})
}

// submissionOf turns a request into a submission. What a field may hold is admission's to say; here
// it must be there, and not be absurdly long.
func submissionOf(req *admin.TSubmitRequest) (job.Submission, *job.Refusal) {
	var f fields
	s := job.Submission{
		RequestID: f.bounded("request_id", req.RequestID, job.MaxName),
		Catalog:   f.text("catalog", req.Catalog), Database: f.text("database_name", req.DatabaseName),
		Table: f.text("table_name", req.TableName), DatasetURI: f.text("dataset_uri", req.DatasetURI),
		IndexName: f.text("index_name", req.IndexName), IfNotExists: req.GetIfNotExists(), IfExists: req.GetIfExists(),
		IndexType: f.optionalText("index_type", req.IndexType), Column: f.optionalText("column", req.Column),
		DryRun: req.GetDryRun(),
	}
	if req.RequestID != nil && *req.RequestID == "" {
		f.refuse("request_id", "is empty; leave it out or give it 1 to 1024 bytes")
	}
	switch m := req.Mutation; {
	case m == nil:
		f.refuse("mutation", "is missing")
	case *m < 1 || *m > 3:
		f.refuse("mutation", fmt.Sprintf("is %d; it must be CREATE (1), REPLACE (2) or DROP (3)", int64(*m)))
	default:
		s.Mutation = job.Mutation(*m)
	}
	if req.ExecuteDeadlineMs != nil {
		s.ExecuteDeadline = f.positive("execute_deadline_ms", req.ExecuteDeadlineMs)
	}
	for _, p := range req.Properties {
		s.Properties = append(s.Properties, job.Property{
			Key: f.optionalText("a property's key", &p.Key), Value: f.optionalText("a property's value", &p.Value),
		})
	}
	if c := req.CallerSnapshot; c != nil {
		s.CallerSnapshot = &job.CallerSnapshot{
			DatasetVersion:  c.DatasetVersion,
			SchemaContract:  f.bounded("caller_snapshot.schema_contract_json", c.SchemaContractJSON, maxContract),
			StoredIndexName: f.optionalText("caller_snapshot.stored_index_name", c.StoredIndexName),
		}
	}
	return s, f.refusal
}

// GetJob returns a job.
func (a *Admin) GetJob(ctx context.Context, req *admin.TGetJobRequest) (*admin.TJob, error) {
	return serve(ctx, a, "getJob", req, (*remote).GetJob, func(call) (*admin.TJob, error) {
		rec, err := a.job(req.JobID)
		if err != nil {
			return nil, err
		}
		return a.wireJob(rec), nil
	})
}

// maxPage bounds a page's size, so that a client need not take more than this and one job.
const maxPage = 4 << 20

// ListJobs returns one page of the jobs that match, newest first.
func (a *Admin) ListJobs(ctx context.Context, req *admin.TListJobsRequest) (*admin.TListJobsResponse, error) {
	return serve(ctx, a, "listJobs", req, (*remote).ListJobs, func(call) (*admin.TListJobsResponse, error) {
		q, refusal := queryOf(req)
		if refusal != nil {
			return nil, refusal
		}
		page, err := a.cfg.State.List(q)
		for err == nil && q.Limit > 1 && pageSize(page) > maxPage {
			q.Limit /= 2
			page, err = a.cfg.State.List(q)
		}
		if refusal, ok := job.AsRefusal(err); ok && q.PageToken != "" && refusal.Next == "" {
			told := *refusal
			told.Next = "give the token of the page before, as it was printed, or begin again without one"
			return nil, &told
		}
		if err != nil {
			return nil, inside(err)
		}
		answer := &admin.TListJobsResponse{Jobs: make([]*admin.TJob, 0, len(page.Jobs)), NextPageToken: optional(page.Next)}
		retry := a.retryInterval()
		for _, rec := range page.Jobs {
			answer.Jobs = append(answer.Jobs, wireJob(rec, retry))
		}
		return answer, nil
	})
}

// pageSize estimates a page's size on the wire by what has no small bound.
func pageSize(p job.Page) int {
	const fixed = 1024 // numbers and short texts of one job
	size := 0
	for _, r := range p.Jobs {
		size += fixed + len(r.Creator) + len(r.RequestID) + len(r.Target.Catalog) + len(r.Target.Database) + len(r.Target.Table) +
			len(r.Target.Locator) + len(r.Target.Store) + len(r.Spec.PropertiesJSON) + len(r.Spec.Column) + len(r.Snapshot.SchemaContract)
		for _, l := range r.LateResults {
			size += len(l.Message)
		}
		if r.Result != nil {
			size += len(r.Result.Message)
		}
	}
	return size
}

func queryOf(req *admin.TListJobsRequest) (job.Query, *job.Refusal) {
	var f fields
	q := job.Query{
		Open: req.IsOpen, Unresolved: req.Unresolved, Catalog: f.optionalText("catalog", req.Catalog),
		Since: job.Millis(req.GetSinceMs()), Until: job.Millis(req.GetUntilMs()),
		Limit:     int(f.upTo("limit", wide(req.Limit), job.MaxPageLimit, job.DefaultPageLimit)),
		PageToken: f.optionalText("page_token", req.PageToken),
	}
	for _, s := range req.States {
		state := job.State(s) //nolint:gosec // checked on the next line
		if s < 0 || s > 255 || !state.Valid() {
			f.refuse("states", fmt.Sprintf("holds %d, which is no state", int64(s)))
		}
		q.States = append(q.States, state)
	}
	for _, s := range req.RefreshStates {
		state := job.RefreshState(s) //nolint:gosec // checked on the next line
		if s < 0 || s > 255 || !state.Valid() {
			f.refuse("refresh_states", fmt.Sprintf("holds %d, which is no refresh state", int64(s)))
		}
		q.RefreshStates = append(q.RefreshStates, state)
	}
	if req.BackendID != nil {
		q.Backend = job.BackendID(f.positive("backend_id", req.BackendID))
	}
	if req.Table != nil {
		var split bool
		q.Database, q.Table, split = strings.Cut(f.text("table", req.Table), ".")
		switch {
		case !split || q.Database == "" || q.Table == "":
			f.refuse("table", "must be given as DATABASE.TABLE")
		case q.Catalog == "":
			f.refuse("table", "needs catalog as well")
		}
	}
	if req.IndexName != nil {
		q.IndexKey = job.NormalizeIndexName(f.text("index_name", req.IndexName))
	}
	if req.DatasetURI != nil {
		locator, err := job.NormalizeLocator(f.text("dataset_uri", req.DatasetURI))
		if err != nil && f.refusal == nil {
			if refusal, ok := job.AsRefusal(err); ok {
				f.refusal = refusal
			} else {
				f.refuse("dataset_uri", "is no dataset's place")
			}
		}
		q.Locator = locator
	}
	return q, f.refusal
}

// JobHistory returns a job's events.
func (a *Admin) JobHistory(ctx context.Context, req *admin.TJobHistoryRequest) (*admin.TJobHistoryResponse, error) {
	return serve(ctx, a, "jobHistory", req, (*remote).JobHistory, func(call) (*admin.TJobHistoryResponse, error) {
		rec, err := a.job(req.JobID)
		if err != nil {
			return nil, err
		}
		events, dropped, err := a.cfg.State.History(rec.ID)
		if err != nil {
			return nil, inside(err)
		}
		answer := &admin.TJobHistoryResponse{Events: make([]*admin.TJobEvent, 0, len(events)), Dropped: dropped}
		for i := range events {
			answer.Events = append(answer.Events, wireEvent(&events[i]))
		}
		return answer, nil
	})
}

package client

import (
	"context"
	"fmt"
	"time"

	"github.com/lancemaster/lancemaster/gen-go/admin"
)

// JobQuery selects jobs; every condition given must hold.
type JobQuery struct {
	States        []string
	RefreshStates []string
	Open          *bool // holds a fence or a slot
	Unresolved    *bool // holds a fence
	Catalog       string
	Table         string // DB.T; needs Catalog
	Dataset       string
	IndexName     string // in any spelling
	BackendID     int64
	Since, Until  time.Time // created at or after, and before
	Limit         int       // 1..1000; 0: 100
	PageToken     string    // NextPageToken of the page before
}

// JobPage is one page of jobs, newest first.
type JobPage struct {
	Jobs          []Job  `json:"jobs"`
	NextPageToken string `json:"next_page_token,omitempty"` // empty on the last page
}

// Event is one transition of a job.
type Event struct {
	JobID       int64  `json:"job_id"`
	Revision    int64  `json:"revision"`
	RaftIndex   int64  `json:"raft_index"`
	RaftTerm    int64  `json:"raft_term"`
	At          Time   `json:"at,omitzero"`
	Actor       string `json:"actor"`
	Kind        string `json:"kind"`
	FromState   string `json:"from_state,omitempty"` // empty at admission
	ToState     string `json:"to_state"`
	FromRefresh string `json:"from_refresh,omitempty"`
	ToRefresh   string `json:"to_refresh"`
	Reason      string `json:"reason,omitempty"`
}

// History is a job's transitions, oldest first.
type History struct {
	Events []Event `json:"events"`
	// Dropped counts the events between the first 16 and the last 112 that are not
	// kept.
	Dropped int64 `json:"dropped"`
}

// Jobs returns one page of jobs.
func (c *Client) Jobs(ctx context.Context, q JobQuery) (*JobPage, error) {
	request := &admin.TListJobsRequest{
		Ctx: c.caller(), IsOpen: q.Open, Unresolved: q.Unresolved,
		Catalog: optional(q.Catalog), Table: optional(q.Table), DatasetURI: optional(q.Dataset),
		IndexName: optional(q.IndexName), PageToken: optional(q.PageToken),
	}
	for _, name := range q.States {
		v, err := admin.TJobStateFromString(name)
		if err != nil {
			return nil, invalidf("%q is not a state; the states are PENDING, RUNNING, COMMITTED, NOT_COMMITTED and UNKNOWN", name)
		}
		request.States = append(request.States, v)
	}
	for _, name := range q.RefreshStates {
		v, err := admin.TRefreshStateFromString(name)
		if err != nil {
			return nil, invalidf("%q is not a refresh state; they are NOT_REQUIRED, REQUIRED, RUNNING, DONE and FAILED", name)
		}
		request.RefreshStates = append(request.RefreshStates, v)
	}
	if q.BackendID != 0 {
		request.BackendID = &q.BackendID
	}
	if !q.Since.IsZero() {
		request.SinceMs = ptr(q.Since.UnixMilli())
	}
	if !q.Until.IsZero() {
		request.UntilMs = ptr(q.Until.UnixMilli())
	}
	if q.Limit != 0 {
		limit, err := int32Of("the limit", q.Limit)
		if err != nil {
			return nil, err
		}
		request.Limit = &limit
	}
	answer, err := invoke(ctx, c, read("listing jobs"), func(ctx context.Context, a *admin.AdminServiceClient) (*admin.TListJobsResponse, error) {
		return a.ListJobs(ctx, request)
	})
	if err != nil {
		return nil, err
	}
	page := &JobPage{Jobs: []Job{}, NextPageToken: answer.GetNextPageToken()}
	for _, j := range answer.Jobs {
		page.Jobs = append(page.Jobs, *jobOf(j))
	}
	return page, nil
}

// History returns a job's transitions.
func (c *Client) History(ctx context.Context, id int64) (*History, error) {
	answer, err := invoke(ctx, c, read("reading the job's history"), func(ctx context.Context, a *admin.AdminServiceClient) (*admin.TJobHistoryResponse, error) {
		return a.JobHistory(ctx, &admin.TJobHistoryRequest{Ctx: c.caller(), JobID: &id})
	})
	if err != nil {
		return nil, err
	}
	h := &History{Events: []Event{}, Dropped: answer.Dropped}
	for _, e := range answer.Events {
		h.Events = append(h.Events, eventOf(e))
	}
	return h, nil
}

func invalidf(format string, args ...any) *Error {
	return &Error{Code: CodeInvalid, Message: fmt.Sprintf(format, args...)}
}

func int32Of(what string, n int) (int32, error) {
	v := int32(n) //nolint:gosec // compared with the original below
	if int(v) != n {
		return 0, invalidf("%s, %d, is out of range", what, n)
	}
	return v, nil
}

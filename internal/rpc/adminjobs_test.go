package rpc

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/gen-go/admin"
	"github.com/lancemaster/lancemaster/gen-go/shared"
	"github.com/lancemaster/lancemaster/internal/job"
)

func submission() *admin.TSubmitRequest {
	return &admin.TSubmitRequest{
		Ctx: &admin.TRequestContext{ClientName: ptr("joe"), Token: ptr("tok")}, Catalog: ptr("c"), DatabaseName: ptr("d"), TableName: ptr("t"),
		DatasetURI: ptr("s3://b/t"), IndexName: ptr("Idx"), Mutation: ptr(shared.TLanceIndexMutationType_CREATE),
		IndexType: ptr("btree"), Column: ptr("id"),
	}
}

func TestSubmit(t *testing.T) {
	b := newBench(t)
	rec := b.admit(t, "Idx", job.MutationCreate)
	var got job.Submission
	outcome := job.SubmissionOutcome{Kind: job.SubmissionAdmitted, Job: rec}
	b.submit = func(_ context.Context, s job.Submission) (job.SubmissionOutcome, error) {
		got = s
		return outcome, nil
	}
	req := submission()
	req.RequestID, req.IfNotExists, req.DryRun, req.ExecuteDeadlineMs = ptr("r1"), ptr(true), ptr(true), ptr(int64(5000))
	req.Properties = []*admin.TProperty{{Key: "K", Value: "1"}, {Key: "k", Value: "2"}}
	req.CallerSnapshot = &admin.TCallerSnapshot{DatasetVersion: 4, SchemaContractJSON: ptr("{}"), StoredIndexName: ptr("IDX")}
	answer, err := b.admin.Submit(t.Context(), req)
	if err != nil || answer.Outcome != admin.TSubmitOutcome_ADMITTED || answer.Job.JobID != int64(rec.ID) {
		t.Fatalf("answered %v, %v", answer, err)
	}
	want := job.Submission{
		Actor: "unverified:joe", RequestID: "r1", Catalog: "c", Database: "d", Table: "t", DatasetURI: "s3://b/t", IndexName: "Idx",
		Mutation: job.MutationCreate, IfNotExists: true, IndexType: "btree", Column: "id",
		Properties:      []job.Property{{Key: "K", Value: "1"}, {Key: "k", Value: "2"}},
		ExecuteDeadline: 5000, DryRun: true,
		CallerSnapshot: &job.CallerSnapshot{DatasetVersion: 4, SchemaContract: "{}", StoredIndexName: "IDX"},
	}
	if fmt.Sprint(got.CallerSnapshot) != fmt.Sprint(want.CallerSnapshot) {
		t.Errorf("submitted the snapshot %v", got.CallerSnapshot)
	}
	got.CallerSnapshot, want.CallerSnapshot = nil, nil
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("submitted %+v, want %+v", got, want)
	}

	outcome = job.SubmissionOutcome{Kind: job.SubmissionNoop, Detail: "it is there"}
	if answer, err := b.admin.Submit(t.Context(), req); err != nil || answer.GetDetail() != "it is there" || answer.Job != nil {
		t.Errorf("a no-op: %v, %v", answer, err)
	}
	outcome = job.SubmissionOutcome{Kind: job.SubmissionDryRun, Job: rec, Advice: []job.Advice{{Code: job.CodeGateClosed, Message: "closed"}}}
	if answer, err := b.admin.Submit(t.Context(), req); err != nil || answer.WouldAdmit == nil || answer.Advice[0].Code != admin.TAdminErrorCode_GATE_CLOSED {
		t.Errorf("a dry run: %v, %v", answer, err)
	}
}

func TestSubmitRefusesWhatIsMissingOrAbsurd(t *testing.T) {
	b := newBench(t)
	b.submit = func(context.Context, job.Submission) (job.SubmissionOutcome, error) {
		t.Error("submitted")
		return job.SubmissionOutcome{}, nil
	}
	for field, spoil := range map[string]func(*admin.TSubmitRequest){
		"catalog":             func(r *admin.TSubmitRequest) { r.Catalog = nil },
		"database_name":       func(r *admin.TSubmitRequest) { r.DatabaseName = nil },
		"table_name":          func(r *admin.TSubmitRequest) { r.TableName = nil },
		"dataset_uri":         func(r *admin.TSubmitRequest) { r.DatasetURI = nil },
		"index_name":          func(r *admin.TSubmitRequest) { r.IndexName = nil },
		"mutation":            func(r *admin.TSubmitRequest) { r.Mutation = nil },
		"mutation is 9":       func(r *admin.TSubmitRequest) { r.Mutation = ptr(shared.TLanceIndexMutationType(9)) },
		"mutation is 257":     func(r *admin.TSubmitRequest) { r.Mutation = ptr(shared.TLanceIndexMutationType(257)) },
		"request_id":          func(r *admin.TSubmitRequest) { r.RequestID = ptr("") },
		"request_id is 1025":  func(r *admin.TSubmitRequest) { r.RequestID = ptr(strings.Repeat("r", 1025)) },
		"execute_deadline_ms": func(r *admin.TSubmitRequest) { r.ExecuteDeadlineMs = ptr(int64(0)) },
		"column":              func(r *admin.TSubmitRequest) { r.Column = ptr(strings.Repeat("c", 5000)) },
		"a property's value":  func(r *admin.TSubmitRequest) { r.Properties = []*admin.TProperty{{Value: strings.Repeat("v", 5000)}} },
		"caller_snapshot": func(r *admin.TSubmitRequest) {
			r.CallerSnapshot = &admin.TCallerSnapshot{SchemaContractJSON: ptr(strings.Repeat("v", 300<<10))}
		},
	} {
		req := submission()
		spoil(req)
		_, err := b.admin.Submit(t.Context(), req)
		e := refusal(t, err, admin.TAdminErrorCode_INVALID)
		if !strings.HasPrefix(e.Message, field) || e.NextStep == nil {
			t.Errorf("%s: told %q and %q", field, e.Message, e.GetNextStep())
		}
	}
}

func TestRefusalsCarryHolderAndPresent(t *testing.T) {
	b := newBench(t)
	r := b.running(t, "a")
	_, err := b.admin.CancelJob(t.Context(), &admin.TJobVerbRequest{JobID: ptr(int64(r.ID)), ExpectedRevision: ptr(int64(0))})
	e := refusal(t, err, admin.TAdminErrorCode_WRONG_STATE)
	if e.Present == nil || e.Present.Revision != int64(r.Revision) || e.Present.State != admin.TJobState_RUNNING {
		t.Errorf("the present state is %v", e.Present)
	}
	b.submit = func(context.Context, job.Submission) (job.SubmissionOutcome, error) {
		return job.SubmissionOutcome{}, fmt.Errorf("wrapped: %w", &job.Refusal{Code: job.CodeFenceHeld, Message: "held", Next: "wait", Holder: r.ID})
	}
	_, err = b.admin.Submit(t.Context(), submission())
	if e := refusal(t, err, admin.TAdminErrorCode_FENCE_HELD); e.GetHolderJobID() != int64(r.ID) || e.GetNextStep() != "wait" || e.Message != "held" {
		t.Errorf("told %v", e)
	}
}

func TestJobVerbs(t *testing.T) {
	b := newBench(t)
	r := b.admit(t, "a", job.MutationCreate)
	got, err := b.admin.CancelJob(t.Context(), &admin.TJobVerbRequest{JobID: ptr(int64(r.ID))})
	if err != nil || got.State != admin.TJobState_NOT_COMMITTED || got.Result_.Reason != "CANCELLED_BEFORE_DISPATCH" {
		t.Errorf("cancelled: %v, %v", got, err)
	}
	events := b.state.Events[r.ID]
	if events[len(events)-1].Actor != "unverified:anonymous" {
		t.Errorf("the history names %q", events[len(events)-1].Actor)
	}
	u := b.unknown(t, b.running(t, "b"))
	got, err = b.admin.ReleaseSlot(t.Context(), &admin.TJobVerbRequest{
		Ctx: &admin.TRequestContext{ClientName: ptr("ops\x00\n" + strings.Repeat("x", 500))}, JobID: ptr(int64(u.ID)), Note: ptr("machine is gone"),
	})
	if err != nil || got.SlotHeld || got.SlotRelease.Note != "machine is gone" || !got.FenceHeld {
		t.Errorf("released: %v, %v", got, err)
	}
	if a := got.SlotRelease.Actor; !strings.HasPrefix(a, "unverified:ops") || len(a) > 150 || strings.ContainsAny(a, "\x00\n") {
		t.Errorf("the actor is %q", a)
	}
	_, err = b.admin.ReleaseSlot(t.Context(), &admin.TJobVerbRequest{JobID: ptr(int64(u.ID)), ExpectedRevision: ptr(int64(0)), Note: ptr("x")})
	wantCode(t, err, admin.TAdminErrorCode_REVISION_MISMATCH)
}

func TestGetJobShowsTheWholeRecord(t *testing.T) {
	b := newBench(t)
	r := b.running(t, "Idx")
	w := reportOf(r, nativeOK)
	w.TerminationProof = ptr(reaped)
	b.result(t, w, fateApplied)
	b.must(t, job.RefreshStart{Header: b.head(), Job: r.ID, Expected: r.Revision + 1})
	b.must(t, job.RefreshFinish{Header: b.head(), Job: r.ID, Attempt: 1, Failed: true, Message: "no answer"})
	b.termination(t, terminationOf(r, never), fateApplied)
	got, err := b.admin.GetJob(t.Context(), &admin.TGetJobRequest{JobID: ptr(int64(r.ID))})
	if err != nil {
		t.Fatal(err)
	}
	d := got.Dispatch
	if got.Target.IndexName != "Idx" || got.Target.IndexKey != "idx" || got.Spec.Column != "id" || got.Snapshot.Source != "caller" ||
		got.State != admin.TJobState_COMMITTED || got.Result_.Code != "NATIVE_OK" || got.Result_.Reason != "NONE" ||
		d.BackendID != 1 || d.ProcessEpoch != epoch || d.Proof != "CHILD_REAPED" || len(d.Evidence) != 1 || d.Evidence[0].Proof != "NEVER_LAUNCHED" ||
		got.Refresh.State != admin.TRefreshState_FAILED || got.Refresh.GetLastFailure() != "no answer" ||
		got.Refresh.GetNextRetryAtMs() != got.Refresh.GetLastFailureAtMs()+300_000 || !got.FenceHeld || got.SlotHeld || !got.IsOpen ||
		got.LateRefresh != nil || got.ForceRelease != nil {
		t.Errorf("shown %v", got)
	}
	h, err := b.admin.JobHistory(t.Context(), &admin.TJobHistoryRequest{JobID: ptr(int64(r.ID))})
	if err != nil || h.Dropped != 3 || len(h.Events) != 6 || h.Events[0].FromState != nil || h.Events[0].Kind != "ADMITTED" ||
		*h.Events[2].FromState != admin.TJobState_RUNNING || h.Events[2].ToState != admin.TJobState_COMMITTED || h.Events[2].RaftIndex == 0 {
		t.Errorf("the history is %v, %v", h, err)
	}
	_, err = b.admin.JobHistory(t.Context(), &admin.TJobHistoryRequest{JobID: ptr(int64(99))})
	wantCode(t, err, admin.TAdminErrorCode_NOT_FOUND)
}

func TestListJobs(t *testing.T) {
	req := &admin.TListJobsRequest{
		States: []admin.TJobState{admin.TJobState_PENDING}, RefreshStates: []admin.TRefreshState{admin.TRefreshState_FAILED},
		IsOpen: ptr(true), Unresolved: ptr(false), Catalog: ptr("c"), Table: ptr("d.t.x"), IndexName: ptr("IDX"), BackendID: ptr(int64(4)),
		SinceMs: ptr(int64(5)), UntilMs: ptr(int64(6)), Limit: ptr(int32(7)), PageToken: ptr("tok"), DatasetURI: ptr("S3://b/t/"),
	}
	q, refused := queryOf(req)
	if refused != nil {
		t.Fatal(refused)
	}
	if !slices.Equal(q.States, []job.State{job.StatePending}) || !slices.Equal(q.RefreshStates, []job.RefreshState{job.RefreshFailed}) ||
		!*q.Open || *q.Unresolved || q.Catalog != "c" || q.Database != "d" || q.Table != "t.x" || q.IndexKey != "idx" || q.Backend != 4 ||
		q.Since != 5 || q.Until != 6 || q.Limit != 7 || q.PageToken != "tok" || q.Locator != "s3://b/t" {
		t.Errorf("the query is %+v", q)
	}
	b := newBench(t)
	for i := range 5 {
		b.admit(t, fmt.Sprintf("i%d", i), job.MutationCreate)
	}
	page, err := b.admin.ListJobs(t.Context(), &admin.TListJobsRequest{Limit: ptr(int32(2))})
	if err != nil || len(page.Jobs) != 2 || page.Jobs[0].JobID != 5 || page.GetNextPageToken() != "2" {
		t.Errorf("the page is %v, %v", page, err)
	}
	page, err = b.admin.ListJobs(t.Context(), &admin.TListJobsRequest{})
	if err != nil || len(page.Jobs) != 5 || page.NextPageToken != nil {
		t.Errorf("the last page is %v, %v", page, err)
	}
}

// A page of large jobs is cut, so that a client need not take it whole.
func TestPageSizeIsBounded(t *testing.T) {
	b := newBench(t)
	large := b.admit(t, "a", job.MutationCreate).Clone()
	large.Snapshot.SchemaContract = strings.Repeat("x", 100<<10)
	for id := job.ID(1); id <= 100; id++ {
		r := large.Clone()
		r.ID = id
		b.state.Records[id] = r
	}
	page, err := b.admin.ListJobs(t.Context(), &admin.TListJobsRequest{Limit: ptr(int32(100))})
	if err != nil || len(page.Jobs) != 25 || page.NextPageToken == nil {
		t.Errorf("the page has %d jobs, %v", len(page.Jobs), err)
	}
}

func TestWaitJob(t *testing.T) {
	b := newBench(t)
	r := b.admit(t, "a", job.MutationCreate)
	id := ptr(int64(r.ID))
	if got, err := b.admin.WaitJob(t.Context(), &admin.TWaitJobRequest{JobID: id}); err != nil || got.Revision != 0 {
		t.Errorf("without a revision: %v, %v", got, err)
	}
	got, err := b.admin.WaitJob(t.Context(), &admin.TWaitJobRequest{JobID: id, AfterRevision: ptr(int64(0)), WaitMs: ptr(int64(20))})
	if err != nil || got.Revision != 0 {
		t.Errorf("a wait that ends: %v, %v", got, err)
	}
	done := make(chan *admin.TJob, 1)
	go func() {
		got, err := b.admin.WaitJob(context.Background(), &admin.TWaitJobRequest{JobID: id, AfterRevision: ptr(int64(0)), WaitMs: ptr(int64(60_000))})
		if err != nil {
			t.Error(err)
		}
		done <- got
	}()
	b.must(t, job.ChangeSettings{Header: b.head(), Values: []job.SettingValue{{Name: "dispatch.paused", Value: "true"}}}) // no news of this job
	b.must(t, job.Cancel{Header: b.head(), Job: r.ID})
	select {
	case got := <-done:
		if got.State != admin.TJobState_NOT_COMMITTED {
			t.Errorf("waited for %v", got)
		}
	case <-time.After(bound):
		t.Fatal("the wait does not end when the job changes")
	}
	_, err = b.admin.WaitJob(t.Context(), &admin.TWaitJobRequest{JobID: ptr(int64(99))})
	wantCode(t, err, admin.TAdminErrorCode_NOT_FOUND)
	// A node that was deposed during the wait says so instead of what it knew.
	n := b.barriers
	b.barrier = func(context.Context) error {
		if b.barriers > n+1 {
			return ErrNotLeader
		}
		return nil
	}
	_, err = b.admin.WaitJob(t.Context(), &admin.TWaitJobRequest{JobID: id, AfterRevision: ptr(int64(9)), WaitMs: ptr(int64(10))})
	wantCode(t, err, admin.TAdminErrorCode_NOT_LEADER)
}

// The state's refusal of a page token says no next step; the service adds it.
func TestABadPageTokenHasANextStep(t *testing.T) {
	b := newBench(t)
	b.listFails = &job.Refusal{Code: job.CodeInvalid, Message: "the page token is not one that a list returned"}
	_, err := b.admin.ListJobs(t.Context(), &admin.TListJobsRequest{PageToken: ptr("x")})
	if e := refusal(t, err, admin.TAdminErrorCode_INVALID); !strings.Contains(e.GetNextStep(), "begin again without one") {
		t.Errorf("told %v", e)
	}
}

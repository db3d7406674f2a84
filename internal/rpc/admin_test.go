package rpc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/lancemaster/lancemaster/gen-go/admin"
	"github.com/lancemaster/lancemaster/gen-go/shared"
	"github.com/lancemaster/lancemaster/internal/job"
)

// wantCode checks that a request was refused with a typed error.
func wantCode(t *testing.T, err error, code admin.TAdminErrorCode) *admin.TAdminError {
	t.Helper()
	var e *admin.TAdminError
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want a refusal with the code %s", err, code)
	}
	if e.Code != code {
		t.Errorf("refused with %s (%s), want %s", e.Code, e.Message, code)
	}
	return e
}

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
		e := wantCode(t, err, admin.TAdminErrorCode_INVALID)
		if !strings.HasPrefix(e.Message, field) || e.NextStep == nil {
			t.Errorf("%s: told %q and %q", field, e.Message, e.GetNextStep())
		}
	}
}

// Every method refuses a request that is not there, as it does one without its fields.
func TestMissingRequestsAndFields(t *testing.T) {
	b := newBench(t)
	ctx := t.Context()
	a := b.admin
	calls := map[string]func() error{
		"status":          func() error { _, err := a.Status(ctx, nil); return err },
		"submit":          func() error { _, err := a.Submit(ctx, nil); return err },
		"getJob":          func() error { _, err := a.GetJob(ctx, nil); return err },
		"listJobs":        func() error { _, err := a.ListJobs(ctx, nil); return err },
		"jobHistory":      func() error { _, err := a.JobHistory(ctx, nil); return err },
		"waitJob":         func() error { _, err := a.WaitJob(ctx, nil); return err },
		"cancelJob":       func() error { _, err := a.CancelJob(ctx, nil); return err },
		"releaseSlot":     func() error { _, err := a.ReleaseSlot(ctx, nil); return err },
		"inspectDataset":  func() error { _, err := a.InspectDataset(ctx, nil); return err },
		"putCatalog":      func() error { _, err := a.PutCatalog(ctx, nil); return err },
		"getCatalog":      func() error { _, err := a.GetCatalog(ctx, nil); return err },
		"listCatalogs":    func() error { _, err := a.ListCatalogs(ctx, nil); return err },
		"removeCatalog":   func() error { _, err := a.RemoveCatalog(ctx, nil); return err },
		"addBackend":      func() error { _, err := a.AddBackend(ctx, nil); return err },
		"listBackends":    func() error { _, err := a.ListBackends(ctx, nil); return err },
		"removeBackend":   func() error { _, err := a.RemoveBackend(ctx, nil); return err },
		"drainBackend":    func() error { _, err := a.DrainBackend(ctx, nil); return err },
		"undrainBackend":  func() error { _, err := a.UndrainBackend(ctx, nil); return err },
		"listSettings":    func() error { _, err := a.ListSettings(ctx, nil); return err },
		"setSettings":     func() error { _, err := a.SetSettings(ctx, nil); return err },
		"resetSettings":   func() error { _, err := a.ResetSettings(ctx, nil); return err },
		"settingsHistory": func() error { _, err := a.SettingsHistory(ctx, nil); return err },
		"no job":          func() error { _, err := a.GetJob(ctx, &admin.TGetJobRequest{}); return err },
		"job 0":           func() error { _, err := a.GetJob(ctx, &admin.TGetJobRequest{JobID: ptr(int64(0))}); return err },
		"no job to wait":  func() error { _, err := a.WaitJob(ctx, &admin.TWaitJobRequest{}); return err },
		"wait too long": func() error {
			_, err := a.WaitJob(ctx, &admin.TWaitJobRequest{JobID: ptr(int64(1)), WaitMs: ptr(int64(60_001))})
			return err
		},
		"no job to cancel": func() error { _, err := a.CancelJob(ctx, &admin.TJobVerbRequest{}); return err },
		"no uri":           func() error { _, err := a.InspectDataset(ctx, &admin.TInspectDatasetRequest{}); return err },
		"no catalog name": func() error {
			_, err := a.PutCatalog(ctx, &admin.TPutCatalogRequest{ExpectedRevision: ptr(int64(0))})
			return err
		},
		"no catalog revision": func() error { _, err := a.PutCatalog(ctx, &admin.TPutCatalogRequest{Name: ptr("x")}); return err },
		"an option with value and ref": func() error {
			_, err := a.PutCatalog(ctx, &admin.TPutCatalogRequest{
				Name: ptr("x"), ExpectedRevision: ptr(int64(0)),
				Options: []*admin.TStorageOption{{Key: "k", Value: ptr("v"), Ref: ptr("env:V")}},
			})
			return err
		},
		"no catalog":        func() error { _, err := a.GetCatalog(ctx, &admin.TGetCatalogRequest{}); return err },
		"no catalog to end": func() error { _, err := a.RemoveCatalog(ctx, &admin.TGetCatalogRequest{}); return err },
		"no host": func() error {
			_, err := a.AddBackend(ctx, &admin.TAddBackendRequest{BePort: ptr(int32(1)), HeartbeatPort: ptr(int32(2))})
			return err
		},
		"port 70000": func() error {
			_, err := a.AddBackend(ctx, &admin.TAddBackendRequest{Host: ptr("h"), BePort: ptr(int32(70000)), HeartbeatPort: ptr(int32(2))})
			return err
		},
		"no port": func() error {
			_, err := a.AddBackend(ctx, &admin.TAddBackendRequest{Host: ptr("h"), BePort: ptr(int32(7))})
			return err
		},
		"no backend": func() error { _, err := a.RemoveBackend(ctx, &admin.TBackendRequest{}); return err },
		"no backend to drain": func() error {
			_, err := a.DrainBackend(ctx, &admin.TBackendRequest{})
			return err
		},
		"no settings": func() error { _, err := a.SetSettings(ctx, &admin.TSetSettingsRequest{}); return err },
		"no names":    func() error { _, err := a.ResetSettings(ctx, &admin.TResetSettingsRequest{}); return err },
		"an unknown setting to reset": func() error {
			_, err := a.ResetSettings(ctx, &admin.TResetSettingsRequest{Names: []string{"no.such"}})
			return err
		},
		"a setting twice": func() error {
			_, err := a.SetSettings(ctx, &admin.TSetSettingsRequest{Values: []*admin.TSettingValue{
				{Name: "dispatch.paused", Value: "true"}, {Name: "dispatch.paused", Value: "false"},
			}})
			return err
		},
		"the history of an unknown setting": func() error {
			_, err := a.SettingsHistory(ctx, &admin.TSettingsHistoryRequest{Name: ptr("no.such")})
			return err
		},
		"limit 1001": func() error { _, err := a.ListJobs(ctx, &admin.TListJobsRequest{Limit: ptr(int32(1001))}); return err },
		"state 9": func() error {
			_, err := a.ListJobs(ctx, &admin.TListJobsRequest{States: []admin.TJobState{9}})
			return err
		},
		"state 257": func() error {
			_, err := a.ListJobs(ctx, &admin.TListJobsRequest{States: []admin.TJobState{257}})
			return err
		},
		"refresh state 0": func() error {
			_, err := a.ListJobs(ctx, &admin.TListJobsRequest{RefreshStates: []admin.TRefreshState{0}})
			return err
		},
		"a table without a catalog": func() error { _, err := a.ListJobs(ctx, &admin.TListJobsRequest{Table: ptr("d.t")}); return err },
		"a table without a database": func() error {
			_, err := a.ListJobs(ctx, &admin.TListJobsRequest{Catalog: ptr("c"), Table: ptr("t")})
			return err
		},
		"a relative path": func() error { _, err := a.ListJobs(ctx, &admin.TListJobsRequest{DatasetURI: ptr("x/y")}); return err },
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) { wantCode(t, call(), admin.TAdminErrorCode_INVALID) })
	}
	if len(b.commands()) > 0 {
		t.Errorf("proposed %v", b.commands())
	}
}

func TestFailuresAreTypedAndShowNoInside(t *testing.T) {
	cancel := func(b *bench) error {
		_, err := b.admin.CancelJob(context.Background(), &admin.TJobVerbRequest{JobID: ptr(int64(1)), ExpectedRevision: ptr(int64(0))})
		return err
	}
	get := func(b *bench) error {
		_, err := b.admin.GetJob(context.Background(), &admin.TGetJobRequest{JobID: ptr(int64(1))})
		return err
	}
	cases := []struct {
		name  string
		setup func(*bench)
		call  func(*bench) error
		want  admin.TAdminErrorCode
		next  string
	}{
		{"a write elsewhere than the leader", func(b *bench) {
			b.fail = func(job.Command) error { return fmt.Errorf("%w: %w", ErrNotLeader, job.ErrNotAppended) }
		}, cancel, admin.TAdminErrorCode_NOT_LEADER, "leader"},
		{"a read elsewhere than the leader", func(b *bench) {
			b.barrier = func(context.Context) error { return ErrNotLeader }
		}, get, admin.TAdminErrorCode_NOT_LEADER, "leader"},
		{"not appended", func(b *bench) {
			b.fail = func(job.Command) error { return fmt.Errorf("%w: %w", job.ErrNotAppended, errLost) }
		}, cancel, admin.TAdminErrorCode_UNAVAILABLE, "again"},
		{"ambiguous", func(b *bench) { b.lose = errLost }, cancel, admin.TAdminErrorCode_OUTCOME_UNKNOWN, "job show"},
		{"leadership lost, ambiguous", func(b *bench) { b.lose = ErrNotLeader }, cancel, admin.TAdminErrorCode_OUTCOME_UNKNOWN, "job show"},
		{"submit, ambiguous", func(b *bench) {
			b.submit = func(context.Context, job.Submission) (job.SubmissionOutcome, error) {
				return job.SubmissionOutcome{}, errLost
			}
		}, func(b *bench) error { _, err := b.admin.Submit(context.Background(), submission()); return err },
			admin.TAdminErrorCode_OUTCOME_UNKNOWN, "same --request-id"},
		{"settings, ambiguous", func(b *bench) { b.lose = errLost }, func(b *bench) error {
			_, err := b.admin.ResetSettings(context.Background(), &admin.TResetSettingsRequest{Names: []string{"dispatch.paused"}})
			return err
		}, admin.TAdminErrorCode_OUTCOME_UNKNOWN, "settings history"},
		{"the barrier fails", func(b *bench) { b.barrier = func(context.Context) error { return errLost } }, get, admin.TAdminErrorCode_UNAVAILABLE, "again"},
		{"the barrier takes too long", func(b *bench) { b.barrier = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() } },
			func(b *bench) error {
				ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
				defer cancel()
				_, err := b.admin.GetJob(ctx, &admin.TGetJobRequest{JobID: ptr(int64(1))})
				return err
			}, admin.TAdminErrorCode_TIMEOUT, "again"},
		{"reading fails", func(b *bench) { b.readFails = errLost }, get, admin.TAdminErrorCode_INTERNAL, "log"},
		{"reading before a write fails", func(b *bench) { b.readFails = errLost }, func(b *bench) error {
			_, err := b.admin.CancelJob(context.Background(), &admin.TJobVerbRequest{JobID: ptr(int64(1))})
			return err
		}, admin.TAdminErrorCode_INTERNAL, "log"},
		{"no such job", func(*bench) {}, func(b *bench) error {
			_, err := b.admin.GetJob(context.Background(), &admin.TGetJobRequest{JobID: ptr(int64(99))})
			return err
		}, admin.TAdminErrorCode_NOT_FOUND, "list"},
		{"no such catalog", func(*bench) {}, func(b *bench) error {
			_, err := b.admin.GetCatalog(context.Background(), &admin.TGetCatalogRequest{Name: ptr("x")})
			return err
		}, admin.TAdminErrorCode_NOT_FOUND, "list"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			b.admit(t, "a", job.MutationCreate)
			c.setup(b)
			e := wantCode(t, c.call(b), c.want)
			if !strings.Contains(e.GetNextStep(), c.next) {
				t.Errorf("the next step is %q, want one with %q", e.GetNextStep(), c.next)
			}
			for _, inside := range []string{"/some/path", "internals", "barrier", "rpc"} {
				if strings.Contains(e.Message+e.GetNextStep(), inside) {
					t.Errorf("the caller is told %q", e.Message)
				}
			}
			if led := e.LeaderAddress != nil; led != (c.want == admin.TAdminErrorCode_NOT_LEADER) {
				t.Errorf("the leader's address is told: %v", led)
			}
			if c.want == admin.TAdminErrorCode_INTERNAL || c.want == admin.TAdminErrorCode_OUTCOME_UNKNOWN {
				_, id, _ := strings.Cut(e.Message, "error ")
				id = strings.TrimRight(id, ")")
				if len(id) != 12 || !strings.Contains(b.log.String(), id) || (c.name != "leadership lost, ambiguous" && !strings.Contains(b.log.String(), "/some/path")) {
					t.Errorf("the log does not explain the error %q", id)
				}
			}
		})
	}
}

func TestRefusalsCarryHolderAndPresent(t *testing.T) {
	b := newBench(t)
	r := b.running(t, "a")
	_, err := b.admin.CancelJob(t.Context(), &admin.TJobVerbRequest{JobID: ptr(int64(r.ID)), ExpectedRevision: ptr(int64(0))})
	e := wantCode(t, err, admin.TAdminErrorCode_WRONG_STATE)
	if e.Present == nil || e.Present.Revision != int64(r.Revision) || e.Present.State != admin.TJobState_RUNNING {
		t.Errorf("the present state is %v", e.Present)
	}
	b.submit = func(context.Context, job.Submission) (job.SubmissionOutcome, error) {
		return job.SubmissionOutcome{}, fmt.Errorf("wrapped: %w", &job.Refusal{Code: job.CodeFenceHeld, Message: "held", Next: "wait", Holder: r.ID})
	}
	_, err = b.admin.Submit(t.Context(), submission())
	if e := wantCode(t, err, admin.TAdminErrorCode_FENCE_HELD); e.GetHolderJobID() != int64(r.ID) || e.GetNextStep() != "wait" || e.Message != "held" {
		t.Errorf("told %v", e)
	}
}

// The codes of the wire are the domain's, name by name.
func TestErrorCodesAgree(t *testing.T) {
	for n := job.CodeInvalid; n <= job.CodeRefreshFailed; n++ {
		if admin.TAdminErrorCode(n).String() == "<UNSET>" {
			t.Errorf("code %d has no name on the wire", n)
		}
	}
	for want, code := range map[string]job.Code{
		"INVALID": job.CodeInvalid, "FENCE_HELD": job.CodeFenceHeld, "REVISION_MISMATCH": job.CodeRevisionMismatch,
		"EVIDENCE_FULL": job.CodeEvidenceFull, "INDEX_EXISTS": job.CodeIndexExists, "NOT_LEADER": job.CodeNotLeader,
		"OUTCOME_UNKNOWN": job.CodeOutcomeUnknown, "REFRESH_FAILED": job.CodeRefreshFailed, "TOO_EARLY": job.CodeTooEarly,
	} {
		if got := admin.TAdminErrorCode(code).String(); got != want {
			t.Errorf("code %d is %s on the wire, want %s", code, got, want)
		}
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
	q, refusal := queryOf(req)
	if refusal != nil {
		t.Fatal(refusal)
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
	if err != nil || len(page.Jobs) != 2 || page.Jobs[0].JobID != 5 || page.GetNextPageToken() != "next" {
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

func TestCatalogs(t *testing.T) {
	b := newBench(t)
	req := &admin.TPutCatalogRequest{
		Name: ptr("lake"), Store: ptr("minio"), ExpectedRevision: ptr(int64(0)),
		Options: []*admin.TStorageOption{{Key: "secret_access_key", Ref: ptr("env:KEY")}, {Key: "region", Value: ptr("eu")}},
		Refresher: &admin.TRefresher{
			Kind: "doris", Frontends: []string{"fe:9030"}, User: ptr("root"), PasswordRef: ptr("file:/run/pw"), TLS: ptr(true), TimeoutMs: ptr(int64(5000)),
		},
	}
	got, err := b.admin.PutCatalog(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if got.Name != "lake" || got.GetStore() != "minio" || got.Revision != 1 || len(got.Options) != 2 || got.Options[0].GetValue() != "eu" ||
		got.Options[1].GetRef() != "env:KEY" || got.Options[1].Value != nil || got.Refresher.Kind != "doris" || !got.Refresher.GetTLS() ||
		got.Refresher.GetTimeoutMs() != 5000 || got.UpdatedBy != "unverified:anonymous" {
		t.Errorf("stored %v", got)
	}
	_, err = b.admin.PutCatalog(t.Context(), req)
	wantCode(t, err, admin.TAdminErrorCode_ALREADY_EXISTS)
	b.admit(t, "a", job.MutationCreate)
	list, err := b.admin.ListCatalogs(t.Context(), &admin.TListRequest{})
	if err != nil || len(list.Catalogs) != 2 || list.Catalogs[0].Name != "c" || list.Catalogs[0].OpenJobs != 1 || list.Catalogs[0].UnresolvedJobs != 1 {
		t.Errorf("listed %v, %v", list, err)
	}
	if got, err := b.admin.GetCatalog(t.Context(), &admin.TGetCatalogRequest{Name: ptr("lake")}); err != nil || got.Name != "lake" {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := b.admin.RemoveCatalog(t.Context(), &admin.TGetCatalogRequest{Name: ptr("lake")}); err != nil {
		t.Error(err)
	}
	_, err = b.admin.RemoveCatalog(t.Context(), &admin.TGetCatalogRequest{Name: ptr("c")})
	wantCode(t, err, admin.TAdminErrorCode_IN_USE)
}

func TestBackends(t *testing.T) {
	b := newBench(t)
	b.live = BackendLiveness{Alive: true, ProcessEpoch: epoch, LastOKAt: 5, LastError: "slow", Version: "v1"}
	got, err := b.admin.AddBackend(t.Context(), &admin.TAddBackendRequest{
		Host: ptr("h2"), BePort: ptr(int32(9060)), HeartbeatPort: ptr(int32(9050)),
		Labels: []*admin.TLabel{{Key: "z", Value: "1"}, {Key: "a", Value: "2"}},
	})
	if err != nil || got.BackendID != 2 || got.State != "active" || got.Labels[0].Key != "a" || !got.Alive || got.GetProcessEpoch() != epoch ||
		got.GetLastOkAtMs() != 5 || got.GetLastError() != "slow" || got.GetVersion() != "v1" {
		t.Fatalf("added %v, %v", got, err)
	}
	if got, err = b.admin.DrainBackend(t.Context(), &admin.TBackendRequest{BackendID: ptr(int64(2))}); err != nil || got.State != "draining" {
		t.Errorf("drained %v, %v", got, err)
	}
	if got, err = b.admin.UndrainBackend(t.Context(), &admin.TBackendRequest{BackendID: ptr(int64(2))}); err != nil || got.State != "active" {
		t.Errorf("undrained %v, %v", got, err)
	}
	b.running(t, "a")
	b.live = BackendLiveness{}
	list, err := b.admin.ListBackends(t.Context(), &admin.TListRequest{})
	if err != nil || len(list.Backends) != 2 || list.Backends[0].SlotsHeld != 1 || list.Backends[0].Alive || list.Backends[0].ProcessEpoch != nil {
		t.Errorf("listed %v, %v", list, err)
	}
	if _, err := b.admin.RemoveBackend(t.Context(), &admin.TBackendRequest{BackendID: ptr(int64(2))}); err != nil {
		t.Error(err)
	}
	_, err = b.admin.RemoveBackend(t.Context(), &admin.TBackendRequest{BackendID: ptr(int64(1))})
	wantCode(t, err, admin.TAdminErrorCode_IN_USE)
}

func TestSettings(t *testing.T) {
	b := newBench(t)
	find := func(l *admin.TListSettingsResponse, name string) *admin.TSetting {
		i := slices.IndexFunc(l.Settings, func(s *admin.TSetting) bool { return s.Name == name })
		if i < 0 {
			t.Fatalf("%s is not listed", name)
		}
		return l.Settings[i]
	}
	l, err := b.admin.SetSettings(t.Context(), &admin.TSetSettingsRequest{Values: []*admin.TSettingValue{
		{Name: "dispatch.max_per_round", Value: "5"}, {Name: "dispatch.interval", Value: "90s"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if len(l.Settings) != len(job.SettingDefs()) || !slices.IsSortedFunc(l.Settings, func(x, y *admin.TSetting) int { return strings.Compare(x.Name, y.Name) }) {
		t.Errorf("listed %d settings", len(l.Settings))
	}
	if s := find(l, "dispatch.interval"); s.Value != "1m30s" || s.DefaultValue != "10s" || s.Type != "duration" || s.Help == "" ||
		s.GetChangedBy() != "unverified:anonymous" || s.GetChangedAtMs() == 0 {
		t.Errorf("listed %v", s)
	}
	for name, values := range map[string][]*admin.TSettingValue{
		"zero":    {{Name: "admission.max_unresolved_global", Value: "0"}},
		"unknown": {{Name: "no.such", Value: "1"}},
		"one bad": {{Name: "dispatch.max_per_round", Value: "9"}, {Name: "dispatch.interval", Value: "never"}},
	} {
		_, err := b.admin.SetSettings(t.Context(), &admin.TSetSettingsRequest{Values: values})
		if e := wantCode(t, err, admin.TAdminErrorCode_INVALID); e.Message == "" {
			t.Errorf("%s: no reason", name)
		}
	}
	l, err = b.admin.ResetSettings(t.Context(), &admin.TResetSettingsRequest{Names: []string{"dispatch.max_per_round"}})
	if err != nil || find(l, "dispatch.max_per_round").Value != "16" || find(l, "dispatch.interval").Value != "1m30s" {
		t.Errorf("reset: %v", err)
	}
	h, err := b.admin.SettingsHistory(t.Context(), &admin.TSettingsHistoryRequest{Name: ptr("dispatch.max_per_round"), Limit: ptr(int32(1))})
	if err != nil || len(h.Changes) != 1 || h.Changes[0].OldValue != "5" || h.Changes[0].NewValue_ != "16" || !h.Changes[0].IsReset || h.Changes[0].RaftIndex == 0 {
		t.Errorf("the history is %v, %v", h, err)
	}
	if l, err = b.admin.ListSettings(t.Context(), &admin.TListRequest{}); err != nil || len(l.Settings) == 0 {
		t.Errorf("listed %v", err)
	}
}

func TestInspectDataset(t *testing.T) {
	b := newBench(t)
	b.inspect = func(_ context.Context, r InspectRequest) (Inspection, error) {
		if r != (InspectRequest{DatasetURI: "file:///d", Column: "VEC", Catalog: "c"}) {
			t.Errorf("inspects %+v", r)
		}
		return Inspection{
			Locator: "file:///d", Version: 3, At: 9, Column: "vec", SchemaContract: "{}",
			Fields: []DatasetField{{ID: 1, ParentID: -1, Name: "vec", LogicalType: "fixed_size_list:float:8", Nullable: true}},
			Indexes: []DatasetIndex{
				{Name: "I", Key: "i", Type: "IVF_PQ", Columns: []string{"vec"}, DatasetVersion: 2, Metric: "l2", NumBits: 8, NumSubVectors: 4, UUID: "u", CreatedAt: 7},
				{Name: "B", Key: "b", Type: "BTREE"},
			},
			Fences: []DatasetFence{{IndexKey: "i", Job: 4, Store: "local"}},
		}, nil
	}
	got, err := b.admin.InspectDataset(t.Context(), &admin.TInspectDatasetRequest{DatasetURI: ptr("file:///d"), Column: ptr("VEC"), Catalog: ptr("c")})
	if err != nil || got.Locator != "file:///d" || got.Version != 3 || got.TimestampMs != 9 || got.GetColumn() != "vec" ||
		!got.Fields[0].Nullable || got.Indexes[0].GetMetric() != "l2" || got.Indexes[0].GetNumSubVectors() != 4 ||
		got.Indexes[1].Metric != nil || got.Indexes[1].NumBits != nil || got.Fences[0].JobID != 4 {
		t.Errorf("inspected %v, %v", got, err)
	}
	b.inspect = func(context.Context, InspectRequest) (Inspection, error) {
		return Inspection{}, &job.Refusal{Code: job.CodeDatasetMissing, Message: "none there"}
	}
	_, err = b.admin.InspectDataset(t.Context(), &admin.TInspectDatasetRequest{DatasetURI: ptr("file:///d")})
	wantCode(t, err, admin.TAdminErrorCode_DATASET_MISSING)
}

// Status answers on any node, at any time.
func TestStatusAsksNobody(t *testing.T) {
	b := newBench(t)
	b.barrier = func(context.Context) error { return ErrNotLeader }
	b.status = NodeStatus{NodeID: "n2", RaftState: "Follower", RaftTerm: 4, ClusterID: 7, NotReadyReason: "catching up", LeaderAdminAddress: "l:9021"}
	got, err := b.admin.Status(t.Context(), &admin.TListRequest{})
	if err != nil || got.NodeID != "n2" || got.RaftTerm != 4 || got.GetNotReadyReason() != "catching up" || got.GetLeaderAdminAddress() != "l:9021" || got.LeaderID != nil {
		t.Errorf("answered %v, %v", got, err)
	}
}

func TestMetricsText(t *testing.T) {
	b := newBench(t)
	r := b.running(t, "a")
	b.result(t, reportOf(r, nativeOK), fateApplied)
	_, _ = b.admin.GetJob(t.Context(), &admin.TGetJobRequest{JobID: ptr(int64(99))})
	_, _ = b.admin.GetJob(t.Context(), &admin.TGetJobRequest{JobID: ptr(int64(1))})
	want := `
# HELP lancemaster_rpc_requests_total Thrift requests that reached a handler, by the code they were answered with.
# TYPE lancemaster_rpc_requests_total counter
lancemaster_rpc_requests_total{code="NOT_FOUND",method="getJob",service="admin"} 1
lancemaster_rpc_requests_total{code="OK",method="getJob",service="admin"} 1
lancemaster_rpc_requests_total{code="OK",method="reportLanceIndexJobResult",service="report"} 1
`
	if err := testutil.GatherAndCompare(b.reg, strings.NewReader(want), "lancemaster_rpc_requests_total"); err != nil {
		t.Error(err)
	}
	if n, err := testutil.GatherAndCount(b.reg, "lancemaster_reports_total"); err != nil || n != 2*len(fates) {
		t.Errorf("%d series of reports, %v", n, err)
	}
	if _, err := NewMetrics(b.reg); err == nil {
		t.Error("the same metrics are registered twice")
	}
}

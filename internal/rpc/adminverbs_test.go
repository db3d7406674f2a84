package rpc

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/gen-go/admin"
	"github.com/lancemaster/lancemaster/internal/job"
)

func TestForceReleaseJob(t *testing.T) {
	b := newBench(t)
	rec := b.unknown(t, b.running(t, "a"))
	var asked string
	b.release = func(_ context.Context, actor string, id job.ID, expected *job.Revision, note string) (*job.Record, error) {
		asked = fmt.Sprint(actor, " ", id, " ", expected == nil || *expected == rec.Revision, " ", note)
		answer := b.must(t, job.ForceRelease{Header: b.head(), Job: id, Expected: rec.Revision, Note: note, Warning: job.ForceReleaseWarning})
		return answer.Job, nil
	}
	before := b.barrierCount()
	answer, err := b.admin.ForceReleaseJob(t.Context(), &admin.TJobVerbRequest{
		Ctx: &admin.TRequestContext{ClientName: ptr("joe")}, JobID: ptr(int64(rec.ID)), Note: ptr("it burned"), ExpectedRevision: ptr(int64(rec.Revision)),
	})
	if err != nil || answer.FenceHeld || answer.ForceRelease.GetWarning() != job.ForceReleaseWarning || answer.ForceRelease.GetNote() != "it burned" {
		t.Fatalf("answered %v, %v", answer, err)
	}
	if want := fmt.Sprint("unverified:joe ", rec.ID, " true it burned"); asked != want {
		t.Errorf("asked for %q, want %q", asked, want)
	}
	if b.barrierCount() == before {
		t.Error("the job was not read behind a barrier")
	}
}

// What the release refuses goes to the caller as it is; a lost answer can be asked for again.
func TestForceReleaseJobFails(t *testing.T) {
	b := newBench(t)
	rec := b.unknown(t, b.running(t, "a"))
	req := &admin.TJobVerbRequest{JobID: ptr(int64(rec.ID)), Note: ptr("n")}
	var fail error
	b.release = func(context.Context, string, job.ID, *job.Revision, string) (*job.Record, error) { return nil, fail }
	for _, c := range []struct {
		err  error
		code admin.TAdminErrorCode
	}{
		{&job.Refusal{Code: job.CodeTooEarly, Message: "early", Next: "ask again in 42s", Present: rec}, admin.TAdminErrorCode_TOO_EARLY},
		{&job.Refusal{Code: job.CodeRefreshFailed, Message: "HTTP 503", Next: "see to it"}, admin.TAdminErrorCode_REFRESH_FAILED},
		{&job.Refusal{Code: job.CodeDatasetUnreadable, Message: "a disk", Next: "see to it"}, admin.TAdminErrorCode_DATASET_UNREADABLE},
		{fmt.Errorf("%w: no quorum", job.ErrNotAppended), admin.TAdminErrorCode_UNAVAILABLE},
		{errLost, admin.TAdminErrorCode_OUTCOME_UNKNOWN},
	} {
		fail = c.err
		_, err := b.admin.ForceReleaseJob(t.Context(), req)
		if e := refusal(t, err, c.code); e.GetNextStep() == "" {
			t.Errorf("%s does not say what to do next", c.code)
		}
	}
	b.release = func(context.Context, string, job.ID, *job.Revision, string) (*job.Record, error) {
		t.Error("it was asked for although the request makes no sense, or the state is old")
		return nil, nil
	}
	_, err := b.admin.ForceReleaseJob(t.Context(), &admin.TJobVerbRequest{Note: ptr("n")})
	_ = refusal(t, err, admin.TAdminErrorCode_INVALID)
	b.barrier = func(context.Context) error { return fmt.Errorf("deposed: %w", ErrNotLeader) }
	_, err = b.admin.ForceReleaseJob(t.Context(), req)
	_ = refusal(t, err, admin.TAdminErrorCode_NOT_LEADER)
}

func TestExplainJob(t *testing.T) {
	b := newBench(t)
	rec := b.admit(t, "a", job.MutationCreate)
	b.reasons = []Reason{{Code: "DISPATCH_PAUSED", Message: "paused", Next: "go on"}, {Code: "FENCE_HELD", Message: "held"}}
	answer, err := b.admin.ExplainJob(t.Context(), &admin.TGetJobRequest{JobID: ptr(int64(rec.ID))})
	if err != nil || answer.Job.JobID != int64(rec.ID) || len(answer.Reasons) != 2 {
		t.Fatalf("answered %v, %v", answer, err)
	}
	if r := answer.Reasons[0]; r.Code != "DISPATCH_PAUSED" || r.Message != "paused" || r.GetNextStep() != "go on" || answer.Reasons[1].NextStep != nil {
		t.Errorf("the reasons are %v", answer.Reasons)
	}
	_, err = b.admin.ExplainJob(t.Context(), &admin.TGetJobRequest{JobID: ptr(int64(99))})
	_ = refusal(t, err, admin.TAdminErrorCode_NOT_FOUND)
}

func TestWatchJobs(t *testing.T) {
	b := newBench(t)
	one := b.running(t, "a")
	two := b.admit(t, "b", job.MutationCreate)
	ask := func(req *admin.TWatchJobsRequest) *admin.TWatchJobsResponse {
		t.Helper()
		answer, err := b.admin.WatchJobs(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	newest := int64(b.state.Position.Index)

	// Without an index: at once, and from where to go on.
	if now := ask(&admin.TWatchJobsRequest{}); len(now.Events) != 0 || now.NextIndex != newest || now.Job != nil {
		t.Errorf("from now: %v", now)
	}
	all := ask(&admin.TWatchJobsRequest{AfterIndex: ptr(int64(0))})
	if len(all.Events) != 3 || all.NextIndex != all.Events[2].RaftIndex || all.Events[1].Kind != string(job.EventRunning) {
		t.Fatalf("all: %v", all)
	}
	some := ask(&admin.TWatchJobsRequest{AfterIndex: ptr(int64(0)), Limit: ptr(int32(2))})
	if len(some.Events) != 2 || some.NextIndex != all.Events[1].RaftIndex {
		t.Errorf("two of them: %v", some)
	}
	if rest := ask(&admin.TWatchJobsRequest{AfterIndex: &some.NextIndex}); len(rest.Events) != 1 || rest.Events[0].JobID != int64(two.ID) {
		t.Errorf("the rest: %v", rest)
	}
	of := ask(&admin.TWatchJobsRequest{AfterIndex: ptr(int64(0)), JobID: ptr(int64(one.ID)), Limit: ptr(int32(1))})
	if len(of.Events) != 2 || of.Job.GetRevision() != 1 || of.Job.State != admin.TJobState_RUNNING {
		t.Errorf("of one job: %v", of)
	}
	// Nothing new of this job, though of others there was.
	quiet := ask(&admin.TWatchJobsRequest{AfterIndex: &of.NextIndex, JobID: ptr(int64(one.ID)), WaitMs: ptr(int64(1))})
	if len(quiet.Events) != 0 || quiet.NextIndex != newest || quiet.Job == nil {
		t.Errorf("after a quiet wait: %v", quiet)
	}
}

func TestWatchJobsWaits(t *testing.T) {
	b := newBench(t)
	rec := b.admit(t, "a", job.MutationCreate)
	at := int64(b.state.Position.Index)
	looked := make(chan struct{}, 1)
	b.barrier = func(context.Context) error {
		select {
		case looked <- struct{}{}:
		default:
		}
		return nil
	}
	type end struct {
		answer *admin.TWatchJobsResponse
		err    error
	}
	ended := make(chan end, 1)
	go func() {
		answer, err := b.admin.WatchJobs(context.Background(), &admin.TWatchJobsRequest{AfterIndex: &at})
		ended <- end{answer, err}
	}()
	<-looked
	b.must(t, job.ChangeSettings{Header: b.head(), Values: []job.SettingValue{{Name: "dispatch.paused", Value: "true"}}}) // no event
	b.must(t, job.Cancel{Header: b.head(), Job: rec.ID, Expected: rec.Revision})
	select {
	case got := <-ended:
		if got.err != nil || len(got.answer.Events) != 1 || got.answer.Events[0].Kind != string(job.EventCancelled) || got.answer.NextIndex <= at {
			t.Errorf("got %v, %v", got.answer, got.err)
		}
	case <-time.After(bound):
		t.Fatal("the watch did not end with the event")
	}
}

func TestWatchJobsRefuses(t *testing.T) {
	b := newBench(t)
	newest := int64(b.state.Position.Index)
	for name, req := range map[string]*admin.TWatchJobsRequest{
		"a negative index":    {AfterIndex: ptr(int64(-1))},
		"an index to come":    {AfterIndex: ptr(newest + 1)},
		"no limit":            {Limit: ptr(int32(0))},
		"too large a limit":   {Limit: ptr(int32(1001))},
		"too long a wait":     {WaitMs: ptr(int64(60_001))},
		"a job that is none":  {JobID: ptr(int64(0))},
		"a wait of no length": {WaitMs: ptr(int64(0))},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := b.admin.WatchJobs(t.Context(), req)
			if e := refusal(t, err, admin.TAdminErrorCode_INVALID); e.GetNextStep() == "" {
				t.Error("it does not say what to do next")
			}
		})
	}
	_, err := b.admin.WatchJobs(t.Context(), &admin.TWatchJobsRequest{JobID: ptr(int64(99))})
	_ = refusal(t, err, admin.TAdminErrorCode_NOT_FOUND)
	b.readFails = errors.New("a disk")
	_, err = b.admin.WatchJobs(t.Context(), &admin.TWatchJobsRequest{AfterIndex: ptr(int64(0))})
	_ = refusal(t, err, admin.TAdminErrorCode_INTERNAL)
	b.readFails = nil

	// A node that was deposed while it waited does not answer that nothing happened.
	calls := 0
	b.barrier = func(context.Context) error {
		if calls++; calls > 1 {
			return fmt.Errorf("deposed: %w", ErrNotLeader)
		}
		return nil
	}
	_, err = b.admin.WatchJobs(t.Context(), &admin.TWatchJobsRequest{AfterIndex: &newest, WaitMs: ptr(int64(1))})
	_ = refusal(t, err, admin.TAdminErrorCode_NOT_LEADER)
}

// A setting shows who changed it, and nobody where its value is the one it came with.
func TestSettingsThatNobodyChanged(t *testing.T) {
	b := newBench(t)
	b.must(t, job.ChangeSettings{Header: b.head(), Values: []job.SettingValue{{Name: "dispatch.paused", Value: "true"}}})
	b.must(t, job.ChangeSettings{Header: b.head(), Reset: true, Values: []job.SettingValue{{Name: "dispatch.paused", Value: "false"}}})
	answer, err := b.admin.ListSettings(t.Context(), &admin.TListRequest{})
	if err != nil {
		t.Fatal(err)
	}
	types := map[string]string{}
	for _, s := range answer.Settings {
		types[s.Name] = s.Type
		changed := s.Name == "admission.enabled" || s.Name == "dispatch.paused"
		if (s.ChangedBy != nil) != changed || (s.ChangedAtMs != nil) != changed {
			t.Errorf("%s: changed by %q at %d", s.Name, s.GetChangedBy(), s.GetChangedAtMs())
		}
	}
	for name, want := range map[string]string{
		"leader_change.running": "keep|unknown", "admission.nullable_columns": "reject|allow", "dispatch.interval": "duration",
		"dispatch.paused": "bool", "dispatch.max_per_round": "integer",
	} {
		if types[name] != want {
			t.Errorf("the type of %s is %q, want %q", name, types[name], want)
		}
	}
}

// A late refresh is tried once: no next attempt is announced.
func TestLateRefreshIsNotRetried(t *testing.T) {
	b := newBench(t)
	rec := b.unknown(t, b.running(t, "a"))
	rec = b.must(t, job.RecordLateResult{Header: b.head(), Identity: identity(rec), Code: job.CodeNativeOK, Proof: job.ProofNone}).Job
	b.must(t, job.RefreshStart{Header: b.head(), Job: rec.ID, Expected: rec.Revision})
	b.must(t, job.RefreshFinish{Header: b.head(), Job: rec.ID, Attempt: 1, Failed: true, Message: "HTTP 503"})
	answer, err := b.admin.GetJob(t.Context(), &admin.TGetJobRequest{JobID: ptr(int64(rec.ID))})
	if err != nil || answer.LateRefresh == nil || answer.LateRefresh.GetLastFailure() != "HTTP 503" || answer.LateRefresh.NextRetryAtMs != nil {
		t.Errorf("answered %v, %v", answer, err)
	}
}

package rpc

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/lancemaster/lancemaster/gen-go/admin"
	"github.com/lancemaster/lancemaster/internal/job"
)

// wantCode checks that a request was refused with a typed error.
func wantCode(t *testing.T, err error, code admin.TAdminErrorCode) {
	t.Helper()
	_ = refusal(t, err, code)
}

// refusal is the typed error that a request was refused with.
func refusal(t *testing.T, err error, code admin.TAdminErrorCode) *admin.TAdminError {
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
		"forceReleaseJob": func() error { _, err := a.ForceReleaseJob(ctx, nil); return err },
		"explainJob":      func() error { _, err := a.ExplainJob(ctx, nil); return err },
		"watchJobs":       func() error { _, err := a.WatchJobs(ctx, nil); return err },
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
		}, admin.TAdminErrorCode_NOT_FOUND, "lancemaster job list"},
		{"the history of an unknown setting", func(*bench) {}, func(b *bench) error {
			_, err := b.admin.SettingsHistory(context.Background(), &admin.TSettingsHistoryRequest{Name: ptr("no.such")})
			return err
		}, admin.TAdminErrorCode_NOT_FOUND, "lancemaster settings list"},
		{"no such catalog", func(*bench) {}, func(b *bench) error {
			_, err := b.admin.GetCatalog(context.Background(), &admin.TGetCatalogRequest{Name: ptr("x")})
			return err
		}, admin.TAdminErrorCode_NOT_FOUND, "lancemaster catalog list"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			b.admit(t, "a", job.MutationCreate)
			c.setup(b)
			e := refusal(t, c.call(b), c.want)
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

package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/lancemaster/lancemaster/gen-go/admin"
	"github.com/lancemaster/lancemaster/internal/job"
)

// Secrets go in by every door of the package, and come out of none but the wire they are meant for.
func TestNoSecretIsLoggedCountedOrTold(t *testing.T) {
	const (
		token    = "canary-token-of-the-caller"
		forged   = "canary-secret-that-is-not-right"
		password = "canary-password-in-a-message"
	)
	b := newBench(t)
	r := b.running(t, "a")
	reports, admins := serveBoth(t, b)
	var told strings.Builder
	tell := func(v any, err error) { fmt.Fprintf(&told, "%v %v\n", v, err) }

	// Reports: forged, malformed, failing, panicking, honest.
	rc := b.reports
	w := reportOf(r, nativeOK)
	w.InvocationSecret = ptr(forged)
	tell(rc.ReportLanceIndexJobResult_(t.Context(), w))
	w = reportOf(r, 99)
	tell(rc.ReportLanceIndexJobResult_(t.Context(), w))
	b.change(func() { b.fail = func(job.Command) error { return errLost } })
	tell(rc.ReportLanceIndexJobResult_(t.Context(), reportOf(r, nativeOK)))
	b.change(func() { b.fail = func(c job.Command) error { panic(fmt.Sprintf("%+v with %s", c, secret)) } })
	client := connect(t, reports.Addr())
	var result sink
	_, err := client.Call(t.Context(), "reportLanceIndexJobResult", resultArgs(reportOf(r, nativeOK)), &result)
	tell(nil, err)
	b.change(func() { b.fail = nil })
	w = reportOf(r, nativeIO)
	w.SanitizedMessage = ptr("cannot open: password=" + password)
	tell(rc.ReportLanceIndexJobResult_(t.Context(), w))

	// Admin: a token in the context of requests that succeed, fail and panic.
	ctx := &admin.TRequestContext{Token: ptr(token), ClientName: ptr("joe")}
	a := admin.NewAdminServiceClient(connect(t, admins.Addr()))
	tell(a.GetJob(t.Context(), &admin.TGetJobRequest{Ctx: ctx, JobID: ptr(int64(r.ID))}))
	b.change(func() {
		b.submit = func(context.Context, job.Submission) (job.SubmissionOutcome, error) {
			return job.SubmissionOutcome{}, errors.New("lost")
		}
	})
	s := submission()
	s.Ctx = ctx
	tell(a.Submit(t.Context(), s))
	b.change(func() {
		b.submit = func(context.Context, job.Submission) (job.SubmissionOutcome, error) { panic(token) }
	})
	tell(a.Submit(t.Context(), s))

	// The domain's carriers of secrets, by every way of printing.
	inv := invocation()
	inv.StorageOptions["secret_access_key"] = password
	req := job.HeartbeatRequest{Token: token}
	e := resultEnvelope(reportOf(r, nativeOK))
	var log bytes.Buffer
	for _, logger := range []*slog.Logger{slog.New(slog.NewTextHandler(&log, nil)), slog.New(slog.NewJSONHandler(&log, nil))} {
		logger.Info("all", "inv", inv, "req", req, "envelope", e)
	}
	fmt.Fprintf(&told, "%v %+v %#v %s %v %+v %v %+v\n", inv, inv, inv, inv, req, req, e, e)
	_, err = NewBackendClient(BackendClientConfig{}).Dial(t.Context(), job.Address{Host: "127.0.0.1", BePort: 1})
	tell(nil, err)

	families, err := b.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var metrics bytes.Buffer
	for _, f := range families {
		fmt.Fprintln(&metrics, f.String())
	}
	stored, err := json.Marshal(b.state.Events)
	if err != nil {
		t.Fatal(err)
	}
	places := map[string]string{
		"the log": b.log.String(), "what callers are told": told.String(), "printed structs": log.String(),
		"the metrics": metrics.String(), "the history": string(stored), "the record": fmt.Sprintf("%+v", b.record(t, r.ID)),
	}
	for place, text := range places {
		if text == "" {
			t.Errorf("%s: nothing to look at", place)
		}
		for _, canary := range []string{secret, token, forged, password} {
			if strings.Contains(text, canary) {
				t.Errorf("%s shows %q", place, canary)
			}
		}
	}
	for _, want := range []string{"unauthenticated", "panic", "lost"} {
		if !strings.Contains(b.log.String(), want) {
			t.Errorf("the log says nothing of %q; this test does not see what it should", want)
		}
	}
}

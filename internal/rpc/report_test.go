package rpc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/thrift/lib/go/thrift"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/lancemaster/lancemaster/gen-go/report"
	"github.com/lancemaster/lancemaster/gen-go/shared"
	"github.com/lancemaster/lancemaster/internal/job"
)

// reportOf is an honest report of a job.
func reportOf(r *job.Record, code shared.TLanceIndexResultCode) *report.TLanceIndexJobReport {
	return &report.TLanceIndexJobReport{
		JobID: int64(r.ID), DispatchRevision: int64(r.Dispatch.Revision), InvocationID: r.Dispatch.InvocationID,
		BeProcessEpoch: r.Dispatch.ProcessEpoch, ResultCode: code, SanitizedMessage: ptr("built"), InvocationSecret: ptr(secret),
	}
}

func terminationOf(r *job.Record, proof shared.TLanceIndexTerminationProof) *report.TLanceIndexJobTerminationReport {
	return &report.TLanceIndexJobTerminationReport{
		JobID: int64(r.ID), DispatchRevision: int64(r.Dispatch.Revision), InvocationID: r.Dispatch.InvocationID,
		BeProcessEpoch: r.Dispatch.ProcessEpoch, Proof: proof, InvocationSecret: ptr(secret),
	}
}

const (
	nativeOK = shared.TLanceIndexResultCode_NATIVE_OK
	nativeIO = shared.TLanceIndexResultCode_NATIVE_IO
	reaped   = shared.TLanceIndexTerminationProof_CHILD_REAPED
	never    = shared.TLanceIndexTerminationProof_NEVER_LAUNCHED
)

// result sends a result and wants an OK answer, with the reason's class where it was dropped.
func (b *bench) result(t *testing.T, r *report.TLanceIndexJobReport, want fate) {
	t.Helper()
	answer, err := b.reports.ReportLanceIndexJobResult_(t.Context(), r)
	b.wantFate(t, kindResult, answer, err, want)
}

func (b *bench) termination(t *testing.T, r *report.TLanceIndexJobTerminationReport, want fate) {
	t.Helper()
	answer, err := b.reports.ReportLanceIndexJobTermination(t.Context(), r)
	b.wantFate(t, kindTermination, answer, err, want)
}

func (b *bench) wantFate(t *testing.T, kind string, answer *shared.TStatus, err error, want fate) {
	t.Helper()
	if err != nil {
		t.Fatalf("the call failed: %v", err)
	}
	if answer.StatusCode != shared.TStatusCode_OK {
		t.Errorf("answered %s, want OK", answer.StatusCode)
	}
	class := ""
	if len(answer.ErrorMsgs) > 0 {
		class, _, _ = strings.Cut(answer.ErrorMsgs[0], ":")
	}
	if wantClass := string(want); want != fateApplied && want != fateLate && class != wantClass {
		t.Errorf("answered %q, want the class %s", answer.ErrorMsgs, wantClass)
	} else if (want == fateApplied || want == fateLate) && class != "" {
		t.Errorf("answered %q, want no reason", answer.ErrorMsgs)
	}
	if got := testutil.ToFloat64(b.reports.cfg.Metrics.reports.WithLabelValues(kind, string(want))); got == 0 {
		t.Errorf("%s was not counted as %s", kind, want)
	}
}

func TestResultIsApplied(t *testing.T) {
	b := newBench(t)
	r := b.running(t, "a")
	w := reportOf(r, nativeOK)
	w.TerminationProof = ptr(reaped)
	w.CompletionReason = ptr(shared.TLanceIndexCompletionReason_IF_CONDITION_NOOP) // the master derives its own
	b.result(t, w, fateApplied)
	got := b.record(t, r.ID)
	if got.State != job.StateCommitted || got.Dispatch.SlotHeld || got.Dispatch.Proof != job.ProofChildReaped ||
		got.Refresh.State != job.RefreshRequired || got.Result.Message != "built" || got.Result.Reason != job.ReasonNone {
		t.Errorf("the job is %+v", got)
	}
	if got.Revision != r.Revision+1 {
		t.Errorf("proof and result took %d revisions, want one", got.Revision-r.Revision)
	}
	if want := []string{"COMPLETE"}; !slices.Equal(b.commands(), want) {
		t.Errorf("proposed %v, want %v", b.commands(), want)
	}
	if !slices.Equal(b.latched, []string{"inv-a"}) {
		t.Errorf("closed the latches %v before proposing", b.latched)
	}
	if events := b.state.Events[r.ID]; events[len(events)-1].Actor != "backend:1" {
		t.Errorf("the history names %q", events[len(events)-1].Actor)
	}
	if b.barriers == 0 {
		t.Error("decided on a state that may be older than the report")
	}
}

func TestForgedAndBrokenReportsChangeNothing(t *testing.T) {
	cases := []struct {
		name  string
		want  fate
		spoil func(*report.TLanceIndexJobReport)
	}{
		{"wrong secret", fateUnauthenticated, func(r *report.TLanceIndexJobReport) { r.InvocationSecret = ptr(strings.Repeat("0", 32)) }},
		{"no secret", fateUnauthenticated, func(r *report.TLanceIndexJobReport) { r.InvocationSecret = nil }},
		{"empty secret", fateUnauthenticated, func(r *report.TLanceIndexJobReport) { r.InvocationSecret = ptr("") }},
		{"secret in capitals", fateUnauthenticated, func(r *report.TLanceIndexJobReport) { r.InvocationSecret = ptr(strings.ToUpper(secret)) }},
		{"wrong secret and a proof", fateUnauthenticated, func(r *report.TLanceIndexJobReport) {
			r.InvocationSecret, r.TerminationProof = ptr("x"), ptr(reaped)
		}},
		{"another revision", fateStale, func(r *report.TLanceIndexJobReport) { r.DispatchRevision++ }},
		{"another invocation", fateStale, func(r *report.TLanceIndexJobReport) { r.InvocationID += "x" }},
		{"another process", fateStale, func(r *report.TLanceIndexJobReport) { r.BeProcessEpoch++ }},
		{"another process and a proof", fateStale, func(r *report.TLanceIndexJobReport) {
			r.BeProcessEpoch++
			r.TerminationProof = ptr(reaped)
		}},
		{"no such job", fateStale, func(r *report.TLanceIndexJobReport) { r.JobID = 999 }},
		{"job zero", fateMalformed, func(r *report.TLanceIndexJobReport) { r.JobID = 0 }},
		{"negative job", fateMalformed, func(r *report.TLanceIndexJobReport) { r.JobID = -1 }},
		{"revision zero", fateMalformed, func(r *report.TLanceIndexJobReport) { r.DispatchRevision = 0 }},
		{"no invocation", fateMalformed, func(r *report.TLanceIndexJobReport) { r.InvocationID = "" }},
		{"long invocation", fateMalformed, func(r *report.TLanceIndexJobReport) { r.InvocationID = strings.Repeat("i", 257) }},
		{"code 0", fateMalformed, func(r *report.TLanceIndexJobReport) { r.ResultCode = 0 }},
		{"code 13", fateMalformed, func(r *report.TLanceIndexJobReport) { r.ResultCode = 13 }},
		{"the master's own code", fateMalformed, func(r *report.TLanceIndexJobReport) { r.ResultCode = 100 }},
		{"a code that wraps to a good one", fateMalformed, func(r *report.TLanceIndexJobReport) { r.ResultCode = 256 + 5 }},
		{"a negative code", fateMalformed, func(r *report.TLanceIndexJobReport) { r.ResultCode = -251 }},
		{"proof 0", fateMalformed, func(r *report.TLanceIndexJobReport) {
			r.TerminationProof = ptr(shared.TLanceIndexTerminationProof(0))
		}},
		{"the master's own proof", fateMalformed, func(r *report.TLanceIndexJobReport) {
			r.TerminationProof = ptr(shared.TLanceIndexTerminationProof(job.ProofProcessEpochGone))
		}},
		{"a proof that wraps to a good one", fateMalformed, func(r *report.TLanceIndexJobReport) {
			r.TerminationProof = ptr(shared.TLanceIndexTerminationProof(256 + 2))
		}},
		{"an unknown completion reason", fateMalformed, func(r *report.TLanceIndexJobReport) {
			r.CompletionReason = ptr(shared.TLanceIndexCompletionReason(3))
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			r := b.running(t, "a")
			w := reportOf(r, nativeOK)
			c.spoil(w)
			b.result(t, w, c.want)
			if got := b.record(t, r.ID); got != r {
				t.Errorf("the job changed to revision %d", got.Revision)
			}
			if len(b.commands()) > 0 {
				t.Errorf("proposed %v", b.commands())
			}
			if c.want == fateUnauthenticated && len(b.latched) > 0 {
				t.Error("a forged report closed a latch")
			}
			if c.want == fateUnauthenticated && b.barriers > 0 {
				t.Error("a forged report cost the journal an entry")
			}
		})
	}
}

// Whoever can connect can send forged reports: they are all counted, but not each is logged.
func TestForgedReportsDoNotFillTheLog(t *testing.T) {
	b := newBench(t)
	w := reportOf(b.running(t, "a"), nativeOK)
	w.InvocationSecret = ptr("forged")
	const sent = 10 * dropBurst
	for range sent {
		b.result(t, w, fateUnauthenticated)
	}
	if n := strings.Count(b.log.String(), "report from a backend"); n < dropBurst || n > sent/2 {
		t.Errorf("%d lines about %d reports", n, sent)
	}
	if n := testutil.ToFloat64(b.reports.cfg.Metrics.reports.WithLabelValues(kindResult, string(fateUnauthenticated))); n != sent {
		t.Errorf("%v reports were counted, not %d", n, sent)
	}
}

func TestReportOfAJobNeverSent(t *testing.T) {
	b := newBench(t)
	r := b.admit(t, "a", job.MutationCreate)
	w := reportOf(r, nativeOK)
	w.DispatchRevision, w.InvocationID = 1, "guessed"
	b.result(t, w, fateUnauthenticated)
	// Nothing hashes to the zero hash, and it is no secret's.
	w.InvocationSecret = ptr("")
	b.result(t, w, fateUnauthenticated)
	tr := terminationOf(r, reaped)
	tr.DispatchRevision, tr.InvocationID, tr.InvocationSecret = 1, "guessed", nil
	b.must(t, job.ChangeSettings{Header: b.head(), Values: []job.SettingValue{{Name: "reports.unauthenticated_termination", Value: "true"}}})
	b.termination(t, tr, fateUnauthenticated)
}

func TestProofIsRecordedWhateverTheResult(t *testing.T) {
	b := newBench(t)
	r := b.running(t, "a")
	w := reportOf(r, 77)
	w.TerminationProof = ptr(reaped)
	b.result(t, w, fateMalformed)
	got := b.record(t, r.ID)
	if got.State != job.StateRunning || got.Dispatch.SlotHeld || got.Dispatch.Proof != job.ProofChildReaped {
		t.Errorf("the job is %s, slot %v, proof %s", got.State, got.Dispatch.SlotHeld, got.Dispatch.Proof)
	}
	b.result(t, reportOf(r, nativeOK), fateApplied) // the result may still come
	if got := b.record(t, r.ID); got.State != job.StateCommitted {
		t.Errorf("the job is %s", got.State)
	}
}

func TestReportsOfSettledJobs(t *testing.T) {
	b := newBench(t)
	r := b.running(t, "a")
	b.result(t, reportOf(r, nativeOK), fateApplied)
	settled := b.record(t, r.ID)
	b.result(t, reportOf(r, nativeOK), fateDuplicate)
	b.result(t, reportOf(r, nativeIO), fateStale)
	if got := b.record(t, r.ID); got != settled {
		t.Error("a settled job changed")
	}
	// A proof that comes with a repeated result still releases the slot, and is reported so.
	w := reportOf(r, nativeOK)
	w.TerminationProof = ptr(never)
	answer, err := b.reports.ReportLanceIndexJobResult_(t.Context(), w)
	if err != nil || len(answer.ErrorMsgs) != 1 || !strings.Contains(answer.ErrorMsgs[0], "proof was recorded") {
		t.Errorf("answered %v, %v", answer, err)
	}
	if got := b.record(t, r.ID); got.Dispatch.SlotHeld || got.State != job.StateCommitted {
		t.Error("the proof was not recorded")
	}
	b.result(t, w, fateDuplicate)
}

func TestLateResultsAreEvidence(t *testing.T) {
	b := newBench(t)
	r := b.unknown(t, b.running(t, "a"))
	w := reportOf(r, nativeOK)
	b.result(t, w, fateLate)
	got := b.record(t, r.ID)
	if got.State != job.StateUnknown || !got.HoldsFence() || !got.Dispatch.SlotHeld || len(got.LateResults) != 1 || !got.OwesLateRefresh() {
		t.Errorf("the job is %+v", got)
	}
	b.result(t, w, fateDuplicate)
	w.TerminationProof = ptr(reaped)
	b.result(t, w, fateDuplicate)
	if got := b.record(t, r.ID); got.Dispatch.SlotHeld || len(got.LateResults) != 1 {
		t.Error("the proof of a repeated late result was not recorded, or the result was kept twice")
	}
	for i := range job.MaxLateResults {
		w := reportOf(r, nativeIO)
		w.SanitizedMessage = ptr(fmt.Sprintf("failure %d", i))
		want := fateLate
		if i == job.MaxLateResults-1 {
			want = fateStale // no room
		}
		b.result(t, w, want)
	}
}

func TestTermination(t *testing.T) {
	b := newBench(t)
	r := b.running(t, "a")
	bare := terminationOf(r, reaped)
	bare.InvocationSecret = nil
	b.termination(t, bare, fateUnauthenticated)
	wrong := terminationOf(r, reaped)
	wrong.InvocationSecret = ptr("wrong")
	b.termination(t, wrong, fateUnauthenticated)
	b.termination(t, terminationOf(r, shared.TLanceIndexTerminationProof_NONE), fateMalformed)
	b.termination(t, terminationOf(r, 9), fateMalformed)
	if got := b.record(t, r.ID); got != r {
		t.Fatal("the job changed")
	}
	b.termination(t, terminationOf(r, reaped), fateApplied)
	got := b.record(t, r.ID)
	if got.State != job.StateRunning || got.Dispatch.SlotHeld || got.Dispatch.Proof != job.ProofChildReaped {
		t.Errorf("the job is %+v", got)
	}
	b.termination(t, terminationOf(r, reaped), fateDuplicate)
	b.termination(t, terminationOf(r, never), fateApplied) // evidence
	if got := b.record(t, r.ID); got.Dispatch.Proof != job.ProofChildReaped || len(got.Dispatch.Evidence) != 1 {
		t.Errorf("the first proof does not stand: %+v", got.Dispatch)
	}
}

func TestBareTerminationBySetting(t *testing.T) {
	b := newBench(t)
	r := b.running(t, "a")
	b.must(t, job.ChangeSettings{Header: b.head(), Values: []job.SettingValue{{Name: "reports.unauthenticated_termination", Value: "true"}}})
	w := terminationOf(r, reaped)
	w.InvocationSecret = ptr("wrong")
	b.termination(t, w, fateUnauthenticated) // a wrong secret is worse than none
	w.InvocationSecret = nil
	w.BeProcessEpoch++
	b.termination(t, w, fateStale)
	w.BeProcessEpoch--
	b.termination(t, w, fateApplied)
	bare := reportOf(r, nativeOK)
	bare.InvocationSecret = nil
	b.result(t, bare, fateUnauthenticated) // the setting is about terminations alone
}

// The job moves on between the look and the command: the report is decided anew.
func TestReportRaces(t *testing.T) {
	t.Run("the deadline wins", func(t *testing.T) {
		b := newBench(t)
		r := b.running(t, "a")
		b.interfere = func(c job.Command) {
			if c.Name() == "COMPLETE" {
				b.unknown(t, r)
			}
		}
		b.result(t, reportOf(r, nativeOK), fateLate)
		if want := []string{"COMPLETE", "RECORD_LATE_RESULT"}; !slices.Equal(b.commands(), want) {
			t.Errorf("proposed %v, want %v", b.commands(), want)
		}
	})
	t.Run("the same report wins", func(t *testing.T) {
		b := newBench(t)
		r := b.running(t, "a")
		b.interfere = func(c job.Command) {
			b.interfere = nil
			b.must(t, c)
		}
		b.result(t, reportOf(r, nativeOK), fateDuplicate)
	})
	t.Run("the job is never settled", func(t *testing.T) {
		b := newBench(t)
		r := b.running(t, "a")
		b.fail = func(job.Command) error { return &job.Refusal{Code: job.CodeWrongState, Message: "no"} }
		if _, err := b.reports.ReportLanceIndexJobResult_(t.Context(), reportOf(r, nativeOK)); !errors.Is(err, errNotRecorded) {
			t.Errorf("answered %v", err)
		}
		if len(b.commands()) != maxDecisions {
			t.Errorf("tried %d times", len(b.commands()))
		}
	})
}

// What may not be in the journal fails the call, so that the backend sends it again; and what it is
// told shows nothing of why.
func TestReportsThatCannotBeJournaledFail(t *testing.T) {
	for name, breakIt := range map[string]func(*bench){
		"not appended":          func(b *bench) { b.fail = func(job.Command) error { return job.ErrNotAppended } },
		"ambiguous":             func(b *bench) { b.lose = errLost },
		"an unexpected refusal": func(b *bench) { b.fail = func(job.Command) error { return &job.Refusal{Code: job.CodeNotFormed} } },
		"the state is closed":   func(b *bench) { b.readFails = errLost },
		"no barrier":            func(b *bench) { b.barrier = func(context.Context) error { return errLost } },
		"never leads": func(b *bench) {
			b.barrier = func(context.Context) error { return ErrNotLeader }
		},
		"no leader in time": func(b *bench) {
			b.leader = func(ctx context.Context) (Leader, error) { <-ctx.Done(); return Leader{}, ctx.Err() }
		},
		"another leads, and nothing forwards": func(b *bench) {
			b.leader = func(context.Context) (Leader, error) { return Leader{NodeID: "n2"}, nil }
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			r := b.running(t, "a")
			breakIt(b)
			began := time.Now()
			for _, call := range []func() (*shared.TStatus, error){
				func() (*shared.TStatus, error) {
					return b.reports.ReportLanceIndexJobResult_(t.Context(), reportOf(r, nativeIO))
				},
				func() (*shared.TStatus, error) {
					return b.reports.ReportLanceIndexJobTermination(t.Context(), terminationOf(r, never))
				},
			} {
				if answer, err := call(); err == nil {
					t.Errorf("answered %v", answer)
				} else if strings.Contains(err.Error(), "path") || strings.Contains(err.Error(), "journal") {
					t.Errorf("the backend is told %q", err)
				}
			}
			if time.Since(began) > bound {
				t.Error("the hold is not bounded")
			}
			if got := testutil.ToFloat64(b.reports.cfg.Metrics.reports.WithLabelValues(kindResult, string(fateUnavailable))); got != 1 {
				t.Errorf("counted %v unavailable", got)
			}
		})
	}
}

// A report that arrives before this node leads is held, and decided as soon as it does.
func TestReportIsHeldForALeader(t *testing.T) {
	b := newBench(t)
	r := b.running(t, "a")
	elected, waiting := make(chan struct{}), make(chan struct{})
	b.leader = func(ctx context.Context) (Leader, error) {
		close(waiting)
		select {
		case <-elected:
			return Leader{Self: true}, nil
		case <-ctx.Done():
			return Leader{}, ctx.Err()
		}
	}
	b.reports.cfg.Hold = bound
	done := make(chan error, 1)
	go func() {
		_, err := b.reports.ReportLanceIndexJobResult_(context.Background(), reportOf(r, nativeOK))
		done <- err
	}()
	<-waiting
	if b.record(t, r.ID) != r {
		t.Fatal("decided without a leader")
	}
	close(elected)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if b.record(t, r.ID).State != job.StateCommitted {
		t.Error("the report was not applied")
	}
}

func TestReportWithoutArgument(t *testing.T) {
	b := newBench(t)
	if _, err := b.reports.ReportLanceIndexJobResult_(t.Context(), nil); err == nil {
		t.Error("a call without an argument is answered")
	}
	if _, err := b.reports.ReportLanceIndexJobTermination(t.Context(), nil); err == nil {
		t.Error("a call without an argument is answered")
	}
}

func TestReportMessagesAreSanitizedAndBounded(t *testing.T) {
	b := newBench(t)
	r := b.running(t, "a")
	w := reportOf(r, nativeIO)
	w.SanitizedMessage = ptr("line\nbreak \x1b[31m password=hunter2 " + strings.Repeat("x", 5000))
	b.result(t, w, fateApplied)
	message := b.record(t, r.ID).Result.Message
	if len(message) > job.MaxMessage || strings.ContainsAny(message, "\n\x1b") || strings.Contains(message, "hunter2") {
		t.Errorf("stored %q", message)
	}
}

// A connection whose certificate will not do: the call fails, so that the backend tries again, and nothing
// is decided. What another master forwards was judged there.
func TestReportsAreRefusedByTheirConnection(t *testing.T) {
	b := newBench(t)
	var good atomic.Bool
	b.reports.cfg.Admit = func(context.Context) error {
		if good.Load() {
			return nil
		}
		return errors.New("the certificate of be-1 expired")
	}
	reports, _ := serveBoth(t, b)
	client := report.NewReportServiceClient(connect(t, reports.Addr()))
	r := b.running(t, "a")
	_, err := client.ReportLanceIndexJobResult_(t.Context(), reportOf(r, nativeOK))
	var x thrift.TApplicationException
	if !errors.As(err, &x) || !strings.Contains(x.Error(), "send it again over a new connection") || !strings.Contains(x.Error(), "be-1 expired") {
		t.Errorf("answered %v", err)
	}
	_, err = client.ReportLanceIndexJobTermination(t.Context(), terminationOf(r, reaped))
	if !errors.As(err, &x) {
		t.Errorf("answered %v", err)
	}
	if got := b.record(t, r.ID); got.Revision != r.Revision || len(b.commands()) != 0 || len(b.latched) != 0 {
		t.Errorf("the job is %+v, proposed %v, closed latches %v", got, b.commands(), b.latched)
	}
	for _, kind := range []string{kindResult, kindTermination} {
		if got := testutil.ToFloat64(b.reports.cfg.Metrics.reports.WithLabelValues(kind, string(fateRefused))); got != 1 {
			t.Errorf("%v refused reports of kind %s are counted, want 1", got, kind)
		}
	}
	if said := b.log.String(); strings.Count(said, "because of its sender's certificate") != 2 || !strings.Contains(said, "127.0.0.1:") || strings.Contains(said, secret) {
		t.Errorf("the log says %s", said)
	}
	_, err = b.reports.ReportLanceIndexJobResult_(context.WithValue(t.Context(), forwardedKey{}, true), reportOf(r, nativeOK))
	if err != nil || b.record(t, r.ID).State != job.StateCommitted {
		t.Errorf("what another master forwards: %v", err)
	}
	good.Store(true)
	if _, err := client.ReportLanceIndexJobResult_(t.Context(), reportOf(r, nativeOK)); err != nil {
		t.Errorf("with a certificate that will do: %v", err)
	}
}

package stub

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/thrift/lib/go/thrift"
	"go.uber.org/goleak"

	"github.com/lancemaster/lancemaster/gen-go/backend"
	"github.com/lancemaster/lancemaster/gen-go/report"
	"github.com/lancemaster/lancemaster/gen-go/shared"
	"github.com/lancemaster/lancemaster/internal/thriftnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	bound  = 10 * time.Second
	epoch  = int64(1_700_000_000_000)
	secret = "0123456789abcdef0123456789abcdef"
)

var now = time.UnixMilli(epoch + 60_000)

func start(t *testing.T, behaviour Behaviour, change func(*Config)) *Stub {
	t.Helper()
	cfg := Config{
		Listen: "127.0.0.1:0", HeartbeatListen: "[::1]:0", Version: "test", Behaviour: behaviour, ProcessEpoch: epoch,
		RetryPause: time.Millisecond, Now: func() time.Time { return now },
	}
	if change != nil {
		change(&cfg)
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, s) })
	return s
}

func stop(t *testing.T, s *Stub) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	if err := s.Stop(ctx); err != nil {
		t.Error(err)
	}
}

func call(t *testing.T, at net.Addr) *thriftnet.Client {
	t.Helper()
	c, err := thriftnet.Dial(t.Context(), at.String(), thriftnet.ClientConfig{Timeout: bound})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func submit(t *testing.T, s *Stub, d *backend.TLanceIndexJobDispatch) (*shared.TStatus, error) {
	t.Helper()
	return backend.NewBackendServiceClient(call(t, s.Addr())).SubmitLanceIndexJob(t.Context(), d)
}

func wantStatus(t *testing.T, s *Stub, d *backend.TLanceIndexJobDispatch, want shared.TStatusCode) *shared.TStatus {
	t.Helper()
	got, err := submit(t, s, d)
	if err != nil {
		t.Fatal(err)
	}
	if got.StatusCode != want {
		t.Errorf("answered %s %q, want %s", got.StatusCode, got.ErrorMsgs, want)
	}
	return got
}

func dispatch() *backend.TLanceIndexJobDispatch {
	return &backend.TLanceIndexJobDispatch{
		JobID: 7, DispatchRevision: 1, InvocationID: "inv-7", BeProcessEpoch: epoch, DeadlineMs: now.UnixMilli() + 1000,
		MutationType: shared.TLanceIndexMutationType_CREATE, IndexName: "Idx", InvocationSecret: ptr(secret),
		StorageOptions: map[string]string{"secret_access_key": "canary-option"},
	}
}

func ptr[T any](v T) *T { return &v }

func masterInfo(at string) *backend.TMasterInfo {
	host, text, _ := net.SplitHostPort(at)
	port, _ := strconv.ParseInt(text, 10, 32)
	return &backend.TMasterInfo{
		NetworkAddress: &shared.TNetworkAddress{Hostname: host, Port: int32(port)}, ClusterID: 9, Epoch: 1 << 40, Token: ptr("canary-token"),
	}
}

func beat(t *testing.T, s *Stub, m *backend.TMasterInfo) *backend.THeartbeatResult_ {
	t.Helper()
	got, err := backend.NewHeartbeatServiceClient(call(t, s.HeartbeatAddr())).Heartbeat(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func wantBeat(t *testing.T, s *Stub, m *backend.TMasterInfo, want shared.TStatusCode) {
	t.Helper()
	if got := beat(t, s, m); got.Status.StatusCode != want {
		t.Errorf("the heartbeat is answered %s %q, want %s", got.Status.StatusCode, got.Status.ErrorMsgs, want)
	}
}

func TestDefaultAcceptsNoWork(t *testing.T) {
	s := start(t, nil, nil)
	wantStatus(t, s, dispatch(), shared.TStatusCode_CANCELLED) // no heartbeat yet
	wantBeat(t, s, masterInfo("127.0.0.1:9020"), shared.TStatusCode_OK)
	got := wantStatus(t, s, dispatch(), shared.TStatusCode_NOT_IMPLEMENTED_ERROR)
	if len(got.ErrorMsgs) != 1 || !strings.HasPrefix(got.ErrorMsgs[0], "lanceworker-stub accepts no work: ") {
		t.Errorf("it does not say what it is: %q", got.ErrorMsgs)
	}
	foreign := dispatch()
	foreign.BeProcessEpoch++
	wantStatus(t, s, foreign, shared.TStatusCode_ABORTED)
	for _, deadline := range []int64{now.UnixMilli(), now.UnixMilli() - 1, 0, -1} {
		late := dispatch()
		late.DeadlineMs = deadline
		wantStatus(t, s, late, shared.TStatusCode_TIMEOUT)
	}
}

func TestHeartbeats(t *testing.T) {
	s := start(t, nil, nil)
	m := masterInfo("127.0.0.1:9020")
	m.ClusterID = 0
	wantBeat(t, s, m, shared.TStatusCode_INVALID_ARGUMENT)
	m.ClusterID = 9
	got := beat(t, s, m)
	info := got.BackendInfo
	if got.Status.StatusCode != 0 || info.GetBeStartTime() != epoch || info.BePort != portOf(s.Addr()) || info.GetVersion() != "test" {
		t.Errorf("answered %v", got)
	}
	wantBeat(t, s, m, shared.TStatusCode_OK)

	other := masterInfo("127.0.0.1:9020")
	other.ClusterID = 10
	wantBeat(t, s, other, shared.TStatusCode_INVALID_ARGUMENT)
	other = masterInfo("127.0.0.1:9020")
	other.Token = ptr("another")
	wantBeat(t, s, other, shared.TStatusCode_NOT_AUTHORIZED)
	other = masterInfo("127.0.0.2:9020") // the same epoch
	wantBeat(t, s, other, shared.TStatusCode_INVALID_ARGUMENT)
	other.Epoch++
	wantBeat(t, s, other, shared.TStatusCode_OK)
	wantBeat(t, s, m, shared.TStatusCode_INVALID_ARGUMENT) // the old master

	s.Restart(epoch + 5)
	if got := beat(t, s, m); got.Status.StatusCode != 0 || got.BackendInfo.GetBeStartTime() != epoch+5 {
		t.Errorf("a restarted process remembers: %v", got)
	}
	wantStatus(t, s, dispatch(), shared.TStatusCode_ABORTED) // for the old process
}

// reportSink is a report service that keeps what it is told and fails as often as it is asked to.
type reportSink struct {
	mu           sync.Mutex
	fail         int
	results      []*report.TLanceIndexJobReport
	terminations []*report.TLanceIndexJobTerminationReport
}

func (m *reportSink) answer() (*shared.TStatus, error) {
	if m.fail > 0 {
		m.fail--
		return nil, errors.New("send it again")
	}
	return &shared.TStatus{StatusCode: shared.TStatusCode_INTERNAL_ERROR}, nil // any answer is one
}

//nolint:revive // the name is the generated interface's
func (m *reportSink) ReportLanceIndexJobResult_(_ context.Context, r *report.TLanceIndexJobReport) (*shared.TStatus, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.results = append(m.results, r)
	return m.answer()
}

func (m *reportSink) ReportLanceIndexJobTermination(_ context.Context, r *report.TLanceIndexJobTerminationReport) (*shared.TStatus, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.terminations = append(m.terminations, r)
	return m.answer()
}

func (m *reportSink) serve(t *testing.T) string {
	t.Helper()
	s, err := thriftnet.New(thriftnet.Config{Name: "report", Address: "127.0.0.1:0", Processor: report.NewReportServiceProcessor(m)})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), bound)
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return s.Addr().String()
}

// reports runs a behaviour through one dispatch and returns what the master was told once so many
// reports have ended.
func reports(t *testing.T, m *reportSink, r Report, ends int) (results []*report.TLanceIndexJobReport, errs []error) {
	t.Helper()
	ended := make(chan error, ends+10)
	r.Done = func(err error) { ended <- err }
	s := start(t, r, nil)
	wantBeat(t, s, masterInfo(m.serve(t)), shared.TStatusCode_OK)
	wantStatus(t, s, dispatch(), shared.TStatusCode_OK)
	for range ends {
		select {
		case err := <-ended:
			errs = append(errs, err)
		case <-time.After(bound):
			t.Fatal("no report")
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.results, errs
}

func TestReportsAsRealBackendsDo(t *testing.T) {
	outcome := Outcome{Code: 5, Message: "built", MetadataAdvanced: true, Proof: 2, Reason: 1}
	t.Run("once, with everything", func(t *testing.T) {
		got, errs := reports(t, &reportSink{}, Report{Outcome: outcome}, 1)
		want := &report.TLanceIndexJobReport{
			JobID: 7, DispatchRevision: 1, InvocationID: "inv-7", BeProcessEpoch: epoch, ResultCode: 5,
			CompletionReason: ptr(shared.TLanceIndexCompletionReason_NONE), SanitizedMessage: ptr("built"), ExternalMetadataAdvanced: ptr(true),
			TerminationProof: ptr(shared.TLanceIndexTerminationProof_CHILD_REAPED), InvocationSecret: ptr(secret),
		}
		if len(got) != 1 || !got[0].Equals(want) || errs[0] != nil {
			t.Errorf("reported %d times, %v", len(got), errs)
		}
	})
	t.Run("again after failed calls", func(t *testing.T) {
		got, errs := reports(t, &reportSink{fail: 2}, Report{Outcome: outcome}, 1)
		if len(got) != 3 || errs[0] != nil {
			t.Errorf("reported %d times, %v", len(got), errs)
		}
	})
	t.Run("three times and no more", func(t *testing.T) {
		got, errs := reports(t, &reportSink{fail: 9}, Report{Outcome: outcome}, 1)
		if len(got) != 3 || errs[0] == nil {
			t.Errorf("reported %d times, %v", len(got), errs)
		}
	})
	t.Run("twice, then the termination", func(t *testing.T) {
		m := &reportSink{}
		got, _ := reports(t, m, Report{Outcome: Outcome{Code: 11}, Times: 2, Termination: 3}, 3)
		if len(got) != 2 || got[0].TerminationProof != nil || len(m.terminations) != 1 || m.terminations[0].Proof != 3 ||
			m.terminations[0].GetInvocationSecret() != secret {
			t.Errorf("reported %v, %v", got, m.terminations)
		}
	})
	for use, want := range map[SecretUse]*string{WrongSecret: ptr(strings.Repeat("0", 32)), NoSecret: nil} {
		got, _ := reports(t, &reportSink{}, Report{Outcome: outcome, Secret: use, After: time.Millisecond}, 1)
		if (got[0].InvocationSecret == nil) != (want == nil) || got[0].GetInvocationSecret() == secret {
			t.Errorf("secret use %d: the wrong secret was sent", use)
		}
	}
}

// A repeated invocation is accepted and run once; a restart kills the worker and forgets it.
func TestInvocationsRunOnce(t *testing.T) {
	var mu sync.Mutex
	runs := 0
	finish := make(chan struct{})
	ended := make(chan struct{}, 10)
	s := start(t, Func(func(_ context.Context, c *Call) Answer {
		c.Later(func(ctx context.Context, _ Reporter) {
			mu.Lock()
			runs++
			mu.Unlock()
			select {
			case <-finish:
			case <-ctx.Done():
			}
			ended <- struct{}{}
		})
		return Answer{}
	}), nil)
	wantBeat(t, s, masterInfo("127.0.0.1:9020"), shared.TStatusCode_OK)
	for range 3 {
		wantStatus(t, s, dispatch(), shared.TStatusCode_OK)
	}
	s.Restart(epoch + 1)
	<-ended
	mu.Lock()
	defer mu.Unlock()
	if runs != 1 {
		t.Errorf("it ran %d times", runs)
	}
}

func TestReportWaitsForItsSignal(t *testing.T) {
	when := make(chan struct{})
	m := &reportSink{}
	ended := make(chan error, 1)
	s := start(t, Report{Outcome: Outcome{Code: 5}, When: when, Done: func(err error) { ended <- err }}, nil)
	wantBeat(t, s, masterInfo(m.serve(t)), shared.TStatusCode_OK)
	wantStatus(t, s, dispatch(), shared.TStatusCode_OK)
	m.mu.Lock()
	early := len(m.results)
	m.mu.Unlock()
	if early > 0 {
		t.Error("reported before the signal")
	}
	close(when)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	// One that is never signalled ends with the stub; the cleanup and goleak see to that.
	waiting := start(t, Report{When: make(chan struct{})}, nil)
	wantBeat(t, waiting, masterInfo("127.0.0.1:9020"), shared.TStatusCode_OK)
	wantStatus(t, waiting, dispatch(), shared.TStatusCode_OK)
}

func TestMisconduct(t *testing.T) {
	for _, conduct := range []Conduct{Close, Garbage, Hang} {
		t.Run(conduct.String(), func(t *testing.T) {
			s := start(t, Always{Conduct: conduct}, nil)
			wantBeat(t, s, masterInfo("127.0.0.1:9020"), shared.TStatusCode_OK)
			ctx, cancel := context.WithTimeout(t.Context(), bound)
			if conduct == Hang {
				ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
			}
			defer cancel()
			got, err := backend.NewBackendServiceClient(call(t, s.Addr())).SubmitLanceIndexJob(ctx, dispatch())
			var transport thrift.TTransportException
			var protocol thrift.TProtocolException
			switch {
			case err == nil:
				t.Errorf("answered %v", got)
			case conduct == Hang && !errors.Is(err, context.DeadlineExceeded):
				t.Errorf("a silent stub: %v", err)
			case conduct == Close && !errors.As(err, &transport):
				t.Errorf("a closed connection: %v", err)
			case conduct == Garbage && (!errors.As(err, &protocol) || errors.As(err, &transport)):
				t.Errorf("garbage: %v", err)
			}
		})
	}
	for _, number := range []int32{0, 16, 999, -1} {
		s := start(t, Always{Status: number, Messages: []string{"said"}}, nil)
		wantBeat(t, s, masterInfo("127.0.0.1:9020"), shared.TStatusCode_OK)
		if got := wantStatus(t, s, dispatch(), shared.TStatusCode(number)); len(got.ErrorMsgs) != 1 {
			t.Errorf("said %q", got.ErrorMsgs)
		}
	}
}

func TestCallsWithoutArguments(t *testing.T) {
	s := start(t, nil, nil)
	var result backend.BackendServiceSubmitLanceIndexJobResult
	if _, err := call(t, s.Addr()).Call(t.Context(), "submit_lance_index_job", &backend.BackendServiceSubmitLanceIndexJobArgs{}, &result); err == nil {
		t.Error("a dispatch without an argument is answered")
	}
	var beaten backend.HeartbeatServiceHeartbeatResult
	if _, err := call(t, s.HeartbeatAddr()).Call(t.Context(), "heartbeat", &backend.HeartbeatServiceHeartbeatArgs{}, &beaten); err == nil {
		t.Error("a heartbeat without an argument is answered")
	}
}

func TestStopEndsWhatHangs(t *testing.T) {
	s := start(t, Always{Conduct: Hang}, nil)
	wantBeat(t, s, masterInfo("127.0.0.1:9020"), shared.TStatusCode_OK)
	c := call(t, s.Addr())
	done := make(chan error, 1)
	go func() {
		_, err := backend.NewBackendServiceClient(c).SubmitLanceIndexJob(context.Background(), dispatch())
		done <- err
	}()
	stop(t, s)
	if err := <-done; err == nil {
		t.Error("a hanging dispatch was answered")
	}
	s.Restart(1) // too late, and harmless
}

func TestStartFailsWhole(t *testing.T) {
	taken := start(t, nil, nil)
	s, err := New(Config{Listen: "127.0.0.1:0", HeartbeatListen: taken.HeartbeatAddr().String()})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err == nil {
		t.Fatal("two stubs share a port")
	}
	if _, err := thriftnet.Dial(t.Context(), s.Addr().String(), thriftnet.ClientConfig{Timeout: bound}); err == nil {
		t.Error("half a stub is left")
	}
	stop(t, s)
	if _, err := New(Config{Protocol: "json"}); err == nil {
		t.Error("an unknown protocol is taken")
	}
}

func TestNoSecretIsLoggedOrPrinted(t *testing.T) {
	var mu sync.Mutex
	var log bytes.Buffer
	var printed string
	done := make(chan error, 1)
	behaviour := Func(func(ctx context.Context, c *Call) Answer {
		mu.Lock()
		printed = fmt.Sprintf("%v %+v %#v %s", c, c, c, c)
		mu.Unlock()
		return Report{Outcome: Outcome{Code: 5}, Done: func(err error) { done <- err }}.Dispatched(ctx, c)
	})
	m := &reportSink{fail: 1}
	s := start(t, behaviour, func(c *Config) {
		c.Logger = slog.New(slog.NewJSONHandler(&lockedWriter{mu: &mu, w: &log}, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	wantBeat(t, s, masterInfo(m.serve(t)), shared.TStatusCode_OK)
	wantStatus(t, s, dispatch(), shared.TStatusCode_OK)
	if err := <-done; err != nil {
		t.Error(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if !strings.Contains(log.String(), "answered a dispatch") || !strings.Contains(printed, "inv-7") {
		t.Error("nothing was logged or printed")
	}
	for _, canary := range []string{secret, "canary-option", "canary-token"} {
		if strings.Contains(log.String()+printed, canary) {
			t.Errorf("%q is shown", canary)
		}
	}
}

type lockedWriter struct {
	mu *sync.Mutex
	w  *bytes.Buffer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

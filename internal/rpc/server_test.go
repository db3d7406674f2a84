package rpc

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/apache/thrift/lib/go/thrift"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/lancemaster/lancemaster/gen-go/admin"
	"github.com/lancemaster/lancemaster/gen-go/report"
	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/thriftnet"
)

// serveBoth starts both services of a bench.
func serveBoth(t *testing.T, b *bench) (reports, admins *thriftnet.Server) {
	t.Helper()
	var err error
	if reports, err = NewReportServer(ListenConfig{Address: "127.0.0.1:0"}, b.reports); err != nil {
		t.Fatal(err)
	}
	if admins, err = NewAdminServer(ListenConfig{Address: "[::1]:0"}, b.admin); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*thriftnet.Server{reports, admins} {
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
	}
	return reports, admins
}

func connect(t *testing.T, at net.Addr) *thriftnet.Client {
	t.Helper()
	c, err := thriftnet.Dial(t.Context(), at.String(), thriftnet.ClientConfig{Timeout: bound, MaxMessage: 16 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestServicesOverTheWire(t *testing.T) {
	b := newBench(t)
	r := b.running(t, "a")
	reports, admins := serveBoth(t, b)
	w := reportOf(r, nativeOK)
	w.InvocationSecret = ptr("wrong")
	client := report.NewReportServiceClient(connect(t, reports.Addr()))
	got, err := client.ReportLanceIndexJobResult_(t.Context(), w)
	if err != nil || len(got.ErrorMsgs) != 1 || !strings.HasPrefix(got.ErrorMsgs[0], "unauthenticated") {
		t.Errorf("answered %v, %v", got, err)
	}
	// A required field of the report's is missing, or all of it: the call fails, and says little.
	for name, args := range map[string]thrift.TStruct{
		"no argument":    &report.ReportServiceReportLanceIndexJobResultArgs{},
		"missing fields": missingFields{},
	} {
		_, err := connect(t, reports.Addr()).Call(t.Context(), "reportLanceIndexJobResult", args, &report.ReportServiceReportLanceIndexJobResultResult{})
		var x thrift.TApplicationException
		if !errors.As(err, &x) || strings.Contains(x.Error(), "report.") || strings.Contains(x.Error(), "JobID") {
			t.Errorf("%s: answered %v", name, err)
		}
	}
	_, err = admin.NewAdminServiceClient(connect(t, admins.Addr())).GetJob(t.Context(), &admin.TGetJobRequest{JobID: ptr(int64(99))})
	wantCode(t, err, admin.TAdminErrorCode_NOT_FOUND)
	for service, at := range map[string]net.Addr{"report": reports.Addr(), "admin": admins.Addr()} {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", at.String())
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(bound))
		if _, err := c.Write([]byte("GET / HTTP/1.1\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil {
			t.Errorf("%s answers HTTP", service)
		}
		_ = c.Close()
		if got := testutil.ToFloat64(b.reports.cfg.Metrics.incidents.WithLabelValues(service, "foreign")); got != 1 {
			t.Errorf("%s: counted %v", service, got)
		}
	}
}

// missingFields writes arguments whose report has one field.
type missingFields struct{}

func (missingFields) Read(context.Context, thrift.TProtocol) error { return nil }

func (missingFields) Write(ctx context.Context, p thrift.TProtocol) error {
	return errors.Join(
		p.WriteStructBegin(ctx, ""), p.WriteFieldBegin(ctx, "", thrift.STRUCT, 1), p.WriteStructBegin(ctx, ""),
		p.WriteFieldBegin(ctx, "", thrift.I64, 1), p.WriteI64(ctx, 7), p.WriteFieldEnd(ctx), p.WriteFieldStop(ctx), p.WriteStructEnd(ctx),
		p.WriteFieldEnd(ctx), p.WriteFieldStop(ctx), p.WriteStructEnd(ctx))
}

// Whoever waits is answered when the servers stop, at once.
func TestWaitersAreAnsweredAtAStop(t *testing.T) {
	b := newBench(t)
	pending := b.admit(t, "a", job.MutationCreate)
	r := b.running(t, "b")
	held := make(chan struct{})
	b.reports.cfg.Leadership = following{b.master, func(ctx context.Context) (Leader, error) {
		close(held)
		<-ctx.Done()
		return Leader{}, ctx.Err()
	}}
	b.reports.cfg.Hold = time.Minute
	reports, admins := serveBoth(t, b)
	waited, reported := make(chan error, 1), make(chan error, 1)
	waiter, reporter := connect(t, admins.Addr()), connect(t, reports.Addr())
	go func() {
		_, err := admin.NewAdminServiceClient(waiter).WaitJob(context.Background(), &admin.TWaitJobRequest{
			JobID: ptr(int64(pending.ID)), AfterRevision: ptr(int64(0)), WaitMs: ptr(int64(60_000)),
		})
		waited <- err
	}()
	go func() {
		_, err := report.NewReportServiceClient(reporter).ReportLanceIndexJobResult_(context.Background(), reportOf(r, nativeOK))
		reported <- err
	}()
	<-held
	deadline := time.Now().Add(bound)
	for b.barrierCount() == 0 { // the wait has begun
		if time.Now().After(deadline) {
			t.Fatal("the wait does not begin")
		}
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	if err := errors.Join(admins.Stop(ctx), reports.Stop(ctx)); err != nil {
		t.Error(err)
	}
	if err := <-waited; err != nil {
		t.Errorf("the long poll ends with %v", err)
	}
	var x thrift.TApplicationException
	if err := <-reported; !errors.As(err, &x) || x.Error() != errStopping.Error() {
		t.Errorf("the held report ends with %v", err)
	}
	if took := time.Since(began); took > bound/2 {
		t.Errorf("stopping took %s", took)
	}
}

// sink reads whatever is answered.
type sink struct{}

func (*sink) Read(ctx context.Context, p thrift.TProtocol) error { return p.Skip(ctx, thrift.STRUCT) }
func (*sink) Write(context.Context, thrift.TProtocol) error      { return nil }

func resultArgs(r *report.TLanceIndexJobReport) thrift.TStruct {
	return &report.ReportServiceReportLanceIndexJobResultArgs{Report: r}
}

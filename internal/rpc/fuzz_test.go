package rpc

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/apache/thrift/lib/go/thrift"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/lancemaster/lancemaster/gen-go/admin"
	"github.com/lancemaster/lancemaster/gen-go/report"
	"github.com/lancemaster/lancemaster/gen-go/shared"
	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/thriftnet"
)

// memory is a listener whose connections never leave the process.
type memory struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newMemory() *memory { return &memory{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (m *memory) Accept() (net.Conn, error) {
	select {
	case c := <-m.conns:
		return c, nil
	case <-m.closed:
		return nil, net.ErrClosed
	}
}

func (m *memory) Close() error   { m.once.Do(func() { close(m.closed) }); return nil }
func (m *memory) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "unix"} }

// ended is the server's end of a connection, and says when the server is done with it.
type ended struct {
	net.Conn
	done chan struct{}
	once sync.Once
}

func (e *ended) Close() error {
	defer e.once.Do(func() { close(e.done) })
	return e.Conn.Close()
}

// throw sends bytes over a connection of its own and returns what comes back until the server is done.
func (m *memory) throw(t *testing.T, data []byte) []byte {
	t.Helper()
	client, server := net.Pipe()
	e := &ended{Conn: server, done: make(chan struct{})}
	m.conns <- e
	var answers bytes.Buffer
	read := make(chan struct{})
	go func() { defer close(read); _, _ = io.Copy(&answers, client) }()
	_ = client.SetWriteDeadline(time.Now().Add(bound))
	if _, err := client.Write(data); err != nil && errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the server neither reads nor closes")
	}
	_ = client.Close()
	<-read
	select {
	case <-e.done:
	case <-time.After(bound):
		t.Error("the server does not notice that its peer is gone")
	}
	return answers.Bytes()
}

// fuzzServer starts a service in memory.
func fuzzServer(f *testing.F, s *thriftnet.Server) {
	f.Helper()
	if err := s.Start(f.Context()); err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), bound)
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			f.Error(err)
		}
	})
}

// callOf is one whole call of a method.
func callOf(f testing.TB, form, method string, args thrift.TStruct) []byte {
	f.Helper()
	p := protocol(form, nil)
	ctx := context.Background()
	if err := errors.Join(p.WriteMessageBegin(ctx, method, thrift.CALL, 1), args.Write(ctx, p), p.WriteMessageEnd(ctx)); err != nil {
		f.Fatal(err)
	}
	b, ok := p.Transport().(*thrift.TMemoryBuffer)
	if !ok {
		f.Fatal("no buffer")
	}
	return b.Bytes()
}

// Whatever a connection sends, the report service lives, answers only what it may, and changes no job
// but by a report with the secret.
func FuzzReportServer(f *testing.F) {
	for _, form := range []string{"binary", "compact"} {
		for _, r := range []*report.TLanceIndexJobReport{
			{JobID: 1, DispatchRevision: 1, InvocationID: "inv-a", BeProcessEpoch: epoch, ResultCode: nativeOK, InvocationSecret: ptr("guess"), TerminationProof: ptr(reaped)},
			{JobID: 1, DispatchRevision: 1, InvocationID: "inv-a", BeProcessEpoch: epoch, ResultCode: 99},
			nil,
		} {
			f.Add(form == "compact", callOf(f, form, "reportLanceIndexJobResult", &report.ReportServiceReportLanceIndexJobResultArgs{Report: r}))
		}
		f.Add(form == "compact", callOf(f, form, "reportLanceIndexJobTermination", &report.ReportServiceReportLanceIndexJobTerminationArgs{
			Report: &report.TLanceIndexJobTerminationReport{JobID: 1, DispatchRevision: 1, InvocationID: "inv-a", BeProcessEpoch: epoch, Proof: reaped},
		}))
		f.Add(form == "compact", callOf(f, form, "noSuchMethod", &shared.TStatus{}))
	}
	addGolden(f)
	f.Add(false, []byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add(false, []byte{0x80, 1, 0, 1, 0x7f, 0xff, 0xff, 0xff})
	b := newBench(f)
	r := b.running(f, "a")
	servers := map[bool]*memory{}
	for _, compact := range []bool{false, true} {
		m := newMemory()
		servers[compact] = m
		cfg := ListenConfig{}.config(serviceReport, nil, b.reports.cfg.Metrics)
		cfg.Processor, cfg.Listen = report.NewReportServiceProcessor(b.reports), func(context.Context, string) (net.Listener, error) { return m, nil }
		cfg.MaxMessage, cfg.MaxContainer = maxReport, maxReportItems
		if compact {
			cfg.Protocol = thriftnet.Compact
		}
		s, err := thriftnet.New(cfg)
		if err != nil {
			f.Fatal(err)
		}
		fuzzServer(f, s)
	}
	f.Fuzz(func(t *testing.T, compact bool, data []byte) {
		servers[compact].throw(t, data)
		if testutil.ToFloat64(b.reports.cfg.Metrics.incidents.WithLabelValues(serviceReport, "panic")) > 0 {
			t.Error("a handler panicked")
		}
		if got := b.record(t, r.ID); got != r && !bytes.Contains(data, []byte(secret)) {
			t.Errorf("a report without the secret changed the job to %s", got.State)
		}
	})
}

// adminCalls are some calls of the admin service.
func adminCalls() map[string]thrift.TStruct {
	ctx := &admin.TRequestContext{ClientName: ptr("joe")}
	return map[string]thrift.TStruct{
		"submit":       &admin.AdminServiceSubmitArgs{Request: submission()},
		"getJob":       &admin.AdminServiceGetJobArgs{Request: &admin.TGetJobRequest{Ctx: ctx, JobID: ptr(int64(1))}},
		"listJobs":     &admin.AdminServiceListJobsArgs{Request: &admin.TListJobsRequest{Ctx: ctx, States: []admin.TJobState{1}, Catalog: ptr("c"), Table: ptr("d.t")}},
		"putCatalog":   &admin.AdminServicePutCatalogArgs{Request: &admin.TPutCatalogRequest{Name: ptr("x"), ExpectedRevision: ptr(int64(0)), Options: []*admin.TStorageOption{{Key: "k", Value: ptr("v")}}}},
		"setSettings":  &admin.AdminServiceSetSettingsArgs{Request: &admin.TSetSettingsRequest{Values: []*admin.TSettingValue{{Name: "dispatch.paused", Value: "true"}}}},
		"listSettings": &admin.AdminServiceListSettingsArgs{},
	}
}

// Whatever a connection sends, the admin service lives and answers.
func FuzzAdminServer(f *testing.F) {
	for method, args := range adminCalls() {
		f.Add(callOf(f, "binary", method, args))
	}
	b := newBench(f)
	b.submit = func(context.Context, job.Submission) (job.SubmissionOutcome, error) {
		return job.SubmissionOutcome{Kind: job.SubmissionNoop, Detail: "nothing"}, nil
	}
	b.inspect = func(context.Context, InspectRequest) (Inspection, error) { return Inspection{}, nil }
	m := newMemory()
	cfg := ListenConfig{}.config(serviceAdmin, nil, b.reports.cfg.Metrics)
	cfg.Processor, cfg.Listen = admin.NewAdminServiceProcessor(b.admin), func(context.Context, string) (net.Listener, error) { return m, nil }
	cfg.MaxMessage, cfg.MaxContainer = maxAdmin, maxAdminItems
	s, err := thriftnet.New(cfg)
	if err != nil {
		f.Fatal(err)
	}
	fuzzServer(f, s)
	f.Fuzz(func(t *testing.T, data []byte) {
		m.throw(t, data)
		if testutil.ToFloat64(b.reports.cfg.Metrics.incidents.WithLabelValues(serviceAdmin, "panic")) > 0 {
			t.Error("a handler panicked")
		}
	})
}

// Whatever a backend answers, the client comes back, and takes nothing for an acceptance that is none.
func FuzzBackendReply(f *testing.F) {
	ok := statusReply(submitMethod, 1, &shared.TStatus{})
	f.Add(ok)
	f.Add(ok[:len(ok)-1])
	f.Add(statusReply(submitMethod, 1, &shared.TStatus{StatusCode: 3, ErrorMsgs: []string{"no", "\xff"}}))
	f.Add(statusReply(submitMethod, 2, &shared.TStatus{}))
	f.Add([]byte("HTTP/1.1 200 OK\r\n\r\n"))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.Fatal(err)
	}
	answers := make(chan []byte, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.SetDeadline(time.Now().Add(bound))
			_, _ = readCall(c)
			_, _ = c.Write(<-answers)
			_ = c.Close()
		}
	}()
	f.Cleanup(func() { _ = l.Close(); <-done })
	client := NewBackendClient(BackendClientConfig{})
	at := addressOf(f, l.Addr())
	f.Fuzz(func(t *testing.T, data []byte) {
		answers <- data
		ctx, cancel := context.WithTimeout(t.Context(), bound)
		defer cancel()
		conn, err := client.Dial(ctx, at)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		reply, err := conn.Submit(ctx, invocation())
		if errors.Is(err, context.DeadlineExceeded) {
			t.Error("the call did not end with the connection")
		}
		if err == nil && reply.Status == job.StatusOK && !bytes.Contains(data, []byte(submitMethod)) {
			t.Error("an answer to nothing counts as an acceptance")
		}
	})
}

// addGolden adds the golden structs as seeds, as they are.
func addGolden(f *testing.F) {
	f.Helper()
	for _, s := range wireStructs() {
		f.Add(false, encode(f, "binary", s))
		f.Add(true, encode(f, "compact", s))
	}
}

//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/apache/thrift/lib/go/thrift"

	"github.com/lancemaster/lancemaster/gen-go/admin"
	"github.com/lancemaster/lancemaster/gen-go/backend"
	"github.com/lancemaster/lancemaster/gen-go/report"
	"github.com/lancemaster/lancemaster/gen-go/shared"
	"github.com/lancemaster/lancemaster/internal/programs"
	"github.com/lancemaster/lancemaster/internal/scripted"
)

const wrongSecret = "00112233445566778899aabbccddeeff"

// forgery is a report that must be dropped, and why.
type forgery struct {
	name   string
	result string // the metric's label
	spoil  func(*report.TLanceIndexJobReport)
}

var forgeries = []forgery{
	{"wrong secret", "unauthenticated", func(r *report.TLanceIndexJobReport) { r.InvocationSecret = ptr(wrongSecret) }},
	{"no secret", "unauthenticated", func(r *report.TLanceIndexJobReport) { r.InvocationSecret = nil }},
	{"empty secret", "unauthenticated", func(r *report.TLanceIndexJobReport) { r.InvocationSecret = ptr("") }},
	{"secret in another case", "unauthenticated", func(r *report.TLanceIndexJobReport) {
		r.InvocationSecret = ptr(strings.ToUpper(r.GetInvocationSecret()) + "A")
	}},
	{"wrong revision", "stale", func(r *report.TLanceIndexJobReport) { r.DispatchRevision++ }},
	{"wrong invocation", "stale", func(r *report.TLanceIndexJobReport) { r.InvocationID += "x" }},
	{"wrong epoch", "stale", func(r *report.TLanceIndexJobReport) { r.BeProcessEpoch-- }},
	{"no such job", "stale", func(r *report.TLanceIndexJobReport) { r.JobID += 1000 }},
	{"negative job", "malformed", func(r *report.TLanceIndexJobReport) { r.JobID = -1 }},
	{"no invocation", "malformed", func(r *report.TLanceIndexJobReport) { r.InvocationID = "" }},
	{"huge invocation", "malformed", func(r *report.TLanceIndexJobReport) { r.InvocationID = strings.Repeat("i", 300) }},
	{"unknown code", "malformed", func(r *report.TLanceIndexJobReport) { r.ResultCode, r.TerminationProof = 77, nil }},
	{"unknown proof", "malformed", func(r *report.TLanceIndexJobReport) {
		r.TerminationProof = ptr(shared.TLanceIndexTerminationProof(9))
	}},
}

// Reports that are not believed are answered OK, counted by reason and change nothing.
func TestForgedReports(t *testing.T) {
	t.Parallel()
	m, b := withLocal(t)
	id := m.admit(createLocal(t, typed, "idx"))
	d := b.expectSend(id)
	running := m.untilState(id, admin.TJobState_RUNNING)
	for _, f := range forgeries {
		t.Run(f.name, func(t *testing.T) {
			metric := fmt.Sprintf(`lancemaster_reports_total{kind="result",result=%q}`, f.result)
			count := m.metric(metric)
			r := scripted.ResultOf(d, shared.TLanceIndexResultCode_NATIVE_OK)
			f.spoil(r)
			said := b.report(r)
			if len(said) != 1 || !strings.HasPrefix(said[0], f.result) {
				t.Errorf("the answer says %q, want one line that begins with %s", said, f.result)
			}
			if got := m.metric(metric); got != count+1 {
				t.Errorf("%s went from %v to %v, want one more", metric, count, got)
			}
			if now := m.job(id); !now.Equals(running) {
				t.Errorf("the report changed the job to %v", now)
			}
		})
	}
	bare := scripted.TerminationOf(d)
	bare.InvocationSecret = nil
	if said := b.terminated(bare); len(said) != 1 || !strings.HasPrefix(said[0], "unauthenticated") {
		t.Errorf("a termination report without a secret was answered %q", said)
	}
	wrong := scripted.TerminationOf(d)
	wrong.InvocationSecret = ptr(wrongSecret)
	if said := b.terminated(wrong); len(said) != 1 || !strings.HasPrefix(said[0], "unauthenticated") {
		t.Errorf("a termination report with a wrong secret was answered %q", said)
	}
	if now := m.job(id); !now.Equals(running) {
		t.Errorf("forged termination reports changed the job to %v", now)
	}

	// The truth is still believed, and believed once.
	b.report(scripted.ResultOf(d, shared.TLanceIndexResultCode_NATIVE_OK))
	done := m.untilDone(id)
	duplicates := m.metric(`lancemaster_reports_total{kind="result",result="duplicate"}`)
	if said := b.report(scripted.ResultOf(d, shared.TLanceIndexResultCode_NATIVE_OK)); len(said) != 1 || !strings.HasPrefix(said[0], "duplicate") {
		t.Errorf("the repeated report was answered %q, want duplicate", said)
	}
	if got := m.metric(`lancemaster_reports_total{kind="result",result="duplicate"}`); got != duplicates+1 {
		t.Errorf("duplicates went from %v to %v, want one more", duplicates, got)
	}
	if said := b.report(scripted.ResultOf(d, shared.TLanceIndexResultCode_NATIVE_IO)); len(said) != 1 {
		t.Errorf("a contradicting report was answered %q, want a reason", said)
	}
	if now := m.job(id); !now.Equals(done) {
		t.Errorf("late reports changed the job from %v to %v", done, now)
	}
}

// A proof is recorded even when the result that it comes with is malformed.
func TestProofOfMalformedResult(t *testing.T) {
	t.Parallel()
	m, b := withLocal(t)
	id := m.admit(createLocal(t, typed, "idx"))
	d := b.expectSend(id)
	m.untilState(id, admin.TJobState_RUNNING)
	r := scripted.ResultOf(d, 77)
	b.report(r)
	j := m.job(id)
	if j.State != admin.TJobState_RUNNING || j.SlotHeld || j.Dispatch.Proof != "CHILD_REAPED" {
		t.Errorf("the job is %s, slot %v, proof %s; want RUNNING without a slot, CHILD_REAPED", j.State, j.SlotHeld, j.Dispatch.Proof)
	}
}

// An UNKNOWN job keeps its outcome whatever is reported later, and keeps the report as evidence.
func TestLateResult(t *testing.T) {
	t.Parallel()
	m, b := withLocal(t)
	b.Always(scripted.Answer{Cut: true})
	id := m.admit(createLocal(t, typed, "idx"))
	d := b.expectSend(id)
	m.untilState(id, admin.TJobState_UNKNOWN)
	b.report(scripted.ResultOf(d, shared.TLanceIndexResultCode_NATIVE_OK))
	j := m.job(id)
	if j.State != admin.TJobState_UNKNOWN || !j.FenceHeld || j.SlotHeld || len(j.LateResults) != 1 {
		t.Errorf("after the late report the job is %v; want UNKNOWN with its fence, no slot, one late result", j)
	}
	refusal := m.refuse(createLocal(t, typed, "IDX"), admin.TAdminErrorCode_FENCE_HELD)
	if refusal.GetHolderJobID() != id {
		t.Errorf("the fence is held by job %d, want %d", refusal.GetHolderJobID(), id)
	}
}

// Answers of two processes at the backend's address, both asked for after the send, prove that the
// process which took the job is gone, and free its slot and nothing else. One process whose epoch is
// another than the dispatch's may be the one that took the job.
func TestBackendProcessGone(t *testing.T) {
	t.Parallel()
	m, b := withLocal(t)
	b.OnSubmit(func(*backend.TLanceIndexJobDispatch) scripted.Answer {
		b.Restart() // before the send has ended
		return scripted.Answer{}
	})
	id := m.admit(createLocal(t, typed, "idx"))
	b.expectSend(id)
	m.untilState(id, admin.TJobState_RUNNING)
	b.expectBeats(4)
	if j := m.job(id); !j.SlotHeld || j.Dispatch.Proof != "NONE" {
		t.Fatalf("one epoch that differs freed the slot: %v", j.Dispatch)
	}
	b.Restart()
	j := m.until(id, func(j *admin.TJob) string {
		if j.SlotHeld {
			return "the slot is held"
		}
		return ""
	})
	if j.State != admin.TJobState_RUNNING || !j.FenceHeld || j.Dispatch.Proof != "BE_PROCESS_EPOCH_GONE" {
		t.Errorf("the job is %s, fence %v, proof %s; want RUNNING, held, BE_PROCESS_EPOCH_GONE", j.State, j.FenceHeld, j.Dispatch.Proof)
	}
}

// What is no request does no harm, and does not hold up those that are.
func TestGarbageOnPorts(t *testing.T) {
	t.Parallel()
	m, b := withLocal(t)
	id := m.admit(createLocal(t, typed, "idx"))
	d := b.expectSend(id)
	running := m.untilState(id, admin.TJobState_RUNNING)
	var idle []net.Conn
	defer func() {
		for _, c := range idle {
			_ = c.Close()
		}
	}()
	for _, address := range []string{m.admin, m.report} {
		for name, bytes := range garbage(t, d.JobID) {
			c, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
			if err != nil {
				t.Fatalf("dialling %s: %v", address, err)
			}
			if _, err := c.Write(bytes); err != nil {
				t.Fatalf("writing %s to %s: %v", name, address, err)
			}
			idle = append(idle, c) // left open: half a message must not hold up anything
		}
		if r, err := http.Get("http://" + address + "/"); err == nil { //nolint:noctx // the port answers no HTTP
			_ = r.Body.Close()
			t.Errorf("%s answered HTTP with %s", address, r.Status)
		}
	}
	if now := m.job(id); !now.Equals(running) {
		t.Errorf("garbage changed the job to %v", now)
	}
	if got := m.metric(`lancemaster_rpc_incidents_total{kind="panic",service="admin"}`) + m.metric(`lancemaster_rpc_incidents_total{kind="panic",service="report"}`); got != 0 {
		t.Errorf("%v panics", got)
	}
	if m.metricSum("lancemaster_rpc_incidents_total") == 0 {
		t.Error("no incident was counted")
	}
	for _, c := range idle[:len(idle)/2] {
		_ = c.Close()
	}
	b.report(scripted.ResultOf(d, shared.TLanceIndexResultCode_NATIVE_OK))
	m.untilDone(id)
}

// garbage are the beginnings of conversations that the Thrift ports must survive.
func garbage(t *testing.T, id int64) map[string][]byte {
	t.Helper()
	whole := encodeCall(t, "reportLanceIndexJobResult", func(ctx context.Context, p thrift.TProtocol) error {
		return report.NewReportServiceReportLanceIndexJobResultArgs().Write(ctx, p) // the argument is missing
	})
	huge := encodeCall(t, "submit", func(ctx context.Context, p thrift.TProtocol) error {
		_ = p.WriteFieldBegin(ctx, "request", thrift.STRUCT, 1)
		_ = p.WriteFieldBegin(ctx, "properties", thrift.LIST, 13)
		return p.WriteListBegin(ctx, thrift.STRUCT, 0x7fffffff)
	})
	text := encodeCall(t, "getJob", func(ctx context.Context, p thrift.TProtocol) error {
		_ = p.WriteFieldBegin(ctx, "request", thrift.STRUCT, 1)
		_ = p.WriteFieldBegin(ctx, "x", thrift.STRING, 99)
		return p.WriteI32(ctx, 0x7ffffff0)
	})
	deep := encodeCall(t, "getJob", func(ctx context.Context, p thrift.TProtocol) error {
		for range 5000 {
			_ = p.WriteFieldBegin(ctx, "x", thrift.STRUCT, 77)
		}
		return nil
	})
	unknown := encodeCall(t, "no_such_method", func(context.Context, thrift.TProtocol) error { return nil })
	frame := binary.BigEndian.AppendUint32(nil, uint32(len(whole)))
	return map[string][]byte{
		"zeroes":            make([]byte, 4096),
		"noise":             bytes.Repeat([]byte{0xde, 0xad, 0xbe, 0xef}, 1024),
		"http":              []byte("POST /jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello"),
		"tls":               {0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3},
		"half a header":     whole[:6],
		"half a message":    whole[:len(whole)-1],
		"no argument":       whole,
		"framed":            append(frame, whole...),
		"huge list":         huge,
		"huge text":         text,
		"deep":              deep,
		"unknown method":    unknown,
		"one byte":          {0x80},
		"job id as garbage": fmt.Appendf(nil, "%d", id),
	}
}

// encodeCall is a call in the strict binary protocol, as far as body writes it.
func encodeCall(t *testing.T, method string, body func(context.Context, thrift.TProtocol) error) []byte {
	t.Helper()
	ctx := context.Background()
	buffer := thrift.NewTMemoryBuffer()
	p := thrift.NewTBinaryProtocolConf(buffer, &thrift.TConfiguration{})
	if err := p.WriteMessageBegin(ctx, method, thrift.CALL, 1); err != nil {
		t.Fatal(err)
	}
	if err := body(ctx, p); err != nil {
		t.Fatal(err)
	}
	if err := p.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

// getHTTP reads one of the master's pages.
func (m *master) getHTTP(path string) (int, string) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.http+path, nil)
	if err != nil {
		m.t.Fatal(err)
	}
	answer, err := pages.Do(request)
	if err != nil {
		m.t.Fatalf("getting %s: %v", path, err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 8<<20))
	if err != nil {
		m.t.Fatalf("reading %s: %v", path, err)
	}
	return answer.StatusCode, string(body)
}

// pages keeps no connection: a restarted master must not be asked over an old one.
var pages = &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}

// metric is the value of one series, named as the page has it; 0 when it is not there.
func (m *master) metric(series string) float64 {
	m.t.Helper()
	_, page := m.getHTTP("/metrics")
	for line := range strings.Lines(page) {
		if rest, ok := strings.CutPrefix(line, series+" "); ok {
			return number(m.t, rest)
		}
	}
	return 0
}

// metricSum adds up all series of a family.
func (m *master) metricSum(family string) float64 {
	m.t.Helper()
	_, page := m.getHTTP("/metrics")
	sum := 0.0
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, family+"{") || strings.HasPrefix(line, family+" ") {
			sum += number(m.t, line[strings.LastIndexByte(line, ' '):])
		}
	}
	return sum
}

func number(t *testing.T, text string) float64 {
	t.Helper()
	var v float64
	if _, err := fmt.Sscan(text, &v); err != nil {
		t.Fatalf("%q on the metrics page is no number: %v", text, err)
	}
	return v
}

// untilMetric waits until a series is at least so much.
func (m *master) untilMetric(series string, least float64) {
	m.t.Helper()
	programs.Eventually(m.t, patience, func() string {
		if v := m.metric(series); v < least {
			return fmt.Sprintf("%s is %v, want at least %v", series, v, least)
		}
		return ""
	})
}

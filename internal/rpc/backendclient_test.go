package rpc

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/apache/thrift/lib/go/thrift"

	"github.com/lancemaster/lancemaster/gen-go/backend"
	"github.com/lancemaster/lancemaster/gen-go/shared"
	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/thriftnet"
)

// wild is a backend that does what each test says with each connection.
func wild(t *testing.T, serve func(net.Conn)) job.Address {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.SetDeadline(time.Now().Add(bound))
			serve(c)
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return addressOf(t, l.Addr())
}

func addressOf(t testing.TB, a net.Addr) job.Address {
	t.Helper()
	host, text, err := net.SplitHostPort(a.String())
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	return job.Address{Host: host, BePort: int32(port), HeartbeatPort: int32(port)}
}

func invocation() *job.Invocation {
	return &job.Invocation{
		Job: 7, DispatchRevision: 1, InvocationID: "inv-7", ProcessEpoch: epoch, DeadlineAt: 1_700_000_360_000,
		Mutation: job.MutationCreate, IndexName: "Idx", Column: "vec", IndexType: job.IndexIVFPQ,
		PropertiesJSON: `{"index_type":"ivf_pq"}`, IfNotExists: true, DatasetURI: "s3://b/t", DatasetVersion: 3,
		SchemaContract: `{"scv":1}`, StorageOptions: map[string]string{"region": "eu"}, Secret: secret,
		MaxNumPartitions: 4096, MaxNumSubVectors: 256,
	}
}

// readCall reads one whole call with the library.
func readCall(c net.Conn) (seq int32, err error) {
	p := thrift.NewTBinaryProtocolConf(thrift.NewStreamTransportR(c), &thrift.TConfiguration{})
	_, _, seq, err = p.ReadMessageBegin(context.Background())
	if err == nil {
		err = p.Skip(context.Background(), thrift.STRUCT)
	}
	return seq, err
}

// answer writes one message.
func answer(method string, kind thrift.TMessageType, seq int32, body func(context.Context, thrift.TProtocol) error) []byte {
	b := thrift.NewTMemoryBuffer()
	p := thrift.NewTBinaryProtocolConf(b, &thrift.TConfiguration{})
	ctx := context.Background()
	if err := errors.Join(p.WriteMessageBegin(ctx, method, kind, seq), body(ctx, p), p.WriteMessageEnd(ctx)); err != nil {
		panic(err)
	}
	return b.Bytes()
}

func statusReply(method string, seq int32, status *shared.TStatus) []byte {
	return answer(method, thrift.REPLY, seq, func(ctx context.Context, p thrift.TProtocol) error {
		r := backend.BackendServiceSubmitLanceIndexJobResult{Success: status}
		return r.Write(ctx, p)
	})
}

const submitMethod = "submit_lance_index_job"

// What a backend may do to a call, and what the master may conclude from it: a complete answer, a
// complete refusal, or nothing.
func TestSubmitAgainstAMisbehavingBackend(t *testing.T) {
	exception := func(seq, kind int32) []byte {
		return answer(submitMethod, thrift.EXCEPTION, seq, func(ctx context.Context, p thrift.TProtocol) error {
			return thrift.NewTApplicationException(kind, "boom").Write(ctx, p)
		})
	}
	reply := func(status *shared.TStatus) func(int32) []byte {
		return func(seq int32) []byte { return statusReply(submitMethod, seq, status) }
	}
	empty := func(seq int32) []byte {
		return answer(submitMethod, thrift.REPLY, seq, func(ctx context.Context, p thrift.TProtocol) error {
			return errors.Join(p.WriteStructBegin(ctx, ""), p.WriteFieldStop(ctx))
		})
	}
	hugeList := func(seq int32) []byte {
		b := answer(submitMethod, thrift.REPLY, seq, func(context.Context, thrift.TProtocol) error { return nil })
		return append(b, 12, 0, 0, 8, 0, 1, 0, 0, 0, 0, 15, 0, 2, 11, 0x7f, 0xff, 0xff, 0xff)
	}
	hugeString := func(seq int32) []byte {
		b := answer(submitMethod, thrift.REPLY, seq, func(context.Context, thrift.TProtocol) error { return nil })
		return append(b, 12, 0, 0, 15, 0, 2, 11, 0, 0, 0, 1, 0x7f, 0xff, 0xff, 0xff)
	}
	const (
		complete = iota
		unknownMethod
		ambiguous
	)
	cases := []struct {
		name   string
		answer func(seq int32) []byte // nil: nothing
		want   int
		status int32
	}{
		{"accepts", reply(&shared.TStatus{}), complete, 0},
		{"refuses", reply(&shared.TStatus{StatusCode: 3, ErrorMsgs: []string{"no"}}), complete, 3},
		{"answers an unknown status number", reply(&shared.TStatus{StatusCode: 999}), complete, 999},
		{"answers a negative status number", reply(&shared.TStatus{StatusCode: -7}), complete, -7},
		{"does not know the method", func(seq int32) []byte { return exception(seq, thrift.UNKNOWN_METHOD) }, unknownMethod, 0},
		{"throws", func(seq int32) []byte { return exception(seq, thrift.INTERNAL_ERROR) }, ambiguous, 0},
		{"answers without a status", empty, ambiguous, 0},
		{"answers another call", func(seq int32) []byte { return statusReply(submitMethod, seq+1, &shared.TStatus{}) }, ambiguous, 0},
		{"answers another method", func(seq int32) []byte { return statusReply("heartbeat", seq, &shared.TStatus{}) }, ambiguous, 0},
		{"refuses another call", func(seq int32) []byte { return exception(seq+1, thrift.UNKNOWN_METHOD) }, ambiguous, 0},
		{"closes after reading", nil, ambiguous, 0},
		{"answers half", func(seq int32) []byte { b := statusReply(submitMethod, seq, &shared.TStatus{}); return b[:len(b)/2] }, ambiguous, 0},
		{"answers all but a byte", func(seq int32) []byte { b := statusReply(submitMethod, seq, &shared.TStatus{}); return b[:len(b)-1] }, ambiguous, 0},
		{"answers garbage", func(int32) []byte { return []byte("HTTP/1.1 400 Bad Request\r\n\r\n") }, ambiguous, 0},
		{"answers not strictly", func(seq int32) []byte {
			b := binary.BigEndian.AppendUint32(nil, uint32(len(submitMethod)))
			b = append(append(b, submitMethod...), byte(thrift.REPLY))
			return append(binary.BigEndian.AppendUint32(b, uint32(seq)), 12, 0, 0, 8, 0, 1, 0, 0, 0, 0, 0, 0)
		}, ambiguous, 0},
		{"sends a call", func(seq int32) []byte {
			return answer(submitMethod, thrift.CALL, seq, func(ctx context.Context, p thrift.TProtocol) error { return p.WriteFieldStop(ctx) })
		}, ambiguous, 0},
		{"announces a huge list", hugeList, ambiguous, 0},
		{"announces a huge string", hugeString, ambiguous, 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			at := wild(t, func(conn net.Conn) {
				seq, err := readCall(conn)
				if err != nil {
					t.Errorf("the call cannot be read: %v", err)
				}
				if c.answer != nil {
					_, _ = conn.Write(c.answer(seq))
				}
			})
			ctx, cancel := context.WithTimeout(t.Context(), bound)
			defer cancel()
			conn, err := NewBackendClient(BackendClientConfig{}).Dial(ctx, at)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			got, err := conn.Submit(ctx, invocation())
			switch {
			case c.want == complete && (err != nil || got.Status != c.status):
				t.Errorf("got status %d, error %v; want a complete answer with status %d", got.Status, err, c.status)
			case c.want != complete && err == nil:
				t.Errorf("got status %d, want an error", got.Status)
			case (c.want == unknownMethod) != errors.Is(err, job.ErrUnknownMethod):
				t.Errorf("got %v", err)
			}
			if err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("the error shows the secret: %v", err)
			}
		})
	}
}

func TestSubmitAgainstASilentBackend(t *testing.T) {
	t.Run("closes at once", func(t *testing.T) {
		at := wild(t, func(net.Conn) {})
		conn, err := NewBackendClient(BackendClientConfig{}).Dial(t.Context(), at)
		if err != nil {
			return // noticed while dialling: nothing was sent
		}
		defer conn.Close()
		if got, err := conn.Submit(t.Context(), invocation()); err == nil || errors.Is(err, job.ErrUnknownMethod) {
			t.Errorf("got %v, %v", got, err)
		}
	})
	t.Run("hangs", func(t *testing.T) {
		at := wild(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		conn, err := NewBackendClient(BackendClientConfig{}).Dial(ctx, at)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		began := time.Now()
		if got, err := conn.Submit(ctx, invocation()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, %v", got, err)
		}
		if took := time.Since(began); took > bound/2 {
			t.Errorf("a backend that hangs holds the caller for %s", took)
		}
	})
	t.Run("refuses the connection", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		at := addressOf(t, l.Addr())
		_ = l.Close()
		if _, err := NewBackendClient(BackendClientConfig{}).Dial(t.Context(), at); err == nil {
			t.Error("a closed port can be dialled")
		}
	})
}

// A few bytes must not cost more than a few bytes.
func TestHugeAnnouncementsAllocateLittle(t *testing.T) {
	at := wild(t, func(conn net.Conn) {
		seq, _ := readCall(conn)
		b := answer(submitMethod, thrift.REPLY, seq, func(context.Context, thrift.TProtocol) error { return nil })
		_, _ = conn.Write(append(b, 12, 0, 0, 8, 0, 1, 0, 0, 0, 0, 15, 0, 2, 11, 0x01, 0xff, 0xff, 0xff))
	})
	client := NewBackendClient(BackendClientConfig{})
	call := func() {
		conn, err := client.Dial(t.Context(), at)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.Submit(t.Context(), invocation()); err == nil {
			t.Fatal("accepted")
		}
	}
	call()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const rounds = 20
	for range rounds {
		call()
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / rounds; each > 200<<10 {
		t.Errorf("a hostile answer costs %d bytes", each)
	}
}

// recorder is a well-behaved backend that keeps what it was told.
type recorder struct {
	mu       sync.Mutex
	dispatch *backend.TLanceIndexJobDispatch
	master   *backend.TMasterInfo
	result   *backend.THeartbeatResult_
}

func (r *recorder) SubmitLanceIndexJob(_ context.Context, d *backend.TLanceIndexJobDispatch) (*shared.TStatus, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dispatch = d
	return &shared.TStatus{ErrorMsgs: []string{"taken \xff\n" + strings.Repeat("x", 5000)}}, nil
}

func (r *recorder) Heartbeat(_ context.Context, m *backend.TMasterInfo) (*backend.THeartbeatResult_, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.master = m
	return r.result, nil
}

func (r *recorder) told() (*backend.TLanceIndexJobDispatch, *backend.TMasterInfo) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dispatch, r.master
}

func (r *recorder) answerWith(result *backend.THeartbeatResult_) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result = result
}

func serveBackend(t *testing.T, p thrift.TProcessor, cfg thriftnet.Config) job.Address {
	t.Helper()
	cfg.Name, cfg.Address, cfg.Processor = "backend", "127.0.0.1:0", p
	s, err := thriftnet.New(cfg)
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
	return addressOf(t, s.Addr())
}

func TestDispatchCarriesTheWholeInvocation(t *testing.T) {
	for _, protocol := range []thriftnet.Protocol{thriftnet.Binary, thriftnet.Compact} {
		for _, framed := range []bool{false, true} {
			r := &recorder{}
			at := serveBackend(t, backend.NewBackendServiceProcessor(r), thriftnet.Config{Protocol: protocol, Framed: framed})
			conn, err := NewBackendClient(BackendClientConfig{Protocol: protocol, Framed: framed}).Dial(t.Context(), at)
			if err != nil {
				t.Fatal(err)
			}
			reply, err := conn.Submit(t.Context(), invocation())
			_ = conn.Close()
			if err != nil || reply.Status != job.StatusOK {
				t.Fatalf("%s framed=%v: %v, %v", protocol, framed, reply, err)
			}
			if m := reply.Messages[0]; len(m) > job.MaxMessage || strings.Contains(m, "\n") || !utf8.ValidString(m) {
				t.Errorf("a backend's words are not cleaned: %.100q", m)
			}
			if told, _ := r.told(); !told.Equals(dispatchOf(invocation())) {
				t.Errorf("%s framed=%v: the backend was told something else", protocol, framed)
			}
		}
	}
}

// Strings that a DROP does not use go as empty ones, secret and bounds always go.
func TestDispatchOfDrop(t *testing.T) {
	d := dispatchOf(&job.Invocation{Mutation: job.MutationDrop, IfExists: true, Secret: secret, IndexName: "i"})
	if d.PropertiesJSON != nil || d.IfNotExists != nil || d.StorageOptions != nil {
		t.Error("fields that a DROP does not use are set")
	}
	if d.IfExists == nil || !*d.IfExists || d.InvocationSecret == nil || d.MaxNumPartitions == nil || d.MaxNumSubVectors == nil {
		t.Error("fields that every DROP sends are not set")
	}
	if r := dispatchOf(&job.Invocation{Mutation: job.MutationReplace}); r.IfExists != nil || r.IfNotExists != nil {
		t.Error("a REPLACE has no condition")
	}
}

// The largest dispatch that may be sent arrives, and Size says how large it is.
func TestMaximalDispatch(t *testing.T) {
	inv := invocation()
	inv.StorageOptions = map[string]string{}
	for i := range 64 {
		key := fmt.Sprintf("%0256d", i)
		inv.StorageOptions[key] = strings.Repeat("v", 4096)
	}
	inv.PropertiesJSON = strings.Repeat("p", job.MaxProperties)
	size, err := NewBackendClient(BackendClientConfig{}).Size(inv)
	if err != nil || size < 278_000 || size > 512<<10 {
		t.Fatalf("the size is %d, %v", size, err)
	}
	p := thrift.NewTSerializer()
	b := thrift.NewTMemoryBuffer()
	p.Transport, p.Protocol = b, thrift.NewTCompactProtocolConf(b, nil)
	raw, err := p.Write(t.Context(), dispatchOf(inv))
	if err != nil || len(raw) != size {
		t.Errorf("it takes %d bytes, Size says %d, %v", len(raw), size, err)
	}
	r := &recorder{}
	at := serveBackend(t, backend.NewBackendServiceProcessor(r), thriftnet.Config{})
	conn, err := NewBackendClient(BackendClientConfig{}).Dial(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Submit(t.Context(), inv); err != nil {
		t.Fatal(err)
	}
	if told, _ := r.told(); !told.Equals(dispatchOf(inv)) {
		t.Error("the maximal dispatch did not arrive whole")
	}
}

func TestHeartbeat(t *testing.T) {
	req := job.HeartbeatRequest{Backend: 3, ClusterID: 9, Epoch: 1<<40 | 5, ReportHost: "::1", ReportPort: 9020, HTTPPort: 8030, Token: "tok"}
	r := &recorder{result: &backend.THeartbeatResult_{
		Status:      &shared.TStatus{StatusCode: 0},
		BackendInfo: &backend.TBackendInfo{BePort: 9060, HTTPPort: 8040, Version: ptr("v\x00 1"), BeStartTime: ptr(int64(epoch))},
	}}
	at := serveBackend(t, backend.NewHeartbeatServiceProcessor(r), thriftnet.Config{})
	client := NewBackendClient(BackendClientConfig{})
	got, err := client.Heartbeat(t.Context(), at, req)
	if err != nil {
		t.Fatal(err)
	}
	want := job.HeartbeatReply{ProcessEpoch: epoch, RemoteAddr: fmt.Sprintf("127.0.0.1:%d", at.BePort), BePort: 9060, Version: "v  1"}
	if got.ProcessEpoch != want.ProcessEpoch || got.RemoteAddr != want.RemoteAddr || got.BePort != want.BePort || got.Version != want.Version {
		t.Errorf("got %+v, want %+v", got, want)
	}
	_, m := r.told()
	if m.NetworkAddress.Hostname != "::1" || m.NetworkAddress.Port != 9020 || m.ClusterID != 9 || m.Epoch != 1<<40|5 ||
		m.GetToken() != "tok" || m.BackendIP != nil || m.GetHTTPPort() != 8030 || m.GetBackendID() != 3 {
		t.Error("the backend was told something else")
	}
	r.answerWith(&backend.THeartbeatResult_{Status: &shared.TStatus{}, BackendInfo: &backend.TBackendInfo{BePort: 9060}})
	if got, err := client.Heartbeat(t.Context(), at, req); err != nil || got.ProcessEpoch != 0 {
		t.Errorf("a backend without a start time: %+v, %v", got, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	silent := wild(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	if _, err := client.Heartbeat(ctx, silent, req); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a silent backend: %v", err)
	}
}

func TestCleanText(t *testing.T) {
	for _, c := range []struct {
		text string
		most int
		want string
	}{
		{" plain ", 10, "plain"}, {"a\x00b\x1b[0mc", 20, "a b [0mc"}, {"\xff", 10, "?"},
		{"aß", 2, "a?"}, {"long text", 4, "long"}, {"a\u2028b\u0085c", 20, "a b c"},
	} {
		if got := cleanText(c.text, c.most); got != c.want {
			t.Errorf("cleanText(%q, %d) = %q, want %q", c.text, c.most, got, c.want)
		}
	}
}

// A backend that speaks no TLS where it is asked for is said to speak none, whatever it answers with.
func TestBackendWithoutTLS(t *testing.T) {
	client := NewBackendClient(BackendClientConfig{TLS: func() *tls.Config { return &tls.Config{MinVersion: tls.VersionTLS12} }})
	for name, tc := range map[string]struct {
		serve func(net.Conn)
		says  string
	}{
		"it hangs up": {func(net.Conn) {}, "the backend closed the connection on TLS"},
		"it reads the hello as a message and hangs up": {func(c net.Conn) { _, _ = c.Read(make([]byte, 8<<10)) }, "the backend closed the connection on TLS"},
		"it answers with something else":               {func(c net.Conn) { _, _ = c.Write([]byte("something else")) }, "no TLS is spoken there"},
	} {
		_, err := client.Heartbeat(t.Context(), wild(t, tc.serve), job.HeartbeatRequest{})
		if err == nil || !strings.Contains(err.Error(), "cannot connect: "+tc.says) || !strings.Contains(err.Error(), "backend.tls") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

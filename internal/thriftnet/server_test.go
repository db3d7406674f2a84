package thriftnet

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/apache/thrift/lib/go/thrift"

	"github.com/lancemaster/lancemaster/gen-go/report"
	"github.com/lancemaster/lancemaster/gen-go/shared"
)

func TestAnswersInEveryForm(t *testing.T) {
	serverTLS, clientTLS := certificate(t)
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		for _, protocol := range []Protocol{Binary, Compact} {
			for _, framed := range []bool{false, true} {
				for _, secure := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s %s framed=%v tls=%v", address, protocol, framed, secure), func(t *testing.T) {
						h := handler{result: func(ctx context.Context, r *report.TLanceIndexJobReport) (*shared.TStatus, error) {
							if _, bounded := ctx.Deadline(); !bounded {
								t.Error("the handler's context has no deadline")
							}
							return ok(r.InvocationID, Peer(ctx)), nil
						}}
						var from, to *tls.Config
						if secure {
							from, to = serverTLS, clientTLS
						}
						s, _ := start(t, h, func(c *Config) {
							c.Address, c.Protocol, c.Framed, c.TLS = address, protocol, framed, from
						})
						c := dial(t, s, ClientConfig{Protocol: protocol, Framed: framed, TLS: to})
						for range 3 {
							answer, err := send(t, c, sample())
							if err != nil {
								t.Fatal(err)
							}
							local := c.transport.conn.LocalAddr().String()
							if len(answer.ErrorMsgs) != 2 || answer.ErrorMsgs[0] != "inv" || answer.ErrorMsgs[1] != local {
								t.Errorf("answered %q, want the invocation id and %s", answer.ErrorMsgs, local)
							}
						}
					})
				}
			}
		}
	}
}

func TestPipelinedRequestsAreAnsweredInOrder(t *testing.T) {
	for _, framed := range []bool{false, true} {
		s, _ := start(t, handler{}, func(c *Config) { c.Framed = framed })
		one := reportBytes(t, Binary, sample())
		if framed {
			one = append(binary.BigEndian.AppendUint32(nil, uint32(len(one))), one...)
		}
		c := raw(t, s)
		write(t, c, append(append([]byte{}, one...), one...))
		p := Binary.over(newTransport(c, framed, 1<<20, nil), configuration(1<<20, 100))
		for i := range 2 {
			if err := p.Transport().(*transport).begin(); err != nil {
				t.Fatal(err)
			}
			name, kind, _, err := p.ReadMessageBegin(t.Context())
			if err != nil || kind != thrift.REPLY || name != "reportLanceIndexJobResult" {
				t.Fatalf("answer %d (framed %v): %q, kind %d, %v", i, framed, name, kind, err)
			}
			if err := p.Skip(t.Context(), thrift.STRUCT); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// flaky is a listener whose first accepts fail.
type flaky struct {
	net.Listener
	failures atomic.Int32
}

func (f *flaky) Accept() (net.Conn, error) {
	if f.failures.Add(-1) >= 0 {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return f.Listener.Accept()
}

func TestAcceptErrorsAreSurvived(t *testing.T) {
	var log logged
	s, seen := start(t, handler{}, func(c *Config) {
		c.Logger = log.logger()
		c.Listen = func(ctx context.Context, address string) (net.Listener, error) {
			l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
			f := &flaky{Listener: l}
			f.failures.Store(5)
			return f, err
		}
	})
	mustSend(t, dial(t, s, ClientConfig{}))
	if got := seen.count(IncidentAccept); got != 5 {
		t.Errorf("counted %d failed accepts, want 5", got)
	}
	if got := strings.Count(log.String(), "cannot accept"); got != 1 {
		t.Errorf("the log says %d times that accepting failed, want once:\n%s", got, log.String())
	}
	if !strings.Contains(log.String(), "accepting connections again") {
		t.Errorf("the log does not say that accepting works again:\n%s", log.String())
	}
}

// A failed accept for want of descriptors frees one that does nothing.
func TestAcceptErrorEvictsAnIdleConnection(t *testing.T) {
	var f *flaky
	s, seen := start(t, handler{}, func(c *Config) {
		c.Listen = func(ctx context.Context, address string) (net.Listener, error) {
			l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
			f = &flaky{Listener: l}
			return f, err
		}
	})
	first := dial(t, s, ClientConfig{})
	mustSend(t, first)
	f.failures.Store(1)
	raw(t, s) // an accept may be waiting already, past the failure
	raw(t, s)
	seen.await(t, IncidentEvicted, 1)
	mustSend(t, dial(t, s, ClientConfig{}))
}

func TestPanicIsContained(t *testing.T) {
	const canary = "canary-of-the-request"
	var log logged
	h := handler{result: func(_ context.Context, r *report.TLanceIndexJobReport) (*shared.TStatus, error) {
		panic(fmt.Sprintf("%+v", r))
	}}
	s, seen := start(t, h, func(c *Config) { c.Logger = log.logger() })
	other := dial(t, s, ClientConfig{})
	r := sample()
	r.InvocationID = canary
	_, err := send(t, dial(t, s, ClientConfig{}), r)
	var x thrift.TApplicationException
	if !errors.As(err, &x) || x.TypeId() != thrift.INTERNAL_ERROR || x.Error() != textPanic {
		t.Errorf("answered %v, want an internal error", err)
	}
	if _, err := report.NewReportServiceClient(other).ReportLanceIndexJobTermination(t.Context(), &report.TLanceIndexJobTerminationReport{}); err != nil {
		t.Errorf("another connection suffers: %v", err)
	}
	if seen.count(IncidentPanic) != 1 {
		t.Errorf("counted %d panics, want 1", seen.count(IncidentPanic))
	}
	if !strings.Contains(log.String(), "server_test.go") || !strings.Contains(log.String(), "panic=string") {
		t.Errorf("the log does not say where and what:\n%s", log.String())
	}
	if strings.Contains(log.String(), canary) {
		t.Errorf("the log shows the request")
	}
}

func TestUnknownMethod(t *testing.T) {
	s, seen := start(t, handler{}, nil)
	c := dial(t, s, ClientConfig{})
	args := report.ReportServiceReportLanceIndexJobResultArgs{Report: sample()}
	_, err := c.Call(t.Context(), "noSuchMethod", &args, &args)
	var x thrift.TApplicationException
	if !errors.As(err, &x) || x.TypeId() != thrift.UNKNOWN_METHOD {
		t.Fatalf("answered %v, want UNKNOWN_METHOD", err)
	}
	mustSend(t, c) // the connection goes on
	if seen.count(IncidentUnknownMethod) != 1 {
		t.Error("the unknown method was not counted")
	}
}

func TestNoCall(t *testing.T) {
	for _, kind := range []thrift.TMessageType{thrift.REPLY, thrift.EXCEPTION, thrift.ONEWAY, 0, 9} {
		s, _ := start(t, handler{}, nil)
		c := raw(t, s)
		write(t, c, message(t, Binary, func(p thrift.TProtocol) error {
			return p.WriteMessageBegin(context.Background(), "reportLanceIndexJobResult", kind, 1)
		}))
		if x := readException(t, c); x.TypeId() != thrift.INVALID_MESSAGE_TYPE_EXCEPTION {
			t.Errorf("kind %d is answered %v", kind, x)
		}
		if left := rest(t, c); len(left) > 0 {
			t.Errorf("kind %d: %d more bytes", kind, len(left))
		}
	}
}

// What cannot be read is answered with words that show nothing of the inside.
func TestUnreadableRequests(t *testing.T) {
	field := func(p thrift.TProtocol, kind thrift.TType, id int16, value func() error) error {
		ctx := context.Background()
		return errors.Join(p.WriteFieldBegin(ctx, "", kind, id), value(), p.WriteFieldEnd(ctx))
	}
	structOf := func(p thrift.TProtocol, fields func() error) error {
		ctx := context.Background()
		return errors.Join(p.WriteStructBegin(ctx, ""), fields(), p.WriteFieldStop(ctx), p.WriteStructEnd(ctx))
	}
	args := func(p thrift.TProtocol, inner func() error) error {
		return structOf(p, func() error { return field(p, thrift.STRUCT, 1, func() error { return structOf(p, inner) }) })
	}
	bad := sample()
	bad.InvocationID = "\xff\xfe"
	badOptional := sample()
	text := "ok \xc3"
	badOptional.SanitizedMessage = &text
	cases := map[string][]byte{
		"a required field is missing": callBytes(t, Binary, func(p thrift.TProtocol) error {
			return args(p, func() error {
				return field(p, thrift.I64, 1, func() error { return p.WriteI64(context.Background(), 1) })
			})
		}),
		"text that is not UTF-8":          reportBytes(t, Binary, bad),
		"optional text that is not UTF-8": reportBytes(t, Binary, badOptional),
		"a field of a type there is not":  append(callBytes(t, Binary, func(thrift.TProtocol) error { return nil }), 99, 0, 1),
		"a string of two GiB":             append(callBytes(t, Binary, func(thrift.TProtocol) error { return nil }), 12, 0, 1, 11, 0, 3, 0x7f, 0xff, 0xff, 0xff),
		"a string of negative length":     append(callBytes(t, Binary, func(thrift.TProtocol) error { return nil }), 12, 0, 1, 11, 0, 3, 0xff, 0xff, 0xff, 0xff),
		"a list of two billion":           append(callBytes(t, Binary, func(thrift.TProtocol) error { return nil }), 15, 0, 9, 11, 0x7f, 0xff, 0xff, 0xff),
		"a list within bytes, not bounds": append(callBytes(t, Binary, func(thrift.TProtocol) error { return nil }), 15, 0, 9, 3, 0, 1, 0, 0),
		"a map of two billion":            append(callBytes(t, Binary, func(thrift.TProtocol) error { return nil }), 13, 0, 9, 11, 11, 0x7f, 0xff, 0xff, 0xff),
		"structs nested without end":      append(callBytes(t, Binary, func(thrift.TProtocol) error { return nil }), deep(200)...),
		"a message that grows field by field": append(callBytes(t, Binary, func(thrift.TProtocol) error { return nil }),
			strings.Repeat("\x0b\x00\x09\x00\x00\x80\x00"+strings.Repeat("x", 1<<15), 40)...),
	}
	for name, request := range cases {
		t.Run(name, func(t *testing.T) {
			s, seen := start(t, handler{result: func(context.Context, *report.TLanceIndexJobReport) (*shared.TStatus, error) {
				t.Error("the handler was called")
				return ok(), nil
			}}, nil)
			c := raw(t, s)
			done := make(chan struct{})
			go func() { defer close(done); _, _ = c.Write(request) }() // the server may close before all is written
			if len(request) < 1<<20 {
				x := readException(t, c)
				if x.TypeId() != thrift.PROTOCOL_ERROR || x.Error() != textUnreadable {
					t.Errorf("answered %d %q", x.TypeId(), x.Error())
				}
			}
			rest(t, c)
			<-done
			seen.await(t, IncidentUnreadable, 1)
		})
	}
}

// deep opens structs in structs.
func deep(levels int) []byte {
	var b []byte
	for range levels {
		b = append(b, 12, 0, 9)
	}
	return b
}

// A length alone costs next to nothing.
func TestHostileLengthsAllocateLittle(t *testing.T) {
	s, seen := start(t, handler{}, nil)
	empty := func(thrift.TProtocol) error { return nil }
	requests := [][]byte{
		append(callBytes(t, Binary, empty), 12, 0, 1, 11, 0, 3, 0, 0x0f, 0xff, 0xff),  // a string of nearly 1 MiB
		append(callBytes(t, Binary, empty), 15, 0, 9, 12, 0x00, 0x0f, 0xff, 0xff),     // as many structs
		append(callBytes(t, Binary, empty), 13, 0, 9, 11, 11, 0x00, 0x00, 0x04, 0x00), // as many entries as are allowed
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const rounds = 50
	for range rounds {
		for _, request := range requests {
			c := raw(t, s)
			write(t, c, request)
			if err := c.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			rest(t, c)
		}
	}
	runtime.ReadMemStats(&after)
	seen.await(t, IncidentUnreadable, rounds*len(requests))
	if each := (after.TotalAlloc - before.TotalAlloc) / uint64(rounds*len(requests)); each > 100<<10 {
		t.Errorf("a hostile length costs %d bytes", each)
	}
}

func TestForeignBytesCloseTheConnection(t *testing.T) {
	hello := "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
	for name, bytes := range map[string]string{"HTTP": "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "TLS": hello, "zeroes": "\x00\x00\x00\x00", "compact": "\x82\x21"} {
		t.Run(name, func(t *testing.T) {
			s, seen := start(t, handler{}, nil)
			c := raw(t, s)
			write(t, c, []byte(bytes))
			if answer := rest(t, c); len(answer) > 0 {
				t.Errorf("answered %q", answer)
			}
			seen.await(t, IncidentForeign, 1)
		})
	}
	t.Run("plain on a TLS port", func(t *testing.T) {
		serverTLS, _ := certificate(t)
		s, seen := start(t, handler{}, func(c *Config) { c.TLS = serverTLS })
		c := raw(t, s)
		write(t, c, reportBytes(t, Binary, sample()))
		rest(t, c)
		seen.await(t, IncidentHandshake, 1)
	})
	t.Run("nothing on a TLS port", func(t *testing.T) {
		serverTLS, _ := certificate(t)
		s, seen := start(t, handler{}, func(c *Config) { c.TLS, c.ReadTimeout = serverTLS, 50*time.Millisecond })
		rest(t, raw(t, s))
		seen.await(t, IncidentHandshake, 1)
	})
}

// A sender that never pauses long but never ends is cut at an absolute time.
func TestSlowSenderIsCut(t *testing.T) {
	s, seen := start(t, handler{}, func(c *Config) { c.ReadTimeout = 200 * time.Millisecond })
	c := raw(t, s)
	request := reportBytes(t, Binary, sample())
	write(t, c, request[:4])
	began := time.Now()
	closed := make(chan struct{})
	go func() { defer close(closed); rest(t, c) }()
	drip := time.NewTicker(10 * time.Millisecond)
	defer drip.Stop()
	long := strings.NewReader(strings.Repeat("\x00", 1<<20)) // a method name without end
	write(t, c, []byte{0, 0, 0, 0x7f})
	for sent := 0; ; sent++ {
		select {
		case <-closed:
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("the sender was cut after %s", took)
			}
			seen.await(t, IncidentUnreadable, 1)
			return
		case <-drip.C:
			if sent > 100 {
				continue // within the name; the time must be up long since
			}
			b, _ := long.ReadByte()
			_, _ = c.Write([]byte{b})
		}
	}
}

func TestIdleConnectionIsClosed(t *testing.T) {
	s, _ := start(t, handler{}, func(c *Config) { c.IdleTimeout = 50 * time.Millisecond })
	rest(t, raw(t, s))
}

func TestConnectionCap(t *testing.T) {
	release := make(chan struct{})
	entered := make(chan struct{}, 10)
	blocking := handler{result: func(context.Context, *report.TLanceIndexJobReport) (*shared.TStatus, error) {
		entered <- struct{}{}
		<-release
		return ok(), nil
	}}
	terminate := func(c *Client) error {
		_, err := report.NewReportServiceClient(c).ReportLanceIndexJobTermination(t.Context(), &report.TLanceIndexJobTerminationReport{})
		return err
	}
	s, seen := start(t, blocking, func(c *Config) { c.MaxConns = 3 })

	// One that works, one idle for longest, one idle for less.
	busy := dial(t, s, ClientConfig{})
	busyDone := make(chan error, 1)
	go func() {
		_, err := report.NewReportServiceClient(busy).ReportLanceIndexJobResult_(context.Background(), sample())
		busyDone <- err
	}()
	<-entered
	var idlers []*Client
	for n := 1; n <= 2; n++ {
		c := dial(t, s, ClientConfig{})
		if err := terminate(c); err != nil {
			t.Fatal(err)
		}
		awaitIdle(t, s, n)
		idlers = append(idlers, c)
	}
	oldest, newer := idlers[0], idlers[1]
	if err := terminate(dial(t, s, ClientConfig{})); err != nil {
		t.Fatalf("a new connection was not served: %v", err)
	}
	if err := terminate(oldest); err == nil {
		t.Error("the connection idle for longest is still there")
	}
	if err := terminate(newer); err != nil {
		t.Errorf("another connection was evicted: %v", err)
	}
	if got := seen.count(IncidentEvicted); got != 1 {
		t.Errorf("%d connections were evicted, want 1", got)
	}
	close(release)
	if err := <-busyDone; err != nil {
		t.Errorf("a request in progress was cut: %v", err)
	}
}

// awaitIdle waits until so many connections wait for a request: an answer arrives a little earlier.
func awaitIdle(t *testing.T, s *Server, want int) {
	t.Helper()
	deadline := time.Now().Add(bound)
	for {
		s.mu.Lock()
		got := 0
		for c := range s.conns {
			if c.state == idle {
				got++
			}
		}
		s.mu.Unlock()
		if got == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d connections are idle, want %d", got, want)
		}
		runtime.Gosched()
	}
}

// Slow senders do not keep others out; requests in progress do.
func TestConnectionCapWithoutIdleOnes(t *testing.T) {
	release := make(chan struct{})
	entered := make(chan struct{}, 10)
	s, seen := start(t, handler{result: func(context.Context, *report.TLanceIndexJobReport) (*shared.TStatus, error) {
		entered <- struct{}{}
		<-release
		return ok(), nil
	}}, func(c *Config) { c.MaxConns, c.ReadTimeout = 2, time.Minute })
	for range 5 {
		c := raw(t, s)
		write(t, c, []byte{0x80, 1})
	}
	answers := make(chan error, 2)
	for range 2 {
		c := dial(t, s, ClientConfig{})
		go func() {
			_, err := report.NewReportServiceClient(c).ReportLanceIndexJobResult_(context.Background(), sample())
			answers <- err
		}()
		<-entered
	}
	refused := raw(t, s)
	rest(t, refused)
	seen.await(t, IncidentFull, 1)
	close(release)
	for range 2 {
		if err := <-answers; err != nil {
			t.Errorf("a request in progress was cut: %v", err)
		}
	}
}

// Large messages under way are bounded together and never keep small ones out.
func TestAllowance(t *testing.T) {
	s, seen := start(t, handler{}, func(c *Config) { c.MaxInFlight, c.ReadTimeout = 256<<10, time.Minute })
	large := sample()
	text := strings.Repeat("x", 250<<10)
	large.SanitizedMessage = &text
	request := reportBytes(t, Binary, large)
	holder := raw(t, s)
	write(t, holder, request[:len(request)-1])
	deadline := time.Now().Add(bound)
	for s.shared.used.Load() < 200<<10 {
		if time.Now().After(deadline) {
			t.Fatal("the first large message is not counted")
		}
		runtime.Gosched()
	}
	second := raw(t, s)
	_, _ = second.Write(request[:len(request)-1]) // may be refused before it is all there
	seen.await(t, IncidentUnreadable, 1)
	mustSend(t, dial(t, s, ClientConfig{}))
	write(t, holder, request[len(request)-1:])
	c := newTransport(holder, false, 1<<20, nil)
	if err := c.begin(); err != nil {
		t.Fatal(err)
	}
	if _, kind, _, err := Binary.over(c, configuration(1<<20, 10)).ReadMessageBegin(t.Context()); err != nil || kind != thrift.REPLY {
		t.Errorf("the first large message is answered with kind %d, %v", kind, err)
	}
	if used := s.shared.used.Load(); used > 256<<10 {
		t.Errorf("%d bytes are in use", used)
	}
}

func TestNothingIsLeftAfterAThousandAbortedConnections(t *testing.T) {
	s, _ := start(t, handler{}, nil)
	request := reportBytes(t, Binary, sample())
	var wg sync.WaitGroup
	for worker := range 10 {
		wg.Go(func() {
			for i := range 100 {
				c, err := net.Dial("tcp", s.Addr().String())
				if err != nil {
					t.Error(err)
					return
				}
				_ = c.(*net.TCPConn).SetLinger(0)
				_, _ = c.Write(request[:(worker*100+i)%(len(request)+1)])
				_ = c.Close()
			}
		})
	}
	wg.Wait()
	mustSend(t, dial(t, s, ClientConfig{}))
	deadline := time.Now().Add(bound)
	for {
		s.mu.Lock()
		open := len(s.conns)
		s.mu.Unlock()
		if open <= 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d connections are left", open)
		}
		runtime.Gosched()
	}
	if used := s.shared.used.Load(); used != 0 {
		t.Errorf("%d bytes of the allowance are not given back", used)
	}
}

func TestStop(t *testing.T) {
	release := make(chan struct{})
	entered := make(chan struct{}, 10)
	h := handler{result: func(ctx context.Context, _ *report.TLanceIndexJobReport) (*shared.TStatus, error) {
		entered <- struct{}{}
		select {
		case <-release:
			return ok(), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}
	call := func(s *Server) chan error {
		c := dial(t, s, ClientConfig{})
		done := make(chan error, 1)
		go func() {
			_, err := report.NewReportServiceClient(c).ReportLanceIndexJobResult_(context.Background(), sample())
			done <- err
		}()
		<-entered
		return done
	}

	t.Run("idle connections go at once, requests in progress are answered", func(t *testing.T) {
		s, _ := start(t, h, nil)
		idleConn := raw(t, s)
		answer := call(s)
		stopped := make(chan error, 1)
		go func() { stopped <- s.Stop(context.Background()) }()
		rest(t, idleConn)
		select {
		case err := <-stopped:
			t.Fatalf("stopped with a request in progress: %v", err)
		default:
		}
		if _, err := net.DialTimeout("tcp", s.Addr().String(), time.Second); err == nil {
			t.Error("the port still takes connections")
		}
		release <- struct{}{}
		if err := <-answer; err != nil {
			t.Errorf("the request in progress was not answered: %v", err)
		}
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
	t.Run("requests that do not end are cut", func(t *testing.T) {
		s, _ := start(t, h, nil)
		answer := call(s)
		slow := raw(t, s)
		write(t, slow, []byte{0x80})
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			t.Error(err)
		}
		if err := <-answer; err == nil {
			t.Error("the request was answered OK")
		}
	})
	t.Run("twice, and before a start", func(t *testing.T) {
		s, err := New(Config{Name: "x", Processor: report.NewReportServiceProcessor(h)})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := s.Stop(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if err := s.Start(t.Context()); err == nil {
			t.Error("a stopped server starts")
		}
	})
}

// A handler that waits is told when the server stops, and when its client is gone.
func TestDrainingAndGone(t *testing.T) {
	entered := make(chan struct{}, 1)
	told := make(chan string, 1)
	h := handler{result: func(ctx context.Context, _ *report.TLanceIndexJobReport) (*shared.TStatus, error) {
		entered <- struct{}{}
		select {
		case <-Draining(ctx):
			told <- "draining"
		case <-Gone(ctx):
			told <- "gone"
		case <-ctx.Done():
			told <- "done"
		}
		return ok(), nil
	}}
	s, _ := start(t, h, nil)
	c := raw(t, s)
	write(t, c, reportBytes(t, Binary, sample()))
	<-entered
	_ = c.Close()
	if got := <-told; got != "gone" {
		t.Errorf("the handler of a client that went was told %q", got)
	}
	c = raw(t, s)
	write(t, c, reportBytes(t, Binary, sample()))
	<-entered
	stopped := make(chan error, 1)
	go func() { stopped <- s.Stop(context.Background()) }()
	if got := <-told; got != "draining" {
		t.Errorf("the handler was told %q at a stop", got)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

func TestHandlerErrorsGoOutAsTheyAre(t *testing.T) {
	h := handler{result: func(context.Context, *report.TLanceIndexJobReport) (*shared.TStatus, error) {
		return nil, errors.New("send it again")
	}}
	s, seen := start(t, h, nil)
	c := dial(t, s, ClientConfig{})
	for range 2 {
		_, err := send(t, c, sample())
		var x thrift.TApplicationException
		if !errors.As(err, &x) || x.Error() != "send it again" {
			t.Errorf("answered %v", err)
		}
	}
	if seen.count(IncidentUnreadable) != 0 {
		t.Error("a handler's error counts as an unreadable request")
	}
}

func TestStartRefuses(t *testing.T) {
	if _, err := New(Config{Name: "x", Processor: report.NewReportServiceProcessor(handler{}), Protocol: "json"}); err == nil {
		t.Error("an unknown protocol is taken")
	}
	if _, err := New(Config{Name: "x"}); err == nil {
		t.Error("a server without a processor is taken")
	}
	s, _ := start(t, handler{}, nil)
	if err := s.Start(t.Context()); err == nil {
		t.Error("a running server starts again")
	}
	other, err := New(Config{Name: "x", Address: s.Addr().String(), Processor: report.NewReportServiceProcessor(handler{})})
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(t.Context()); err == nil {
		t.Error("two servers share a port")
	}
	if other.Addr() != nil {
		t.Error("a server that does not listen has an address")
	}
}

package thriftnet

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
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
			if err := begin(p); err != nil {
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

// A handler may have its answer be the connection's last.
func TestCloseAfter(t *testing.T) {
	CloseAfter(t.Context()) // outside of a request: nothing
	s, _ := start(t, handler{result: func(ctx context.Context, r *report.TLanceIndexJobReport) (*shared.TStatus, error) {
		if r.InvocationID == "last" {
			CloseAfter(ctx)
			return nil, errors.New("not this way")
		}
		return ok(), nil
	}}, nil)
	c := raw(t, s)
	last := sample()
	last.InvocationID = "last"
	one := reportBytes(t, Binary, last)
	write(t, c, append(append([]byte{}, one...), one...))
	if err := c.SetReadDeadline(time.Now().Add(bound)); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(c)
	if got := strings.Count(string(answer), "not this way"); got != 1 {
		t.Errorf("%d answers, want one and the end: %v", got, err)
	}
}

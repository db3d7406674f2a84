package thriftnet

import (
	"context"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/gen-go/report"
	"github.com/lancemaster/lancemaster/gen-go/shared"
)

func TestNothingIsLeftAfterAThousandAbortedConnections(t *testing.T) {
	s, _ := start(t, handler{}, nil)
	request := reportBytes(t, Binary, sample())
	var wg sync.WaitGroup
	for worker := range 10 {
		wg.Go(func() {
			for i := range 100 {
				c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.Addr().String())
				if err != nil {
					t.Error(err)
					return
				}
				if tcp, ok := c.(*net.TCPConn); ok {
					_ = tcp.SetLinger(0) // the close is a reset
				}
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
		if _, err := Dial(t.Context(), s.Addr().String(), ClientConfig{Timeout: bound}); err == nil {
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

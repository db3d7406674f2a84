package thriftnet

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/apache/thrift/lib/go/thrift"

	"github.com/lancemaster/lancemaster/gen-go/report"
	"github.com/lancemaster/lancemaster/gen-go/shared"
)

// mute listens and hands every connection to a function.
func mute(t *testing.T, serve func(net.Conn)) string {
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
			serve(c)
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return l.Addr().String()
}

func TestClientIsBoundByItsContext(t *testing.T) {
	held := make(chan net.Conn, 10)
	address := mute(t, func(c net.Conn) { held <- c })
	t.Cleanup(func() {
		for len(held) > 0 {
			_ = (<-held).Close()
		}
	})
	t.Run("deadline", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		c, err := Dial(ctx, address, ClientConfig{})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		_, err = report.NewReportServiceClient(c).ReportLanceIndexJobResult_(ctx, sample())
		if err == nil || time.Since(began) > bound {
			t.Errorf("a silent peer is answered %v after %s", err, time.Since(began))
		}
		if _, err := send(t, c, sample()); !errors.Is(err, errBroken) {
			t.Errorf("the connection can still be used: %v", err)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c, err := Dial(ctx, address, ClientConfig{})
		if err != nil {
			t.Fatal(err)
		}
		failed := make(chan error, 1)
		go func() {
			_, err := report.NewReportServiceClient(c).ReportLanceIndexJobResult_(ctx, sample())
			failed <- err
		}()
		cancel()
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Errorf("a cancelled call ends with %v", err)
		}
	})
	t.Run("no deadline", func(t *testing.T) {
		c, err := Dial(t.Context(), address, ClientConfig{Timeout: 50 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := send(t, c, sample()); err == nil {
			t.Error("a silent peer is answered")
		}
	})
	t.Run("one at a time", func(t *testing.T) {
		c, err := Dial(t.Context(), address, ClientConfig{Timeout: bound})
		if err != nil {
			t.Fatal(err)
		}
		if !c.busy.CompareAndSwap(false, true) {
			t.Fatal("busy")
		}
		if _, err := send(t, c, sample()); !errors.Is(err, errConcurrent) {
			t.Errorf("a second call at once: %v", err)
		}
		_ = c.Close()
	})
}

// UNKNOWN_METHOD is the one answer that says that nothing ran; a frame that only begins with it says nothing.
func TestAnExceptionInAFrameWithMoreIsNoAnswer(t *testing.T) {
	for _, more := range []int{0, 1} {
		address := mute(t, func(c net.Conn) {
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(bound))
			frames := thrift.NewTFramedTransportConf(thrift.NewStreamTransportRW(c), &thrift.TConfiguration{})
			p := thrift.NewTBinaryProtocolConf(frames, &thrift.TConfiguration{})
			method, _, seq, err := p.ReadMessageBegin(t.Context())
			if err != nil || p.Skip(t.Context(), thrift.STRUCT) != nil {
				t.Errorf("the call cannot be read: %v", err)
				return
			}
			_ = p.WriteMessageBegin(t.Context(), method, thrift.EXCEPTION, seq)
			_ = thrift.NewTApplicationException(thrift.UNKNOWN_METHOD, "what?").Write(t.Context(), p)
			_, _ = frames.Write(make([]byte, more))
			if err := p.Flush(t.Context()); err != nil {
				t.Errorf("the answer cannot be sent: %v", err)
			}
		})
		c, err := Dial(t.Context(), address, ClientConfig{Framed: true, Timeout: bound})
		if err != nil {
			t.Fatal(err)
		}
		_, err = send(t, c, sample())
		var exception thrift.TApplicationException
		if got := errors.As(err, &exception) && exception.TypeId() == thrift.UNKNOWN_METHOD; err == nil || got != (more == 0) {
			t.Errorf("with %d bytes more: %v", more, err)
		}
		_ = c.Close()
	}
}

func TestDialRefuses(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	if _, err := Dial(t.Context(), l.Addr().String(), ClientConfig{}); err == nil {
		t.Error("a closed port can be dialled")
	}
	if _, err := Dial(t.Context(), l.Addr().String(), ClientConfig{Protocol: "json"}); err == nil || !strings.Contains(err.Error(), "binary and compact") {
		t.Errorf("an unknown protocol: %v", err)
	}
	address := mute(t, func(c net.Conn) { _ = c.Close() })
	_, clientTLS := certificate(t)
	if _, err := Dial(t.Context(), address, ClientConfig{TLS: clientTLS}); err == nil {
		t.Error("a TLS handshake succeeds with nobody")
	}
}

// A server whose certificate nobody vouches for is not spoken to.
func TestDialVerifies(t *testing.T) {
	serverTLS, _ := certificate(t)
	_, otherRoots := certificate(t)
	s, _ := start(t, handler{}, func(c *Config) { c.TLS = serverTLS })
	if _, err := Dial(t.Context(), s.Addr().String(), ClientConfig{TLS: otherRoots}); err == nil {
		t.Error("a stranger's certificate is taken")
	}
}

func TestClientReadsBoundedAnswers(t *testing.T) {
	h := handler{result: func(context.Context, *report.TLanceIndexJobReport) (*shared.TStatus, error) {
		texts := make([]string, 100)
		for i := range texts {
			texts[i] = strings.Repeat("x", 1<<10)
		}
		return ok(texts...), nil
	}}
	s, _ := start(t, h, nil)
	for name, cfg := range map[string]ClientConfig{
		"too many bytes": {MaxMessage: 50 << 10}, "too many elements": {MaxContainer: 99},
	} {
		if _, err := send(t, dial(t, s, cfg), sample()); err == nil {
			t.Errorf("%s: the answer was read", name)
		}
	}
	answer, err := send(t, dial(t, s, ClientConfig{}), sample())
	if err != nil || len(answer.ErrorMsgs) != 100 {
		t.Errorf("an answer within bounds: %v", err)
	}
}

func TestShorten(t *testing.T) {
	for _, c := range []struct {
		text string
		most int
		want string
	}{{"abc", 3, "abc"}, {"abcd", 3, "abc"}, {"aß", 2, "a"}, {"ß", 1, ""}, {"", 0, ""}} {
		if got := shorten(c.text, c.most); got != c.want {
			t.Errorf("shorten(%q, %d) = %q, want %q", c.text, c.most, got, c.want)
		}
	}
}

// The library's own server-side watch stays off: Server has its own.
func TestLibraryWatchIsOff(t *testing.T) {
	if thrift.ServerConnectivityCheckInterval > 0 {
		t.Error("the generated processors poll their connections")
	}
}

// What answers in another protocol is named, and an HTTP server answers at once: it is sent a whole line.
func TestAnotherProtocolIsNamed(t *testing.T) {
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	tlsOnly := mute(t, func(c net.Conn) {
		defer c.Close()
		_, _ = c.Read(make([]byte, 512))
		_, _ = c.Write([]byte{0x15, 3, 1, 0, 2, 2, 40})
	})
	for want, address := range map[string]string{"HTTP": web.Listener.Addr().String(), "TLS": tlsOnly} {
		c, err := Dial(t.Context(), address, ClientConfig{Timeout: bound})
		if err != nil {
			t.Fatal(err)
		}
		var foreign *ForeignError
		if _, err := send(t, c, sample()); !errors.As(err, &foreign) || foreign.Speaks != want {
			t.Errorf("%s gives %v", want, err)
		}
	}
}

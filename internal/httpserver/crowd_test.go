package httpserver

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// started is a server until the test has ended.
func started(t *testing.T, o Options) *Server {
	t.Helper()
	s, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Whoever holds connections does not keep a health check out.
func TestAHealthCheckGetsInWhoeverHoldsConnections(t *testing.T) {
	s := started(t, Options{Address: "127.0.0.1:0"})
	var dialer net.Dialer
	silent := make([]net.Conn, 0, maxConns)
	for range maxConns {
		c, err := dialer.DialContext(t.Context(), "tcp", s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		silent = append(silent, c)
	}
	probe(t, s)
	// The oldest had to go for it, long before the server's own patience with it ended.
	if err := silent[0].SetReadDeadline(time.Now().Add(readTimeout / 2)); err != nil {
		t.Fatal(err)
	}
	if _, err := silent[0].Read(make([]byte, 1)); err == nil || isTimeout(err) {
		t.Errorf("the oldest connection is still held: %v", err)
	}
}

func isTimeout(err error) bool {
	timeout, ok := err.(net.Error) //nolint:errorlint // as Read returns it
	return ok && timeout.Timeout()
}

// counted counts the connections of a listener that are open.
type counted struct {
	net.Listener
	open, most atomic.Int64
}

func (l *counted) listen(ctx context.Context, network, address string) (net.Listener, error) {
	var err error
	l.Listener, err = (&net.ListenConfig{}).Listen(ctx, network, address)
	return l, err
}

func (l *counted) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if n := l.open.Add(1); n > l.most.Load() { // the server accepts in one goroutine
		l.most.Store(n)
	}
	return &countedConn{Conn: c, gone: sync.OnceFunc(func() { l.open.Add(-1) })}, nil
}

type countedConn struct {
	net.Conn
	gone func()
}

func (c *countedConn) Close() error {
	c.gone()
	return c.Conn.Close()
}

// Requests that are not done, or whose body does not come, take no more connections than there may be, and
// no health check's.
func TestRequestsThatDoNotEndAreBounded(t *testing.T) {
	for name, sent := range map[string]string{
		"a body that does not come":   "GET /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n",
		"chunks that do not come":     "GET /livez HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
		"a page that takes its time":  "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
		"a head that does not end":    "GET /livez HTTP/1.1\r\nHost: x\r\n",
		"a body that nobody asks for": "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			var l counted
			end := make(chan struct{})
			slow := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-end })
			s := started(t, Options{Address: "127.0.0.1:0", Listen: l.listen, Metrics: slow})
			defer close(end)
			for range maxConns + 50 {
				c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.Addr())
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				if _, err := c.Write([]byte(sent)); err != nil {
					t.Fatal(err)
				}
			}
			began := time.Now()
			probe(t, s)
			if took := time.Since(began); took > readTimeout/2 {
				t.Errorf("a health check took %s", took)
			}
			if most := l.most.Load(); most > maxConns+1 { // another goes when one has come
				t.Errorf("%d connections were open at once, want at most %d", most, maxConns+1)
			}
		})
	}
}

// A body is not waited for, and not read.
func TestABodyIsRefusedUnread(t *testing.T) {
	s := started(t, Options{Address: "127.0.0.1:0"})
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte("GET /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	if err := c.SetReadDeadline(time.Now().Add(readTimeout / 2)); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(c) // to the end of the connection
	if err != nil || !strings.HasPrefix(string(text), "HTTP/1.1 413 ") || !strings.Contains(string(text), "Connection: close") {
		t.Errorf("answered %q, %v", text, err)
	}
}

func probe(t *testing.T, s *Server) {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.Addr()+"/livez", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r, err := (&http.Client{Transport: transport, Timeout: 20 * time.Second}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Body.Close(); err != nil || r.StatusCode != http.StatusOK {
		t.Errorf("got %d, %v", r.StatusCode, err)
	}
}

// A request under way is cut for another only when all have one, and nothing stays counted that has gone.
func TestCrowd(t *testing.T) {
	c := newCrowd(2)
	pipe := func() (ours, theirs net.Conn) {
		ours, theirs = net.Pipe()
		t.Cleanup(func() { _, _ = ours.Close(), theirs.Close() })
		return ours, theirs
	}
	closed := func(theirs net.Conn) bool {
		if theirs.SetReadDeadline(time.Now().Add(10*time.Millisecond)) != nil {
			return true
		}
		_, err := theirs.Read(make([]byte, 1))
		return err != nil && !isTimeout(err)
	}
	busy, busyEnd := pipe()
	idle, idleEnd := pipe()
	c.changed(busy, http.StateNew)
	c.changed(busy, http.StateActive)
	c.changed(idle, http.StateNew)
	third, _ := pipe()
	c.changed(third, http.StateNew)
	if closed(busyEnd) || !closed(idleEnd) {
		t.Error("the wrong one had to go")
	}
	c.changed(third, http.StateActive)
	fourth, _ := pipe()
	c.changed(fourth, http.StateNew)
	if !closed(busyEnd) || len(c.conns) != 2 {
		t.Errorf("with all busy the one that takes longest has to go; %d are left", len(c.conns))
	}
	for _, conn := range []net.Conn{busy, idle, third, fourth} {
		c.changed(conn, http.StateClosed)
	}
	if len(c.conns) != 0 {
		t.Errorf("%d connections are still counted", len(c.conns))
	}
}

package httpserver

import (
	"context"
	"net"
	"net/http"
	"testing"
	"time"
)

// Whoever holds connections does not keep a health check out.
func TestAHealthCheckGetsInWhoeverHoldsConnections(t *testing.T) {
	s, err := Start(Options{Address: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	}()
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

// A request under way is never cut for another, and nothing stays counted that has gone.
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
	c.changed(fourth, http.StateNew) // nobody can go: it is let in
	for _, conn := range []net.Conn{busy, idle, third, fourth} {
		c.changed(conn, http.StateClosed)
	}
	if len(c.conns) != 0 {
		t.Errorf("%d connections are still counted", len(c.conns))
	}
}

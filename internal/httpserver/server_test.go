package httpserver_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lancemaster/lancemaster/internal/httpserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var page = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "up 1\n") })

func start(t *testing.T, o httpserver.Options) *httpserver.Server {
	t.Helper()
	o.Address, o.Metrics = "127.0.0.1:0", page
	s, err := httpserver.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		if err := s.Stop(t.Context()); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
	})
	return s
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	return ask(t, http.MethodGet, url)
}

func ask(t *testing.T, method, url string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(r.Body)
	if err := errors.Join(err, r.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(body)
}

func TestHealthFollowsReadiness(t *testing.T) {
	var ok atomic.Bool
	url := "http://" + start(t, httpserver.Options{Ready: func() (bool, string) { return ok.Load(), "no leader" }}).Addr()
	for _, step := range []struct {
		ready  bool
		path   string
		status int
		body   string
	}{
		{false, "/livez", 200, "ok\n"},
		{false, "/readyz", 503, "not ready: no leader\n"},
		{false, "/readyz?standbyok", 503, "not ready: no leader\n"},
		{false, "/leader", 503, "{\"error\":\"no leader is known\"}\n"},
		{true, "/readyz", 200, "ok\n"},
		{true, "/metrics", 200, "up 1\n"},
		{true, "/nothing", 404, "404 page not found\n"},
	} {
		ok.Store(step.ready)
		if status, body := get(t, url+step.path); status != step.status || body != step.body {
			t.Errorf("%s with ready %v: %d %q, want %d %q", step.path, step.ready, status, body, step.status, step.body)
		}
	}
	if status, _ := ask(t, http.MethodPost, url+"/livez"); status != http.StatusMethodNotAllowed {
		t.Errorf("POST /livez: %d, want 405", status)
	}
}

// A client that connects and says nothing must not hold up Stop.
func TestStopDoesNotWaitForSilentClients(t *testing.T) {
	s, err := httpserver.Start(httpserver.Options{Address: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	stopped := make(chan error, 1)
	go func() { stopped <- s.Stop(t.Context()) }()
	select {
	case err := <-stopped:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("Stop hangs on a silent client")
	}
}

func TestStartNamesTheTakenAddress(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, o := range []httpserver.Options{
		{Address: l.Addr().String()}, {Address: "127.0.0.1:0", DebugAddress: l.Addr().String()},
	} {
		key := "http.listen "
		if o.DebugAddress != "" {
			key = "http.debug_listen "
		}
		if _, err = httpserver.Start(o); err == nil || !strings.Contains(err.Error(), key+l.Addr().String()) {
			t.Errorf("got %v", err)
		}
	}
}

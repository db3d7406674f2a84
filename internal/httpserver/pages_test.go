package httpserver_test

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/lancemaster/lancemaster/internal/httpserver"
)

// A load balancer may send reads to a follower that keeps up, and to no other.
func TestStandby(t *testing.T) {
	for _, tc := range []struct {
		name           string
		ready, standby bool
		why            string
		plain          int
		standbyok      int
		body           string
	}{
		{"the leader", true, false, "", 200, 200, "ok\n"},
		{"a follower", false, true, "", 503, 200, "ok, as a standby: the leader is b\n"},
		{"a follower that lags", false, false, "it lags behind", 503, 503, "not ready: it lags behind\n"},
		{"a follower that gives no reason", false, false, "", 503, 503, "not ready: the leader is b\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			url := "http://" + start(t, httpserver.Options{
				Ready:   func() (bool, string) { return tc.ready, "the leader is b" },
				Standby: func() (bool, string) { return tc.standby, tc.why },
			}).Addr()
			if status, _ := get(t, url+"/readyz"); status != tc.plain {
				t.Errorf("/readyz: %d", status)
			}
			for _, query := range []string{"?standbyok", "?standbyok=true", "?x=1&standbyok="} {
				if status, body := get(t, url+"/readyz"+query); status != tc.standbyok || body != tc.body {
					t.Errorf("%s: %d %q, want %d %q", query, status, body, tc.standbyok, tc.body)
				}
			}
		})
	}
}

func TestLeader(t *testing.T) {
	known := false
	url := "http://" + start(t, httpserver.Options{Leader: func() (httpserver.Leader, bool) {
		return httpserver.Leader{NodeID: "b", Term: 4, AdminAddress: "10.0.0.2:9021", RaftAddress: "10.0.0.2:9010"}, known
	}}).Addr()
	if status, body := get(t, url+"/leader"); status != http.StatusServiceUnavailable || !strings.Contains(body, "no leader is known") || strings.Contains(body, "10.0.0.2") {
		t.Errorf("unknown: %d %s", status, body)
	}
	known = true
	const want = `{"node_id":"b","self":false,"term":4,"admin_address":"10.0.0.2:9021","report_address":"","http_address":"","raft_address":"10.0.0.2:9010"}` + "\n"
	if status, body := get(t, url+"/leader"); status != 200 || body != want {
		t.Errorf("known: %d %s", status, body)
	}
}

// Profiles are off unless asked for, never on the main listener, and never for another name.
func TestProfiles(t *testing.T) {
	off := start(t, httpserver.Options{})
	if off.DebugAddr() != "" {
		t.Errorf("served at %s unasked", off.DebugAddr())
	}
	on := start(t, httpserver.Options{DebugAddress: "127.0.0.1:0"})
	for _, s := range []*httpserver.Server{off, on} {
		if status, _ := get(t, "http://"+s.Addr()+"/debug/pprof/"); status != http.StatusNotFound {
			t.Errorf("the main listener answers %d", status)
		}
	}
	debug := "http://" + on.DebugAddr()
	for path, want := range map[string]int{
		"/debug/pprof/": 200, "/debug/pprof/goroutine?debug=1": 200, "/debug/pprof/cmdline": 404, "/metrics": 404, "/": 404,
	} {
		if status, _ := get(t, debug+path); status != want {
			t.Errorf("%s: %d, want %d", path, status, want)
		}
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, debug+"/debug/pprof/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Host = "evil.example"
	r, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Body.Close(); err != nil || r.StatusCode != http.StatusForbidden {
		t.Errorf("by another name: %d, %v", r.StatusCode, err)
	}
	for _, address := range []string{"0.0.0.0:0", ":0", "10.0.0.1:6060", "example.com:6060"} {
		if _, err := httpserver.Start(httpserver.Options{Address: "127.0.0.1:0", DebugAddress: address}); err == nil || !strings.Contains(err.Error(), "http.debug_listen "+address) {
			t.Errorf("%s: got %v", address, err)
		}
	}
}

// elsewhere is a listener that says it is bound to an address of the machine's network.
type elsewhere struct{ net.Listener }

func (elsewhere) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 9} }

// A name of this machine may lead elsewhere.
func TestProfilesAreForThisMachineWhateverItIsCalled(t *testing.T) {
	_, err := httpserver.Start(httpserver.Options{
		Address: "127.0.0.1:0", DebugAddress: "localhost:0",
		Listen: func(ctx context.Context, network, address string) (net.Listener, error) {
			l, err := (&net.ListenConfig{}).Listen(ctx, network, address)
			if err == nil && address == "localhost:0" {
				l = elsewhere{l}
			}
			return l, err
		},
	})
	if err == nil || !strings.Contains(err.Error(), "http.debug_listen 10.0.0.1:9 can be reached") {
		t.Errorf("got %v", err)
	}
}

package httpserver_test

import (
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/internal/httpserver"
	"github.com/lancemaster/lancemaster/internal/tlsconf"
)

// sources returns the certificates of a master and of somebody who asks it, of one CA, and how to give
// the master another certificate.
func sources(t *testing.T) (server, client *tlsconf.Source, renew func()) {
	t.Helper()
	ca, err := tlsconf.NewCA("ca", time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name string, content []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("ca.crt", ca.Cert)
	issue := func(r tlsconf.Request) {
		r.Validity = time.Hour
		pair, err := tlsconf.Issue(ca, r, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		write(r.Name+".key", pair.Key())
		write(r.Name+".crt", pair.Cert)
	}
	open := func(name string) *tlsconf.Source {
		s, err := tlsconf.Open(tlsconf.Config{Uses: []tlsconf.Use{tlsconf.UseHTTP}, Interval: -1, Files: tlsconf.Files{
			Cert: filepath.Join(dir, name+".crt"), Key: filepath.Join(dir, name+".key"), CA: filepath.Join(dir, "ca.crt"),
		}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		return s
	}
	master := tlsconf.Request{Name: "m", Role: tlsconf.RoleMaster, Node: "m", Hosts: []string{"127.0.0.1"}}
	issue(master)
	issue(tlsconf.Request{Name: "prometheus", Role: tlsconf.RoleRead})
	server, client = open("m"), open("prometheus")
	return server, client, func() {
		issue(master)
		if err := server.Reload(); err != nil {
			t.Fatal(err)
		}
	}
}

// fetch asks for a page on a connection of its own, or of the client given.
func fetch(t *testing.T, c *http.Client, url string) (status int, body string, state *tls.ConnectionState, err error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.Do(request)
	if err != nil {
		return 0, "", nil, err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	return r.StatusCode, string(text), r.TLS, err
}

func httpsClient(t *testing.T, config *tls.Config) *http.Client {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 20 * time.Second}
}

func TestTLS(t *testing.T) {
	server, client, renew := sources(t)
	config, err := server.Server(tlsconf.ServerOptions{Clients: tlsconf.ClientsRequired, Protocols: []string{"http/1.1"}})
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, httpserver.Options{TLS: config, Ready: func() (bool, string) { return true, "" }})
	https := httpsClient(t, client.Client(tlsconf.Expect{Node: "m"}))
	status, body, state, err := fetch(t, https, "https://"+s.Addr()+"/metrics")
	if err != nil || status != 200 || body != "up 1\n" || state.NegotiatedProtocol != "http/1.1" {
		t.Fatalf("got %d %q, %v", status, body, err)
	}
	serial := state.PeerCertificates[0].SerialNumber

	// Renewed while the connection stands: it goes on, and a new one gets the new certificate.
	renew()
	if _, _, state, err = fetch(t, https, "https://"+s.Addr()+"/metrics"); err != nil || state.PeerCertificates[0].SerialNumber.Cmp(serial) != 0 {
		t.Errorf("on the connection that stands: %v", err)
	}
	fresh := httpsClient(t, client.Client(tlsconf.Expect{}))
	if _, _, state, err = fetch(t, fresh, "https://"+s.Addr()+"/metrics"); err != nil || state.PeerCertificates[0].SerialNumber.Cmp(serial) == 0 {
		t.Errorf("on a new connection: %v", err)
	}

	bare := client.Client(tlsconf.Expect{})
	bare.GetClientCertificate = nil
	if _, _, _, err := fetch(t, httpsClient(t, bare), "https://"+s.Addr()+"/livez"); err == nil {
		t.Error("let in without a certificate")
	}
	if status, body := get(t, "http://"+s.Addr()+"/livez"); status != http.StatusBadRequest || !strings.Contains(body, "HTTPS") {
		t.Errorf("plain HTTP: %d %q", status, body)
	}
}

// Probes have no certificate; they learn whether the node is ready and nothing else.
func TestDetailsAreForWhoShowsACertificate(t *testing.T) {
	server, client, _ := sources(t)
	config, err := server.Server(tlsconf.ServerOptions{Clients: tlsconf.ClientsOptional, Protocols: []string{"http/1.1"}})
	if err != nil {
		t.Fatal(err)
	}
	var over atomic.Bool
	var broken atomic.Int32
	viewers := func(state *tls.ConnectionState) error {
		switch {
		case state == nil || len(state.VerifiedChains) == 0:
			return errors.New("there is none")
		case over.Load():
			return errors.New("it expired")
		}
		return nil
	}
	const detail = "the leader is m at 10.0.0.1:9010"
	s := start(t, httpserver.Options{TLS: config, Viewers: viewers, Ready: func() (bool, string) { return false, detail }, HandshakeFailed: func() { broken.Add(1) }, Leader: func() (httpserver.Leader, bool) { return httpserver.Leader{NodeID: "m"}, true }})
	bare := client.Client(tlsconf.Expect{})
	bare.GetClientCertificate = nil
	for _, path := range []string{"/readyz", "/readyz?standbyok"} {
		for c, told := range map[*http.Client]bool{httpsClient(t, bare): false, httpsClient(t, client.Client(tlsconf.Expect{})): true} {
			_, body, _, err := fetch(t, c, "https://"+s.Addr()+path)
			if err != nil || !strings.HasPrefix(body, "not ready") || strings.Contains(body, detail) != told {
				t.Errorf("%s, with a certificate %v: %q, %v", path, told, body, err)
			}
		}
	}
	for path, want := range map[string][2]int{
		"/livez": {200, 200}, "/readyz": {503, 503}, "/leader": {403, 200}, "/metrics": {403, 200},
	} {
		for i, c := range []*tls.Config{bare.Clone(), client.Client(tlsconf.Expect{})} {
			if status, _, _, err := fetch(t, httpsClient(t, c), "https://"+s.Addr()+path); err != nil || status != want[i] {
				t.Errorf("%s with certificate %v: %d, %v, want %d", path, i == 1, status, err, want[i])
			}
		}
	}
	// Over a connection that stands each request is judged, and where it is refused the next one shows
	// its certificate anew.
	https := httpsClient(t, client.Client(tlsconf.Expect{}))
	for _, want := range []struct {
		over   bool
		status int
	}{{false, 200}, {true, 403}, {false, 200}} {
		over.Store(want.over)
		status, body, _, err := fetch(t, https, "https://"+s.Addr()+"/leader")
		if err != nil || status != want.status || want.over && !strings.Contains(body, "it expired") {
			t.Errorf("a certificate that counts no more: %v: %d %q, %v", want.over, status, body, err)
		}
	}
	over.Store(true)
	if status, _, _, err := fetch(t, https, "https://"+s.Addr()+"/livez"); err != nil || status != 200 {
		t.Errorf("a probe whose certificate expired: %d, %v", status, err)
	}
	if got := broken.Load(); got != 0 {
		t.Errorf("%d handshakes failed", got)
	}
	stranger := client.Client(tlsconf.Expect{})
	stranger.MaxVersion, stranger.CipherSuites = tls.VersionTLS12, []uint16{tls.TLS_RSA_WITH_AES_128_CBC_SHA}
	if _, _, _, err := fetch(t, httpsClient(t, stranger), "https://"+s.Addr()+"/livez"); err == nil {
		t.Error("an old suite was accepted")
	}
	for deadline := time.Now().Add(20 * time.Second); broken.Load() != 1; {
		if time.Now().After(deadline) {
			t.Fatalf("%d handshakes failed, want 1", broken.Load())
		}
		runtime.Gosched()
	}
	none, err := server.Server(tlsconf.ServerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []*tls.Config{nil, none} {
		if _, err := httpserver.Start(httpserver.Options{Address: "127.0.0.1:0", Viewers: viewers, TLS: c}); err == nil {
			t.Error("started although nobody is asked for a certificate")
		}
	}
}

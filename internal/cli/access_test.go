package cli

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lancemaster/lancemaster/internal/client/clienttest"
	"github.com/lancemaster/lancemaster/internal/config"
)

func write(t *testing.T, dir, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// The token of the file goes to the master and is printed nowhere, whatever happens.
func TestTokenFile(t *testing.T) {
	s := newSession(t)
	path := write(t, s.dir, "token", []byte("lm_secret\n"))
	s.server.Script("listJobs", clienttest.Behavior{Drop: true}, clienttest.Behavior{Raw: []byte("garbage")})
	s.server.Script("cancelJob", clienttest.Behavior{Drop: true})
	status, out, errs := s.lancemaster(t, "job", "list", "--token-file", path)
	if status != exitOK {
		t.Fatalf("exit status %d: %s", status, errs)
	}
	s.env = append(s.env, "LANCEMASTER_TOKEN_FILE="+path)
	_, out2, errs2 := s.lancemaster(t, "job", "cancel", "5")
	_, help, _ := s.lancemaster(t, "job", "list", "--help")
	if strings.Contains(out+errs+out2+errs2+help, "lm_secret") {
		t.Errorf("the token is printed:\n%s%s%s%s", out, errs, out2, errs2)
	}
	who := "ada " + config.BuildInfo().Version + " with lm_secret"
	if got := s.server.Callers(); len(got) < 2 || slices.ContainsFunc(got, func(c string) bool { return c != who }) {
		t.Errorf("the callers were %q", got)
	}
}

// A token file that others can read is warned of, once a command, and used all the same.
func TestTokenFileOfOthers(t *testing.T) {
	s := newSession(t)
	s.server.Alone("127.0.0.1:1")
	path := write(t, s.dir, "token", []byte("lm_secret\n"))
	for mode, warned := range map[os.FileMode]bool{0o600: false, 0o400: false, 0o640: true, 0o604: true, 0o644: true} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		// Without a leader the doctor makes two clients.
		s.server.Script("clusterStatus", clienttest.Behavior{Refusal: &clienttest.Refusal{Code: "PERMISSION", Message: "not yours"}})
		status, _, errs := s.lancemaster(t, "doctor", "--token-file", path)
		want := fmt.Sprintf("warning: others can read the access token in %s (mode %#o); next: chmod 600 %s\n", path, mode, path)
		if status == exitUsage || (errs == want) != warned || !warned && errs != "" {
			t.Errorf("mode %o: exit %d, %q", mode, status, errs)
		}
	}
}

// A fault names where the value came from: who sets variables has given no flag.
func TestFaultsNameTheirSource(t *testing.T) {
	for _, tt := range []struct {
		env  []string
		args []string
		says string
	}{
		{[]string{"LANCEMASTER_ADDR=foo"}, nil, `LANCEMASTER_ADDR: "foo" is not`},
		{[]string{"LANCEMASTER_ADDR=foo"}, []string{"--addr", "bar"}, `--addr: "bar" is not`},
		{nil, []string{"--addr", "bar"}, `--addr: "bar" is not`},
		{[]string{"LANCEMASTER_TLS_CA=/nope"}, nil, "LANCEMASTER_TLS_CA: open /nope"},
		{[]string{"LANCEMASTER_TLS_CA=/nope"}, []string{"--tls-ca", "/none"}, "--tls-ca: open /none"},
		{[]string{"LANCEMASTER_TOKEN_FILE=/nope"}, nil, "LANCEMASTER_TOKEN_FILE: open /nope"},
		{[]string{"LANCEMASTER_TLS_CERT=/nope"}, nil, "LANCEMASTER_TLS_CERT and --tls-key go together"},
		{[]string{"LANCEMASTER_TLS_CERT=/nope"}, []string{"--tls-key", "/none"}, "LANCEMASTER_TLS_CERT and --tls-key: open /nope"},
	} {
		var errs bytes.Buffer
		status := Run(t.Context(), append([]string{"settings", "list"}, tt.args...), tt.env, Streams{In: strings.NewReader(""), Out: io.Discard, Err: &errs})
		if status != exitUsage || !strings.HasPrefix(errs.String(), "lancemaster: "+tt.says) {
			t.Errorf("%q %q: exit %d, %s", tt.env, tt.args, status, errs.String())
		}
	}
}

// A mistyped variable is refused: without it a command would go to the default address, perhaps another cluster's.
// Others of the prefix are left alone: a platform may set them for a service of this name.
func TestMistypedVariables(t *testing.T) {
	for variable, meant := range map[string]string{
		"LANCEMASTER_ADDRS=x": "LANCEMASTER_ADDR", "LANCEMASTER_ADR=x": "LANCEMASTER_ADDR", "LANCEMASTER_TOKENFILE=x": "LANCEMASTER_TOKEN_FILE",
		"LANCEMASTER_ADRD=x": "LANCEMASTER_ADDR", "LANCEMASTER_TLS_CRT=x": "LANCEMASTER_TLS_CERT",
		"LANCEMASTER_PORT=tcp://10.0.0.1:8030": "", "LANCEMASTER_TLS_PORT=tcp://10.0.0.1:443": "", "LANCEMASTER_TLS_SERVICE_HOST=10.0.0.1": "",
		"LANCEMASTER_PORT_8030_TCP_ADDR=10.0.0.1": "", "LANCEMASTER_DIR=x": "", "LANCEMASTER_CONF=x": "", "LANCEMASTER_TLS_CA_FILE=x": "", "LANCEMASTER_NODE_ID=m1": "", "MY_LANCEMASTER_ADDRS=x": "",
	} {
		s := newSession(t)
		s.env = append(s.env, variable)
		status, _, errs := s.lancemaster(t, "settings", "list")
		if refused := status == exitUsage && strings.Contains(errs, "did you mean "+meant+"?"); refused != (meant != "") || meant == "" && status != exitOK {
			t.Errorf("%s: exit %d: %s", variable, status, errs)
		}
	}
	for _, name := range variables {
		if near, _ := config.Mistyped([]string{name + "=x"}, variables); near != "" {
			t.Errorf("%s is not known", near)
		}
	}
}

// Where some masters answer, nobody is told to start a first one for those that do not.
func TestHealthOfSome(t *testing.T) {
	s := newSession(t)
	s.addr = s.server.Addr() + "," + closedAddr(t)
	if status, out, errs := s.lancemaster(t, "health"); status != exitFailed || !strings.Contains(out, "connection refused") || errs != "next: "+nextRuns+"\n" {
		t.Errorf("exit %d\n%s%s", status, out, errs)
	}
}

// What a terminal has no room for in the table stands below it, whole.
func TestHealthOnATerminal(t *testing.T) {
	s := newSession(t)
	const why = "this node is waiting: member m2 does not answer: not sent: dial tcp 10.0.0.2:9010: connection refused"
	s.server.NotReady(why)
	for columns, below := range map[int]bool{100: true, 400: false} {
		s.screen = columns
		if _, out, _ := s.lancemaster(t, "health"); strings.HasSuffix(out, "\n"+s.server.Addr()+": "+why+"\n") != below || strings.Count(out, why) != 1 {
			t.Errorf("in %d columns:\n%s", columns, out)
		}
	}
}

// Masters of two clusters may all be well, which is not what the caller wants to hear alone.
func TestHealthOfTwoClusters(t *testing.T) {
	s := newSession(t)
	other := clienttest.New(t)
	other.OfCluster(7)
	s.addr = s.server.Addr() + "," + other.Addr()
	want := "warning: these masters are not of one cluster: cluster 271828 in incarnation 1 (" + s.server.Addr() + "); cluster 7 in incarnation 1 (" + other.Addr() + ")\n"
	if status, _, errs := s.lancemaster(t, "health"); status != exitOK || errs != want {
		t.Errorf("exit %d: %q, want %q", status, errs, want)
	}
	s.addr = s.server.Addr() + "," + s.server.Addr()
	if _, _, errs := s.lancemaster(t, "health"); errs != "" {
		t.Errorf("of one cluster: %q", errs)
	}
}

// A probe over HTTPS trusts the CA that it is given, and holds the certificate against the name that it is
// given where that is not the host called.
func TestHealthOverHTTPS(t *testing.T) {
	h := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			t.Errorf("asked for %s", r.URL.Path)
		}
	}))
	defer h.Close()
	s := newSession(t)
	ca := write(t, s.dir, "ca", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.Certificate().Raw}))
	_, port, err := net.SplitHostPort(h.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	known, unnamed := "127.0.0.1:"+port, "localhost:"+port // the certificate is for 127.0.0.1 and example.com
	for _, tt := range []struct {
		args   []string
		status int
		says   string
	}{
		{[]string{"https://" + known, "--tls-ca", ca}, exitOK, "is ready"},
		{[]string{"https://" + known}, exitFailed, "--tls-ca"},
		{[]string{"https://" + unnamed, "--tls-ca", ca}, exitFailed, "--tls-server-name"},
		{[]string{"https://" + unnamed, "--tls-ca", ca, "--tls-server-name", "example.com"}, exitOK, "is ready"},
		{[]string{known}, exitOK, "is ready"}, // on this machine it is found out, and nobody is to be known
		{[]string{unnamed}, exitOK, "is ready"},
		{[]string{"http://" + known}, exitFailed, "ask https://" + known},
		{[]string{"ftp://" + known}, exitUsage, "nor https://"},
	} {
		status, out, errs := s.lancemaster(t, append([]string{"health", "--http"}, tt.args...)...)
		if status != tt.status || !strings.Contains(out+errs, tt.says) {
			t.Errorf("%q exits with %d, want %d and %q: %s%s", tt.args, status, tt.status, tt.says, out, errs)
		}
	}
}

// TLS is spoken where a CA or a certificate is given, with who is known by that CA and nobody else.
func TestTLSFlags(t *testing.T) {
	h := httptest.NewTLSServer(http.NotFoundHandler()) // for its certificate
	defer h.Close()
	own := h.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(own.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	s := newSession(t)
	ca := write(t, s.dir, "ca", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: own.Certificate[0]}))
	keyFile := write(t, s.dir, "key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}))
	secure := clienttest.NewTLS(t, &tls.Config{Certificates: h.TLS.Certificates, ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS12})
	s.addr = secure.Addr()
	if status, _, errs := s.lancemaster(t, "job", "show", "1", "--tls-ca", ca, "--tls-cert", ca, "--tls-key", keyFile); status != exitOK {
		t.Errorf("exit status %d: %s", status, errs)
	}
	s.env = append(s.env, "LANCEMASTER_TLS_CA="+ca, "LANCEMASTER_TLS_CERT="+ca, "LANCEMASTER_TLS_KEY="+keyFile)
	if status, _, errs := s.lancemaster(t, "job", "show", "1"); status != exitOK {
		t.Errorf("from the environment: exit status %d: %s", status, errs)
	}
	s.env = s.env[:1]
	asked := len(secure.Requests())
	for name, args := range map[string][]string{
		"plain": {}, "without a certificate of ours": {"--tls-ca", ca}, "a master that our CAs do not know": {"--tls-cert", ca, "--tls-key", keyFile},
	} {
		status, _, errs := s.lancemaster(t, append([]string{"job", "show", "1"}, args...)...)
		if status != exitFailed || errs == "" || len(secure.Requests()) != asked {
			t.Errorf("%s: exit status %d: %s", name, status, errs)
		}
	}
}

// What the table of the cluster shows fits a terminal.
func TestClusterStatusFitsATerminal(t *testing.T) {
	_, out, _ := newSession(t).lancemaster(t, "cluster", "status")
	table, _, _ := strings.Cut(out, "\n\n")
	for line := range strings.SplitSeq(table, "\n") {
		if len(line) > 80 {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
}

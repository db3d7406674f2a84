package refresh

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// A panic of the driver while it logs in leaves this goroutine behind, as the tests
	// of it do; see (*Doris).rest. That none is left otherwise is checked with a real
	// server of the protocol, in .ci/doristest.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/go-sql-driver/mysql.(*mysqlConn).startWatcher.func1"))
}

var change = Attempt{
	Job: 1<<40 + 7, Number: 2, Catalog: "lance", Database: "sales & co", Table: "t`1\"<ü>",
	DatasetURI: "s3://bucket/t", DatasetVersion: 41,
}

// serve runs a server that ends with the test.
func serve(t *testing.T, handler http.HandlerFunc) (*httptest.Server, Spec) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server, Spec{Kind: KindHTTP, URL: server.URL + "/refresh?from=lance"}
}

// post makes one attempt, with the canary as its token.
func post(ctx context.Context, t *testing.T, spec Spec) (string, error) {
	t.Helper()
	if spec.PasswordRef == "" {
		spec.PasswordRef = "env:TOKEN"
	}
	evidence, err := HTTP{Resolver: secrets{"env:TOKEN": headerCanary}}.Refresh(ctx, spec, change)
	if strings.Contains(fmt.Sprintf("%s %+v %#v", evidence, err, err), headerCanary) {
		t.Errorf("the token is seen in %q, %#v", evidence, err)
	}
	if (err == nil) != (evidence != "") {
		t.Errorf("evidence %q with error %v", evidence, err)
	}
	return evidence, err
}

const headerCanary = "canary-token-0c5d81"

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", parts)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q, want %q in it", err, part)
		}
	}
}

func TestHTTPPostsTheChange(t *testing.T) {
	requests := make(chan *http.Request, 1)
	bodies := make(chan string, 1)
	server, spec := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		requests <- r
		bodies <- string(body)
		w.Header().Set("Set-Cookie", "session=1")
		w.WriteHeader(http.StatusNoContent)
	})
	evidence, err := post(t.Context(), t, spec)
	if err != nil {
		t.Fatal(err)
	}
	if want := "HTTP 204 from " + server.Listener.Addr().String(); evidence != want {
		t.Errorf("evidence %q, want %q", evidence, want)
	}
	r, body := <-requests, <-bodies
	if r.Method != http.MethodPost || r.URL.RequestURI() != "/refresh?from=lance" {
		t.Errorf("the request is %s %s", r.Method, r.URL.RequestURI())
	}
	for name, want := range map[string]string{
		"Content-Type": "application/json", "Authorization": "Bearer " + headerCanary, "User-Agent": "lancemaster", "Cookie": "",
	} {
		if got := r.Header.Get(name); got != want {
			t.Errorf("header %s is %q, want %q", name, got, want)
		}
	}
	var got map[string]any
	decoder := json.NewDecoder(strings.NewReader(body))
	decoder.UseNumber()
	if err := decoder.Decode(&got); err != nil {
		t.Fatalf("the body %q is no JSON: %v", body, err)
	}
	want := map[string]any{
		"catalog": "lance", "database": "sales & co", "table": "t`1\"<ü>", "job_id": json.Number("1099511627783"),
		"dataset_uri": "s3://bucket/t", "version": json.Number("41"),
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the body is %v, want %v", got, want)
	}
	if _, err := post(t.Context(), t, spec); err != nil {
		t.Fatal(err)
	}
	if again := <-requests; again.Header.Get("Cookie") != "" || again.RemoteAddr == r.RemoteAddr {
		t.Error("the second attempt sent a cookie or used the first one's connection")
	}
}

func TestHTTPWithoutToken(t *testing.T) {
	headers := make(chan http.Header, 1)
	_, spec := serve(t, func(_ http.ResponseWriter, r *http.Request) { headers <- r.Header })
	if _, err := (HTTP{}).Refresh(t.Context(), spec, change); err != nil {
		t.Fatal(err)
	}
	if got, ok := (<-headers)["Authorization"]; ok {
		t.Errorf("without a token Authorization is %q", got)
	}
}

// A variable of the environment must not decide who is given the token.
func TestHTTPUsesNoProxy(t *testing.T) {
	proxied := make(chan struct{}, 8)
	proxy, _ := serve(t, func(http.ResponseWriter, *http.Request) { proxied <- struct{}{} })
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"} {
		t.Setenv(name, proxy.URL)
	}
	// Not a loopback address, for which the environment's proxy is never used.
	spec := Spec{Kind: KindHTTP, URL: "http://refresh.invalid:80/"}
	if _, err := post(t.Context(), t, spec); err == nil || len(proxied) > 0 {
		t.Errorf("%d requests went to the proxy, error %v", len(proxied), err)
	}
}

func TestHTTPStatus(t *testing.T) {
	for _, tt := range []struct {
		status int
		body   string
		fails  []string // empty for success
	}{
		{200, "done", nil},
		{201, "", nil},
		{202, "", nil},
		{299, "", nil},
		{400, "no such table\n\x00here", []string{"answered HTTP 400; only 2xx is success: no such table  here"}},
		{401, "bad token " + headerCanary, []string{"HTTP 401", "bad token ***"}},
		{404, "", []string{"answered HTTP 404; only 2xx is success"}},
		{500, strings.Repeat("ü", 5000), []string{"HTTP 500", "üüü..."}},
		{503, "\xff\xfe", []string{"HTTP 503"}},
		{600, "", []string{"HTTP 600"}},
	} {
		t.Run(fmt.Sprint(tt.status), func(t *testing.T) {
			server, spec := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, tt.body)
			})
			address := server.Listener.Addr().String()
			evidence, err := post(t.Context(), t, spec)
			if tt.fails == nil {
				if want := fmt.Sprintf("HTTP %d from %s", tt.status, address); err != nil || evidence != want {
					t.Errorf("got %q, %v, want %q", evidence, err, want)
				}
				return
			}
			wantError(t, err, append(tt.fails, address)...)
			if limit := len(address) + 60 + maxExcerpt; len(err.Error()) > limit {
				t.Errorf("the error has %d bytes, want at most %d: %q", len(err.Error()), limit, err)
			}
		})
	}
}

// A redirect names a host and nothing else, and nobody there is asked.
func TestHTTPFollowsNoRedirect(t *testing.T) {
	elsewhere, _ := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") })
	host := elsewhere.Listener.Addr().String()
	for _, status := range []int{301, 302, 303, 304, 307, 308} {
		for location, want := range map[string]string{
			elsewhere.URL + "/login?code=hidden": "a redirect to " + host,
			"http://who:hidden@" + host + "/":    "a redirect to " + host,
			"http://" + headerCanary + "/":       "a redirect to ***",
			"":                                   "a redirect without a readable location",
			"http://%zz/hidden":                  "a redirect without a readable location",
		} {
			_, spec := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				if location != "" {
					w.Header().Set("Location", location)
				}
				w.WriteHeader(status)
			})
			_, err := post(t.Context(), t, spec)
			wantError(t, err, fmt.Sprintf("HTTP %d", status), want, "only 2xx")
			if strings.Contains(err.Error(), "hidden") {
				t.Errorf("the error %q shows more than the host", err)
			}
		}
	}
}

// The answer's body is read up to its bound, not to its end.
func TestHTTPHugeBody(t *testing.T) {
	for _, status := range []int{200, 500} {
		// It writes until nobody reads any more.
		ended := make(chan int, 1)
		_, spec := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			piece, n := strings.Repeat("x", 32<<10), 0
			for range 1 << 15 {
				written, err := io.WriteString(w, piece)
				if n += written; err != nil {
					break
				}
			}
			ended <- n
		})
		_, err := post(t.Context(), t, spec)
		if (err == nil) != (status == 200) {
			t.Errorf("HTTP %d: error %v", status, err)
		}
		if n := <-ended; n >= 1<<30 {
			t.Errorf("HTTP %d: all of %d bytes were taken", status, n)
		}
	}
}

// A secret that the bound on the body cuts in two is not found by a mask.
func TestHTTPSecretAtTheBound(t *testing.T) {
	for _, spaces := range []int{maxAnswer - 5, maxAnswer - len(headerCanary), 0} {
		_, spec := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, strings.Repeat(" ", spaces)+strings.Repeat(headerCanary, 1+maxAnswer/len(headerCanary)))
		})
		_, err := post(t.Context(), t, spec)
		wantError(t, err, "HTTP 400")
		if strings.Contains(err.Error(), "canar") {
			t.Errorf("a part of the token is seen in %q", err)
		}
	}
}

func TestHTTPShortToken(t *testing.T) {
	_, spec := serve(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "bad token abc", http.StatusUnauthorized) })
	spec.PasswordRef = "env:SHORT"
	_, err := HTTP{Resolver: secrets{"env:SHORT": "abc"}}.Refresh(t.Context(), spec, change)
	wantError(t, err, "HTTP 401", withheld)
	if strings.Contains(err.Error(), "abc") {
		t.Errorf("the token is seen in %q", err)
	}
}

// rawServer answers each connection with what handle does, and closes it.
func rawServer(t *testing.T, handle func(net.Conn)) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			handle(conn)
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-ended
	})
	return listener.Addr().String()
}

func overTCP(conn net.Conn) *net.TCPConn {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		panic("a TCP listener gave something else")
	}
	return tcp
}

// readSome reads one piece of what was sent, so that closing is no reset.
func readSome(t *testing.T, conn net.Conn) {
	t.Helper()
	if _, err := conn.Read(make([]byte, 64<<10)); err != nil {
		t.Errorf("nothing was sent: %v", err)
	}
}

func TestHTTPBrokenAnswers(t *testing.T) {
	for name, tt := range map[string]struct {
		answer string
		reset  bool
		want   string
	}{
		"closed":      {"", false, "no answer from"},
		"reset":       {"", true, "no answer from"},
		"garbage":     {"garbage " + headerCanary + "\r\n\r\n", false, "malformed HTTP status code \"***\""},
		"cut":         {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", false, "HTTP 200, was cut off"},
		"cut by RST":  {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", true, ""},
		"cut failure": {"HTTP/1.1 500 No\r\nContent-Length: 99\r\n\r\nabc" + headerCanary[:9], false, "HTTP 500"},
		"long header": {"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", maxAnswer+1<<10), false, "no answer from"},
		"bad chunks":  {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", false, "HTTP 200, was cut off"},
	} {
		t.Run(name, func(t *testing.T) {
			address := rawServer(t, func(conn net.Conn) {
				readSome(t, conn)
				_, _ = io.WriteString(conn, tt.answer)
				if tt.reset {
					if err := overTCP(conn).SetLinger(0); err != nil {
						t.Error(err)
					}
				}
			})
			_, err := post(t.Context(), t, Spec{Kind: KindHTTP, URL: "http://" + address})
			wantError(t, err, tt.want)
			if strings.Contains(err.Error(), headerCanary[:9]) {
				t.Errorf("a part of the token is seen in %q", err)
			}
		})
	}
}

func TestHTTPRefused(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = post(t.Context(), t, Spec{Kind: KindHTTP, URL: "http://" + address + "/x?y=hidden"})
	wantError(t, err, "no answer from "+address, "connection refused")
	if strings.Contains(err.Error(), "hidden") {
		t.Errorf("the error %q shows the URL", err)
	}
}

// Each place where the other side can hang ends with the attempt's time, and all
// of it ends when the attempt is given up.
func TestHTTPHangs(t *testing.T) {
	for name, answer := range map[string]string{
		"before the answer": "",
		"in the header":     "HTTP/1.1 200 OK\r\nX: ",
		"in a body of 2xx":  "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
		"in a body of 5xx":  "HTTP/1.1 500 No\r\nContent-Length: 10\r\n\r\nabc",
		"continue for ever": "HTTP/1.1 100 Continue\r\n\r\n",
	} {
		for _, scheme := range []string{"http", "https"} {
			t.Run(name+" of "+scheme, func(t *testing.T) {
				asked := make(chan struct{}, 1)
				address := rawServer(t, func(conn net.Conn) {
					_, _ = conn.Read(make([]byte, 64<<10)) // the time may be over before it is sent
					_, _ = io.WriteString(conn, answer)
					asked <- struct{}{}
					// Until the other side closes.
					_, _ = io.Copy(io.Discard, conn)
				})
				spec := Spec{Kind: KindHTTP, URL: scheme + "://" + address}
				givenUp, giveUp := context.WithCancel(t.Context())
				defer giveUp()
				go func() { <-asked; giveUp() }()
				if _, err := post(givenUp, t, spec); err == nil {
					t.Error("a hanging server gave evidence")
				}

				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				defer cancel()
				_, err := post(ctx, t, spec)
				if answer == "" && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("error %v, want one that says that time ran out", err)
				}
				if err == nil {
					t.Error("a hanging server gave evidence")
				}
			})
		}
	}
}

// A slow answer within the time is an answer.
func TestHTTPSlow(t *testing.T) {
	release := make(chan struct{})
	_, spec := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		_, _ = io.WriteString(w, "working")
		_ = http.NewResponseController(w).Flush()
		select {
		case <-release:
		case <-r.Context().Done():
		}
		_, _ = io.WriteString(w, "done")
	})
	time.AfterFunc(100*time.Millisecond, func() { close(release) })
	if _, err := post(t.Context(), t, spec); err != nil {
		t.Error(err)
	}
}

func TestHTTPTLS(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Config.ErrorLog = quietLog()
	server.StartTLS()
	defer server.Close()
	bundle := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	resolver := secrets{"file:/ca": bundle, "file:/empty": "nothing", "env:TOKEN": headerCanary}
	for name, tt := range map[string]struct{ ca, url, want string }{
		"own CA":            {"file:/ca", server.URL, ""},
		"unknown CA":        {"", server.URL, "certificate"},
		"no certificate":    {"file:/empty", server.URL, "holds no certificate"},
		"missing bundle":    {"file:/none", server.URL, "the CA bundle: "},
		"not from a file":   {"env:CA", server.URL, "not file:PATH"},
		"another name":      {"file:/ca", strings.Replace(server.URL, "127.0.0.1", "localhost", 1), "certificate"},
		"plain to TLS":      {"", strings.Replace(server.URL, "https:", "http:", 1), "HTTP 400"},
		"scheme in capital": {"file:/ca", strings.Replace(server.URL, "https:", "HTTPS:", 1), ""},
	} {
		t.Run(name, func(t *testing.T) {
			spec := Spec{Kind: KindHTTP, URL: tt.url, CARef: tt.ca, PasswordRef: "env:TOKEN"}
			evidence, err := HTTP{Resolver: resolver}.Refresh(t.Context(), spec, change)
			if tt.want != "" {
				wantError(t, err, tt.want)
			} else if err != nil || !strings.HasPrefix(evidence, "HTTP 200 from 127.0.0.1:") {
				t.Errorf("got %q, %v", evidence, err)
			}
		})
	}
}

// A server that asks for a certificate is shown this master's, and none is shown
// where none is configured.
func TestHTTPShowsItsCertificate(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if len(r.TLS.PeerCertificates) == 0 {
			t.Error("no certificate was shown")
		}
	}))
	server.Config.ErrorLog = quietLog()
	server.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	server.StartTLS()
	defer server.Close()
	own := server.TLS.Certificates[0] // any will do here
	bundle := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	spec := Spec{Kind: KindHTTP, URL: server.URL, CARef: "file:/ca"}
	with := HTTP{Resolver: secrets{"file:/ca": bundle}, Certificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &own, nil }}
	if _, err := with.Refresh(t.Context(), spec, change); err != nil {
		t.Error(err)
	}
	if _, err := (HTTP{Resolver: secrets{"file:/ca": bundle}}).Refresh(t.Context(), spec, change); err == nil {
		t.Error("a server that wants a certificate took a master without one")
	}
}

func TestHTTPRefusesWhatItCannotSend(t *testing.T) {
	_, good := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("something was sent") })
	with := func(change func(*Spec)) Spec {
		spec := good
		change(&spec)
		return spec
	}
	resolver := secrets{"env:SPACE": "tok en-tok en", "env:LINE": "token\nX: y", "env:LONG": strings.Repeat("x", maxSecret+1), "env:UNICODE": "tökentöken"}
	for name, tt := range map[string]struct {
		spec Spec
		want string
	}{
		"no URL":          {with(func(s *Spec) { s.URL = "" }), "no http or https URL"},
		"another scheme":  {with(func(s *Spec) { s.URL = "ftp://host/" }), "no http or https URL"},
		"no host":         {with(func(s *Spec) { s.URL = "http:///x" }), "no http or https URL"},
		"no URL at all":   {with(func(s *Spec) { s.URL = "http://host:hidden/%zz" }), "no http or https URL"},
		"userinfo":        {with(func(s *Spec) { s.URL = "http://me:hidden@host/" }), "carries a user or password"},
		"token missing":   {with(func(s *Spec) { s.PasswordRef = "env:MISSING" }), "the refresher's token is not to be had: the environment variable"},
		"token of words":  {with(func(s *Spec) { s.PasswordRef = "env:SPACE" }), "a header cannot carry"},
		"token of lines":  {with(func(s *Spec) { s.PasswordRef = "env:LINE" }), "a header cannot carry"},
		"token not ASCII": {with(func(s *Spec) { s.PasswordRef = "env:UNICODE" }), "a header cannot carry"},
		"token too long":  {with(func(s *Spec) { s.PasswordRef = "env:LONG" }), "at most 4096"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := HTTP{Resolver: resolver}.Refresh(t.Context(), tt.spec, change)
			wantError(t, err, tt.want)
			for _, hidden := range append([]string{"hidden"}, "tok en", "tökent", "X: y") {
				if strings.Contains(err.Error(), hidden) {
					t.Errorf("the error %q shows what it must not", err)
				}
			}
		})
	}
	broken := change
	broken.Table = "t\xff"
	_, err := HTTP{Resolver: resolver}.Refresh(t.Context(), good, broken)
	wantError(t, err, "not valid UTF-8")
	_, err = HTTP{}.Refresh(t.Context(), with(func(s *Spec) { s.PasswordRef = "env:SPACE" }), change)
	if !errors.Is(err, errNoResolver) {
		t.Errorf("without a resolver: %v", err)
	}
}

// A rotated token counts from the next attempt.
func TestHTTPReadsTheTokenEachTime(t *testing.T) {
	tokens := make(chan string, 1)
	_, spec := serve(t, func(_ http.ResponseWriter, r *http.Request) { tokens <- r.Header.Get("Authorization") })
	spec.PasswordRef = "env:TOKEN"
	resolver := secrets{}
	for _, token := range []string{"first-token", "second-token"} {
		resolver["env:TOKEN"] = token
		if _, err := (HTTP{Resolver: resolver}).Refresh(t.Context(), spec, change); err != nil {
			t.Fatal(err)
		}
		if got := <-tokens; got != "Bearer "+token {
			t.Errorf("sent %q, want %q", got, token)
		}
	}
}

func TestDefaultPorts(t *testing.T) {
	for raw, want := range map[string]string{
		"http://host/x": "host:80", "https://host": "host:443", "https://[::1]/": "[::1]:443", "http://h:1/": "h:1",
	} {
		if _, got, err := parseTarget(raw); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", raw, got, err, want)
		}
	}
}

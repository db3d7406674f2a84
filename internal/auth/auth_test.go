package auth_test

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"github.com/lancemaster/lancemaster/internal/auth"
	"github.com/lancemaster/lancemaster/internal/await"
	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/tlsconf"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	home = "10.0.0.1:40000"
	away = "10.0.0.2:40000"
)

// registry is a few tokens, as the cluster keeps them.
type registry struct {
	list []*job.Token
	text map[string]string // by name
}

func (r *registry) add(name string, role job.Role) string {
	if r.text == nil {
		r.text = map[string]string{}
	}
	r.text[name] = auth.NewToken()
	r.list = append(r.list, &job.Token{Name: name, Role: role, Hash: sha256.Sum256([]byte(r.text[name]))})
	return r.text[name]
}

func (r *registry) revoke(name string) {
	for i, t := range r.list {
		if t.Name == name {
			r.list = append(r.list[:i:i], r.list[i+1:]...)
			return
		}
	}
}

func (r *registry) tokens() []*job.Token { return r.list }

func newAuth(t *testing.T, cfg auth.Config) *auth.Authenticator {
	t.Helper()
	a, err := auth.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func certificate(t *testing.T, r tlsconf.Request) *tls.ConnectionState {
	t.Helper()
	ca, err := tlsconf.NewCA("ca", time.Now(), 48*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	r.Validity = time.Hour
	pair, err := tlsconf.Issue(ca, r, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := pair.Leaf()
	if err != nil {
		t.Fatal(err)
	}
	return &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}, VerifiedChains: [][]*x509.Certificate{{leaf}}}
}

func hashOf(t *testing.T, token string) job.Hash {
	t.Helper()
	h, err := auth.HashToken(token)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func wantCode(t *testing.T, err error, want job.Code) {
	t.Helper()
	if !job.IsCode(err, want) {
		t.Errorf("%v has no code %s", err, want)
	}
}

func reasonOf(t *testing.T, err error) auth.Reason {
	t.Helper()
	if err == nil {
		return ""
	}
	var e *auth.Error
	if !errors.As(err, &e) {
		t.Fatalf("%v is no *auth.Error", err)
	}
	switch {
	case e.Reason == auth.ReasonNotCurrent && strings.Contains(err.Error(), "too many others wait"):
		wantCode(t, err, job.CodeUnavailable)
	case e.Reason == auth.ReasonNotCurrent:
		wantCode(t, err, job.CodeNotLeader) // a client goes on to another master
	default:
		wantCode(t, err, job.CodeUnauthenticated)
	}
	return e.Reason
}

// Whom a registered token let in is looked up again: by then another master's revocation may be known. What else
// vouches for a caller the registry does not know of.
func TestConfirm(t *testing.T) {
	var r registry
	token := r.add("pipeline", job.RoleSubmit)
	own := auth.NewToken()
	tokens := openFile(t, tokenLine("root", "admin", own))
	failures, err := auth.NewFailures(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	a := newAuth(t, auth.Config{Registry: r.tokens, File: tokens, Anonymous: job.RoleRead, Failures: failures})
	var all []auth.Principal
	for _, text := range []string{token, own, ""} {
		p, err := a.Authenticate(t.Context(), "10.0.0.1:1", nil, text)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Confirm(p); err != nil {
			t.Errorf("%s: %v", p.Name, err)
		}
		all = append(all, p)
	}
	other := all[0]
	other.Role = job.RoleAdmin
	if reasonOf(t, a.Confirm(other)) != auth.ReasonUnknownToken {
		t.Error("the token of one role confirms another")
	}
	r.list = nil
	err = a.Confirm(all[0])
	if reasonOf(t, err) != auth.ReasonUnknownToken || !strings.Contains(err.Error(), "revoked") {
		t.Errorf("after the revocation: %v", err)
	}
	for _, p := range all[1:] {
		if err := a.Confirm(p); err != nil {
			t.Errorf("%q, which the registry does not know of: %v", p.Name, err)
		}
	}
}

func TestWhoCalls(t *testing.T) {
	var r registry
	submitter := r.add("pipeline", job.RoleSubmit)
	admin := r.add("root", job.RoleAdmin)
	pipeline := auth.Principal{Name: "pipeline", Role: job.RoleSubmit, Verified: true, Token: hashOf(t, submitter)}
	root := auth.Principal{Name: "root", Role: job.RoleAdmin, Verified: true, Token: hashOf(t, admin)}
	operator := certificate(t, tlsconf.Request{Name: "ada", Role: tlsconf.RoleOperate})
	backend := certificate(t, tlsconf.Request{Name: "be-1", Role: tlsconf.RoleBackend})
	master := certificate(t, tlsconf.Request{Name: "m", Role: tlsconf.RoleMaster, Node: "m", Hosts: []string{"m"}})
	named := func(name string) *tls.ConnectionState { // by another PKI: Issue makes none such
		c := *operator.VerifiedChains[0][0]
		c.Subject.CommonName = name
		return &tls.ConnectionState{PeerCertificates: []*x509.Certificate{&c}, VerifiedChains: [][]*x509.Certificate{{&c}}}
	}
	system, almost := named(job.ActorSystem), named(job.ActorSystem+" ")
	unverified := &tls.ConnectionState{PeerCertificates: operator.PeerCertificates}
	expired := *operator.VerifiedChains[0][0]
	expired.NotAfter = time.Now().Add(-time.Second)
	late := &tls.ConnectionState{PeerCertificates: []*x509.Certificate{&expired}, VerifiedChains: [][]*x509.Certificate{{&expired}}}
	for _, tc := range []struct {
		name      string
		anonymous job.Role
		state     *tls.ConnectionState
		token     string
		want      auth.Principal
		reason    auth.Reason
	}{
		{"a token", 0, nil, submitter, pipeline, ""},
		{"another token", 0, nil, admin, root, ""},
		{"a certificate", 0, operator, "", auth.Principal{Name: "ada", Role: job.RoleOperate, Verified: true}, ""},
		{"both: the token wins, also over a higher role", 0, operator, submitter, pipeline, ""},
		{"a token over a certificate that names nobody", 0, backend, submitter, pipeline, ""},
		{"a bad token is not made up for by a certificate", 0, operator, auth.NewToken(), auth.Principal{}, auth.ReasonUnknownToken},
		{"a bad token is not made up for by a listener that lets anybody in", job.RoleAdmin, nil, auth.NewToken(), auth.Principal{}, auth.ReasonUnknownToken},
		{"nothing", 0, nil, "", auth.Principal{}, auth.ReasonNoCredentials},
		{"nothing, over TLS", 0, &tls.ConnectionState{}, "", auth.Principal{}, auth.ReasonNoCredentials},
		{"nothing, where anybody is let in", job.RoleAdmin, nil, "", auth.Principal{Role: job.RoleAdmin}, ""},
		{"a certificate where anybody is let in", job.RoleAdmin, operator, "", auth.Principal{Name: "ada", Role: job.RoleOperate, Verified: true}, ""},
		{"a backend's certificate where anybody is let in", job.RoleAdmin, backend, "", auth.Principal{}, auth.ReasonCertificateRole},
		{"a backend's certificate", 0, backend, "", auth.Principal{}, auth.ReasonCertificateRole},
		{"a master's certificate", 0, master, "", auth.Principal{}, auth.ReasonCertificateRole},
		{"a certificate that nobody verified", 0, unverified, "", auth.Principal{}, auth.ReasonCertificate},
		{"a certificate that expired after the handshake", 0, late, "", auth.Principal{}, auth.ReasonCertificateExpired},
		{"a certificate with the master's own name", 0, system, "", auth.Principal{}, auth.ReasonCertificate},
		{"a certificate with what the history would show as that name", 0, almost, "", auth.Principal{}, auth.ReasonCertificate},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := newAuth(t, auth.Config{Registry: r.tokens, Anonymous: tc.anonymous})
			got, err := a.Authenticate(t.Context(), home, tc.state, tc.token)
			if got != tc.want || reasonOf(t, err) != tc.reason {
				t.Errorf("got %+v, %v; want %+v, %q", got, err, tc.want, tc.reason)
			}
		})
	}
}

// Nobody gets a certificate for a name by which no master would let them in.
func TestTheMastersNameIsNotIssued(t *testing.T) {
	for _, name := range []string{job.ActorSystem, strings.ToUpper(job.ActorSystem)} {
		for _, role := range []tlsconf.Role{tlsconf.RoleRead, tlsconf.RoleSubmit, tlsconf.RoleOperate, tlsconf.RoleAdmin} {
			if err := (tlsconf.Request{Name: name, Role: role}).Check(); err == nil || !strings.Contains(err.Error(), "the master acts under that name itself") {
				t.Errorf("%s, %s: %v", name, role, err)
			}
		}
	}
	if err := (tlsconf.Request{Name: job.ActorSystem, Role: tlsconf.RoleBackend}).Check(); err != nil {
		t.Errorf("of a backend, which does not call under its name: %v", err)
	}
}

func TestARevokedTokenIsRefusedAtOnce(t *testing.T) {
	var r registry
	text := r.add("pipeline", job.RoleSubmit)
	a := newAuth(t, auth.Config{Registry: r.tokens})
	if _, err := a.Authenticate(t.Context(), home, nil, text); err != nil {
		t.Fatal(err)
	}
	r.revoke("pipeline")
	if _, err := a.Authenticate(t.Context(), home, nil, text); reasonOf(t, err) != auth.ReasonUnknownToken {
		t.Errorf("got %v", err)
	}
}

// What is no token is refused by its form alone, however long it is.
func TestMalformedTokens(t *testing.T) {
	good := auth.NewToken()
	var r registry
	a := newAuth(t, auth.Config{Registry: r.tokens})
	count, undo := auth.CountCompares()
	defer undo()
	r.add("x", job.RoleRead)
	for i, text := range []string{
		" ", "lm_", good[:45], good + "A", good + "\n", " " + good, "LM_" + good[3:], "xx_" + good[3:],
		good[:20] + "+" + good[21:], good[:20] + "=" + good[21:], good[:20] + "\n" + good[21:], good[:45] + "B",
		strings.Repeat("lm_", 1<<20), strings.Repeat("\x00", 46), good[:44] + "\u00e9",
	} {
		// Each from an address of its own: this is not about how often.
		_, err := a.Authenticate(t.Context(), fmt.Sprintf("10.1.0.%d:1", i), nil, text)
		if reasonOf(t, err) != auth.ReasonMalformedToken {
			t.Errorf("%.60q: got %v", text, err)
		}
		// One that looks like a token is not told what tokens look like.
		if told, mistyped := err.Error(), text == good[:45]+"B"; strings.Contains(told, "mistyped") != mistyped || strings.Contains(told, "this is no access token") == mistyped {
			t.Errorf("%.60q: told %q", text, told)
		}
	}
	if *count != 0 {
		t.Errorf("%d hashes were compared", *count)
	}
	if _, err := auth.HashToken(good); err != nil || auth.NewToken() == good {
		t.Errorf("a new token: %v", err)
	}
}

// Every kept hash is compared at each call, wherever the right one is and whether there is one.
func TestALookupComparesEveryToken(t *testing.T) {
	var r registry
	for i := range 100 {
		r.add(fmt.Sprint(i), job.RoleRead)
	}
	file := openFile(t, tokenLine("file-1", "admin", auth.NewToken()), tokenLine("file-2", "admin", auth.NewToken()))
	a := newAuth(t, auth.Config{Registry: r.tokens, File: file})
	count, undo := auth.CountCompares()
	defer undo()
	for _, text := range []string{r.text["0"], r.text["50"], r.text["99"], auth.NewToken()} {
		*count = 0
		_, _ = a.Authenticate(t.Context(), away, nil, text) // the last one fails
		if *count < 102 {
			t.Errorf("a lookup compared %d tokens of 102", *count)
		}
	}
}

// From an address that fails often nothing unknown is looked into for a while. Valid tokens are let in,
// however many there are and whether or not they were used from there before.
func TestGuessingIsSlowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r registry
		known := r.add("known", job.RoleRead)
		var fresh []string
		for i := range 50 {
			fresh = append(fresh, r.add(fmt.Sprint("fresh-", i), job.RoleRead))
		}
		var said strings.Builder
		a := newAuth(t, auth.Config{Registry: r.tokens, Logger: slog.New(slog.NewTextHandler(&said, nil))})
		try := func(peer, token string) auth.Reason {
			_, err := a.Authenticate(t.Context(), peer, nil, token)
			return reasonOf(t, err)
		}
		for range 1000 { // a success is never counted
			if got := try(home, known); got != "" {
				t.Fatalf("a good token: %s", got)
			}
		}
		for i := range auth.FailBurst {
			if got := try(home, auth.NewToken()); got != auth.ReasonUnknownToken {
				t.Fatalf("failure %d: %s", i, got)
			}
		}
		_, err := a.Authenticate(t.Context(), "10.0.0.1:1", nil, auth.NewToken()) // another port is the same peer
		var e *auth.Error
		if reasonOf(t, err) != auth.ReasonLockedOut || !errors.As(err, &e) || e.RetryAfter <= 0 || e.RetryAfter > auth.FailEvery {
			t.Fatalf("after %d failures: %v", auth.FailBurst, err)
		}
		if !strings.Contains(err.Error(), "not looked into for 6s") {
			t.Errorf("the error is %q", err)
		}
		if got := try(home, "rubbish"); got != auth.ReasonLockedOut {
			t.Errorf("a malformed token: %s", got)
		}
		for _, token := range append(fresh, known) {
			if got := try(home, token); got != "" {
				t.Errorf("a valid token: %s", got)
			}
		}
		if got := try(away, auth.NewToken()); got != auth.ReasonUnknownToken {
			t.Errorf("another address: %s", got)
		}
		if n := strings.Count(said.String(), "not looked into"); n != 1 {
			t.Errorf("it was logged %d times: %s", n, said.String())
		}

		await.Pass(auth.FailEvery)
		if got := try(home, auth.NewToken()); got != auth.ReasonUnknownToken {
			t.Errorf("after the pause: %s", got)
		}
		if got := try(home, auth.NewToken()); got != auth.ReasonLockedOut {
			t.Errorf("one failure more: %s", got)
		}
		r.revoke("known")
		await.Pass(auth.FailEvery)
		if got := try(home, known); got != auth.ReasonUnknownToken {
			t.Errorf("a revoked token: %s", got)
		}
	})
}

// A token that is made while its first call waits for this node to catch up is no guess. Whoever has failed
// often makes nobody wait, and of the others only so many wait.
func TestATokenThatIsNotKnownYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var r registry
		var asked int
		made := auth.NewToken()
		var lag time.Duration
		a := newAuth(t, auth.Config{
			Registry: func() []*job.Token { mu.Lock(); defer mu.Unlock(); return r.list },
			Current: func(ctx context.Context) error {
				mu.Lock()
				asked++
				mu.Unlock()
				select {
				case <-time.After(lag):
				case <-ctx.Done():
					return ctx.Err()
				}
				mu.Lock()
				defer mu.Unlock()
				r.list = []*job.Token{{Name: "made", Role: job.RoleRead, Hash: sha256.Sum256([]byte(made))}}
				return nil
			},
		})
		lag = time.Second
		if p, err := a.Authenticate(t.Context(), home, nil, made); err != nil || p.Name != "made" {
			t.Errorf("a token that comes to be known: %+v, %v", p, err)
		}
		lag = 0
		for i := range auth.FailBurst { // none of which it took
			if _, err := a.Authenticate(t.Context(), home, nil, auth.NewToken()); reasonOf(t, err) != auth.ReasonUnknownToken {
				t.Fatalf("failure %d: %v", i, err)
			}
		}
		before := asked
		if _, err := a.Authenticate(t.Context(), home, nil, auth.NewToken()); reasonOf(t, err) != auth.ReasonLockedOut {
			t.Error(err)
		}
		if _, err := a.Authenticate(t.Context(), away, nil, "rubbish"); reasonOf(t, err) != auth.ReasonMalformedToken {
			t.Error(err)
		}
		if asked != before {
			t.Error("it was waited for an address that failed too often, or for what is no token")
		}

		lag = time.Hour
		r.list = nil
		began := time.Now()
		var all sync.WaitGroup
		var crowded atomic.Int64
		for i := range auth.MaxWaits + 10 {
			all.Go(func() {
				_, err := a.Authenticate(t.Context(), fmt.Sprintf("10.1.%d.%d:1", i>>8, i&255), nil, made)
				if reasonOf(t, err) != auth.ReasonNotCurrent {
					t.Error(err)
				}
				if job.IsCode(err, job.CodeUnavailable) {
					crowded.Add(1)
				}
			})
		}
		all.Wait()
		if n := crowded.Load(); n != 10 {
			t.Errorf("%d were told that too many wait", n)
		}
		if waited := asked - before; waited != auth.MaxWaits || time.Since(began) > auth.CurrentWait {
			t.Errorf("%d waited, for %s", waited, time.Since(began))
		}

		// One address does not take the places of all, and nothing is held against it where nobody could tell.
		before = asked
		const far = "10.2.0.1:1"
		for range 4 * auth.MaxWaitsEach {
			all.Go(func() {
				if _, err := a.Authenticate(t.Context(), far, nil, made); reasonOf(t, err) != auth.ReasonNotCurrent {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if waited := asked - before; waited != auth.MaxWaitsEach {
			t.Errorf("%d of one address waited", waited)
		}
		lag = 0
		if p, err := a.Authenticate(t.Context(), far, nil, made); err != nil || p.Name != "made" {
			t.Errorf("the token, when it can be known: %+v, %v", p, err)
		}
	})
}

// A caller that shows no token is not listened for less, and one with a certificate is always heard.
func TestWhatIsNotLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAuth(t, auth.Config{})
		for range 10 * auth.FailBurst {
			if _, err := a.Authenticate(t.Context(), home, nil, ""); reasonOf(t, err) != auth.ReasonNoCredentials {
				t.Fatal(err)
			}
		}
		if a.Peers() != 0 {
			t.Errorf("%d addresses are remembered for nothing", a.Peers())
		}
		for range 2 * auth.FailBurst {
			_, _ = a.Authenticate(t.Context(), home, nil, auth.NewToken()) // fails
		}
		if _, err := a.Authenticate(t.Context(), home, certificate(t, tlsconf.Request{Name: "ada", Role: tlsconf.RoleRead}), ""); err != nil {
			t.Error(err)
		}
	})
}

// The table of addresses is bounded, whoever has many of them cannot wash one clean, and one /64 is one.
func TestManyAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r registry
		good := r.add("good", job.RoleRead)
		a := newAuth(t, auth.Config{Registry: r.tokens})
		try := func(peer string) auth.Reason {
			_, err := a.Authenticate(t.Context(), peer, nil, auth.NewToken())
			return reasonOf(t, err)
		}
		for i := range auth.FailBurst {
			try(fmt.Sprintf("[2001:db8:1:2::%x]:1", i))
		}
		if got := try("[2001:db8:1:2:ffff::1]:1"); got != auth.ReasonLockedOut {
			t.Errorf("another address of the same /64: %s", got)
		}
		if got := try("[2001:db8:1:3::1]:1"); got != auth.ReasonUnknownToken {
			t.Errorf("another /64: %s", got)
		}
		for i := range 2 * auth.MaxPeers {
			try(fmt.Sprintf("10.%d.%d.%d:1", i>>16, i>>8&255, i&255))
		}
		if a.Peers() > auth.MaxPeers {
			t.Errorf("%d addresses are remembered", a.Peers())
		}
		if got := try("[2001:db8:1:2::1]:1"); got != auth.ReasonLockedOut {
			t.Errorf("after a flood from elsewhere: %s", got)
		}
		if got := try("192.0.2.1:1"); got != auth.ReasonLockedOut {
			t.Errorf("a newcomer in a flood shares its standing: %s", got)
		}
		await.Pass(time.Duration(auth.FailBurst) * auth.FailEvery)
		if _, err := a.Authenticate(t.Context(), "192.0.2.1:1", nil, good); err != nil {
			t.Errorf("after the flood: %v", err)
		}
		if got := try("192.0.2.2:1"); got != auth.ReasonUnknownToken || a.Peers() > auth.MaxPeers/2 {
			t.Errorf("after the flood: %s, %d addresses", got, a.Peers())
		}
	})
}

func TestFailuresAreCounted(t *testing.T) {
	metrics := prometheus.NewRegistry()
	failures, err := auth.NewFailures(metrics)
	if err != nil {
		t.Fatal(err)
	}
	a := newAuth(t, auth.Config{Failures: failures})
	_, _ = a.Authenticate(t.Context(), home, nil, "") // fails, as do the next
	_, _ = a.Authenticate(t.Context(), home, nil, "x")
	_, _ = a.Authenticate(t.Context(), home, nil, auth.NewToken())
	_, _ = a.Authenticate(t.Context(), home, nil, auth.NewToken())
	_ = auth.Certificates{Service: auth.ServiceHTTP, Failures: failures}.Check(nil)
	_ = auth.Certificates{Service: auth.ServiceReport, Role: tlsconf.RoleBackend, Failures: failures}.Check(
		certificate(t, tlsconf.Request{Name: "ada", Role: tlsconf.RoleAdmin}))
	err = testutil.GatherAndCompare(metrics, strings.NewReader(`
# HELP lancemaster_auth_failures_total Requests whose caller was not found out or not let in, by service and reason.
# TYPE lancemaster_auth_failures_total counter
lancemaster_auth_failures_total{reason="certificate",service="admin"} 0
lancemaster_auth_failures_total{reason="certificate",service="report"} 0
lancemaster_auth_failures_total{reason="certificate_expired",service="admin"} 0
lancemaster_auth_failures_total{reason="certificate_expired",service="http"} 0
lancemaster_auth_failures_total{reason="certificate_expired",service="report"} 0
lancemaster_auth_failures_total{reason="certificate_role",service="admin"} 0
lancemaster_auth_failures_total{reason="certificate_role",service="report"} 1
lancemaster_auth_failures_total{reason="certificate_untrusted",service="admin"} 0
lancemaster_auth_failures_total{reason="certificate_untrusted",service="http"} 0
lancemaster_auth_failures_total{reason="certificate_untrusted",service="report"} 0
lancemaster_auth_failures_total{reason="handshake",service="http"} 0
lancemaster_auth_failures_total{reason="locked_out",service="admin"} 0
lancemaster_auth_failures_total{reason="malformed_token",service="admin"} 1
lancemaster_auth_failures_total{reason="no_credentials",service="admin"} 1
lancemaster_auth_failures_total{reason="no_credentials",service="http"} 1
lancemaster_auth_failures_total{reason="no_credentials",service="report"} 0
lancemaster_auth_failures_total{reason="not_current",service="admin"} 0
lancemaster_auth_failures_total{reason="unknown_token",service="admin"} 2
`))
	if err != nil {
		t.Error(err)
	}
	if problems, err := testutil.GatherAndLint(metrics); err != nil || len(problems) > 0 {
		t.Errorf("promlint: %v, %v", problems, err)
	}
	if _, err := auth.NewFailures(metrics); err == nil {
		t.Error("the metric was registered twice")
	}
	if _, err := auth.New(auth.Config{Anonymous: math.MaxUint8}); err == nil {
		t.Error("an unknown role for everybody was accepted")
	}
}

// The canary: no token, and no part of one, is told to anybody.
func TestATokenIsNeverShown(t *testing.T) {
	var said strings.Builder
	log := slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelDebug}))
	a := newAuth(t, auth.Config{Logger: log})
	text := auth.NewToken()
	var shown strings.Builder
	for _, given := range []string{text, text + "x", text[3:], " " + text} {
		for range 2 * auth.FailBurst {
			p, err := a.Authenticate(t.Context(), home, nil, given)
			fmt.Fprintf(&shown, "%v %+v %#v", p, err, err)
		}
	}
	for _, line := range []string{
		"root admin " + text, text + " admin x", "root " + text + " x", text, "a b c " + text, text + " admin " + strings.Repeat("0", 64) + "\n" + text + " admin " + strings.Repeat("0", 64),
	} {
		f, err := auth.OpenTokenFile(writeFile(t, line), log, nil)
		if err == nil {
			if err := f.Close(); err != nil {
				t.Error(err)
			}
			t.Errorf("accepted a line of %d parts", len(strings.Fields(line)))
		}
		fmt.Fprintf(&shown, "%+v", err)
	}
	for _, where := range []string{shown.String(), said.String()} {
		if strings.Contains(where, text[3:15]) {
			t.Errorf("a token is shown: %.300s", where)
		}
	}
}

package doris

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dolthub/vitess/go/mysql"
	driver "github.com/go-sql-driver/mysql"
	"go.uber.org/goleak"

	"github.com/lancemaster/lancemaster/internal/refresh"
)

const (
	patience = 20 * time.Second
	user     = "lance`master'ü@%"
	password = "canary-päss'word-77"
)

func TestMain(m *testing.M) {
	log.SetOutput(io.Discard) // the listener's, of the failures that the tests cause
	if err := driver.SetLogger(driverLog); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// files resolves references from a map that may change between attempts.
type files struct {
	mu      sync.Mutex
	content map[string]string
}

func (f *files) Resolve(_ context.Context, reference string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	content, ok := f.content[reference]
	if !ok {
		return "", fmt.Errorf("no %s", reference)
	}
	return content, nil
}

func known() map[string]string { return map[string]string{user: password} }

func specOf(frontends ...string) refresh.Spec {
	return refresh.Spec{Kind: refresh.KindDoris, Frontends: frontends, User: user, PasswordRef: "file:/password"}
}

var attempt = refresh.Attempt{Job: 7, Number: 1, Catalog: "lance", Database: "db", Table: "t"}

const statement = "REFRESH TABLE `lance`.`db`.`t`"

// try makes one attempt; the driver must write nothing to a log of its own, and the
// password must be seen nowhere.
func try(ctx context.Context, t *testing.T, spec refresh.Spec, attempt refresh.Attempt, content map[string]string) (string, error) {
	t.Helper()
	resolver := &files{content: map[string]string{"file:/password": password}}
	for reference, value := range content {
		resolver.content[reference] = value
	}
	registry := refresh.NewRegistry(map[string]refresh.Refresher{refresh.KindDoris: refresh.NewDoris(resolver, nil)})
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	evidence, err := registry.Refresh(ctx, spec, attempt)
	if said := driverLog.take(); len(said) > 0 {
		t.Errorf("the driver wrote %q to its own log", said)
	}
	for _, secret := range []string{password, resolver.content["file:/password"]} {
		if strings.Contains(fmt.Sprintf("%s %v %+v %#v", evidence, err, err, err), secret) {
			t.Errorf("the password is seen in %q, %v", evidence, err)
		}
	}
	return evidence, err
}

// loud is the driver's logger for those who name none, which by default is standard
// error.
type loud struct {
	mu   sync.Mutex
	said []string
}

var driverLog = &loud{}

func (l *loud) Print(v ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.said = append(l.said, fmt.Sprint(v...))
}

func (l *loud) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	said := l.said
	l.said = nil
	return said
}

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

func wantEvidence(t *testing.T, evidence string, err error, frontend *frontend, parts ...string) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range append(parts, "frontend "+frontend.address()+" answered OK") {
		if !strings.Contains(evidence, part) {
			t.Errorf("evidence %q, want %q in it", evidence, part)
		}
	}
}

// No name breaks out of its quotes, and none is changed on its way.
func TestStatementArrivesVerbatim(t *testing.T) {
	f := newFrontend(t, known(), nil)
	for _, tt := range []struct{ catalog, database, table, want string }{
		{"lance", "db", "t", statement},
		{"a.b", "c d", "e`f", "REFRESH TABLE `a.b`.`c d`.`e``f`"},
		{"`", "``", "`; DROP TABLE `x", "REFRESH TABLE ````.``````.```; DROP TABLE ``x`"},
		{"sin'gle", `dou"ble`, `back\slash\`, "REFRESH TABLE `sin'gle`.`dou\"ble`.`back\\slash\\`"},
		{"-- ", "/* */", "#?%s:x", "REFRESH TABLE `-- `.`/* */`.`#?%s:x`"},
		{"Größe", "表 名", "🚀\u202e\u00a0", "REFRESH TABLE `Größe`.`表 名`.`🚀\u202e\u00a0`"},
		{"new\nline", "tab\t", " ", "REFRESH TABLE `new\nline`.`tab\t`.` `"},
		{strings.Repeat("`", 1024), "d", "t", "REFRESH TABLE `" + strings.Repeat("``", 1024) + "`.`d`.`t`"},
	} {
		before := len(f.got())
		evidence, err := try(t.Context(), t, specOf(f.address()),
			refresh.Attempt{Catalog: tt.catalog, Database: tt.database, Table: tt.table}, nil)
		wantEvidence(t, evidence, err, f)
		// Exactly one: no SET, and no question for a variable.
		if got := f.got()[before:]; !slices.Equal(got, []string{tt.want}) {
			t.Errorf("the frontend got %q, want %q", got, tt.want)
		}
	}
	if f.logins[0] != user {
		t.Errorf("the user arrived as %q", f.logins[0])
	}
}

// unused returns an address at which nobody listens.
func unused(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func notMaster() error {
	return mysql.NewSQLError(5023, "HY000", "Unknown error: this node is not master\nand password %s", password)
}

func TestFailover(t *testing.T) {
	down := unused(t)
	follower := newFrontend(t, known(), nil)
	follower.answer = notMaster()
	stranger := newFrontend(t, map[string]string{"root": "x"}, nil)
	good := newFrontend(t, known(), nil)
	spare := newFrontend(t, known(), nil)

	evidence, err := try(t.Context(), t,
		specOf(down, follower.address(), stranger.address(), good.address(), spare.address()), attempt, nil)
	wantEvidence(t, evidence, err, good,
		down+": dial tcp", "connection refused", follower.address()+": error 5023 Unknown error: this node is not master and password ***",
		stranger.address()+": error 1045 Access denied for user")
	if got := good.got(); !slices.Equal(got, []string{statement}) {
		t.Errorf("the good one got %q", got)
	}
	if len(spare.got())+len(spare.logins)+len(stranger.got()) > 0 {
		t.Error("more frontends were used than needed, or one without a login")
	}

	_, err = try(t.Context(), t, specOf(down, follower.address(), stranger.address()), attempt, nil)
	wantError(t, err, "no frontend answered OK", down, "refused", "error 5023", "error 1045")
}

// A password that was rotated counts from the next attempt; a wrong one says so.
func TestLogin(t *testing.T) {
	f := newFrontend(t, known(), nil)
	for _, tt := range []struct{ password, want string }{
		{password, ""}, {"another-password", "error 1045 Access denied"}, {password, ""},
	} {
		evidence, err := try(t.Context(), t, specOf(f.address()), attempt, map[string]string{"file:/password": tt.password})
		if tt.want == "" {
			wantEvidence(t, evidence, err, f)
		} else {
			wantError(t, err, tt.want)
		}
	}
	spec := specOf(f.address())
	spec.PasswordRef = ""
	if _, err := try(t.Context(), t, spec, attempt, nil); err == nil {
		t.Error("no password was as good as the right one")
	}
	if slices.Contains(f.methods, "password") {
		t.Error("the password itself was sent")
	}
}

// The password itself is sent to a server with a good certificate, and to no other.
func TestClearPassword(t *testing.T) {
	authority := newAuthority(t)
	for _, withTLS := range []bool{true, false} {
		f := newFrontend(t, known(), authority.server)
		f.plugin = mysql.NewMysqlClearAuthMethod(f, f)
		spec := specOf(f.address())
		content := map[string]string{"file:/ca": authority.bundle}
		if withTLS {
			spec.TLS, spec.CARef = true, "file:/ca"
		}
		evidence, err := try(t.Context(), t, spec, attempt, content)
		if !withTLS {
			wantError(t, err, "the password itself, which is sent over TLS only")
			if slices.Contains(f.methods, "password") {
				t.Error("the password was sent without TLS")
			}
			continue
		}
		wantEvidence(t, evidence, err, f)
		content["file:/password"] = "another-canary"
		_, err = try(t.Context(), t, spec, attempt, content)
		wantError(t, err, "error 1045", "***")
	}
}

func TestHang(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // the kernel accepts, nobody answers
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	hanging := newFrontend(t, known(), nil)
	hanging.hang = true
	good := newFrontend(t, known(), nil)

	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	evidence, err := try(ctx, t, specOf(silent.Addr().String(), hanging.address(), good.address()), attempt, nil)
	wantEvidence(t, evidence, err, good, silent.Addr().String()+": no answer within its share", hanging.address()+": no answer within its share")
	if got := hanging.got(); !slices.Equal(got, []string{statement}) {
		t.Errorf("the hanging one got %q", got)
	}

	ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := try(ctx, t, specOf(hanging.address()), attempt, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want one that says that time ran out", err)
	}

	// When the term ends nothing is waited for.
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	before := len(hanging.got())
	go func() {
		hanging.wait("the statement", func() bool { return len(hanging.statements) > before })
		cancel()
	}()
	if _, err := try(ctx, t, specOf(hanging.address(), good.address()), attempt, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want one that says that it was given up", err)
	}
	if got := good.got(); len(got) != 1 {
		t.Errorf("the next one was asked after the end: %q", got)
	}
}

func TestTLS(t *testing.T) {
	authority, other := newAuthority(t), newAuthority(t)
	secure := newFrontend(t, known(), authority.server)
	plain := newFrontend(t, known(), nil)
	content := map[string]string{"file:/ca": authority.bundle, "file:/other": other.bundle}
	for name, tt := range map[string]struct {
		frontend *frontend
		ca       string
		want     string
	}{
		"own CA":         {secure, "file:/ca", ""},
		"another CA":     {secure, "file:/other", "certificate"},
		"machine's CAs":  {secure, "", "certificate"},
		"missing bundle": {secure, "file:/none", "the CA bundle"},
		"no TLS there":   {plain, "file:/ca", "does not support TLS"},
	} {
		t.Run(name, func(t *testing.T) {
			before := len(tt.frontend.logins)
			spec := specOf(tt.frontend.address())
			spec.TLS, spec.CARef = true, tt.ca
			evidence, err := try(t.Context(), t, spec, attempt, content)
			if tt.want == "" {
				wantEvidence(t, evidence, err, tt.frontend)
				return
			}
			wantError(t, err, tt.want)
			if len(tt.frontend.logins) > before {
				t.Error("a login was sent to a frontend that is not trusted")
			}
		})
	}
	// Another name than the certificate's.
	_, port, err := net.SplitHostPort(secure.address())
	if err != nil {
		t.Fatal(err)
	}
	spec := specOf(net.JoinHostPort("localhost", port))
	spec.TLS, spec.CARef = true, "file:/ca"
	_, err = try(t.Context(), t, spec, attempt, content)
	wantError(t, err, "certificate")
}

// Each attempt closes what it opened, whatever became of it.
func TestNothingStaysOpen(t *testing.T) {
	f := newFrontend(t, known(), nil)
	for i := range 20 {
		f.note(func() { f.answer = nil })
		if i%2 == 1 {
			f.note(func() { f.answer = notMaster() })
		}
		_, err := try(t.Context(), t, specOf(f.address()), attempt, nil)
		if (err != nil) != (i%2 == 1) {
			t.Errorf("attempt %d: %v", i, err)
		}
	}
	f.wait("the connections to be closed", func() bool { return f.open == 0 })
}

// authority is a CA and a certificate of it for 127.0.0.1.
type authority struct {
	server *tls.Config
	bundle string
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	caKey, caCertificate := issue(t, &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test CA"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign,
	}, nil, nil)
	key, certificate := issue(t, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "frontend"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, caCertificate, caKey)
	return authority{
		server: &tls.Config{
			MinVersion:   tls.VersionTLS12,
			Certificates: []tls.Certificate{{Certificate: [][]byte{certificate.Raw}, PrivateKey: key}},
		},
		bundle: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caCertificate.Raw})),
	}
}

// issue makes a key and a certificate for it, signed by itself without a parent.
func issue(t *testing.T, template, parent *x509.Certificate, by *ecdsa.PrivateKey) (*ecdsa.PrivateKey, *x509.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	if parent == nil {
		parent, by = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), by)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return key, certificate
}

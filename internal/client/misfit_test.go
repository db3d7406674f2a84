package client_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/internal/client"
	"github.com/lancemaster/lancemaster/internal/client/clienttest"
)

// authority signs certificates for 127.0.0.1.
type authority struct {
	t    *testing.T
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t}
	a.key, a.cert = a.issue(&x509.Certificate{
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	})
	return a
}

// named has another name than those of newAuthority.
func (a *authority) named(name string) *authority {
	a.key, a.cert = (&authority{t: a.t}).issue(&x509.Certificate{
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	})
	return a
}

func (a *authority) issue(c *x509.Certificate) (*ecdsa.PrivateKey, *x509.Certificate) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	c.SerialNumber = big.NewInt(time.Now().UnixNano())
	if c.Subject.CommonName == "" {
		c.Subject.CommonName = "test"
	}
	signer, parent := a.key, a.cert
	if signer == nil {
		signer, parent = key, c
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), signer)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return key, cert
}

// pair is a certificate for a host that lasts so long.
func (a *authority) pair(host string, lasts time.Duration) tls.Certificate {
	c := &x509.Certificate{NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(lasts)}
	if ip := net.ParseIP(host); ip != nil {
		c.IPAddresses = []net.IP{ip}
	} else {
		c.DNSNames = []string{host}
	}
	key, cert := a.issue(c)
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key}
}

func (a *authority) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

// TestWhyAnAddressCannotBeCalled: each mistake is named, with what to give, and once for all addresses
// that have it. Nothing is waited for.
func TestWhyAnAddressCannotBeCalled(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	serve := func(cfg *tls.Config) string { return clienttest.NewTLS(t, cfg).Addr() }
	good := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{ca.pair("127.0.0.1", time.Hour)}}
	mutual := good.Clone()
	mutual.ClientAuth, mutual.ClientCAs = tls.RequireAndVerifyClientCert, ca.pool()
	stale := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{ca.pair("127.0.0.1", -time.Hour)}}
	named := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{ca.pair("m1.example.com", time.Hour)}}
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	secureWeb := httptest.NewUnstartedServer(http.NotFoundHandler())
	secureWeb.TLS = good.Clone()
	secureWeb.StartTLS()
	defer secureWeb.Close()
	addr := func(s *httptest.Server) string { return s.Listener.Addr().String() }

	trusting := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: ca.pool()}
	as := func(p tls.Certificate) *tls.Config {
		c := trusting.Clone()
		// Whatever is asked for, as a caller does who gives the wrong one.
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &p, nil }
		return c
	}
	for _, tt := range []struct {
		name      string
		addresses []string
		tls       *tls.Config
		code      string
		says      string
		next      string
	}{
		{"nobody", []string{closedAddr(t), closedAddr(t)}, nil, client.CodeUnreachable, "connection refused", "--addr"},
		{"plain to TLS", []string{serve(good), serve(good)}, nil, client.CodeBadReply, "TLS is needed", "LANCEMASTER_TLS_CA"},
		{"TLS to plain", []string{serve(nil), serve(nil)}, trusting, client.CodeUnreachable, "TLS, which is not spoken there", "unset LANCEMASTER_TLS_CA"},
		{"another CA", []string{serve(good), serve(good)}, &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: other.pool()}, client.CodeUnreachable, "CA that is not trusted here", "--tls-ca"},
		{"another name", []string{serve(named)}, trusting, client.CodeUnreachable, "does not name this address", "tls cert --host"},
		{"expired", []string{serve(stale)}, trusting, client.CodeUnreachable, "has expired", "renew"},
		{"no certificate", []string{serve(mutual), serve(mutual)}, trusting, client.CodeUnreachable, "a certificate is asked for", "LANCEMASTER_TLS_CERT"},
		{"a certificate of another CA", []string{serve(mutual)}, as(other.pair("127.0.0.1", time.Hour)), client.CodeUnreachable, "refused there: unknown certificate authority", "tls.ca_file"},
		{"an expired certificate", []string{serve(mutual)}, as(ca.pair("127.0.0.1", -time.Hour)), client.CodeUnreachable, "is refused there", "valid now"},
		{"HTTP", []string{addr(web), addr(web)}, nil, client.CodeBadReply, "an HTTP server", "9021"},
		{"TLS to HTTP", []string{addr(web)}, trusting, client.CodeUnreachable, "an HTTP server", "9021"},
		{"TLS to HTTPS", []string{addr(secureWeb)}, trusting, client.CodeBadReply, "an HTTP server", "9021"},
		{"plain to HTTPS", []string{addr(secureWeb)}, nil, client.CodeBadReply, "TLS is needed", "LANCEMASTER_TLS_CA"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			// An HTTP server would be waited for until this ends.
			c, err := client.New(client.Config{Addresses: tt.addresses, Name: "ada", TLS: tt.tls, CallTimeout: 20 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			p := &pauses{}
			c.SetPause(p.pause)
			_, err = c.Job(t.Context(), 1)
			e := theError(t, err, tt.code)
			if strings.Count(e.Message, tt.says) != 1 || !strings.Contains(e.Next, tt.next) {
				t.Errorf("it says %q and next %q; want once %q and %q", e.Message, e.Next, tt.says, tt.next)
			}
			if want := strings.Join(tt.addresses, ", ") + ": "; tt.addresses[0] != tt.addresses[len(tt.addresses)-1] && !strings.Contains(e.Message, want) {
				t.Errorf("%q does not say %q", e.Message, want)
			}
			if p.count() > 0 {
				t.Errorf("%d pauses, although nothing changes by waiting", p.count())
			}
		})
	}
}

// TestMixedFaults: what differs is told apart, and the next step is of what can be mended from here.
func TestMixedFaults(t *testing.T) {
	secure := clienttest.NewTLS(t, &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{newAuthority(t).pair("127.0.0.1", time.Hour)}})
	gone := closedAddr(t)
	c, _ := newClient(t, gone, secure.Addr())
	_, err := c.Job(t.Context(), 1)
	e := theError(t, err, client.CodeBadReply)
	if !strings.Contains(e.Message, gone+": connection refused; cannot talk to "+secure.Addr()) || !strings.Contains(e.Next, "--tls-ca") {
		t.Errorf("it says %q and next %q", e.Message, e.Next)
	}
}

// TestAChangeThatTLSKeptOut is known not to be made: it goes on to the next master, and at last says why.
func TestAChangeThatTLSKeptOut(t *testing.T) {
	ca := newAuthority(t)
	mutual := clienttest.NewTLS(t, &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{ca.pair("127.0.0.1", time.Hour)},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.pool(),
	})
	c, err := client.New(client.Config{Addresses: []string{mutual.Addr()}, Name: "ada", TLS: &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: ca.pool()}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = c.CancelJob(t.Context(), client.JobVerb{JobID: 5})
	wantCode(t, err, client.CodeUnreachable)
	if count(mutual) != 0 {
		t.Errorf("%d calls were served", count(mutual))
	}
}

// TestACertificateThatIsNotShown: TLS shows no certificate whose CA the other end does not accept. The caller
// has given one, and is told why it did not count, whether one must be shown or a master asks for who calls.
func TestACertificateThatIsNotShown(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t).named("another")
	server := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{ca.pair("127.0.0.1", time.Hour)}, ClientCAs: ca.pool()}
	for _, tt := range []struct {
		name  string
		asks  tls.ClientAuthType
		most  uint16
		token string
		given tls.Certificate
		code  string
		says  string
		next  string
	}{
		{"needed", tls.RequireAndVerifyClientCert, 0, "", other.pair("ada", time.Hour), client.CodeUnreachable, "your certificate was not shown", "tls.ca_file"},
		{"needed, TLS 1.2", tls.RequireAndVerifyClientCert, tls.VersionTLS12, "", other.pair("ada", time.Hour), client.CodeUnreachable, "your certificate was not shown", "tls.ca_file"},
		{"asked for", tls.VerifyClientCertIfGiven, 0, "", other.pair("ada", time.Hour), "UNAUTHENTICATED", "your certificate was not shown", "tls.ca_file"},
		{"a token is what is wrong", tls.VerifyClientCertIfGiven, 0, "lm_wrong", other.pair("ada", time.Hour), "UNAUTHENTICATED", "who are you", "say it"},
		{"it was shown", tls.VerifyClientCertIfGiven, 0, "", ca.pair("ada", time.Hour), "UNAUTHENTICATED", "who are you", "say it"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := server.Clone()
			cfg.ClientAuth, cfg.MaxVersion = tt.asks, tt.most
			s := clienttest.NewTLS(t, cfg)
			s.Script("getJob", clienttest.Behavior{Refusal: &clienttest.Refusal{Code: "UNAUTHENTICATED", Message: "who are you", Next: "say it"}})
			c, err := client.New(client.Config{
				Addresses: []string{s.Addr()}, Name: "ada", Token: tt.token,
				TLS: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: ca.pool(), Certificates: []tls.Certificate{tt.given}},
			})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			_, err = c.Job(t.Context(), 1)
			e := theError(t, err, tt.code)
			if !strings.Contains(e.Message, tt.says) || !strings.Contains(e.Next, tt.next) {
				t.Errorf("it says %q and next %q; want %q and %q", e.Message, e.Next, tt.says, tt.next)
			}
		})
	}
}

package peer

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// authority issues certificates for 127.0.0.1.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	ok(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	ok(t, err)
	cert, err := x509.ParseCertificate(der)
	ok(t, err)
	a := &authority{cert: cert, key: key, pool: x509.NewCertPool()}
	a.pool.AddCert(cert)
	return a
}

func (a *authority) issue(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	ok(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	ok(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func serverTLS(config *tls.Config) func() (*tls.Config, error) {
	return func() (*tls.Config, error) { return config, nil }
}

// secured makes a node use certificates of an authority, both ways.
func (a *authority) secured(t *testing.T) func(*Config) {
	t.Helper()
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{a.issue(t)},
		ClientCAs: a.pool, RootCAs: a.pool, ClientAuth: tls.RequireAndVerifyClientCert,
	}
	return func(c *Config) {
		c.ServerTLS = serverTLS(config)
		c.ClientTLS = func(string) (*tls.Config, error) { return config, nil }
	}
}

func TestTLS(t *testing.T) {
	authority := newAuthority(t)
	a, b := start(t, member("m1"), authority.secured(t)), start(t, member("m2"), authority.secured(t))
	_, _, err := a.Call(within(t), "m2", b.Addr(), "echo", make([]byte, 1<<20))
	ok(t, err)
	out, in := pair(t, a, b)
	_, err = out.Write([]byte("hello"))
	ok(t, err)
	if _, err := io.ReadFull(in, make([]byte, 5)); err != nil {
		t.Error(err)
	}
	ok(t, b.Close(within(t)))
	if _, err := out.Read(make([]byte, 1)); err == nil {
		t.Error("the connection stands")
	}
}

// A caller that goes away is noticed under TLS too.
func TestTLSCallersEnd(t *testing.T) {
	authority := newAuthority(t)
	started, ended := make(chan struct{}), make(chan struct{})
	with := func(c *Config) {
		authority.secured(t)(c)
		c.Handlers = map[string]Handler{"poll": {Do: func(ctx context.Context, _ Identity, _ []byte) ([]byte, error) {
			close(started)
			<-ctx.Done()
			close(ended)
			return nil, ctx.Err()
		}}}
	}
	a, b := start(t, member("m1"), with), start(t, member("m2"), with)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _, _ = a.Call(within(t), "m2", b.Addr(), "poll", nil)
	}()
	<-started
	a.killAll(func(*link) bool { return true })
	select {
	case <-ended:
	case <-time.After(patience):
		t.Error("the handler runs on")
	}
	<-done
}

func TestTLSThatDoesNotFit(t *testing.T) {
	ours, theirs := newAuthority(t), newAuthority(t)
	plain := start(t, member("m1"), nil)
	a := start(t, member("m1"), ours.secured(t))
	b := start(t, member("m2"), theirs.secured(t))
	p := start(t, member("m2"), nil)
	dial := func(from, to *node) error {
		t.Helper()
		_, err := from.RaftStream().Dial(at(to, "m2"), patience)
		var refusal *Refusal
		if err == nil || errors.As(err, &refusal) {
			t.Fatalf("connected: %v", err)
		}
		return err
	}
	if err := dial(a, b); !strings.Contains(err.Error(), "TLS handshake") {
		t.Errorf("another authority: %v", err)
	}
	eventually(t, "it is not said", func() bool { return len(b.log.with("compare the certificates")) == 1 })
	if got := a.log.with("cannot talk to another master"); len(got) != 1 || !strings.Contains(got[0], "with=m2") {
		t.Errorf("the dialler says %v", got)
	}
	if err := dial(plain, b); !strings.Contains(err.Error(), "must use TLS or neither") {
		t.Errorf("plain to TLS: %v", err)
	}
	if err := dial(a, p); !strings.Contains(err.Error(), "TLS handshake") {
		t.Errorf("TLS to plain: %v", err)
	}
	eventually(t, "it is not said", func() bool { return len(p.log.with("both must use TLS or neither")) == 1 })
	// Who cannot load its certificates says so.
	broken := errors.New("no such file")
	c := start(t, member("m1"), func(c *Config) {
		c.ServerTLS = func() (*tls.Config, error) { return nil, broken }
		c.ClientTLS = func(string) (*tls.Config, error) { return nil, broken }
	})
	if err := dial(c, b); !errors.Is(err, broken) {
		t.Errorf("without certificates: %v", err)
	}
}

// With TLS 1.3 a certificate is refused after the handshake of who shows it.
func TestOfTLS(t *testing.T) {
	alert := fmt.Errorf("no answer: %w", &net.OpError{Op: "remote error", Err: errors.New("tls: unknown certificate authority")})
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{&CallError{Err: alert}, true},
		{&CallError{Err: &tlsError{errors.New("x509: certificate signed by unknown authority")}}, true},
		{&Refusal{Code: CodeWrongCertificate}, true},
		{&Refusal{Code: CodeWrongNode}, false},
		{&CallError{Err: &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}}, false},
		{nil, false},
	} {
		if got := OfTLS(tt.err); got != tt.want {
			t.Errorf("%v: %v", tt.err, got)
		}
	}
	if got := failureReason(alert); got != failedTLS {
		t.Errorf("the alert counts as %s", got)
	}
}

// The configuration of each connection is asked for anew, with whom it is for.
func TestTLSIsAskedForAtEachConnection(t *testing.T) {
	authority := newAuthority(t)
	b := start(t, member("m2"), authority.secured(t))
	var asked []string
	a := start(t, member("m1"), func(c *Config) {
		authority.secured(t)(c)
		inner := c.ClientTLS
		c.ClientTLS = func(nodeID string) (*tls.Config, error) {
			asked = append(asked, nodeID)
			return inner(nodeID)
		}
	})
	for range 2 {
		conn, err := a.RaftStream().Dial(at(b, "m2"), patience)
		ok(t, err)
		ok(t, conn.Close())
	}
	if len(asked) != 2 || asked[0] != "m2" {
		t.Errorf("asked for %q", asked)
	}
}

// heldBy is secured, with a word on whose certificates are.
func (a *authority) heldBy(t *testing.T, holder func(tls.ConnectionState) (string, error)) func(*Config) {
	t.Helper()
	secured := a.secured(t)
	return func(c *Config) {
		secured(c)
		c.Holder = holder
	}
}

// A master whose certificate is another's must not speak for itself with it.
func TestACertificateMustNameItsHolder(t *testing.T) {
	authority := newAuthority(t)
	for name, holder := range map[string]func(tls.ConnectionState) (string, error){
		"another node": func(tls.ConnectionState) (string, error) { return "m3", nil },
		"nobody":       func(tls.ConnectionState) (string, error) { return "", errors.New("it names no node") },
	} {
		t.Run(name, func(t *testing.T) {
			a := start(t, member("m1"), authority.secured(t))
			b := start(t, member("m2"), authority.heldBy(t, holder))
			_, _, err := a.Call(within(t), "m2", b.Addr(), "echo", nil)
			refusal, ok := errors.AsType[*Refusal](err)
			if !ok || refusal.Code != CodeWrongCertificate || !refusal.ByOther {
				t.Errorf("got %v", err)
			}
		})
	}
	a := start(t, member("m1"), authority.secured(t))
	b := start(t, member("m2"), authority.heldBy(t, func(tls.ConnectionState) (string, error) { return "m1", nil }))
	_, _, err := a.Call(within(t), "m2", b.Addr(), "echo", nil)
	ok(t, err)
}

// until is a look at certificates that finds fault with them from when it is told to.
type until struct{ over atomic.Bool }

func (u *until) recheck(tls.ConnectionState) error {
	if u.over.Load() {
		return errors.New("it expired")
	}
	return nil
}

func (u *until) on(secured func(*Config)) func(*Config) {
	return func(c *Config) {
		secured(c)
		c.Recheck = u.recheck
	}
}

// renewed is a look at certificates that finds fault with those of the connections made before the renewal.
type renewed struct {
	mu       sync.Mutex
	old, now map[string]bool // connections, by a secret of each
}

func (r *renewed) recheck(state tls.ConnectionState) error {
	secret, err := state.ExportKeyingMaterial("test", nil, 16)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.old[string(secret)] {
		return errors.New("it expired")
	}
	r.now[string(secret)] = true
	return nil
}

func (r *renewed) renew() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.old, r.now = r.now, map[string]bool{}
}

func (r *renewed) on(secured func(*Config)) func(*Config) {
	r.now = map[string]bool{}
	return func(c *Config) {
		secured(c)
		c.Recheck = r.recheck
	}
}

// A connection ends with its certificate: at its next call or request, whichever side looks.
func TestAConnectionDoesNotOutliveItsCertificate(t *testing.T) {
	authority := newAuthority(t)
	t.Run("a call, where it arrives", func(t *testing.T) {
		var u until
		a, b := start(t, member("m1"), authority.secured(t)), start(t, member("m2"), u.on(authority.secured(t)))
		call := func() error {
			_, _, err := a.Call(within(t), "m2", b.Addr(), "echo", nil)
			return err
		}
		ok(t, call())
		u.over.Store(true)
		refusal, is := errors.AsType[*Refusal](call())
		if !is || refusal.Code != CodeWrongCertificate || !refusal.ByOther || !strings.Contains(refusal.Message, "it expired") {
			t.Fatalf("a call over the connection of before: %v", refusal)
		}
		// Over the idle connection and over a new one.
		if got := b.log.with("it expired"); len(got) != 2 || !strings.Contains(got[0], "node=m1") {
			t.Errorf("logged %v", got)
		}
		u.over.Store(false) // of the next connection
		ok(t, call())
	})
	t.Run("a call, after a renewal", func(t *testing.T) {
		for range 20 { // whether an end that is on its way is seen in time is a matter of chance
			var o renewed
			a, b := start(t, member("m1"), authority.secured(t)), start(t, member("m2"), o.on(authority.secured(t)))
			call := func() error {
				_, _, err := a.Call(within(t), "m2", b.Addr(), "echo", nil)
				return err
			}
			ok(t, call())
			o.renew()
			ok(t, call()) // the connection of before is refused, and nobody need hear of it
			ok(t, call())
		}
	})
	t.Run("a call, where it is made", func(t *testing.T) {
		var u until
		a, b := start(t, member("m1"), u.on(authority.secured(t))), start(t, member("m2"), authority.secured(t))
		_, _, err := a.Call(within(t), "m2", b.Addr(), "echo", nil)
		ok(t, err)
		before := a.snapshot()
		u.over.Store(true)
		if _, _, err = a.Call(within(t), "m2", b.Addr(), "echo", nil); err != nil {
			t.Errorf("a handshake vouches for the new connection, and yet: %v", err)
		}
		for _, l := range before {
			select {
			case <-l.gone:
			default:
				t.Error("the connection of before stands")
			}
		}
	})
	for name, looks := range map[string]func(u *until, l func(*Config)) (dialler, acceptor func(*Config)){
		"Raft, where a request arrives": func(u *until, l func(*Config)) (_, _ func(*Config)) { return l, u.on(l) },
		"Raft, where a request is sent": func(u *until, l func(*Config)) (_, _ func(*Config)) { return u.on(l), l },
	} {
		t.Run(name, func(t *testing.T) {
			var u until
			dialler, acceptor := looks(&u, authority.secured(t))
			a, b := start(t, member("m1"), dialler), start(t, member("m2"), acceptor)
			out, in := pair(t, a, b)
			exchange := func() error {
				if _, err := out.Write([]byte("hello")); err != nil {
					return err
				}
				if _, err := io.ReadFull(in, make([]byte, 5)); err != nil {
					return err
				}
				if _, err := in.Write([]byte("there")); err != nil {
					return err
				}
				_, err := io.ReadFull(out, make([]byte, 5))
				return err
			}
			ok(t, exchange())
			ok(t, exchange())
			u.over.Store(true)
			if err := exchange(); err == nil || !strings.Contains(err.Error(), "it expired") {
				t.Errorf("a request over the connection of before: %v", err)
			}
		})
	}
	t.Run("an idle connection, when the members change", func(t *testing.T) {
		var u until
		a, b := start(t, member("m1"), authority.secured(t)), start(t, member("m2"), u.on(authority.secured(t)))
		out, _ := pair(t, a, b)
		b.Recheck()
		u.over.Store(true)
		b.Recheck()
		if _, err := out.Read(make([]byte, 1)); err == nil {
			t.Error("the connection stands")
		}
	})
}

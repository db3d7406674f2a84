package tlsconf_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lancemaster/lancemaster/internal/tlsconf"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const day = 24 * time.Hour

func newCA(t *testing.T, name string) tlsconf.Pair {
	t.Helper()
	ca, err := tlsconf.NewCA(name, time.Now(), day)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func issue(t *testing.T, ca tlsconf.Pair, r tlsconf.Request) tlsconf.Pair {
	t.Helper()
	r.Validity = day
	pair, err := tlsconf.Issue(ca, r, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

func master(node string) tlsconf.Request {
	return tlsconf.Request{Name: node, Role: tlsconf.RoleMaster, Node: node, Hosts: []string{"127.0.0.1", "localhost"}}
}

// custom issues what Issue refuses to.
func custom(t *testing.T, ca tlsconf.Pair, name string, notAfter time.Time, uris ...string) tlsconf.Pair {
	t.Helper()
	authority, err := tls.X509KeyPair(ca.Cert, ca.Key())
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: name}, NotBefore: notAfter.Add(-day), NotAfter: notAfter,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	for _, text := range uris {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		template.URIs = append(template.URIs, u)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, authority.Leaf, &key.PublicKey, authority.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return tlsconf.NewPair(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
}

// place is a directory with the three files.
type place struct {
	t *testing.T
	tlsconf.Files
}

func newPlace(t *testing.T, pair tlsconf.Pair, cas ...tlsconf.Pair) *place {
	t.Helper()
	dir := t.TempDir()
	p := &place{t, tlsconf.Files{Cert: filepath.Join(dir, "c.crt"), Key: filepath.Join(dir, "c.key"), CA: filepath.Join(dir, "ca.crt")}}
	p.put(pair)
	p.trust(cas...)
	return p
}

func (p *place) put(pair tlsconf.Pair) {
	p.t.Helper()
	write(p.t, p.Key, pair.Key())
	write(p.t, p.Cert, pair.Cert)
}

func (p *place) trust(cas ...tlsconf.Pair) {
	p.t.Helper()
	var bundle []byte
	for _, ca := range cas {
		bundle = append(bundle, ca.Cert...)
	}
	write(p.t, p.CA, bundle)
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// open opens a Source that is only reloaded on demand.
func open(t *testing.T, p *place, change ...func(*tlsconf.Config)) *tlsconf.Source {
	t.Helper()
	cfg := tlsconf.Config{Uses: []tlsconf.Use{tlsconf.UseAdmin}, Files: p.Files, Interval: -1}
	for _, f := range change {
		f(&cfg)
	}
	s, err := tlsconf.Open(cfg)
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

func reload(t *testing.T, s *tlsconf.Source) {
	t.Helper()
	if err := s.Reload(); err != nil {
		t.Fatal(err)
	}
}

// serve echoes over TLS. What the server saw of each connection that was made is sent to seen.
func serve(t *testing.T, config *tls.Config) (address string, seen <-chan tls.ConnectionState) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	states := make(chan tls.ConnectionState, 100)
	var running sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	running.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, nc)
			mu.Unlock()
			running.Go(func() {
				defer nc.Close()
				c := tls.Server(nc, config)
				if c.HandshakeContext(t.Context()) != nil {
					return
				}
				states <- c.ConnectionState()
				_, _ = io.Copy(c, c)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		mu.Lock()
		for _, c := range conns {
			_ = c.Close()
		}
		mu.Unlock()
		running.Wait()
	})
	return l.Addr().String(), states
}

// dial connects and sees an echo: a server of TLS 1.3 refuses a certificate only after the client's
// handshake is done.
func dial(t *testing.T, address string, config *tls.Config) (*tls.Conn, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	nc, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	c, ok := nc.(*tls.Conn)
	if !ok {
		t.Fatalf("dialled a %T", nc)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c, echo(c)
}

func echo(c *tls.Conn) error {
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		return err
	}
	if _, err := c.Write([]byte("hello")); err != nil {
		return err
	}
	_, err := io.ReadFull(c, make([]byte, 5))
	return err
}

func must(t *testing.T, config *tls.Config, err error) *tls.Config {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// logs keeps what is logged.
type logs struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func (l *logs) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

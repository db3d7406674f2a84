package thriftnet

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/apache/thrift/lib/go/thrift"
	"go.uber.org/goleak"

	"github.com/lancemaster/lancemaster/gen-go/report"
	"github.com/lancemaster/lancemaster/gen-go/shared"
)

func TestMain(m *testing.M) {
	if otherRole != nil {
		otherRole()
	}
	goleak.VerifyTestMain(m)
}

// otherRole, where a platform has one, makes the test binary another program than the tests, if it
// was started as that.
var otherRole func()

// bound is how long a test waits for what should happen at once.
const bound = 10 * time.Second

// handler is a report service made of two functions.
type handler struct {
	result      func(context.Context, *report.TLanceIndexJobReport) (*shared.TStatus, error)
	termination func(context.Context, *report.TLanceIndexJobTerminationReport) (*shared.TStatus, error)
}

//nolint:revive // the name is the generated interface's
func (h handler) ReportLanceIndexJobResult_(ctx context.Context, r *report.TLanceIndexJobReport) (*shared.TStatus, error) {
	if h.result == nil {
		return ok(), nil
	}
	return h.result(ctx, r)
}

func (h handler) ReportLanceIndexJobTermination(ctx context.Context, r *report.TLanceIndexJobTerminationReport) (*shared.TStatus, error) {
	if h.termination == nil {
		return ok(), nil
	}
	return h.termination(ctx, r)
}

func ok(texts ...string) *shared.TStatus { return &shared.TStatus{ErrorMsgs: texts} }

// incidents counts what a server observes.
type incidents struct {
	mu    sync.Mutex
	seen  map[Incident]int
	added chan struct{}
}

func newIncidents() *incidents {
	return &incidents{seen: map[Incident]int{}, added: make(chan struct{}, 10_000)}
}

func (i *incidents) observe(kind Incident) {
	i.mu.Lock()
	i.seen[kind]++
	i.mu.Unlock()
	i.added <- struct{}{}
}

// await waits until a kind was seen so many times.
func (i *incidents) await(t *testing.T, kind Incident, times int) {
	t.Helper()
	deadline := time.After(bound)
	for {
		i.mu.Lock()
		seen := i.seen[kind]
		i.mu.Unlock()
		if seen >= times {
			return
		}
		select {
		case <-i.added:
		case <-deadline:
			t.Fatalf("saw %s %d times, want %d", kind, seen, times)
		}
	}
}

func (i *incidents) count(kind Incident) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.seen[kind]
}

// logged is a log that tests read.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *logged) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// start starts a server that stops with the test.
func start(t *testing.T, h handler, change func(*Config)) (*Server, *incidents) {
	t.Helper()
	seen := newIncidents()
	cfg := Config{
		Name: "report", Address: "127.0.0.1:0", Processor: report.NewReportServiceProcessor(h), Observe: seen.observe,
	}
	if change != nil {
		change(&cfg)
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), bound)
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return s, seen
}

func dial(t *testing.T, s *Server, cfg ClientConfig) *Client {
	t.Helper()
	if cfg.Timeout == 0 {
		cfg.Timeout = bound
	}
	c, err := Dial(t.Context(), s.Addr().String(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func send(t *testing.T, c *Client, r *report.TLanceIndexJobReport) (*shared.TStatus, error) {
	t.Helper()
	return report.NewReportServiceClient(c).ReportLanceIndexJobResult_(t.Context(), r)
}

func mustSend(t *testing.T, c *Client) {
	t.Helper()
	if _, err := send(t, c, sample()); err != nil {
		t.Fatalf("a call failed: %v", err)
	}
}

func sample() *report.TLanceIndexJobReport {
	return &report.TLanceIndexJobReport{
		JobID: 7, DispatchRevision: 1, InvocationID: "inv", BeProcessEpoch: 5, ResultCode: shared.TLanceIndexResultCode_NATIVE_OK,
	}
}

// open connects.
func open(t *testing.T, s *Server) *net.TCPConn {
	t.Helper()
	c, err := (&net.Dialer{Timeout: bound}).DialContext(t.Context(), "tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	tcp, isTCP := c.(*net.TCPConn)
	if !isTCP {
		t.Fatalf("dialled a %T", c)
	}
	return tcp
}

// raw connects without a client, for as long as the test.
func raw(t *testing.T, s *Server) *net.TCPConn {
	t.Helper()
	c := open(t, s)
	if err := c.SetDeadline(time.Now().Add(bound)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func write(t *testing.T, c net.Conn, b []byte) {
	t.Helper()
	if _, err := c.Write(b); err != nil {
		t.Fatalf("write: %v", err)
	}
}

// rest reads until the other side closes.
func rest(t *testing.T, c net.Conn) []byte {
	t.Helper()
	b, err := io.ReadAll(c)
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		t.Fatalf("the connection was not closed; read %d bytes", len(b))
	}
	return b
}

// message writes one message with a protocol of the library's.
func message(t *testing.T, p Protocol, write func(thrift.TProtocol) error) []byte {
	t.Helper()
	b := thrift.NewTMemoryBuffer()
	if err := write(p.over(b, configuration(1<<30, 1<<30))); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// callBytes is a whole call of the result method with arguments of the test's making.
func callBytes(t *testing.T, p Protocol, args func(thrift.TProtocol) error) []byte {
	t.Helper()
	return message(t, p, func(w thrift.TProtocol) error {
		ctx := context.Background()
		return errors.Join(w.WriteMessageBegin(ctx, "reportLanceIndexJobResult", thrift.CALL, 1), args(w), w.WriteMessageEnd(ctx))
	})
}

func reportBytes(t *testing.T, p Protocol, r *report.TLanceIndexJobReport) []byte {
	t.Helper()
	return callBytes(t, p, func(w thrift.TProtocol) error {
		args := report.ReportServiceReportLanceIndexJobResultArgs{Report: r}
		return args.Write(context.Background(), w)
	})
}

// begin prepares a protocol of over's for the next message.
func begin(p thrift.TProtocol) error {
	t, isOurs := p.Transport().(*transport)
	if !isOurs {
		return errors.New("the protocol is over another transport")
	}
	return t.begin()
}

// readException reads an answer that must be an exception.
func readException(t *testing.T, c net.Conn) thrift.TApplicationException {
	t.Helper()
	p := Binary.over(newTransport(c, false, 1<<20, nil), configuration(1<<20, 100))
	if err := begin(p); err != nil {
		t.Fatal(err)
	}
	_, kind, _, err := p.ReadMessageBegin(t.Context())
	if err != nil || kind != thrift.EXCEPTION {
		t.Fatalf("read a message of kind %d, error %v; want an exception", kind, err)
	}
	x := thrift.NewTApplicationException(0, "")
	if err := x.Read(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	return x
}

// certificate makes a certificate for loopback and both ends' configurations.
func certificate(t *testing.T) (server, client *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	server = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12}
	return server, &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}

package app_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/apache/thrift/lib/go/thrift"

	"github.com/lancemaster/lancemaster/gen-go/admin"
	"github.com/lancemaster/lancemaster/gen-go/report"
	"github.com/lancemaster/lancemaster/internal/app"
	"github.com/lancemaster/lancemaster/internal/thriftnet"
	"github.com/lancemaster/lancemaster/internal/tlsconf"
)

// pki is a directory of certificates.
type pki struct {
	t   *testing.T
	dir string
}

func (p pki) path(name string) string { return filepath.Join(p.dir, name) }

func (p pki) write(name string, content []byte) {
	p.t.Helper()
	if err := os.WriteFile(p.path(name), content, 0o600); err != nil {
		p.t.Fatal(err)
	}
}

func (p pki) ca(name string) tlsconf.Pair {
	p.t.Helper()
	ca, err := tlsconf.NewCA(name, time.Now(), time.Hour)
	if err != nil {
		p.t.Fatal(err)
	}
	return ca
}

// issue writes a certificate and its key.
func (p pki) issue(ca tlsconf.Pair, file string, r tlsconf.Request) {
	p.t.Helper()
	pair, err := tlsconf.Issue(ca, r, time.Now())
	if err != nil {
		p.t.Fatal(err)
	}
	p.write(file+".key", pair.Key())
	p.write(file+".crt", pair.Cert)
}

// config is a client's TLS with a certificate.
func (p pki) config(file string, cas ...tlsconf.Pair) *tls.Config {
	p.t.Helper()
	var bundle []byte
	for _, ca := range cas {
		bundle = append(bundle, ca.Cert...)
	}
	p.write(file+".ca", bundle)
	source, err := tlsconf.Open(tlsconf.Config{Uses: []tlsconf.Use{tlsconf.UseReport}, Interval: -1,
		Files: tlsconf.Files{Cert: p.path(file + ".crt"), Key: p.path(file + ".key"), CA: p.path(file + ".ca")}})
	if err != nil {
		p.t.Fatal(err)
	}
	if err := source.Close(); err != nil {
		p.t.Error(err)
	}
	return source.Client(tlsconf.Expect{Node: "master-1"})
}

func connect(t *testing.T, at string, secure *tls.Config) *thriftnet.Client {
	t.Helper()
	c, err := thriftnet.Dial(t.Context(), at, thriftnet.ClientConfig{Timeout: wait, TLS: secure})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// reporter returns a function that reports over one connection.
func reporter(t *testing.T, at string, secure *tls.Config) func() error {
	t.Helper()
	c := report.NewReportServiceClient(connect(t, at, secure))
	return func() error {
		_, err := c.ReportLanceIndexJobResult_(t.Context(), &report.TLanceIndexJobReport{
			JobID: 1, DispatchRevision: 1, InvocationID: "i", BeProcessEpoch: 1, ResultCode: 1,
		})
		return err
	}
}

// securedNode starts a node that wants certificates everywhere.
func securedNode(t *testing.T, p pki, ca tlsconf.Pair, log *lines) (a *app.App, reload func()) {
	t.Helper()
	p.write("ca.crt", ca.Cert)
	p.issue(ca, "m", tlsconf.Request{Name: "m", Role: tlsconf.RoleMaster, Node: "master-1", Hosts: []string{"127.0.0.1"}, Validity: time.Hour})
	overrides := map[string]string{
		"data_dir": p.path("data"), "tls.cert_file": p.path("m.crt"), "tls.key_file": p.path("m.key"), "tls.ca_file": p.path("ca.crt"),
		"raft.tls": "mutual", "report.tls": "mutual", "admin.tls": "mutual", "http.tls": "mutual", "backend.tls": "mutual",
	}
	a, err := app.New(load(t, overrides), app.Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		defer cancel()
		if err := a.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	if err := errors.Join(a.Start(ctx), a.WaitReady(ctx)); err != nil {
		t.Fatal(err)
	}
	return a, func() { a.Reload(load(t, overrides), nil) }
}

func metricsPage(t *testing.T, c *http.Client, at string) (status int, page string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+at+"/metrics", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(text)
}

// A backend's connection does not outlive its certificate: what it reports then is refused by an exception,
// and with a new certificate it may report it again.
func TestABackendsConnectionEndsWithItsCertificate(t *testing.T) {
	p := pki{t, t.TempDir()}
	ca := p.ca("ca")
	log := &lines{}
	a, _ := securedNode(t, p, ca, log)
	backend := tlsconf.Request{Name: "be-1", Role: tlsconf.RoleBackend, Validity: 2 * time.Second}
	p.issue(ca, "short", backend)
	tell := reporter(t, a.Addrs().Report, p.config("short", ca))
	if err := tell(); err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	var err error
	for deadline := time.Now().Add(wait); err == nil; err = tell() {
		if time.Now().After(deadline) {
			t.Fatal("reports are taken though the certificate has expired")
		}
		<-tick.C
	}
	if x, ok := errors.AsType[thrift.TApplicationException](err); !ok || !strings.Contains(x.Error(), "expired at") {
		t.Errorf("refused with %v", err)
	}
	if err := tell(); err == nil {
		t.Error("the connection goes on")
	} else if _, ok := errors.AsType[thrift.TApplicationException](err); ok {
		t.Errorf("the connection was not closed: %v", err)
	}
	backend.Validity = time.Hour
	p.issue(ca, "long", backend)
	if err := reporter(t, a.Addrs().Report, p.config("long", ca))(); err != nil {
		t.Errorf("with a new certificate: %v", err)
	}
	p.issue(ca, "ada", tlsconf.Request{Name: "ada", Role: tlsconf.RoleAdmin, Validity: time.Hour})
	transport := &http.Transport{TLSClientConfig: p.config("ada", ca)}
	defer transport.CloseIdleConnections()
	_, page := metricsPage(t, &http.Client{Transport: transport, Timeout: wait}, a.Addrs().HTTP)
	for _, want := range []string{
		`lancemaster_auth_failures_total{reason="certificate_expired",service="report"} 1`,
		`lancemaster_reports_total{kind="result",result="refused"} 1`,
		`lancemaster_tls_reload_success{use="report"} 1`, `lancemaster_tls_reload_success{use="backend"} 1`,
	} {
		if !strings.Contains(page, want+"\n") {
			t.Errorf("the metrics do not say %s", want)
		}
	}
	if said := log.take(); strings.Count(said, "because of its sender's certificate") != 1 || strings.Count(said, "TLS certificate loaded") != 1 {
		t.Errorf("the log says %s", said)
	}
}

// When a CA is taken out, what stands under it ends at its next use, on every port, and no restart is needed.
func TestAConnectionEndsWithItsCA(t *testing.T) {
	p := pki{t, t.TempDir()}
	before, after := p.ca("before"), p.ca("after")
	a, reload := securedNode(t, p, before, &lines{})
	person := tlsconf.Request{Name: "ada", Role: tlsconf.RoleAdmin, Validity: time.Hour}
	backend := tlsconf.Request{Name: "be-1", Role: tlsconf.RoleBackend, Validity: time.Hour}
	p.issue(before, "ada", person)
	p.issue(before, "be-1", backend)
	at := a.Addrs()
	tell := reporter(t, at.Report, p.config("be-1", before, after))
	api := admin.NewAdminServiceClient(connect(t, at.Admin, p.config("ada", before, after)))
	list := func() error {
		_, err := api.ListCatalogs(t.Context(), &admin.TListRequest{})
		return err
	}
	transport := &http.Transport{TLSClientConfig: p.config("ada", before, after)}
	defer transport.CloseIdleConnections()
	web := &http.Client{Transport: transport, Timeout: wait}
	use := func() (status int, told, listed error) {
		status, _ = metricsPage(t, web, at.HTTP)
		return status, tell(), list()
	}
	p.write("ca.crt", bytes.Join([][]byte{before.Cert, after.Cert}, nil))
	reload()
	if status, told, listed := use(); told != nil || listed != nil || status != http.StatusOK {
		t.Fatalf("with both CAs: %v, %v, %d", told, listed, status)
	}
	p.issue(after, "m", tlsconf.Request{Name: "m", Role: tlsconf.RoleMaster, Node: "master-1", Hosts: []string{"127.0.0.1"}, Validity: time.Hour})
	p.write("ca.crt", after.Cert)
	reload()
	status, told, listed := use()
	if told == nil || !strings.Contains(told.Error(), "no CA that is trusted now") {
		t.Errorf("the report service: %v", told)
	}
	if refused, ok := errors.AsType[*admin.TAdminError](listed); !ok || refused.Code != admin.TAdminErrorCode_UNAUTHENTICATED {
		t.Errorf("the admin service: %v", listed)
	}
	if status != http.StatusForbidden {
		t.Errorf("the metrics: %d", status)
	}
	p.issue(after, "ada", person)
	p.issue(after, "be-1", backend)
	if err := reporter(t, at.Report, p.config("be-1", after))(); err != nil {
		t.Errorf("a report under the new CA: %v", err)
	}
}

// All uses of TLS share the files, and a fault in them is told once.
func TestAKeyThatDoesNotFitIsToldOnce(t *testing.T) {
	p := pki{t, t.TempDir()}
	ca := p.ca("ca")
	log := &lines{}
	_, reload := securedNode(t, p, ca, log)
	p.issue(ca, "other", tlsconf.Request{Name: "m", Role: tlsconf.RoleMaster, Node: "master-1", Hosts: []string{"127.0.0.1"}, Validity: time.Hour})
	if err := os.Rename(p.path("other.key"), p.path("m.key")); err != nil {
		t.Fatal(err)
	}
	log.take()
	reload()
	said := log.take()
	if strings.Count(said, "\n") != 1 || strings.Count(said, "private key does not match") != 1 || !strings.Contains(said, "raft, report, admin, http, backend") {
		t.Errorf("the log says %s", said)
	}
}

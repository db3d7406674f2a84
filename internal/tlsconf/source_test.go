package tlsconf_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/lancemaster/lancemaster/internal/await"
	"github.com/lancemaster/lancemaster/internal/tlsconf"
)

// A bundle may look whole between two certificates while it is written. A CA that is missing then is trusted until
// the file has settled.
func TestABundleThatIsBeingWrittenLosesNoCA(t *testing.T) {
	ca, other := newCA(t, "ca"), newCA(t, "other")
	p := &place{t, tlsconf.Files{CA: filepath.Join(t.TempDir(), "ca.crt")}} // a certificate is not valid in a bubble's year
	both := append(bytes.Clone(other.Cert), ca.Cert...)
	write(t, p.CA, both)
	synctest.Test(t, func(t *testing.T) {
		source := open(t, p)
		trusts := func() bool {
			config := source.Client(tlsconf.Expect{})
			return len(config.RootCAs.Subjects()) == 2 //nolint:staticcheck // these are no system's CAs
		}
		write(t, p.CA, other.Cert) // the first half of what is being written
		done := make(chan error, 1)
		go func() { done <- source.Reload() }()
		await.Pass(time.Second)
		if !trusts() {
			t.Error("a CA was dropped while the bundle was being written")
		}
		write(t, p.CA, both)
		if err := <-done; err != nil || !trusts() {
			t.Errorf("when it is written: %v", err)
		}
		write(t, p.CA, other.Cert)
		if err := source.Reload(); err != nil || trusts() {
			t.Errorf("a CA that was taken out for good is still trusted: %v", err)
		}
	})
	for _, cut := range []string{"-", "-----BEG", "-----BEGIN CERTIFICATE-----\n"} {
		write(t, p.CA, append(bytes.Clone(other.Cert), cut...))
		if _, err := tlsconf.Open(tlsconf.Config{Uses: []tlsconf.Use{tlsconf.UseRaft}, Files: tlsconf.Files{CA: p.CA}, Interval: -1}); err == nil {
			t.Errorf("a bundle that ends with %q was taken", cut)
		}
	}
}

// What cannot be loaded changes nothing; the error and the metric say so.
func TestAFailedReloadKeepsTheOld(t *testing.T) {
	ca, other := newCA(t, "ca"), newCA(t, "other")
	good := issue(t, ca, master("a"))
	p := newPlace(t, good, ca)
	registry := prometheus.NewRegistry()
	metrics, err := tlsconf.NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	source := open(t, p, func(c *tlsconf.Config) { c.Node, c.Metrics = "a", metrics })
	config, err := source.Server(tlsconf.ServerOptions{Clients: tlsconf.ClientsRequired, Role: tlsconf.RoleMaster})
	address, _ := serve(t, must(t, config, err))
	client := open(t, newPlace(t, issue(t, ca, master("b")), ca))
	notAfter := source.NotAfter()

	mixed := tlsconf.NewPair(good.Cert, issue(t, ca, master("a")).Key())
	for _, tc := range []struct {
		name string
		do   func()
		want string
	}{
		{"a key of another certificate", func() { p.put(mixed) }, "private key does not match public key"},
		{"no PEM", func() { p.put(tlsconf.NewPair([]byte("x"), good.Key())) }, "failed to find any PEM data"},
		{"expired", func() {
			p.put(custom(t, ca, "a", time.Now().Add(-time.Hour), "lancemaster://role/master", "lancemaster://node/a"))
		}, "expired at"},
		{"not yet valid", func() {
			p.put(custom(t, ca, "a", time.Now().Add(2*day), "lancemaster://role/master", "lancemaster://node/a"))
		}, "valid only from"},
		{"another node", func() { p.put(issue(t, ca, master("z"))) }, `of node "z" where node "a" is expected`},
		{"no master's", func() { p.put(issue(t, ca, tlsconf.Request{Name: "a", Role: tlsconf.RoleAdmin})) }, "has the role admin where master is needed"},
		{"an empty CA file", func() { p.put(good); p.trust() }, "holds no certificate in PEM"},
		{"a key in the CA file", func() { write(t, p.CA, append(bytes.Clone(ca.Cert), other.Key()...)) }, `holds a block "PRIVATE KEY"`},
		{"a leaf in the CA file", func() { p.trust(good) }, "is no CA's"},
		{"half a bundle", func() {
			write(t, p.CA, append(bytes.Clone(ca.Cert), "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"...))
		}, "certificate 2 in it cannot be read"},
		{"a bundle cut off", func() { write(t, p.CA, append(bytes.Clone(ca.Cert), other.Cert[:len(other.Cert)/2]...)) }, "of 2 blocks in PEM that begin in it, only 1"},
		{"a bundle with a hole", func() { write(t, p.CA, append(bytes.Clone(other.Cert[:len(other.Cert)/2]), ca.Cert...)) }, "of 2 blocks in PEM that begin in it, only 0"},
		{"a chain cut off", func() {
			p.trust(ca)
			p.put(tlsconf.NewPair(append(bytes.Clone(good.Cert), ca.Cert[:len(ca.Cert)-5]...), good.Key()))
		}, "of 2 blocks in PEM that begin in it, only 1"},
		{"an empty file", func() { p.put(good); write(t, p.CA, nil) }, "holds no certificate in PEM"},
		{"a huge file", func() { write(t, p.CA, make([]byte, 1<<20+1)) }, "is larger than"},
		{"a missing file", func() {
			if err := os.Remove(p.CA); err != nil {
				t.Fatal(err)
			}
		}, "cannot read the CA file"},
		{"a pipe", func() {
			if err := syscall.Mkfifo(p.CA, 0o600); err != nil {
				t.Fatal(err)
			}
		}, "is not a regular file"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.do()
			err := source.Reload()
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "stays in use") {
				t.Fatalf("got %v, want %q", err, tc.want)
			}
			if got := gauge(t, registry, "lancemaster_tls_reload_success"); got != 0 {
				t.Errorf("reload_success is %v", got)
			}
			if _, err := dial(t, address, client.Client(tlsconf.Expect{Node: "a"})); err != nil {
				t.Errorf("the old certificate serves no longer: %v", err)
			}
		})
	}
	if err := os.Remove(p.CA); err != nil {
		t.Fatal(err)
	}
	p.trust(ca)
	p.put(good)
	reload(t, source)
	if got := gauge(t, registry, "lancemaster_tls_reload_success"); got != 1 || !source.NotAfter().Equal(notAfter) {
		t.Errorf("with the old files back reload_success is %v", got)
	}
}

func gauge(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("there is no %s", name)
	return 0
}

func TestMetrics(t *testing.T) {
	ca := newCA(t, "ca")
	registry := prometheus.NewRegistry()
	metrics, err := tlsconf.NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	pair := issue(t, ca, master("a"))
	leaf, err := pair.Leaf()
	if err != nil {
		t.Fatal(err)
	}
	open(t, newPlace(t, pair, ca), func(c *tlsconf.Config) { c.Metrics, c.Uses = metrics, []tlsconf.Use{tlsconf.UseRaft} })
	want := fmt.Sprintf(`
# HELP lancemaster_tls_certificate_expiry_timestamp_seconds When this node's certificate, or the first of those that lead from it to a CA, expires, as seconds since 1970.
# TYPE lancemaster_tls_certificate_expiry_timestamp_seconds gauge
lancemaster_tls_certificate_expiry_timestamp_seconds{use="raft"} %v
# HELP lancemaster_tls_reload_success 1 when the certificate files were last read they could be used, else 0: what was loaded before stays in use.
# TYPE lancemaster_tls_reload_success gauge
lancemaster_tls_reload_success{use="raft"} 1
`, float64(leaf.NotAfter.Unix()))
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want),
		"lancemaster_tls_certificate_expiry_timestamp_seconds", "lancemaster_tls_reload_success"); err != nil {
		t.Error(err)
	}
	if at := gauge(t, registry, "lancemaster_tls_reload_timestamp_seconds"); time.Since(time.UnixMilli(int64(at*1000))) > time.Minute {
		t.Errorf("loaded at %v", at)
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Errorf("promlint: %v, %v", problems, err)
	}
	if _, err := tlsconf.NewMetrics(registry); err == nil {
		t.Error("the metrics were registered twice")
	}
}

// Changes are found by looking, at the interval; what stays as it is is not loaded or logged again.
func TestTheFilesAreWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// The bubble's clock begins in 2000.
		pairs := make([]tlsconf.Pair, 2)
		authority, err := tlsconf.NewCA("ca", time.Now(), 10*day)
		if err != nil {
			t.Fatal(err)
		}
		for i, validity := range []time.Duration{day, 2 * day} {
			r := master("a")
			r.Validity = validity
			if pairs[i], err = tlsconf.Issue(authority, r, time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		p := newPlace(t, pairs[0], authority)
		var said logs
		source := open(t, p, func(c *tlsconf.Config) { c.Interval, c.Logger = 0, said.logger() })
		first := source.NotAfter()
		p.put(pairs[1])
		await.Pass(29 * time.Second)
		if !source.NotAfter().Equal(first) {
			t.Error("the files were looked at before 30s")
		}
		await.Pass(2 * time.Second)
		if got := source.NotAfter().Sub(first); got != day {
			t.Errorf("after the interval the certificate ends %v later, want %v", got, day)
		}
		lines := strings.Count(said.String(), "\n")
		await.Pass(time.Hour)
		if got := strings.Count(said.String(), "\n"); got != lines {
			t.Errorf("files that did not change made %d lines of log", got-lines)
		}
		p.trust() // broken from now on: one line, not one for each look
		await.Pass(time.Hour)
		if got := strings.Count(said.String(), "cannot load changed TLS files"); got != 1 {
			t.Errorf("a fault that stays was logged %d times", got)
		}
		p.trust(authority)
		await.Pass(time.Minute)
		if !strings.Contains(said.String(), "again those in use") {
			t.Error("the end of the fault was not logged")
		}
		if err := source.Close(); err != nil {
			t.Error(err)
		}
		p.put(pairs[0])
		await.Pass(time.Hour)
		if source.NotAfter().Equal(first) {
			t.Error("the files were loaded after Close")
		}
	})
}

// A mounted secret changes by turning a symbolic link.
func TestATurnedSymbolicLinkIsAChange(t *testing.T) {
	ca := newCA(t, "ca")
	dir := t.TempDir()
	link := filepath.Join(dir, "now")
	for _, version := range []string{"1", "2"} {
		if err := os.Mkdir(filepath.Join(dir, version), 0o700); err != nil {
			t.Fatal(err)
		}
		pair := issue(t, ca, tlsconf.Request{Name: "v" + version, Role: tlsconf.RoleRead})
		write(t, filepath.Join(dir, version, "c.crt"), pair.Cert)
		write(t, filepath.Join(dir, version, "c.key"), pair.Key())
	}
	if err := os.Symlink("1", link); err != nil {
		t.Fatal(err)
	}
	var said logs
	p := &place{t, tlsconf.Files{Cert: filepath.Join(link, "c.crt"), Key: filepath.Join(link, "c.key")}}
	source := open(t, p, func(c *tlsconf.Config) { c.Logger = said.logger() })
	if err := os.Symlink("2", link+".new"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(link+".new", link); err != nil {
		t.Fatal(err)
	}
	reload(t, source)
	if !strings.Contains(said.String(), "name=v2") {
		t.Errorf("logged %s", said.String())
	}
}

func TestOpenRefuses(t *testing.T) {
	ca := newCA(t, "ca")
	p := newPlace(t, issue(t, ca, master("a")), ca)
	for _, tc := range []struct {
		name string
		cfg  tlsconf.Config
		want string
	}{
		{"nothing", tlsconf.Config{Uses: []tlsconf.Use{tlsconf.UseAdmin}}, "no certificate and no CA file is named"},
		{"a certificate alone", tlsconf.Config{Uses: []tlsconf.Use{tlsconf.UseAdmin}, Files: tlsconf.Files{Cert: p.Cert}}, "go together"},
		{"a key alone", tlsconf.Config{Uses: []tlsconf.Use{tlsconf.UseAdmin}, Files: tlsconf.Files{Key: p.Key, CA: p.CA}}, "go together"},
		{"no use", tlsconf.Config{Uses: []tlsconf.Use{"mine"}, Files: p.Files}, `"mine" is no use`},
		{"a master without a certificate", tlsconf.Config{Uses: []tlsconf.Use{tlsconf.UseRaft}, Files: tlsconf.Files{CA: p.CA}, Node: "a"}, "a master needs a certificate"},
		{"another master's certificate", tlsconf.Config{Uses: []tlsconf.Use{tlsconf.UseRaft}, Files: p.Files, Node: "b"}, `of node "a" where node "b" is expected`},
		{"a missing file", tlsconf.Config{Uses: []tlsconf.Use{tlsconf.UseRaft}, Files: tlsconf.Files{CA: p.CA + "x"}}, "cannot read the CA file"},
		{"the files the wrong way round", tlsconf.Config{Uses: []tlsconf.Use{tlsconf.UseRaft}, Files: tlsconf.Files{Cert: p.Key, Key: p.Cert}}, "private key"},
	} {
		if _, err := tlsconf.Open(tc.cfg); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q", tc.name, err, tc.want)
		}
	}
}

// The canary: the key's text is in no error, no line of log and no way of printing.
func TestAKeyIsNeverShown(t *testing.T) {
	ca := newCA(t, "ca")
	pair := issue(t, ca, master("a"))
	p := newPlace(t, pair, ca)
	var said logs
	source := open(t, p, func(c *tlsconf.Config) { c.Logger = said.logger() })
	text := fmt.Sprintf("%v %+v %#v %s %q %x", pair, pair, pair, pair, pair, pair)
	said.logger().Info("a pair", "pair", pair)
	for _, broken := range []tlsconf.Pair{
		tlsconf.NewPair(pair.Key(), pair.Key()),
		tlsconf.NewPair(pair.Cert, append([]byte("x"), pair.Key()[:100]...)),
		tlsconf.NewPair(pair.Cert, bytes.Replace(pair.Key(), []byte("\n"), []byte("\nAAAA"), 1)),
	} {
		p.put(broken)
		if err := source.Reload(); err != nil {
			text += err.Error()
		} else {
			t.Error("a broken pair was loaded")
		}
	}
	write(t, p.CA, pair.Key())
	text += source.Reload().Error()
	for line := range strings.SplitSeq(string(pair.Key()), "\n") {
		if len(line) < 16 || strings.HasPrefix(line, "-----") {
			continue
		}
		for _, where := range []string{text, said.String()} {
			if strings.Contains(where, line[:16]) || strings.Contains(where, fmt.Sprintf("%x", line[:16])) {
				t.Errorf("the key is shown: %s", where)
			}
		}
	}
}

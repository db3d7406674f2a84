package cli

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/internal/tlsconf"
)

var anyMoment = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)

// run runs a command that must succeed and returns its output, with what differs from run to run replaced.
func (s *session) must(t *testing.T, line string) string {
	t.Helper()
	status, out, errs := s.lancemaster(t, strings.Fields(line)...)
	if status != exitOK || errs != "" {
		t.Fatalf("%s exits with %d: %s", line, status, errs)
	}
	return anyMoment.ReplaceAllString(s.normal(out), "WHEN")
}

// TestTLSFirstSteps: what the commands write is what a master, a backend and a person can use.
func TestTLSFirstSteps(t *testing.T) {
	s := newSession(t)
	for _, step := range []struct{ line, want string }{
		{"tls ca --out DIR/pki", `WROTE                 WHAT                    GOES TO
DIR/pki/ca.key  private key, mode 0600  nowhere: it stays here, for tls cert --ca
DIR/pki/ca.crt  the CA's certificate    tls.ca_file of each master, --tls-ca of its clients

CA lancemaster-ca, valid until WHEN. Next: lancemaster tls cert --ca DIR/pki --help
`},
		{"tls cert --ca DIR/pki --out DIR/m1 --name m1 --role master --node n1 --host 127.0.0.1,m1.example", `WROTE                WHAT                    GOES TO
DIR/m1/m1.key  private key, mode 0600  tls.key_file on the master n1
DIR/m1/m1.crt  certificate             tls.cert_file on the master n1
DIR/m1/ca.crt  the CA's certificate    tls.ca_file on the master n1

m1, role master, node n1, at 127.0.0.1 m1.example, valid until WHEN.
`},
		{"tls cert --ca DIR/pki --out DIR/pki --name ada --role operate --days 90", `WROTE                  WHAT                            GOES TO
DIR/pki/ada.key  private key, mode 0600          --tls-key or LANCEMASTER_TLS_KEY
DIR/pki/ada.crt  certificate                     --tls-cert or LANCEMASTER_TLS_CERT
DIR/pki/ca.crt   the CA's certificate, as it was  --tls-ca or LANCEMASTER_TLS_CA

ada, role operate, valid until WHEN.
`},
		{"tls cert --ca DIR/pki --out DIR/be --name be-1 --role backend", `WROTE                  WHAT                    GOES TO
DIR/be/be-1.key  private key, mode 0600  the backend's key
DIR/be/be-1.crt  certificate             the backend's certificate
DIR/be/ca.crt    the CA's certificate    what the backend trusts

be-1, role backend, valid until WHEN. It can report; to be dialled with TLS too it needs --host.
`},
	} {
		if got := s.must(t, step.line); squeeze(got) != squeeze(step.want) {
			t.Errorf("%s prints\n%s\nwant\n%s", step.line, got, step.want)
		}
	}
	open := func(dir, name, node string) *tlsconf.Source {
		at := func(file string) string { return filepath.Join(s.dir, dir, file) }
		source, err := tlsconf.Open(tlsconf.Config{Uses: []tlsconf.Use{tlsconf.UseRaft}, Node: node, Interval: -1,
			Files: tlsconf.Files{Cert: at(name + ".crt"), Key: at(name + ".key"), CA: at("ca.crt")}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = source.Close() })
		return source
	}
	if _, err := open("m1", "m1", "n1").Server(tlsconf.ServerOptions{Clients: tlsconf.ClientsRequired}); err != nil {
		t.Error(err)
	}
	if left := time.Until(open("pki", "ada", "").NotAfter()); left < 89*24*time.Hour || left > 90*24*time.Hour {
		t.Errorf("a certificate of 90 days ends in %s", left)
	}
	for name, want := range map[string]os.FileMode{
		"pki": 0o700, "pki/ca.key": 0o600, "pki/ca.crt": 0o644, "m1": 0o700, "m1/m1.key": 0o600, "m1/m1.crt": 0o644,
	} {
		info, err := os.Stat(filepath.Join(s.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %v, want %v", name, got, want)
		}
	}
	if left, err := filepath.Glob(filepath.Join(s.dir, "*", ".*")); err != nil || len(left) > 0 {
		t.Errorf("temporary files are left: %v, %v", left, err)
	}
}

// squeeze makes one blank of many: widths depend on the directory's name.
func squeeze(text string) string { return regexp.MustCompile(` +`).ReplaceAllString(text, " ") }

// TestTLSTrustIsNotNarrowed: while a CA is rotated, ca.crt has the old CA and the new one. A certificate that
// the new one renews in that directory must not take the old CA out: all who still have its certificates would
// be strangers at once.
func TestTLSTrustIsNotNarrowed(t *testing.T) {
	s := newSession(t)
	s.must(t, "tls ca --out DIR/old")
	s.must(t, "tls ca --out DIR/new")
	s.must(t, "tls cert --ca DIR/old --out DIR/m1 --name m1 --role master --node m1 --host 127.0.0.1")
	file := func(name string) string {
		b, err := os.ReadFile(filepath.Join(s.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	const again = "tls cert --ca DIR/new --out DIR/m1 --name m1 --role master --node m1 --host 127.0.0.1 --force"
	if out := s.must(t, again); !strings.Contains(out, "the CA's certificate, added to the others") {
		t.Errorf("it says\n%s", out)
	}
	both := file("old/ca.crt") + file("new/ca.crt")
	if got := file("m1/ca.crt"); got != both {
		t.Errorf("m1 trusts\n%s\nwant the old CA and the new one", got)
	}
	if out := s.must(t, again); !strings.Contains(out, "as it was") || file("m1/ca.crt") != both {
		t.Errorf("once more it says\n%s", out)
	}
}

// TestTLSTrustThatCannotBeReadIsLeft: what cannot be read may name every CA there is. Nothing is written then, nor
// a key beside it.
func TestTLSTrustThatCannotBeReadIsLeft(t *testing.T) {
	s := newSession(t)
	s.must(t, "tls ca --out DIR/pki")
	const again = "tls cert --ca DIR/pki --out DIR/ada --name ada --role read --force"
	s.must(t, again)
	at := func(name string) string { return filepath.Join(s.dir, "ada", name) }
	good, err := os.ReadFile(at("ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	write := func(text string) {
		if err := os.WriteFile(at("ca.crt"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		prepare func()
		says    string
	}{
		"too large to be read":  {func() { write(string(good) + strings.Repeat("\n", maxPEM)) }, "cannot be read, and nothing was written: "},
		"a directory":           {func() { ok(t, os.Mkdir(at("ca.crt"), 0o700)) }, "cannot be read, and nothing was written: "},
		"with half of one":      {func() { write(string(good) + string(good[:len(good)/2])) }, "cannot be loaded as it is, and nothing was written: "},
		"without a certificate": {func() { write("MIIB, in DER perhaps") }, "has no certificate in PEM, and nothing was written"},
	} {
		t.Run(name, func(t *testing.T) {
			ok(t, os.RemoveAll(at("ca.crt")))
			tc.prepare()
			before := filesIn(t, at(""))
			for _, line := range []string{again, "tls cert --ca DIR/pki --out DIR/ada --name bob --role read"} {
				status, out, errs := s.lancemaster(t, strings.Fields(line)...)
				if status != exitFailed || out != "" || !strings.Contains(errs, tc.says) || !strings.Contains(errs, "next: ") {
					t.Errorf("%s exits with %d: %s%s", line, status, out, errs)
				}
			}
			if after := filesIn(t, at("")); !maps.Equal(before, after) {
				t.Errorf("the directory holds %d files, then %d, and not the same", len(before), len(after))
			}
		})
	}
	// An empty one trusts nobody.
	ok(t, os.RemoveAll(at("ca.crt")))
	write("\n")
	s.must(t, again)
	if got := filesIn(t, at("")); got["ca.crt"] != string(good) {
		t.Errorf("in the place of an empty ca.crt is\n%s", got["ca.crt"])
	}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// filesIn reads the files of a directory.
func filesIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	ok(t, err)
	content := map[string]string{}
	for _, e := range entries {
		content[e.Name()] = e.Type().String()
		if e.Type().IsRegular() {
			b, err := os.ReadFile(filepath.Join(dir, e.Name()))
			ok(t, err)
			content[e.Name()] = string(b)
		}
	}
	return content
}

// TestTLSNothingIsReplacedUnasked: a key that is overwritten is lost.
func TestTLSNothingIsReplacedUnasked(t *testing.T) {
	s := newSession(t)
	s.must(t, "tls ca --out DIR/pki")
	s.must(t, "tls cert --ca DIR/pki --out DIR/ada --name ada --role read")
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(s.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	caKey, key, cert := read("pki/ca.key"), read("ada/ada.key"), read("ada/ada.crt")
	if err := os.Remove(filepath.Join(s.dir, "ada/ada.crt")); err != nil {
		t.Fatal(err)
	}
	s.must(t, "tls ca --out DIR/other")
	for _, line := range []string{
		"tls ca --out DIR/pki",
		"tls cert --ca DIR/pki --out DIR/ada --name ada --role read",    // one of the two is there
		"tls cert --ca DIR/other --out DIR/ada --name bob --role admin", // another CA's certificate is there
	} {
		status, out, errs := s.lancemaster(t, strings.Fields(line)...)
		if status != exitFailed || out != "" || !strings.Contains(errs, "is there already; nothing was written") || !strings.Contains(errs, "next: ") {
			t.Errorf("%s exits with %d: %s%s", line, status, out, errs)
		}
	}
	if read("pki/ca.key") != caKey || read("ada/ada.key") != key {
		t.Error("a key was replaced")
	}
	if _, err := os.Stat(filepath.Join(s.dir, "ada/ada.crt")); err == nil {
		t.Error("a certificate was written beside a key of before")
	}
	if _, err := os.Stat(filepath.Join(s.dir, "ada/bob.key")); err == nil {
		t.Error("a key was written although its CA's certificate was not")
	}
	s.must(t, "tls cert --ca DIR/pki --out DIR/ada --name ada --role read --force")
	if read("ada/ada.key") == key || read("ada/ada.crt") == cert {
		t.Error("--force replaced nothing")
	}
}

// TestTLSKeysAreNeverPrinted, in no form of output and no error.
func TestTLSKeysAreNeverPrinted(t *testing.T) {
	s := newSession(t)
	var all strings.Builder
	for i, form := range []string{"table", "json", "yaml"} {
		dir := "DIR/" + form
		for _, line := range []string{"tls ca --out " + dir, "tls cert --ca " + dir + " --out " + dir + " --name x --role admin", "tls ca --out " + dir} {
			_, out, errs := s.lancemaster(t, append(strings.Fields(line), "-o", form)...)
			all.WriteString(out + errs)
			if i == 1 && strings.HasPrefix(out, "{") {
				var r struct {
					Name  string `json:"name"`
					Files []struct {
						Path string `json:"path"`
						Goes string `json:"goes_to"`
					} `json:"files"`
				}
				if err := json.Unmarshal([]byte(out), &r); err != nil || r.Name == "" || len(r.Files) < 2 || r.Files[0].Path == "" || r.Files[0].Goes == "" {
					t.Errorf("got %+v, %v", r, err)
				}
			}
		}
	}
	keys, err := filepath.Glob(filepath.Join(s.dir, "*", "*.key"))
	if err != nil || len(keys) != 6 {
		t.Fatalf("%d keys, %v", len(keys), err)
	}
	for _, path := range keys {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.SplitSeq(string(b), "\n") {
			if len(line) >= 16 && !strings.HasPrefix(line, "-----") && strings.Contains(all.String(), line[:16]) {
				t.Errorf("a line of %s was printed", filepath.Base(path))
			}
		}
	}
}

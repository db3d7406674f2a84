package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/internal/tlsconf"
)

// What is checked is said, also when that is nothing.
func TestConfigCheckSaysWhatItChecked(t *testing.T) {
	dir := t.TempDir()
	empty, full := write(t, dir, "empty.yaml", []byte("# nothing\n")), write(t, dir, "full.yaml", []byte("node_id: m1\n"))
	const valid, nothing = "the configuration is valid\n", "nothing is configured: the defaults hold, which are valid\n"
	for _, tc := range []struct {
		args []string
		want string
	}{
		{nil, nothing},
		{[]string{"--config", empty}, empty + " sets no key\n" + nothing},
		{[]string{"--config", empty, "--node-id", "m1"}, empty + " sets no key\n" + valid},
		{[]string{"--config", full}, valid},
		{[]string{"--node-id", "m1"}, valid},
	} {
		if status, out, errs := newSession(t).lancemaster(t, append([]string{"config", "check"}, tc.args...)...); status != 0 || out != tc.want || errs != "" {
			t.Errorf("%q: %d, %q, %q", tc.args, status, out, errs)
		}
	}
	// Every fault in one go, those of keys beside those of values, and of what must fit.
	faulty := write(t, dir, "faulty.yaml", []byte("nod_id: x\nlog: {level: loud}\nraft: {leader_lease: 9s, listen: '10.0.0.1:1'}\n"))
	status, out, errs := newSession(t).lancemaster(t, "config", "check", "--config", faulty)
	if status != exitFailed || out != "" {
		t.Errorf("%d, %q", status, out)
	}
	for _, want := range []string{`did you mean "node_id"`, `"loud"`, "raft.leader_lease (from file, line 3): 9s", "raft.trusted_network: true"} {
		if !strings.Contains(errs, want) {
			t.Errorf("%q is not said in %s", want, errs)
		}
	}
}

// What the configuration names is read as a start reads it: a check that passes is one that a start passes.
func TestConfigCheckReadsWhatIsNamed(t *testing.T) {
	dir := t.TempDir()
	var master tlsconf.Pair // of the CA "one"
	pair := func(name string) (cert, key string) {
		ca, err := tlsconf.NewCA(name, time.Now(), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if name == "one" {
			r := tlsconf.Request{Name: "m1", Role: tlsconf.RoleMaster, Node: "m1", Hosts: []string{"127.0.0.1"}, Validity: time.Hour}
			if master, err = tlsconf.Issue(ca, r, time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		cert, key = filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
		if err := errors.Join(os.WriteFile(cert, ca.Cert, 0o600), os.WriteFile(key, ca.Key(), 0o600)); err != nil {
			t.Fatal(err)
		}
		return cert, key
	}
	cert, key := pair("one")
	_, other := pair("two")
	tokens := filepath.Join(dir, "tokens")
	if err := os.WriteFile(tokens, []byte("root admin "+strings.Repeat("0", 64)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("LM_TEST_TOKEN", "shared")
	secure := []string{"--backend-tls", "server", "--tls-cert-file", cert, "--tls-ca-file", cert}
	// What a start warns of is no fault.
	second := filepath.Join(dir, "two.crt")
	status, out, errs := newSession(t).lancemaster(t, "config", "check", "--raft-tls", "mutual", "--tls-cert-file", write(t, dir, "m.crt", master.Cert),
		"--tls-key-file", write(t, dir, "m.key", master.Key()), "--tls-ca-file", second, "--node-id", "m1")
	if status != 0 || out != "the configuration is valid\n" || !strings.HasPrefix(errs, "warning: the TLS certificate leads to no CA") || !strings.Contains(errs, "ca_file: "+second) {
		t.Errorf("a certificate of another CA: %d, %s%s", status, out, errs)
	}
	foreign := t.TempDir()
	write(t, foreign, "node.json", []byte(`{"node_id":"m2","instance_id":"1f0c"}`))
	for name, tc := range map[string]struct {
		args []string
		want string // of the fault; empty: none
	}{
		"all well":                   {append(secure, "--tls-key-file", key, "--admin-tokens-file", tokens, "--backend-token", "env:LM_TEST_TOKEN"), ""},
		"another certificate's key":  {append(secure, "--tls-key-file", other), "key"},
		"no key file":                {append(secure, "--tls-key-file", filepath.Join(dir, "nothing")), "nothing"},
		"no tokens file":             {[]string{"--admin-tokens-file", filepath.Join(dir, "nothing")}, "admin.tokens_file"},
		"a tokens file without hash": {[]string{"--admin-tokens-file", cert}, "admin.tokens_file"},
		"no such variable":           {[]string{"--backend-token", "env:LM_TEST_NOTHING"}, "backend.token"},
		"another node's data":        {[]string{"--node-id", "m1", "--data-dir", foreign}, "belongs to node \"m2\", not to \"m1\""},
		"this node's data":           {[]string{"--node-id", "m2", "--data-dir", foreign}, ""},
		"no such secret":             {[]string{"--backend-token", "file:" + filepath.Join(dir, "nothing")}, "backend.token"},
	} {
		status, _, errs := newSession(t).lancemaster(t, append([]string{"config", "check"}, tc.args...)...)
		if tc.want == "" && status != 0 || tc.want != "" && (status != exitFailed || !strings.Contains(errs, tc.want)) {
			t.Errorf("%s: %d, %s", name, status, errs)
		}
	}
}

package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lancemaster/lancemaster/internal/config"
)

// Everything that is wrong is told in one go, and nothing is told that only follows from it.
func TestEveryFaultIsToldAtOnce(t *testing.T) {
	for _, tc := range []struct {
		name, yaml string
		env        []string
		flags      map[string]string
		want       []string
	}{
		{
			"of every kind", "nod_id: x\nlog: {level: loud, format: xml}\nnode_id: [a]\nraft: {leader_lease: 9s}\nlog: {format: json}\n" +
				"shutdown_timeout: soon\nbackend: {token: canary}\nhttp: {listen: nowhere}\n---\nx: 1\n",
			[]string{"LANCEMASTER_RAFT_LISTN=x"}, map[string]string{"report.protocol": "json"},
			[]string{
				":9: a second YAML document begins", `:1: key "nod_id" is not known; did you mean "node_id"?`, `:3: key "node_id" takes a single value`,
				`:5: key "log" is given twice`, "the variable LANCEMASTER_RAFT_LISTN is not known", `report.protocol (from flag): "json"`, `log.level (from file, line 2): "loud"`,
				`shutdown_timeout (from file, line 6): "soon"`, `http.listen (from file, line 8): "nowhere" is not host:port`, "raft.leader_lease (from file, line 4): 9s is longer than", "backend.token (from file, line 7): a secret is given by reference",
				`log.format (from file, line 2): "xml" is not text or json`,
			},
		},
		{"an address that is none, on a port that would be open", "raft: {listen: foo}", nil, nil, []string{`raft.listen (from file, line 1): "foo" is not host:port`}},
		{"a mistyped value", "raft: {tls: mutal, listen: '0.0.0.0:1', advertise: 'm:1'}", nil, nil, []string{`"mutal" is not one of off, mutual`}},
		{"a mistyped key", "raft: {tsl: mutual, listen: '0.0.0.0:1', advertise: 'm:1'}", nil, nil, []string{`did you mean "raft.tls"?`}},
		{"a mistyped variable", "raft: {listen: '0.0.0.0:1', advertise: 'm:1'}", []string{"LANCEMASTER_RAFT_TSL=mutual"}, nil, []string{"did you mean LANCEMASTER_RAFT_TLS?"}},
		{"a mistyped group", "rafft: {tls: mutual, listen: 'm:1'}", nil, nil, []string{`did you mean "raft.tls"?`, `did you mean "raft.listen"?`}},
		{"a group that is a value", "admin: x", nil, nil, []string{`key "admin" takes no value itself`}},
		{"a value that is a group", "node_id: {a: b}", nil, nil, []string{`key "node_id" takes a single value, and has no keys under it`}},
		{"faulty members", "cluster: {members: {m1: {a: b}}}\nraft: {listen: '0.0.0.0:1', trusted_network: true}\nnode_id: m1", nil, nil, []string{"maps each id to host:port"}},
		{"a faulty timeout", "raft: {heartbeat_timeout: 1, election_timeout: 1ms, leader_lease: 1h}", nil, nil, []string{`"1" is not a positive duration`}},
		{"not a mapping, and a flag", "- a\n", nil, map[string]string{"log.level": "loud"}, []string{"expected keys and values", "log.level (from flag)"}},
		{"not YAML", "a: b: c\n", nil, map[string]string{"log.level": "loud"}, []string{"is not YAML"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := config.Load(file(t, tc.yaml), tc.env, tc.flags)
			if err == nil {
				t.Fatal("accepted")
			}
			lines := strings.Split(err.Error(), "\n")
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not said", want)
				}
			}
			if len(lines) != len(tc.want) || t.Failed() {
				t.Errorf("%d faults, want %d: %v", len(lines), len(tc.want), err)
			}
			if strings.Contains(err.Error(), "canary") {
				t.Errorf("a secret is shown: %v", err)
			}
		})
	}
}

// Another file than meant is not told of line by line.
func TestManyFaultsAreCutShort(t *testing.T) {
	var text strings.Builder
	for n := range 50_000 {
		fmt.Fprintf(&text, "key_%d: x\n", n)
	}
	long := strings.Repeat("k", 1000)
	for yaml, want := range map[string]string{text.String(): "and 49950 more faults", long + ": x\n": "is not known; see"} {
		_, err := config.Load(file(t, yaml), nil, nil)
		if err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 20_000 {
			t.Errorf("got %d bytes: %.300v", len(fmt.Sprint(err)), err)
		}
	}
}

func TestFilesThatSayNothing(t *testing.T) {
	for _, yaml := range []string{"", "\n", "# nothing\n", "---\n", "~\n", "{}\n", "\ufeff"} {
		c, err := config.Load(file(t, yaml), nil, nil)
		if err != nil || c.NodeID != "master-1" {
			t.Errorf("%q: %v", yaml, err)
		}
	}
}

// A secret that stands where a file should be named is refused and not repeated, whatever the key.
func TestSecretsInPlaceOfPathsAreNotRepeated(t *testing.T) {
	const token = "lm_AbCdEfGhIjKlMnOpQrStUvWxYz0123456789-_AbCdE" // 43 characters: 32 bytes
	const pem = "-----BEGIN PRIVATE KEY-----\nMIICdGhpcyBpcyBubyBrZXk\n-----END PRIVATE KEY-----\n"
	for _, f := range config.Flags() {
		secrets := []string{token, pem, "x " + token, strings.ReplaceAll(pem, "\n", " ")}
		if f.Key != "node_id" && f.Key != "data_dir" && f.Key != "cluster.members" {
			secrets = append(secrets, token[:30])
		}
		for _, secret := range secrets {
			_, err := config.Load("", nil, map[string]string{f.Key: secret})
			if err == nil {
				t.Errorf("%s may be %.20q", f.Key, secret)
				continue
			}
			if !strings.HasPrefix(err.Error(), f.Key+" (from ") || strings.Contains(err.Error(), "AbCd") || strings.Contains(err.Error(), "MIIC") {
				t.Errorf("%s: %v", f.Key, err)
			}
		}
	}
	for _, key := range []string{"data_dir", "admin.tokens_file", "tls.cert_file", "tls.key_file", "tls.ca_file"} {
		_, err := config.Load("", nil, map[string]string{key: "/etc/a\nMIICdGhpcyBpcyBubyBrZXk"})
		if err == nil || strings.Contains(err.Error(), "MIIC") || !strings.Contains(err.Error(), "no path") {
			t.Errorf("%s of two lines: %v", key, err)
		}
	}
	if _, err := config.Load("", nil, map[string]string{"data_dir": "/var/lib/lm_production_masters", "node_id": "lm_production-eu-central-1-master-1", "cluster.members": "lm_production-eu-central-1-master-1=127.0.0.1:9010", "admin.tokens_file": "/etc/lm_tokens"}); err != nil {
		t.Error(err)
	}
}

// One key in both ways of writing it is one key twice.
func TestAKeyInBothWaysIsADuplicate(t *testing.T) {
	for _, text := range []string{
		"http.listen: 127.0.0.1:1\nhttp: {listen: 127.0.0.1:2}\n", "http: {listen: 127.0.0.1:1}\nhttp.listen: 127.0.0.1:2\n",
		"cluster.members: 'a=127.0.0.1:1'\ncluster: {members: {a: 127.0.0.1:1}}\nnode_id: a\n",
	} {
		path := filepath.Join(t.TempDir(), "c.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := config.Load(path, nil, nil); err == nil || !strings.Contains(err.Error(), ":2: key ") || !strings.Contains(err.Error(), "is given twice") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// One mistake in the member list is one fault, and a node_id that was forgotten is said to be that.
func TestOneFaultOfAMemberList(t *testing.T) {
	for text, says := range map[string]string{
		"node_id: m1\ncluster.members: {m1: 10.0.0.1, m2: \"127.0.0.1:2\"}\n":      `member m1: "10.0.0.1" is not host:port`,
		"cluster.members: {m1: \"127.0.0.1:9010\", m2: \"127.0.0.1:2\"}\n":         "node_id is not set, and that is its default",
		"node_id: m3\ncluster.members: {m1: \"127.0.0.1:1\", m2: \"127.0.0.1:2\"}": "list it, or set cluster.join",
	} {
		_, err := config.Load(file(t, text), nil, nil)
		if err == nil || strings.Count(err.Error(), "\n") != 0 || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

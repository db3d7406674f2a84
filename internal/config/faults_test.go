package config_test

import (
	"fmt"
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
				`:5: key "log" is given twice`, "the variable LANCEMASTER_RAFT_LISTN is not known", `report.protocol (from flag): "json"`, `log.level (from file): "loud"`,
				`shutdown_timeout (from file): "soon"`, `http.listen: "nowhere" is not host:port`, "raft.leader_lease: 9s is longer than", "backend.token: a secret is given by reference",
				`log.format: "xml" is not text or json`,
			},
		},
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

package config_test

import (
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/internal/config"
)

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "lancemaster.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestEachSourceIsOverTheOneBefore(t *testing.T) {
	path := file(t, "# comment\nnode_id: from-file\nlog:\n  level: warn\n  format: json\nreport:\n  listen: 127.0.0.1:1001\n")
	env := []string{"LANCEMASTER_LOG_LEVEL=error", "LANCEMASTER_REPORT_LISTEN=127.0.0.1:1002", "LANCEMASTER_ADDR=elsewhere:1", "HOME=/"}
	c, err := config.Load(path, env, map[string]string{"report.listen": "127.0.0.1:1003"})
	if err != nil {
		t.Fatal(err)
	}
	if c.NodeID != "from-file" || c.LogLevel != slog.LevelError || c.LogFormat != "json" || c.ReportListen != "127.0.0.1:1003" || c.ShutdownTimeout != 10*time.Second {
		t.Errorf("got %+v", c)
	}
	for key, want := range map[string]config.Source{
		"node_id": config.SourceFile, "log.level": config.SourceEnvironment,
		"report.listen": config.SourceFlag, "http.listen": config.SourceDefault,
	} {
		if c.Sources[key] != want {
			t.Errorf("%s comes from %s, want %s", key, c.Sources[key], want)
		}
	}
}

func TestDefaultsAreValid(t *testing.T) {
	for _, path := range []string{"", file(t, ""), file(t, "# nothing\n")} {
		c, err := config.Load(path, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if c.ReportListen != "127.0.0.1:9020" || c.AdminListen != "127.0.0.1:9021" || c.RaftListen != "127.0.0.1:9010" || c.HTTPListen != "127.0.0.1:8030" {
			t.Errorf("got %+v", c)
		}
	}
}

func TestRefusalsNameTheKey(t *testing.T) {
	for _, tc := range []struct {
		name, yaml string
		flags      map[string]string
		want       []string
	}{
		{"unknown", "admin:\n  lisen: 127.0.0.1:1\n", nil, []string{`:2: key "admin.lisen" is not known; did you mean "admin.listen"?`}},
		{"unknown, nothing near", "frobnicate: 1\n", nil, []string{`key "frobnicate" is not known; see lancemaster serve --help`}},
		{"several", "nod_id: x\nlog: {level: loud}\n", nil, []string{`did you mean "node_id"`, `log.level (from file, line 2): "loud" is not debug`}},
		{"a group", "admin: 127.0.0.1:1\n", nil, []string{`:1: key "admin" takes no value itself, but has keys under it, such as "admin.auth"`}},
		{"two documents", "node_id: a\n---\nnode_id: b\n", nil, []string{":2: a second YAML document begins"}},
		{"twice", "node_id: a\nnode_id: b\n", nil, []string{`"node_id"`}},
		{"list", "node_id: [a]\n", nil, []string{`key "node_id" takes a single value`}},
		{"not a mapping", "- a\n", nil, []string{"expected keys and values"}},
		{"not YAML", "a: b: c\n", nil, []string{"is not YAML"}},
		{"duration", "", map[string]string{"shutdown_timeout": "-1s"}, []string{`shutdown_timeout (from flag): "-1s" is not a positive duration`}},
		{"address", "", map[string]string{"http.listen": "8030"}, []string{`http.listen (from flag): "8030" is not host:port`}},
		{"port", "", map[string]string{"http.listen": "127.0.0.1:99999"}, []string{"has no valid port"}},
		{"same port", "", map[string]string{"http.listen": "127.0.0.1:9020"}, []string{"127.0.0.1:9020 is taken by report.listen"}},
		{"every interface", "", map[string]string{"report.listen": "0.0.0.0:9020"}, []string{"report.advertise: is needed"}},
		{"every interface told to backends", "", map[string]string{"report.listen": "0.0.0.0:9020", "report.advertise": "0.0.0.0:9020"}, []string{`report.advertise (from flag): "0.0.0.0:9020" is no address that others can reach`}},
		{"every interface told to members", "", map[string]string{"raft.advertise": "[::]:9010"}, []string{`raft.advertise (from flag): "[::]:9010" is no address that others can reach`}},
		{"node id", "", map[string]string{"node_id": "a b"}, []string{"node_id (from flag): "}},
		{"cluster id", "", map[string]string{"cluster.id": "2147483648"}, []string{"cluster.id (from flag)"}},
		{"protocol", "", map[string]string{"backend.protocol": "json"}, []string{`"json" is not binary`}},
		{"members form", "", map[string]string{"cluster.members": "a"}, []string{`"a" is not id=host:port`}},
		{"members without this node", "", map[string]string{"cluster.members": "b=127.0.0.1:1,c=127.0.0.1:2"}, []string{`does not list this node, "master-1"`}},
		{"members twice", "", map[string]string{"cluster.members": "master-1=127.0.0.1:1,b=127.0.0.1:1,b=127.0.0.1:2"}, []string{"member b is listed twice", "address 127.0.0.1:1 is listed twice"}},
		{"members on loopback and not", "", map[string]string{"cluster.members": "master-1=127.0.0.1:1,b=10.0.0.1:1"}, []string{"some addresses are loopback addresses"}},
		{"members on every interface", "", map[string]string{"cluster.members": "master-1=0.0.0.0:1"}, []string{"no address that others can reach"}},
		{"two addresses of this node", "", map[string]string{"cluster.members": "master-1=127.0.0.1:1", "raft.advertise": "127.0.0.1:2"}, []string{"raft.advertise (from flag): 127.0.0.1:2 is not this node's address"}},
		{"unreachable listener", "", map[string]string{"cluster.members": "master-1=10.0.0.1:9010"}, []string{"raft.listen: 127.0.0.1:9010 is reached from this machine only"}},
		{"join without an id", "", map[string]string{"cluster.join": "true"}, []string{"cluster.join (from flag): needs cluster.id"}},
		{"truth", "", map[string]string{"cluster.join": "yes"}, []string{`"yes" is not true or false`}},
		{"lease", "", map[string]string{"raft.leader_lease": "2s"}, []string{"raft.leader_lease (from flag): 2s is longer"}},
		{"election", "", map[string]string{"raft.election_timeout": "100ms"}, []string{"raft.election_timeout (from flag): 100ms is shorter"}},
		{"an id with a separator", "", map[string]string{"node_id": "a=b"}, []string{"one of the signs"}},
		{"members as a list", "cluster: {members: [a]}", nil, []string{`key "cluster.members" takes a single value`}},
		{"members nested", "cluster: {members: {a: {b: c}}}", nil, []string{"maps each id to host:port"}},
		{"half a certificate", "", map[string]string{"tls.cert_file": "/c"}, []string{"tls.cert_file (from flag): goes together with tls.key_file"}},
		{"TLS without files", "", map[string]string{"report.tls": "server", "raft.tls": "mutual", "backend.tls": "mutual"}, []string{"report.tls (from flag): server needs tls.cert_file", "raft.tls (from flag): mutual needs tls.ca_file", "backend.tls (from flag): mutual needs tls.cert_file"}},
		{"TLS mode", "", map[string]string{"raft.tls": "server"}, []string{`"server" is not one of off, mutual`}},
		{"open admin service", "", map[string]string{"admin.listen": "10.0.0.1:9021"}, []string{"admin.tls: is off, and 10.0.0.1:9021 can be reached"}},
		{"tokens without TLS", "", map[string]string{"admin.listen": "10.0.0.1:9021", "admin.auth": "required", "admin.tokens_file": "/t"}, []string{"admin.tls: is off, and 10.0.0.1:9021 can be reached", "hear tokens"}},
		{"admin service without callers' names", "", map[string]string{"admin.listen": "0.0.0.0:9021", "admin.tls": "server", "tls.cert_file": "/c", "tls.key_file": "/k"}, []string{"admin.auth: is none"}},
		{"open Raft port", "", map[string]string{"raft.listen": "10.0.0.1:9010"}, []string{"raft.tls: is off, and 10.0.0.1:9010 can be reached", "raft.trusted_network: true"}},
		{"open Raft port by its name", "", map[string]string{"raft.listen": "m1.example.com:9010", "raft.trusted_network": "false"}, []string{"raft.tls: is off"}},
		{"open Raft port, trust of another word", "", map[string]string{"raft.listen": ":9010", "raft.advertise": "m1:9010", "raft.trusted_network": "1"}, []string{`"1" is not true or false`}},
		{"relative socket", "", map[string]string{"admin.listen": "unix:sock"}, []string{`"unix:sock" is not unix:/absolute/path`}},
		{"a socket with TLS", "", map[string]string{"admin.listen": "unix:/s", "admin.tls": "server", "tls.cert_file": "/c", "tls.key_file": "/k"}, []string{"a Unix socket has no use for it"}},
		{"relative tokens file", "", map[string]string{"admin.tokens_file": "tokens"}, []string{"is not an absolute path"}},
		{"open profiles", "", map[string]string{"http.debug_listen": "0.0.0.0:6060"}, []string{"profiles show what is in memory"}},
		{"log format", "", map[string]string{"log.format": "xml"}, []string{`log.format (from flag): "xml" is not text or json`}},
		{"threshold", "", map[string]string{"raft.snapshot_threshold": "0"}, []string{"is not a positive whole number"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := config.Load(file(t, tc.yaml), nil, tc.flags)
			if err == nil {
				t.Fatal("accepted")
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
		})
	}
}

// A secret given by mistake as a value must not be repeated in the error.
func TestASecretGivenAsValueIsRefusedWithoutRepeatingIt(t *testing.T) {
	for _, given := range []string{"canary-secret", "file:relative-canary-secret", "env:", "env:canary-secret=1"} {
		_, err := config.Load("", nil, map[string]string{"backend.token": given})
		if err == nil || strings.Contains(err.Error(), "canary-secret") || !strings.Contains(err.Error(), "env:NAME") {
			t.Errorf("%q: got %v", given, err)
		}
	}
	for _, given := range []string{"file:/run/token", "env:TOKEN", ""} {
		if _, err := config.Load("", nil, map[string]string{"backend.token": given}); err != nil {
			t.Errorf("%q: got %v", given, err)
		}
	}
}

func TestFilesThatAreNone(t *testing.T) {
	dir := t.TempDir()
	pipe, huge := filepath.Join(dir, "pipe"), filepath.Join(dir, "huge")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.WriteFile(huge, nil, 0o600), os.Truncate(huge, 1<<30)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "absent"): "no such file", pipe: "is not a regular file", dir: "is not a regular file", "/dev/zero": "is not a regular file",
		huge: "is larger than 1048576 bytes", file(t, strings.Repeat("#", 1<<20+1)): "is larger than 1048576 bytes",
	} {
		if _, err := config.Load(path, nil, nil); err == nil || !strings.Contains(err.Error(), "cannot read the configuration file") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", path, err)
		}
	}
}

func TestMembersInEveryForm(t *testing.T) {
	want := []config.Member{{ID: "a", Address: "h1:1"}, {ID: "master-1", Address: "h2:2"}}
	listen := map[string]string{"raft.listen": "0.0.0.0:9010", "raft.trusted_network": "true"}
	for name, c := range map[string]func() (config.Config, error){
		"list": func() (config.Config, error) {
			return config.Load(file(t, "cluster: {members: ' master-1=h2:2, a=h1:1'}"), nil, listen)
		},
		"mapping": func() (config.Config, error) {
			return config.Load(file(t, "cluster:\n  members:\n    master-1: h2:2\n    a: h1:1\n"), nil, listen)
		},
		"variable": func() (config.Config, error) {
			return config.Load("", []string{"LANCEMASTER_CLUSTER_MEMBERS=a=h1:1,master-1=h2:2"}, listen)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := c()
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(c.Members, want) {
				t.Errorf("got %v", c.Members)
			}
			if c.RaftAdvertise != "h2:2" {
				t.Errorf("advertises %q, not its own address of the list", c.RaftAdvertise)
			}
			if at, ok := c.MemberAddress("a"); !ok || at != "h1:1" {
				t.Errorf("got %q, %v", at, ok)
			}
		})
	}
}

func TestAnAdminServiceForOthersMayBeGuardedByEither(t *testing.T) {
	files := map[string]string{"tls.cert_file": "/c", "tls.key_file": "/k", "tls.ca_file": "/a", "admin.listen": "0.0.0.0:9021"}
	for _, guard := range []map[string]string{{"admin.tls": "mutual"}, {"admin.tls": "server", "admin.auth": "required"}} {
		maps.Copy(guard, files)
		if _, err := config.Load("", nil, guard); err != nil {
			t.Errorf("%v: %v", guard, err)
		}
	}
}

// Either the masters prove who they are, or somebody has said that nobody else can reach them.
func TestARaftPortForOthersMayBeGuardedByEither(t *testing.T) {
	for _, guard := range []map[string]string{
		{"raft.tls": "mutual", "tls.cert_file": "/c", "tls.key_file": "/k", "tls.ca_file": "/a"}, {"raft.trusted_network": "true"},
	} {
		guard["raft.listen"] = "10.0.0.1:9010"
		if _, err := config.Load("", nil, guard); err != nil {
			t.Errorf("%v: %v", guard, err)
		}
	}
}

func TestLoopback(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1:1": true, "[::1]:1": true, "localhost:1": true,
		"0.0.0.0:1": false, ":1": false, "10.0.0.1:1": false, "example.org:1": false,
	} {
		if config.Loopback(address) != want {
			t.Errorf("Loopback(%q) is %v", address, !want)
		}
	}
}

func TestAMistypedVariableIsRefusedAndAForeignOneIsNot(t *testing.T) {
	_, err := config.Load("", []string{"LANCEMASTER_RAFT_LISTN=x"}, nil)
	if err == nil || !strings.Contains(err.Error(), "did you mean LANCEMASTER_RAFT_LISTEN?") {
		t.Errorf("got %v", err)
	}
	for _, foreign := range []string{
		"LANCEMASTER_ADDR=a:1", "LANCEMASTER_PORT=tcp://10.0.0.1:1", "LANCEMASTER_SERVICE_HOST=10.0.0.1", "LANCEMASTER_TLS_CA=ca",
		"LANCEMASTER_TLS_CERT=c", "LANCEMASTER_TLS_KEY=k", "LANCEMASTER_TOKEN_FILE=t", "LANCEMASTER_CLIENT_NAME=n", "LANCEMASTER_CONFIG=f", "RAFT_LISTN=x",
	} {
		if _, err := config.Load("", []string{foreign}, nil); err != nil {
			t.Errorf("%s: %v", foreign, err)
		}
	}
}

func TestFlagsAndVariablesFollowFromTheKey(t *testing.T) {
	for _, f := range config.Flags() {
		if f.Key == "raft.snapshot_threshold" {
			if f.Name != "raft-snapshot-threshold" || f.Env != "LANCEMASTER_RAFT_SNAPSHOT_THRESHOLD" || f.Usage == "" || f.Default != "8192" {
				t.Errorf("got %+v", f)
			}
			return
		}
	}
	t.Error("raft.snapshot_threshold is not among the flags")
}

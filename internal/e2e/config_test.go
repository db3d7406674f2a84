//go:build e2e

package e2e

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func writeConfig(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "lancemaster.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A configuration that cannot be meant ends the start, with the key named and nothing made.
func TestBadConfiguration(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, yaml string
		env, flags []string
		says       []string
	}{
		{"unknown key", "data_dri: x\n", nil, nil, []string{"data_dri", "data_dir"}},
		{"unknown nested key", "admin:\n  listne: 127.0.0.1:0\n", nil, nil, []string{"admin.listne", "admin.listen"}},
		{"not YAML", "data_dir: [\n", nil, nil, []string{"YAML"}},
		{"bad duration", "shutdown_timeout: soon\n", nil, nil, []string{"shutdown_timeout", "soon"}},
		{"bad address", "admin:\n  listen: nowhere\n", nil, nil, []string{"admin.listen"}},
		{"secret in place of its reference", "backend:\n  token: hunter2\n", nil, nil, []string{"backend.token", "file:"}},
		{"bad environment", "", []string{"LANCEMASTER_LOG_LEVEL=loud"}, nil, []string{"log.level", "loud"}},
		{"bad flag", "", nil, []string{"--log-format", "xml"}, []string{"log.format", "xml"}},
		{"missing token file", "backend:\n  token: file:/nonexistent/token\n", nil, nil, []string{"/nonexistent/token"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			args := append([]string{"serve", "--config", writeConfig(t, c.yaml)}, serveFlags(t, dir, c.yaml)...)
			r := runProgram(t, "lancemaster", c.env, append(args, c.flags...)...)
			if r.Code != 1 && r.Code != 2 {
				t.Errorf("want exit code 1 or 2: %s", r)
			}
			for _, text := range c.says {
				if !strings.Contains(r.Stderr, text) {
					t.Errorf("the error does not say %q: %s", text, r.Stderr)
				}
			}
			if strings.Contains(r.Stderr+r.Stdout, "hunter2") {
				t.Errorf("the error shows what may be a secret: %s", r)
			}
		})
	}
}

// serveFlags keep a node that starts against expectation off the default ports; what the file is to
// set is left to it.
func serveFlags(t *testing.T, dir, yaml string) []string {
	t.Helper()
	flags := []string{"--data-dir", dir, "--report-listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0", "--raft-listen", "127.0.0.1:0"}
	if !strings.Contains(yaml, "admin:") {
		flags = append(flags, "--admin-listen", "127.0.0.1:0")
	}
	return flags
}

// The file is under the environment, and the environment under the flags.
func TestConfigurationOrder(t *testing.T) {
	t.Parallel()
	ports := freePorts(t, 4)
	dir := filepath.Join(t.TempDir(), "data")
	file := writeConfig(t, "data_dir: "+dir+"\nadmin:\n  listen: 127.0.0.1:1\nhttp:\n  listen: 127.0.0.1:1\nreport:\n  listen: "+ports[2]+"\n")
	m := &master{t: t, dir: dir, admin: ports[0], http: ports[1], report: ports[2]}
	m.args = []string{"serve", "--config", file, "--admin-listen", ports[0], "--raft-listen", ports[3]}
	m.env = []string{"LANCEMASTER_HTTP_LISTEN=" + ports[1], "LANCEMASTER_ADMIN_LISTEN=127.0.0.1:2"}
	m.start()
	if code, _ := m.getHTTP("/readyz"); code != 200 {
		t.Errorf("/readyz answers %d", code)
	}
	s, err := m.status()
	if err != nil || s.ReportAddress != ports[2] {
		t.Errorf("the report address is %q, %v; want %s", s.GetReportAddress(), err, ports[2])
	}
}

// A data directory has one process.
func TestSecondProcess(t *testing.T) {
	t.Parallel()
	m := startMaster(t)
	r := runProgram(t, "lancemaster", nil, append([]string{"serve"}, serveFlags(t, m.dir, "")...)...)
	if r.Code != 1 || !strings.Contains(r.Stderr, m.dir) {
		t.Errorf("a second process on one data directory: want exit code 1 and the directory's name, %s", r)
	}
	if s, err := m.status(); err != nil || !s.Ready {
		t.Errorf("the first process is not ready any more: %v, %v", s, err)
	}
	m.terminate()
	r = runProgram(t, "lancemaster", nil, append([]string{"serve", "--node-id", "other"}, serveFlags(t, m.dir, "")...)...)
	if r.Code != 1 || !strings.Contains(r.Stderr, "master-1") {
		t.Errorf("another node id on a used data directory: want exit code 1 and the owner's name, %s", r)
	}
	m.start()
}

// A port that is taken is an error that names it.
func TestTakenPort(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dir := filepath.Join(t.TempDir(), "data")
	for _, flag := range []string{"--admin-listen", "--report-listen", "--http-listen", "--raft-listen"} {
		r := runProgram(t, "lancemaster", nil, append(append([]string{"serve"}, serveFlags(t, dir, "")...), flag, l.Addr().String())...)
		if r.Code != 1 || !strings.Contains(r.Stderr, l.Addr().String()) {
			t.Errorf("%s on a taken port: want exit code 1 and the address, %s", flag, r)
		}
	}
}

// Until there are roles, a listener that others reach is warned of, and loopback is not.
func TestListenerWarning(t *testing.T) {
	t.Parallel()
	m := startMaster(t)
	if out := m.proc.Out(); warnsOfListener.MatchString(out) {
		t.Errorf("a node on loopback warns:\n%s", out)
	}
	open := newMaster(t)
	open.http = "0.0.0.0:0"
	open.start()
	open.proc.ExpectLine(warnsOfListener.String())
}

var warnsOfListener = regexp.MustCompile(`(?m)level=WARN .*http\.listen`)

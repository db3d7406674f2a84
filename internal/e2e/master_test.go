//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/lancemaster/lancemaster/gen-go/admin"
	"github.com/lancemaster/lancemaster/internal/programs"
)

// master is a node that the test starts, ends and starts again at the same addresses.
type master struct {
	t    *testing.T
	dir  string // its data directory
	args []string
	env  []string
	proc *programs.Process // the newest

	// Where it listens: the first start takes free ports, and later ones take the same.
	admin, report, http, raft string
}

// anyPort has the kernel choose.
const anyPort = "127.0.0.1:0"

// newMaster prepares a node; more are flags of serve.
func newMaster(t *testing.T, more ...string) *master {
	t.Helper()
	m := &master{t: t, dir: filepath.Join(t.TempDir(), "data"), admin: anyPort, report: anyPort, http: anyPort, raft: anyPort}
	m.args = append([]string{"serve", "--data-dir", m.dir}, more...)
	return m
}

// startMaster starts a node and waits until it serves.
func startMaster(t *testing.T, more ...string) *master {
	t.Helper()
	m := newMaster(t, more...)
	m.start()
	return m
}

// freePorts asks the kernel for loopback addresses, for where they must be known before the start.
func freePorts(t *testing.T, n int) []string {
	t.Helper()
	var out []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close() // all are held until the last is chosen, so that no two are one
		out = append(out, l.Addr().String())
	}
	return out
}

// launch starts the process and waits for nothing.
func (m *master) launch() {
	m.t.Helper()
	args := append([]string(nil), m.args...)
	if m.raft != "" {
		args = append(args, "--admin-listen", m.admin, "--report-listen", m.report, "--http-listen", m.http, "--raft-listen", m.raft)
	}
	m.proc = launch(m.t, "lancemaster", m.env, args...)
}

// start starts the process and waits until it serves.
func (m *master) start() {
	m.t.Helper()
	m.launch()
	if m.raft == anyPort {
		at := m.proc.ExpectLine(`(?m)msg=started .*admin=(\S+) report=(\S+) http=(\S+) raft=(\S+)`)
		m.admin, m.report, m.http, m.raft = at[1], at[2], at[3], at[4]
	}
	m.untilReady()
}

// untilReady waits until the node leads and serves.
func (m *master) untilReady() {
	m.t.Helper()
	programs.Eventually(m.t, patience, func() string {
		if !m.proc.Running() {
			m.t.Fatalf("the master ended while starting: %v", m.proc.Err())
		}
		s, err := m.status()
		switch {
		case err != nil:
			return fmt.Sprintf("the master does not answer: %v", err)
		case !s.Ready:
			return "the master is not ready: " + s.GetNotReadyReason()
		}
		return ""
	})
}

func (m *master) status() (*admin.TStatusResponse, error) {
	return ask(m.admin, func(ctx context.Context, c *admin.AdminServiceClient) (*admin.TStatusResponse, error) {
		return c.Status(ctx, &admin.TListRequest{Ctx: caller()})
	})
}

func (m *master) kill() { m.t.Helper(); m.proc.Kill() }

func (m *master) terminate() { m.t.Helper(); m.proc.Terminate() }

// cli runs the command against this node, as the tests' client.
func (m *master) cli(args ...string) programs.Ran {
	m.t.Helper()
	return runProgram(m.t, "lancemaster", []string{"LANCEMASTER_ADDR=" + m.admin, "LANCEMASTER_CLIENT_NAME=" + clientName}, args...)
}

// cliOK runs the command, which must succeed.
func (m *master) cliOK(args ...string) string {
	m.t.Helper()
	r := m.cli(args...)
	if r.Code != 0 {
		m.t.Fatalf("lancemaster %q: %s", args, r)
	}
	return r.Stdout
}

// cliJSON runs the command with -o json, which must succeed, and reads what it printed.
func (m *master) cliJSON(into any, args ...string) {
	m.t.Helper()
	out := m.cliOK(append(args, "-o", "json")...)
	if err := json.Unmarshal([]byte(out), into); err != nil {
		m.t.Fatalf("lancemaster %q printed no JSON that fits: %v\n%s", args, err, out)
	}
}

func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	return reflect.DeepEqual(readJSON(t, a), readJSON(t, b))
}

func readJSON(t *testing.T, text string) (v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Errorf("%q is no JSON: %v", text, err)
	}
	return v
}

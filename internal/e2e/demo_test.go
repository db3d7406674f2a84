//go:build e2e

package e2e

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lancemaster/lancemaster/gen-go/admin"
	"github.com/lancemaster/lancemaster/internal/client"
	"github.com/lancemaster/lancemaster/internal/programs"
)

// The way a newcomer goes: a development node, one job refused by the stub on purpose, its record and
// history, and the name free again.
func TestDemoPath(t *testing.T) {
	t.Parallel()
	args := []string{"dev", "--data", filepath.Join(t.TempDir(), "data")}
	for _, service := range []string{"admin", "report", "http", "raft", "stub", "stub-heartbeat"} {
		args = append(args, "--"+service+"-listen", "127.0.0.1:0")
	}
	p := launch(t, "lancemaster", nil, args...)
	m := &master{t: t, proc: p, admin: p.ExpectLine(`(?m)^ *admin +(\S+)`)[1]}

	var submitted client.Submitted
	m.cliJSON(&submitted, createArgs(t, "demo_vec", "--request-id", "demo-1")...)
	if submitted.Outcome != client.OutcomeAdmitted || submitted.Job == nil || submitted.Job.ID != 1 || submitted.RequestID != "demo-1" {
		t.Fatalf("index create answered %+v", submitted)
	}
	if r := m.cli("job", "wait", "1", "--timeout", "30s"); r.Code != 3 {
		t.Fatalf("job wait: want exit code 3, %s", r)
	}
	checkDemoJob(t, m)
	checkDemoHistory(t, m)

	var again client.Submitted
	m.cliJSON(&again, createArgs(t, "demo_vec", "--dry-run", "")...)
	if again.Outcome != client.OutcomeDryRun || again.WouldAdmit == nil || len(again.Advice) != 0 {
		t.Errorf("the name is not free again: %+v", again)
	}
	var repeated client.Submitted
	m.cliJSON(&repeated, createArgs(t, "demo_vec", "--request-id", "demo-1")...)
	if repeated.Outcome != client.OutcomeExisting || repeated.Job.ID != 1 {
		t.Errorf("the same request again: %+v", repeated)
	}
	if r := m.cli(createArgs(t, "demo_vec", "--wait", "")...); r.Code != 3 {
		t.Errorf("index create --wait: want exit code 3, %s", r)
	}
	p.Terminate()
	if r := m.cli("job", "list"); r.Code != 1 || !strings.Contains(r.Stderr, "UNREACHABLE") {
		t.Errorf("with no master: want exit code 1 and UNREACHABLE, %s", r)
	}
}

func checkDemoJob(t *testing.T, m *master) {
	t.Helper()
	var j client.Job
	m.cliJSON(&j, "job", "show", "1")
	if j.State != client.StateNotCommitted || j.Refresh.State != "NOT_REQUIRED" || j.FenceHeld || j.SlotHeld || j.Open || j.ResolvedAt.IsZero() {
		t.Errorf("the job is %+v", j)
	}
	want := client.Target{
		Catalog: "local", Store: "file", Database: "db", Table: "t", Provider: "DIRECTORY", Locator: "file://" + fixture(t, typed),
		IndexName: "demo_vec", IndexKey: "demo_vec",
	}
	if j.Target != want {
		t.Errorf("the target is %+v, want %+v", j.Target, want)
	}
	if j.Creator != actor || j.RequestID != "demo-1" || j.Snapshot.DatasetVersion != 1 || j.Snapshot.Source != "manifest" {
		t.Errorf("creator %q, request id %q, snapshot %+v", j.Creator, j.RequestID, j.Snapshot)
	}
	if j.Result == nil || j.Result.Code != "PRE_INVOCATION_RESOURCE_REJECTED" || !strings.Contains(j.Result.Message, "NOT_IMPLEMENTED_ERROR") ||
		!strings.Contains(j.Result.Message, "safe to resubmit") {
		t.Errorf("the result is %+v; want the stub's NOT_IMPLEMENTED_ERROR in it, and that it is safe to resubmit", j.Result)
	}
	if j.Dispatch == nil || j.Dispatch.BackendID != 1 || j.Dispatch.Proof != "NOT_ENQUEUED" {
		t.Errorf("the dispatch is %+v", j.Dispatch)
	}
	for _, format := range []string{"table", "yaml"} {
		if out := m.cliOK("job", "show", "1", "-o", format); !strings.Contains(out, "NOT_COMMITTED") || !strings.Contains(out, "NOT_IMPLEMENTED_ERROR") {
			t.Errorf("job show -o %s printed\n%s", format, out)
		}
	}
}

func checkDemoHistory(t *testing.T, m *master) {
	t.Helper()
	var h client.History
	m.cliJSON(&h, "job", "history", "1")
	var states, actors []string
	for i, e := range h.Events {
		states = append(states, e.ToState)
		actors = append(actors, e.Actor)
		if e.Revision != int64(i) || e.JobID != 1 || e.At.IsZero() || e.RaftIndex == 0 || e.RaftTerm == 0 || e.Kind == "" {
			t.Errorf("event %d is %+v", i, e)
		}
	}
	if want := []string{"PENDING", "RUNNING", "NOT_COMMITTED"}; !slices.Equal(states, want) {
		t.Errorf("the job's life is %v, want %v", states, want)
	}
	if len(actors) == 0 || actors[0] != actor {
		t.Errorf("the actors are %q, want %q first", actors, actor)
	}
}

// A development node started again finds its data, and its stub, wherever that listens now.
func TestDevAgain(t *testing.T) {
	t.Parallel()
	args := []string{"dev", "--data", filepath.Join(t.TempDir(), "data")}
	for _, service := range []string{"admin", "report", "http", "raft", "stub", "stub-heartbeat"} {
		args = append(args, "--"+service+"-listen", "127.0.0.1:0")
	}
	for round := 1; round <= 3; round++ {
		p := launch(t, "lancemaster", nil, args...)
		m := &master{t: t, proc: p, admin: p.ExpectLine(`(?m)^ *admin +(\S+)`)[1]}
		if r := m.cli(createArgs(t, "demo_vec", "--wait", "", "--timeout", "30s")...); r.Code != 3 {
			t.Fatalf("round %d: index create --wait: want exit code 3, %s", round, r)
		}
		if backends := m.backends(); len(backends) != 1 || !backends[0].Alive {
			t.Errorf("round %d: the backends are %v, want one that is alive", round, backends)
		}
		if n := len(m.list(admin.TListJobsRequest{})); n != round {
			t.Errorf("round %d: there are %d jobs", round, n)
		}
		if round == 2 {
			p.Kill()
		} else {
			p.Terminate()
		}
	}
}

// The stub as a program of its own, registered by hand.
func TestStubProgram(t *testing.T) {
	t.Parallel()
	stub := launch(t, "lanceworker-stub", nil, "--listen", "127.0.0.1:0", "--heartbeat-listen", "127.0.0.1:0")
	at := stub.ExpectLine(`backend 127\.0\.0\.1:(\d+) heartbeat 127\.0\.0\.1:(\d+)`)
	m := startMaster(t)
	m.cliOK("settings", "set", "admission.enabled=true", "local_datasets.allowed=true")
	m.cliOK("catalog", "create", "local")
	m.cliOK("backend", "add", "127.0.0.1", "--be-port", at[1], "--heartbeat-port", at[2])
	if r := m.cli(createArgs(t, "i", "--wait", "", "--timeout", "30s")...); r.Code != 3 || !strings.Contains(r.Stdout+r.Stderr, "NOT_IMPLEMENTED_ERROR") {
		t.Errorf("index create --wait: want exit code 3 and the stub's reason, %s", r)
	}
	// A stub that stops is no backend any more; the job waits for one.
	stub.Terminate()
	m.set("backend.heartbeat_interval", "100ms")
	programs.Eventually(t, patience, func() string {
		if m.backends()[0].Alive {
			return "the backend is alive"
		}
		return ""
	})
	id := m.admit(createLocal(t, typed, "waits"))
	launch(t, "lanceworker-stub", nil, "--listen", "127.0.0.1:"+at[1], "--heartbeat-listen", "127.0.0.1:"+at[2])
	m.until(id, func(j *admin.TJob) string {
		if j.State.String() != client.StateNotCommitted {
			return fmt.Sprintf("it is %s, want NOT_COMMITTED", j.State)
		}
		return ""
	})
}

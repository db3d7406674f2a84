package explain_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/internal/backend"
	"github.com/lancemaster/lancemaster/internal/dispatch"
	"github.com/lancemaster/lancemaster/internal/explain"
	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/job/jobtest"
)

var rewrite = flag.Bool("rewrite", false, "rewrite testdata from what is said now")

// world is a master in memory: the real transitions, and what a dispatcher and the
// heartbeats would know.
type world struct {
	t       *testing.T
	state   *jobtest.State
	now     time.Time
	memory  map[job.ID]dispatch.Explanation
	beats   map[job.BackendID]backend.Status
	members int
	wait    time.Duration
	faults  error // of reading who changed the settings
}

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func newWorld(t *testing.T) *world {
	w := &world{
		t: t, state: jobtest.Formed(), now: start, members: 1,
		memory: map[job.ID]dispatch.Explanation{}, beats: map[job.BackendID]backend.Status{},
	}
	w.set("admission.enabled", "true")
	w.do(job.PutCatalog{Header: w.head("ada"), Catalog: job.Catalog{Name: "lake", Refresher: job.Refresher{Kind: job.RefresherNone}}})
	w.backend("10.0.0.7")
	return w
}

func (w *world) head(actor string) job.Header {
	return job.Header{At: job.Millis(w.now.UnixMilli()), Actor: actor}
}

func (w *world) do(c job.Command) job.Answer {
	w.t.Helper()
	change, refusal := w.state.Apply(c)
	if refusal != nil {
		w.t.Fatalf("%s: %v", c.Name(), refusal)
	}
	return change.Answer
}

func (w *world) set(name, value string) {
	w.t.Helper()
	w.do(job.ChangeSettings{Header: w.head("ada"), Values: []job.SettingValue{{Name: name, Value: value}}})
}

// backend registers a backend that is alive.
func (w *world) backend(host string) job.BackendID {
	w.t.Helper()
	id := w.do(job.AddBackend{Header: w.head("ada"), Address: job.Address{Host: host, BePort: 9060, HeartbeatPort: 9050}}).Backend.ID
	w.beats[id] = backend.Status{Alive: true, LastOK: w.now, ProcessEpoch: 7}
	return id
}

func ifExists(s *job.Spec) { s.IfExists = true }

func (w *world) admit(index, locator string, edit ...func(*job.Spec)) *job.Record {
	w.t.Helper()
	a := job.Admit{
		Header: w.head("ada"),
		Target: job.Target{
			Catalog: "lake", Store: job.LocatorScheme(locator), Database: "d", Table: "t", Provider: job.Provider, Locator: locator,
			IndexName: index, IndexKey: index,
		},
		Spec:     job.Spec{Mutation: job.MutationDrop, MaxNumPartitions: 1, MaxNumSubVectors: 1, ExecuteDeadline: 3_600_000},
		Snapshot: job.Snapshot{DatasetVersion: 1, Source: job.SnapshotCaller},
	}
	for _, e := range edit {
		e(&a.Spec)
	}
	return w.do(a).Job
}

func (w *world) run(r *job.Record) *job.Record {
	w.t.Helper()
	return w.do(job.MarkRunning{
		Header: w.head(job.ActorSystem), Job: r.ID, Expected: r.Revision, Backend: 1, ProcessEpoch: 7, InvocationID: "inv",
		SecretHash: job.Hash{1}, DeadlineAt: w.head("").At + 3_600_000,
	}).Job
}

func (w *world) end(r *job.Record, code job.ResultCode, proof job.Proof) *job.Record {
	w.t.Helper()
	return w.do(job.Complete{Header: w.head("backend:1"), Identity: identity(r), Code: code, Proof: proof, Message: "as it said"}).Job
}

func identity(r *job.Record) job.Identity {
	return job.Identity{Job: r.ID, Revision: r.Dispatch.Revision, InvocationID: r.Dispatch.InvocationID, ProcessEpoch: r.Dispatch.ProcessEpoch}
}

func (w *world) Read(show func(*job.Live)) { show(w.state.Live) }
func (w *world) Settings() ([]job.SettingChange, error) {
	return w.state.Changes, w.faults
}

func (w *world) History(id job.ID) ([]job.Event, int64, error) {
	return w.state.Events[id], 0, w.faults
}

func (w *world) Explain(rec *job.Record) (dispatch.Explanation, bool) {
	x, ok := w.memory[rec.ID]
	return x, ok
}

func (w *world) Status(id job.BackendID) (backend.Status, bool) {
	s, ok := w.beats[id]
	return s, ok
}

func (w *world) explain(id job.ID) string {
	e := explain.New(explain.Config{
		State: w, Dispatcher: w, Liveness: w, Members: func() int { return w.members },
		ReleasableIn: func(*job.Record) time.Duration { return w.wait }, Now: func() time.Time { return w.now },
	})
	var b strings.Builder
	for _, r := range e.Explain(w.state.Job(id)) {
		fmt.Fprintf(&b, "%s: %s\n", r.Code, r.Message)
		if r.Next != "" {
			fmt.Fprintf(&b, "  next: %s\n", r.Next)
		}
	}
	return b.String()
}

const remote = "s3://bucket/t"

// scenario sets a world up and returns the job to explain.
type scenario struct {
	name string
	set  func(w *world) job.ID
}

var scenarios = []scenario{
	{"PENDING, nothing holds it up", func(w *world) job.ID { return w.admit("idx", remote).ID }},
	{"PENDING, an attempt is under way", func(w *world) job.ID {
		id := w.admit("idx", remote).ID
		w.memory[id] = dispatch.Explanation{Hold: dispatch.HoldSending, Reason: "an attempt to send it is under way"}
		return id
	}},
	{"PENDING, dispatch paused and admission closed", func(w *world) job.ID {
		id := w.admit("idx", remote).ID
		w.now = start.Add(time.Minute)
		w.set("dispatch.paused", "true")
		w.set("admission.enabled", "false")
		return id
	}},
	{"PENDING, after a restore", func(w *world) job.ID {
		id := w.admit("idx", remote).ID
		w.set("dispatch.paused", "true")
		w.state.Write(job.Change{Cluster: &job.Cluster{ClusterID: 1, Incarnation: 2, Level: 1, Quarantined: true}})
		return id
	}},
	{"PENDING, its secret cannot be resolved", func(w *world) job.ID {
		id := w.admit("idx", remote).ID
		w.memory[id] = dispatch.Explanation{
			Hold: dispatch.HoldRetry, NextTry: w.now.Add(12 * time.Second),
			LastError: `the storage option aws_secret_access_key of catalog "lake" cannot be resolved: env:LAKE_SECRET is not set`,
		}
		return id
	}},
	{"PENDING, its secrets are being resolved", func(w *world) job.ID {
		id := w.admit("idx", remote).ID
		w.memory[id] = dispatch.Explanation{Hold: dispatch.HoldPreparing, Reason: "its secrets are being resolved"}
		return id
	}},
	{"PENDING, as many were sent as may be", func(w *world) job.ID {
		id := w.admit("idx", remote).ID
		w.memory[id] = dispatch.Explanation{Hold: dispatch.HoldRate, Reason: "dispatch.max_per_round jobs were sent within the last dispatch.interval"}
		return id
	}},
	{"PENDING, no backend is registered", func(w *world) job.ID {
		w.do(job.RemoveBackend{Header: w.head("ada"), Backend: 1})
		return w.admit("idx", remote).ID
	}},
	{"PENDING, no backend can take it", func(w *world) job.ID {
		w.set("dispatch.max_inflight_per_backend", "1")
		w.run(w.admit("first", remote))
		drained := w.backend("10.0.0.8")
		w.do(job.SetBackendState{Header: w.head("bob"), Backend: drained, State: job.BackendDraining})
		silent, never := w.backend("10.0.0.9"), w.backend("10.0.0.10")
		w.beats[silent] = backend.Status{LastOK: start.Add(-90 * time.Second), LastError: "connection refused"}
		delete(w.beats, never)
		return w.admit("idx", remote).ID
	}},
	{"PENDING, the last slot is reserved", func(w *world) job.ID {
		id := w.admit("idx", remote).ID
		w.memory[id] = dispatch.Explanation{Hold: dispatch.HoldBackend, Reason: "no eligible backend: backend 1 has 2 of 2 slots held or reserved"}
		return id
	}},
	{"PENDING, a local dataset and two masters", func(w *world) job.ID {
		w.set("local_datasets.allowed", "true")
		w.members = 2
		return w.admit("idx", "file:///data/t").ID
	}},
	{"PENDING, a local dataset where none are allowed", func(w *world) job.ID { return w.admit("idx", "file:///data/t").ID }},
	{"PENDING, its catalog is gone", func(w *world) job.ID {
		id := w.admit("idx", remote).ID
		w.state.Write(job.Change{Catalog: &job.CatalogChange{Name: "lake"}})
		return id
	}},
	{"RUNNING, its backend answers", func(w *world) job.ID {
		r := w.run(w.admit("idx", remote))
		w.now = start.Add(15 * time.Minute)
		w.beats[1] = backend.Status{Alive: true, LastOK: w.now.Add(-2 * time.Second), ProcessEpoch: 7}
		return r.ID
	}},
	{"RUNNING, its backend has just ceased to answer", func(w *world) job.ID {
		r := w.run(w.admit("idx", remote))
		w.beats[1] = backend.Status{Alive: true, LastOK: w.now.Add(-8 * time.Second), ProcessEpoch: 7, LastError: "connection refused"}
		return r.ID
	}},
	{"RUNNING, its backend was restarted", func(w *world) job.ID {
		r := w.run(w.admit("idx", remote))
		w.memory[r.ID] = dispatch.Explanation{Deadline: start.Add(30 * time.Minute)}
		w.beats[1] = backend.Status{Alive: true, LastOK: w.now, ProcessEpoch: 8}
		return r.ID
	}},
	{"RUNNING, its backend was restarted and only then heard", func(w *world) job.ID {
		r := w.run(w.admit("idx", remote))
		w.memory[r.ID] = dispatch.Explanation{SendEnded: start, Heard: []int64{8}}
		w.beats[1] = backend.Status{Alive: true, LastOK: w.now, ProcessEpoch: 8}
		return r.ID
	}},
	{"RUNNING, its backend is silent", func(w *world) job.ID {
		r := w.run(w.admit("idx", remote))
		w.beats[1] = backend.Status{LastError: "connection refused"}
		return r.ID
	}},
	{"UNKNOWN, all still held", func(w *world) job.ID {
		w.wait = 41 * time.Second
		return w.end(w.run(w.admit("idx", remote)), job.CodeNoTrustedResult, job.ProofNone).ID
	}},
	{"UNKNOWN, its backend heard since the send", func(w *world) job.ID {
		r := w.end(w.run(w.admit("idx", remote)), job.CodeNoTrustedResult, job.ProofNone)
		w.memory[r.ID] = dispatch.Explanation{SendEnded: start, Heard: []int64{7}}
		return r.ID
	}},
	{"UNKNOWN, its backend restarted and only then heard", func(w *world) job.ID {
		r := w.end(w.run(w.admit("idx", remote)), job.CodeNoTrustedResult, job.ProofNone)
		w.memory[r.ID] = dispatch.Explanation{SendEnded: start, Heard: []int64{8}}
		w.beats[1] = backend.Status{Alive: true, LastOK: w.now, ProcessEpoch: 8}
		return r.ID
	}},
	{"UNKNOWN, its backend not heard since the send", func(w *world) job.ID {
		r := w.end(w.run(w.admit("idx", remote)), job.CodeNoTrustedResult, job.ProofNone)
		w.memory[r.ID] = dispatch.Explanation{SendEnded: start}
		w.beats[1] = backend.Status{LastOK: w.now.Add(-time.Minute), LastError: "connection refused", ProcessEpoch: 7}
		return r.ID
	}},
	{"UNKNOWN, sent by the leader before this one", func(w *world) job.ID {
		r := w.end(w.run(w.admit("idx", remote)), job.CodeNoTrustedResult, job.ProofNone)
		w.memory[r.ID] = dispatch.Explanation{SendEnded: start.Add(40 * time.Second)}
		return r.ID
	}},
	{"UNKNOWN on a dataset that the master can read", func(w *world) job.ID {
		return w.end(w.run(w.admit("idx", "file:///data/t")), job.CodeNoTrustedResult, job.ProofChildReaped).ID
	}},
	{"RUNNING, its worker proven gone", func(w *world) job.ID {
		r := w.run(w.admit("idx", remote))
		w.do(job.RecordTermination{Header: w.head("backend:1"), Identity: identity(r), Backend: 1, Proof: job.ProofChildReaped})
		return r.ID
	}},
	{"UNKNOWN, its worker proven gone, with a late result", func(w *world) job.ID {
		r := w.end(w.run(w.admit("idx", remote)), job.CodeNativeIO, job.ProofNone)
		w.do(job.RecordLateResult{Header: w.head("backend:1"), Identity: identity(r), Code: job.CodeNativeOK, Message: "built", Proof: job.ProofChildReaped})
		return r.ID
	}},
	{"UNKNOWN, force released, its late refresh failed", func(w *world) job.ID {
		r := w.end(w.run(w.admit("idx", remote)), job.CodeNoTrustedResult, job.ProofNone)
		r = w.do(job.ForceRelease{Header: w.head("ada"), Job: r.ID, Expected: r.Revision, Note: "host scrapped", Warning: job.ForceReleaseWarning}).Job
		r = w.do(job.RecordLateResult{Header: w.head("backend:1"), Identity: identity(r), Code: job.CodeNativeOK, Proof: job.ProofNone}).Job
		w.do(job.RefreshStart{Header: w.head(job.ActorSystem), Job: r.ID, Expected: r.Revision})
		w.do(job.RefreshFinish{Header: w.head(job.ActorSystem), Job: r.ID, Attempt: 1, Failed: true, Message: "HTTP 503"})
		return r.ID
	}},
	{"UNKNOWN by a quarantine, never sent", func(w *world) job.ID {
		id := w.admit("idx", remote).ID
		w.do(job.Quarantine{Header: w.head("ada"), Incarnation: 2, Cause: "restored", Members: jobtest.Members("master-1")})
		return id
	}},
	{"COMMITTED, its refresh is due, its slot held", func(w *world) job.ID {
		return w.end(w.run(w.admit("idx", remote)), job.CodeNativeOK, job.ProofNone).ID
	}},
	{"COMMITTED, its refresh under way", func(w *world) job.ID {
		r := w.end(w.run(w.admit("idx", remote)), job.CodeNativeOK, job.ProofChildReaped)
		w.do(job.RefreshStart{Header: w.head(job.ActorSystem), Job: r.ID, Expected: r.Revision})
		return r.ID
	}},
	{"COMMITTED, its refresh failed", func(w *world) job.ID {
		r := w.end(w.run(w.admit("idx", remote)), job.CodeNativeOK, job.ProofChildReaped)
		w.do(job.RefreshStart{Header: w.head(job.ActorSystem), Job: r.ID, Expected: r.Revision})
		w.do(job.RefreshFinish{Header: w.head(job.ActorSystem), Job: r.ID, Attempt: 1, Failed: true, Message: "HTTP 503"})
		w.now = start.Add(time.Minute)
		return r.ID
	}},
	{"NOT_COMMITTED, its slot held, its backend gone", func(w *world) job.ID {
		r := w.end(w.run(w.admit("idx", remote)), job.CodeStaleAdmission, job.ProofNone)
		w.state.Write(job.Change{Backend: &job.BackendChange{ID: 1}})
		return r.ID
	}},
	{"NOT_COMMITTED, closed", func(w *world) job.ID {
		r := w.admit("idx", remote)
		w.do(job.Cancel{Header: w.head("ada"), Job: r.ID, Expected: r.Revision})
		return r.ID
	}},
	{"NOT_COMMITTED, cancelled with a note", func(w *world) job.ID {
		r := w.admit("idx", remote)
		w.now = start.Add(time.Minute)
		w.do(job.Cancel{Header: w.head("olga"), Job: r.ID, Expected: r.Revision, Note: "wrong column"})
		return r.ID
	}},
	{"NOT_COMMITTED, its backend could not be reached", func(w *world) job.ID {
		r := w.run(w.admit("idx", remote))
		w.do(job.Complete{
			Header: w.head(job.ActorSystem), Identity: identity(r), Code: job.CodeResourceRejected, Proof: job.ProofNone, NotEnqueued: true,
			Message: "nothing was sent or nothing was accepted; safe to resubmit: connection refused",
		})
		return r.ID
	}},
	{"NOT_COMMITTED, rejected before it was sent", func(w *world) job.ID {
		r := w.admit("idx", remote)
		w.do(job.RejectBeforeDispatch{Header: w.head(job.ActorSystem), Job: r.ID, Expected: r.Revision, Message: "nothing was sent: it is too large"})
		return r.ID
	}},
	{"NOT_COMMITTED, as there was nothing to do, its slot released", func(w *world) job.ID {
		r := w.end(w.run(w.admit("idx", remote, ifExists)), job.CodeNativeNotFound, job.ProofNone)
		r = w.do(job.ReleaseSlot{Header: w.head("olga"), Job: r.ID, Expected: r.Revision, Note: "host scrapped"}).Job
		r = w.do(job.RefreshStart{Header: w.head(job.ActorSystem), Job: r.ID, Expected: r.Revision}).Job
		w.do(job.RefreshFinish{Header: w.head(job.ActorSystem), Job: r.ID, Attempt: 1, Evidence: "HTTP 200"})
		return r.ID
	}},
	{"UNKNOWN, its deadline passed, its slot released", func(w *world) job.ID {
		r := w.run(w.admit("idx", remote))
		r = w.do(job.Complete{
			Header: w.head(job.ActorSystem), Identity: identity(r), Code: job.CodeNoTrustedResult, Proof: job.ProofNone,
			Message: "the execute deadline of 1h0m0s passed without a report",
		}).Job
		w.do(job.ReleaseSlot{Header: w.head("olga"), Job: r.ID, Expected: r.Revision, Note: "host scrapped"})
		return r.ID
	}},
}

// TestExplain says what testdata/explain.txt holds.
func TestExplain(t *testing.T) {
	const path = "testdata/explain.txt"
	var got strings.Builder
	for _, s := range scenarios {
		w := newWorld(t)
		id := s.set(w)
		fmt.Fprintf(&got, "# %s\n%s\n", s.name, w.explain(id))
	}
	if *rewrite {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	wantLines, gotLines := strings.Split(string(want), "\n"), strings.Split(got.String(), "\n")
	for i := range max(len(wantLines), len(gotLines)) {
		a, b := "(end)", "(end)"
		if i < len(wantLines) {
			a = wantLines[i]
		}
		if i < len(gotLines) {
			b = gotLines[i]
		}
		if a != b {
			t.Fatalf("%s:%d\nwant %s\ngot  %s\n(rewrite with: go test ./internal/explain -rewrite)", path, i+1, a, b)
		}
	}
}

// Of very many backends some are told about, and how many more there are.
func TestManyBackends(t *testing.T) {
	w := newWorld(t)
	delete(w.beats, 1)
	for i := range 99 {
		delete(w.beats, w.backend(fmt.Sprintf("10.0.1.%d", i)))
	}
	said := w.explain(w.admit("idx", remote).ID)
	if n := strings.Count(said, "BACKEND_SILENT"); n != 32 || !strings.Contains(said, "and 68 more") || !strings.Contains(said, "none of the 100 ") {
		t.Errorf("%d backends are told about:\n%s", n, said)
	}
}

// Without knowing who changed a setting the rest is said all the same.
func TestSettingsUnread(t *testing.T) {
	w := newWorld(t)
	w.set("dispatch.paused", "true")
	w.faults = errors.New("a disk")
	if said := w.explain(w.admit("idx", remote).ID); !strings.Contains(said, "DISPATCH_PAUSED: dispatch is paused (dispatch.paused is true)") {
		t.Errorf("said %s", said)
	}
}

// Without knowing by whose word a job ended the rest is said all the same.
func TestHistoryUnread(t *testing.T) {
	w := newWorld(t)
	r := w.admit("idx", remote)
	w.do(job.Cancel{Header: w.head("olga"), Job: r.ID, Expected: r.Revision, Note: "wrong column"})
	w.faults = errors.New("a disk")
	const want = "OUTCOME: CANCELLED_BEFORE_DISPATCH at 2026-03-01T12:00:00Z: cancelled before dispatch; nothing was sent: wrong column\n"
	if said := w.explain(r.ID); !strings.HasPrefix(said, want) {
		t.Errorf("said %s\nwant %s", said, want)
	}
}

// A caller may be called as a backend is in the history: it is not taken for one.
func TestCallerCalledAsBackend(t *testing.T) {
	w := newWorld(t)
	r := w.admit("idx", remote)
	w.do(job.Cancel{Header: w.head("backend:0"), Job: r.ID, Expected: r.Revision})
	if said := w.explain(r.ID); !strings.HasPrefix(said, "OUTCOME: CANCELLED_BEFORE_DISPATCH, by backend:0 at ") {
		t.Errorf("said %s", said)
	}
}

// A locator may hold what a shell acts on, and the next step is there to be copied.
func TestLocatorQuoted(t *testing.T) {
	for locator, want := range map[string]string{
		"file:///data/t.lance":        "inspect file:///data/t.lance\n",
		"file:///my data/t;$(reboot)": "inspect 'file:///my data/t;$(reboot)'\n",
		"file:///it's":                `inspect 'file:///it'\''s'` + "\n",
	} {
		w := newWorld(t)
		r := w.end(w.run(w.admit("idx", locator)), job.CodeNativeIO, job.ProofNone)
		if said := w.explain(r.ID); !strings.Contains(said, want) {
			t.Errorf("%s: want %q in\n%s", locator, want, said)
		}
	}
}

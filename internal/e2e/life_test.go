//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lancemaster/lancemaster/gen-go/admin"
	"github.com/lancemaster/lancemaster/gen-go/backend"
	"github.com/lancemaster/lancemaster/gen-go/shared"
	"github.com/lancemaster/lancemaster/internal/scripted"
)

// withLocal makes the master serve the fixtures through catalog "local" and one scripted backend.
func withLocal(t *testing.T) (*master, *scriptedBackend) {
	t.Helper()
	b := newBackend(t)
	m := startMaster(t)
	m.set("admission.enabled", "true", "local_datasets.allowed", "true", "backend.heartbeat_interval", "200ms")
	m.putCatalog("local", "", none())
	m.register(b)
	return m, b
}

func TestCommitted(t *testing.T) {
	t.Parallel()
	m, b := withLocal(t)
	id := m.admit(createLocal(t, typed, "Demo_Vec"))
	d := b.expectSend(id)
	checkDispatch(t, d, fixture(t, typed))
	running := m.untilState(id, admin.TJobState_RUNNING)
	if !running.FenceHeld || !running.SlotHeld || !running.IsOpen || running.Dispatch.InvocationID != d.InvocationID {
		t.Errorf("the running job holds fence %v, slot %v, open %v, invocation %q", running.FenceHeld, running.SlotHeld,
			running.IsOpen, running.Dispatch.InvocationID)
	}
	if said := b.report(scripted.ResultOf(d, shared.TLanceIndexResultCode_NATIVE_OK)); len(said) != 0 {
		t.Errorf("the true report was answered %q, want nothing", said)
	}
	done := m.untilDone(id)
	if done.Result_.Code != "NATIVE_OK" || done.Dispatch.Proof != "CHILD_REAPED" || done.ResolvedAtMs == 0 {
		t.Errorf("result %v, proof %s, resolved at %d", done.Result_, done.Dispatch.Proof, done.ResolvedAtMs)
	}
	checkLife(t, m, id, []string{"-/NOT_REQUIRED>PENDING/NOT_REQUIRED", "PENDING/NOT_REQUIRED>RUNNING/NOT_REQUIRED",
		"RUNNING/NOT_REQUIRED>COMMITTED/REQUIRED", "COMMITTED/REQUIRED>COMMITTED/RUNNING", "COMMITTED/RUNNING>COMMITTED/DONE"})
	for _, held := range m.backends() {
		if held.SlotsHeld != 0 {
			t.Errorf("backend %d has %d slots held, want none", held.BackendID, held.SlotsHeld)
		}
	}
	again := createLocal(t, typed, "demo_vec")
	if next := m.admit(again); next == id {
		t.Errorf("the second job has the first one's id %d", id)
	}
}

func checkDispatch(t *testing.T, d *backend.TLanceIndexJobDispatch, dataset string) {
	t.Helper()
	const contract = `{"scv":1,"flds":[{"fid":9,"nn":"vec","nt":"fixed_size_list","nul":false,"fsd":8,"vet":"float32","ven":true}]}`
	const properties = `{"index_type":"IVF_PQ","metric":"l2","num_bits":"8","num_partitions":"2","num_sub_vectors":"2"}`
	for _, c := range []struct {
		what      string
		got, want any
	}{
		{"mutation", d.MutationType, shared.TLanceIndexMutationType_CREATE},
		{"index name", d.IndexName, "Demo_Vec"},
		{"column", d.ColumnName, "vec"},
		{"index type", d.IndexType, "IVF_PQ"},
		{"dataset", d.DatasetURI, "file://" + dataset},
		{"version", d.AdmittedDatasetVersion, int64(1)},
		{"contract", d.SchemaContractJSON, contract},
		{"secret's length", len(d.GetInvocationSecret()), 32},
		{"partitions' bound", d.GetMaxNumPartitions(), int32(4096)},
		{"sub-vectors' bound", d.GetMaxNumSubVectors(), int32(256)},
	} {
		if c.got != c.want {
			t.Errorf("the dispatch's %s is %v, want %v", c.what, c.got, c.want)
		}
	}
	if got := d.GetPropertiesJSON(); !sameJSON(t, got, properties) {
		t.Errorf("the dispatch's properties are %s, want %s", got, properties)
	}
}

// checkLife compares a job's history, as state/refresh before and after each event, and holds it to
// what every history must be: revisions from 0 without a gap, the Raft index rising.
func checkLife(t *testing.T, m *master, id int64, want []string) {
	t.Helper()
	events := m.history(id)
	var got []string
	for i, e := range events {
		from := "-"
		if e.FromState != nil {
			from = e.FromState.String()
		}
		refresh := "NOT_REQUIRED"
		if e.FromRefresh != nil {
			refresh = e.FromRefresh.String()
		}
		got = append(got, fmt.Sprintf("%s/%s>%s/%s", from, refresh, e.ToState, e.ToRefresh))
		if e.Revision != int64(i) || e.JobID != id {
			t.Errorf("event %d of job %d is revision %d of job %d", i, id, e.Revision, e.JobID)
		}
		if i > 0 && (e.RaftIndex <= events[i-1].RaftIndex || e.AtMs < events[i-1].AtMs || e.RaftTerm < events[i-1].RaftTerm) {
			t.Errorf("event %d of job %d does not follow the one before: %v, %v", i, id, events[i-1], e)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the life of job %d is\n%s\nwant\n%s", id, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Every answer of a backend and what it makes of the job.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	m := startMaster(t)
	m.set("admission.enabled", "true", "backend.heartbeat_interval", "200ms", "dispatch.max_inflight_per_backend", "100",
		"admission.max_unresolved_per_table", "100")
	m.putCatalog("remote", "store", none())
	m.register(b)
	const (
		ok       = shared.TStatusCode_OK
		notFound = shared.TLanceIndexResultCode_NATIVE_NOT_FOUND
	)
	for _, c := range []struct {
		name     string
		answer   scripted.Answer
		code     shared.TLanceIndexResultCode // 0: no report
		mutation shared.TLanceIndexMutationType
		state    admin.TJobState
		refresh  admin.TRefreshState
		fence    bool
		slot     bool
		message  string
	}{
		{"refused", scripted.Answer{Status: shared.TStatusCode_TOO_MANY_TASKS, Text: "busy"}, 0, 1, admin.TJobState_NOT_COMMITTED, 1, false, false, "TOO_MANY_TASKS"},
		{"closed", scripted.Answer{Cut: true}, 0, 1, admin.TJobState_UNKNOWN, 1, true, true, ""},
		{"odd_status", scripted.Answer{Status: 999}, 0, 1, admin.TJobState_UNKNOWN, 1, true, true, "999"},
		{"stale", scripted.Answer{Status: ok}, shared.TLanceIndexResultCode_PRE_INVOCATION_STALE_ADMISSION, 1, admin.TJobState_NOT_COMMITTED, 1, false, false, ""},
		{"conflict", scripted.Answer{Status: ok}, shared.TLanceIndexResultCode_NATIVE_COMMIT_CONFLICT, 1, admin.TJobState_NOT_COMMITTED, 4, false, false, ""},
		{"io", scripted.Answer{Status: ok}, shared.TLanceIndexResultCode_NATIVE_IO, 1, admin.TJobState_UNKNOWN, 1, true, false, ""},
		{"create_not_found", scripted.Answer{Status: ok}, notFound, 1, admin.TJobState_UNKNOWN, 1, true, false, ""},
		{"drop_not_found", scripted.Answer{Status: ok}, notFound, 3, admin.TJobState_NOT_COMMITTED, 4, false, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			b.Always(c.answer)
			r := createRemote("remote", "s3://bucket/"+c.name, c.name)
			if c.mutation == shared.TLanceIndexMutationType_DROP {
				r.Mutation, r.IndexType, r.Column = &c.mutation, nil, nil
				r.CallerSnapshot.SchemaContractJSON = nil
			}
			id := m.admit(r)
			d := b.expectSend(id)
			if c.code != 0 {
				b.report(scripted.ResultOf(d, c.code))
			}
			j := m.until(id, func(j *admin.TJob) string {
				if j.State == c.state && j.Refresh.State == c.refresh && j.FenceHeld == c.fence && j.SlotHeld == c.slot {
					return ""
				}
				return fmt.Sprintf("want %s, refresh %s, fence %v, slot %v", c.state, c.refresh, c.fence, c.slot)
			})
			if j.Result_ == nil || !strings.Contains(j.Result_.Message, c.message) {
				t.Errorf("the result is %v, want %q in its message", j.Result_, c.message)
			}
			if n := len(b.SentTo(id)); n != 1 {
				t.Errorf("the job was sent %d times", n)
			}
		})
	}
}

// step is a place in a job's life at which the master is restarted.
type step struct {
	name string
	// reach brings the job there and returns its id.
	reach func(*testing.T, *lifeUnderRestart) int64
	// after says what the job must be right after the restart, and goes on to the end.
	after func(*testing.T, *lifeUnderRestart, int64)
}

// lifeUnderRestart is one job's surroundings. Its catalog's refresher fails until mend is called.
type lifeUnderRestart struct {
	*master
	b       *scriptedBackend
	release chan struct{} // ends the held call of the backend
	catalog *admin.TCatalog
}

func (l *lifeUnderRestart) submitted(t *testing.T) int64 {
	return l.admit(createLocal(t, typed, "idx"))
}

func (l *lifeUnderRestart) mend() {
	l.changeCatalog(&admin.TPutCatalogRequest{
		Ctx: caller(), Name: ptr("local"), Refresher: none(), ExpectedRevision: &l.catalog.Revision,
	})
}

// finish reports success, if that is still to be done, and follows the job to its end.
func (l *lifeUnderRestart) finish(t *testing.T, id int64) {
	t.Helper()
	if j := l.job(id); j.State != admin.TJobState_COMMITTED {
		l.b.report(scripted.ResultOf(l.b.expectSend(id), shared.TLanceIndexResultCode_NATIVE_OK))
	}
	l.mend()
	l.untilDone(id)
	if n := len(l.b.SentTo(id)); n != 1 {
		t.Errorf("the job was sent %d times", n)
	}
	l.admit(createLocal(t, typed, "IDX")) // the name is free
}

func (l *lifeUnderRestart) mustBe(t *testing.T, id int64, state admin.TJobState, fence, slot bool) {
	t.Helper()
	j := l.job(id)
	if j.State != state || j.FenceHeld != fence || j.SlotHeld != slot {
		t.Fatalf("after the restart the job is %s, fence %v, slot %v; want %s, %v, %v", j.State, j.FenceHeld, j.SlotHeld, state, fence, slot)
	}
}

// sendHeld has the backend read the call and keep its answer.
func sendHeld(t *testing.T, l *lifeUnderRestart) int64 {
	l.b.Always(scripted.Answer{Held: l.release})
	id := l.submitted(t)
	l.b.expectSend(id)
	l.untilState(id, admin.TJobState_RUNNING)
	return id
}

func sendAnswered(t *testing.T, l *lifeUnderRestart) int64 {
	id := l.submitted(t)
	l.b.expectSend(id)
	l.untilMetric(`lancemaster_dispatches_total{class="accepted"}`, 1)
	return id
}

func reportResult(t *testing.T, l *lifeUnderRestart) int64 {
	id := sendAnswered(t, l)
	r := scripted.ResultOf(l.b.expectSend(id), shared.TLanceIndexResultCode_NATIVE_OK)
	r.TerminationProof = nil // the worker is not gone yet
	l.b.report(r)
	return id
}

var steps = []step{
	{
		"admitted",
		func(t *testing.T, l *lifeUnderRestart) int64 {
			l.set("dispatch.paused", "true")
			return l.submitted(t)
		},
		func(t *testing.T, l *lifeUnderRestart, id int64) {
			l.mustBe(t, id, admin.TJobState_PENDING, true, false)
			if n := len(l.b.SentTo(id)); n != 0 {
				t.Errorf("a PENDING job was sent while dispatch is paused")
			}
			l.set("dispatch.paused", "false")
			l.finish(t, id)
		},
	}, {
		"sent, not answered", sendHeld,
		func(t *testing.T, l *lifeUnderRestart, id int64) {
			l.mustBe(t, id, admin.TJobState_RUNNING, true, true)
			close(l.release)
			l.finish(t, id)
		},
	}, {
		"answered OK", sendAnswered,
		func(t *testing.T, l *lifeUnderRestart, id int64) {
			l.mustBe(t, id, admin.TJobState_RUNNING, true, true)
			l.finish(t, id)
		},
	}, {
		"reported, refresh owed, worker alive", reportResult,
		func(t *testing.T, l *lifeUnderRestart, id int64) {
			l.mustBe(t, id, admin.TJobState_COMMITTED, true, true)
			l.b.terminated(scripted.TerminationOf(l.b.expectSend(id)))
			l.mustBe(t, id, admin.TJobState_COMMITTED, true, false)
			l.finish(t, id)
		},
	}, {
		"refresh failed, worker gone",
		func(t *testing.T, l *lifeUnderRestart) int64 {
			id := reportResult(t, l)
			l.b.terminated(scripted.TerminationOf(l.b.expectSend(id)))
			l.until(id, func(j *admin.TJob) string {
				if j.Refresh.LastFailureAtMs == nil {
					return "its refresh has not failed"
				}
				return ""
			})
			return id
		},
		func(t *testing.T, l *lifeUnderRestart, id int64) {
			l.mustBe(t, id, admin.TJobState_COMMITTED, true, false)
			l.finish(t, id)
		},
	}, {
		"refreshed, worker alive",
		func(t *testing.T, l *lifeUnderRestart) int64 {
			id := reportResult(t, l)
			l.mend()
			l.until(id, func(j *admin.TJob) string {
				if j.Refresh.State != admin.TRefreshState_DONE {
					return "its refresh is not done"
				}
				return ""
			})
			return id
		},
		func(t *testing.T, l *lifeUnderRestart, id int64) {
			l.mustBe(t, id, admin.TJobState_COMMITTED, false, true)
			if j := l.job(id); !j.IsOpen {
				t.Errorf("a job that holds a slot is not open")
			}
			l.b.terminated(scripted.TerminationOf(l.b.expectSend(id)))
			l.untilDone(id)
			l.admit(createLocal(t, typed, "idx"))
		},
	},
}

// The master is killed, and stopped, between every two steps of a job's life; the job goes on and is
// never sent a second time.
func TestRestartBetweenSteps(t *testing.T) {
	t.Parallel()
	for _, s := range steps {
		for _, how := range []struct {
			name string
			end  func(*master)
		}{
			{"kill -9", (*master).kill},
			{"SIGTERM", (*master).terminate},
		} {
			t.Run(s.name+"/"+how.name, func(t *testing.T) {
				t.Parallel()
				m, b := withLocal(t)
				l := &lifeUnderRestart{master: m, b: b, release: make(chan struct{})}
				m.set("refresh.retry_interval", "200ms")
				l.catalog = m.changeCatalog(&admin.TPutCatalogRequest{
					Ctx: caller(), Name: ptr("local"), Refresher: failing(), ExpectedRevision: ptr(catalogOf(m, "local").Revision),
				})
				id := s.reach(t, l)
				before := m.job(id)
				how.end(m)
				m.start()
				after := m.job(id)
				if after.Revision < before.Revision || !sameIntent(before, after) {
					t.Errorf("the restart changed the job from %v to %v", before, after)
				}
				s.after(t, l, id)
				checkRevisions(t, m, id)
			})
		}
	}
}

func catalogOf(m *master, name string) *admin.TCatalog {
	m.t.Helper()
	return need(m.t, m, "getting catalog "+name, func(ctx context.Context, c *admin.AdminServiceClient) (*admin.TCatalog, error) {
		return c.GetCatalog(ctx, &admin.TGetCatalogRequest{Ctx: caller(), Name: &name})
	})
}

// sameIntent compares what never changes in a job.
func sameIntent(a, b *admin.TJob) bool {
	return a.JobID == b.JobID && a.Creator == b.Creator && a.RequestID == b.RequestID && a.CreatedAtMs == b.CreatedAtMs &&
		a.Target.Equals(b.Target) && a.Spec.Equals(b.Spec) && a.Snapshot.Equals(b.Snapshot)
}

// checkRevisions holds a history to one event per revision, and to RUNNING being entered once.
func checkRevisions(t *testing.T, m *master, id int64) {
	t.Helper()
	running := 0
	for i, e := range m.history(id) {
		if i < 16 && e.Revision != int64(i) {
			t.Errorf("event %d of job %d is revision %d", i, id, e.Revision)
		}
		if e.ToState == admin.TJobState_RUNNING && e.FromState != nil && *e.FromState != admin.TJobState_RUNNING {
			running++
		}
	}
	if running > 1 {
		t.Errorf("job %d entered RUNNING %d times", id, running)
	}
}

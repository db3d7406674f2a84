package job_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/job/jobtest"
)

// world is the state under test, the model beside it, and what must never change.
type world struct {
	t     *rapid.T
	state *jobtest.State
	model *model
	now   job.Millis
	// written are all records ever made, as they were then.
	written map[*job.Record]string
	refused map[job.Code]int
}

// TestMain makes the random runs long enough for quotas to fill, unless the command
// line says otherwise.
func TestMain(m *testing.M) {
	if err := flag.Set("rapid.steps", "80"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// TestRandom runs random commands against the transitions and the model, and
// holds the invariants of the contract after each.
func TestRandom(t *testing.T) {
	var seen reached
	// What is rare, one run in some hundreds does not reach: it goes on then.
	for range 5 {
		seen.random(t)
		if t.Failed() {
			return
		}
		if len(seen.missing()) == 0 {
			return
		}
	}
	// Runs that never reached something have not tested it.
	for _, what := range seen.missing() {
		t.Error(what)
	}
}

// reached counts what random runs came to.
type reached struct {
	refused                                              map[job.Code]int
	accepted, forced, released, late, reopened, replaced int
}

// random makes runs.
func (r *reached) random(t *testing.T) {
	t.Helper()
	if r.refused == nil {
		r.refused = map[job.Code]int{}
	}
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		t.Repeat(map[string]func(*rapid.T){
			"admit":       w.admit,
			"admit again": w.admit,
			"run":         w.markRunning,
			"run again":   w.markRunning,
			"run more":    w.markRunning,
			"complete":    w.complete,
			"complete2":   w.complete,
			"terminate":   w.terminate,
			"late":        w.late,
			"refresh":     w.refreshStart,
			"finish":      w.refreshFinish,
			"cancel":      w.cancel,
			"release":     w.release,
			"cluster":     w.cluster,
			"tables":      w.tables,
			"settings":    w.settings,
			"registry":    w.registry,
			"reopen":      w.reopen,
			"":            w.check,
		})
		for c, n := range w.refused {
			r.refused[c] += n
		}
		r.accepted += w.model.accepted
		r.forced, r.released, r.late = r.forced+w.model.everForced, r.released+w.model.everReleased, r.late+w.model.everLate
		r.reopened, r.replaced = r.reopened+w.model.everReopened, r.replaced+w.model.everReplaced
	})
}

// missing tells what the runs have not come to.
func (r *reached) missing() []string {
	var out []string
	for _, c := range []job.Code{
		job.CodeFenceHeld, job.CodeQuotaTable, job.CodeQuotaCatalog, job.CodeQuotaGlobal, job.CodeRevisionMismatch,
		job.CodeWrongState, job.CodeIdentityMismatch, job.CodeNoSlot, job.CodeDuplicate, job.CodeInUse,
		job.CodeRequestConflict, job.CodeAttemptMismatch, job.CodeGateClosed, job.CodeDispatchPaused,
		job.CodeTooEarly, job.CodeAlreadyExists, job.CodeQuarantined,
	} {
		if r.refused[c] == 0 {
			out = append(out, fmt.Sprintf("no command was ever refused with %s", c))
		}
	}
	if r.reopened == 0 || r.replaced == 0 {
		out = append(out, fmt.Sprintf("%d times reopened, %d members replaced: too few to mean anything", r.reopened, r.replaced))
	}
	if r.accepted == 0 || r.forced == 0 || r.released == 0 || r.late == 0 {
		out = append(out, fmt.Sprintf("accepted %d, force released %d, slots released %d, late results %d: too few to mean anything",
			r.accepted, r.forced, r.released, r.late))
	}
	return out
}

func newWorld(t *rapid.T) *world {
	w := &world{
		t: t, state: jobtest.Formed(), model: newModel(), now: 1000,
		written: map[*job.Record]string{}, refused: map[job.Code]int{},
	}
	w.apply(putCatalog(w, "a"), w.model.putCatalog(putCatalog(w, "a")))
	w.apply(putCatalog(w, "b"), w.model.putCatalog(putCatalog(w, "b")))
	for range 2 {
		w.apply(w.newBackend(), w.model.addBackend(w.newBackend()))
	}
	w.apply(w.setting("admission.enabled", 1), w.model.change("admission.enabled", 1))
	return w
}

func (w *world) head() job.Header { return job.Header{At: w.now, Actor: "ann"} }

// apply applies a command and compares what it answers with what the model says.
func (w *world) apply(c job.Command, want job.Code) {
	w.t.Helper()
	before := fingerprint(w.t, w.state)
	change, refusal := w.state.Apply(c)
	got := ok
	switch {
	case refusal != nil:
		got = refusal.Code
		w.refused[got]++
		if refusal.Message == "" {
			w.t.Fatalf("%#v: refused without a word", c)
		}
	case change.Answer.Existing:
		got = existing
	}
	if got != want {
		w.t.Fatalf("%#v: answered %s, the model says %s (%v)", c, got, want, refusal)
	}
	if got != ok {
		if after := fingerprint(w.t, w.state); after != before {
			w.t.Fatalf("%#v: answered %s and changed something\nbefore %s\nafter  %s", c, got, before, after)
		}
		return
	}
	w.model.accepted++
	for _, j := range change.Jobs {
		w.checkStep(c, j)
	}
}

func (w *world) someJob() job.ID {
	all := []job.ID{}
	for _, r := range w.state.All() {
		all = append(all, r.ID)
	}
	return rapid.SampledFrom(append(all, 999)).Draw(w.t, "job")
}

// prefer picks a job for which the command can succeed, most of the time.
func (w *world) prefer(fits func(*job.Record) bool) (job.ID, job.Revision) {
	fitting := []job.ID{}
	for _, r := range w.state.All() {
		if fits(r) {
			fitting = append(fitting, r.ID)
		}
	}
	id := w.someJob()
	if len(fitting) > 0 && rapid.IntRange(0, 9).Draw(w.t, "fitting") > 0 {
		id = rapid.SampledFrom(fitting).Draw(w.t, "fitting job")
	}
	var rev job.Revision
	if r := w.state.Job(id); r != nil {
		rev = r.Revision
	}
	if rapid.IntRange(0, 9).Draw(w.t, "revision") == 0 {
		rev++
	}
	return id, rev
}

func (w *world) identity(id job.ID) job.Identity {
	i := job.Identity{Job: id}
	if r := w.state.Job(id); r != nil {
		i.Revision, i.InvocationID, i.ProcessEpoch = r.Dispatch.Revision, r.Dispatch.InvocationID, r.Dispatch.ProcessEpoch
	}
	switch rapid.IntRange(0, 20).Draw(w.t, "identity") {
	case 0:
		i.Revision++
	case 1:
		i.InvocationID += "x"
	case 2:
		i.ProcessEpoch++
	}
	return i
}

func (w *world) admit(t *rapid.T) {
	w.begin(t)
	catalog := rapid.SampledFrom([]string{"a", "b", "nowhere"}).Draw(t, "catalog")
	name := rapid.SampledFrom([]string{"x", "X", "y", "z"}).Draw(t, "name")
	mutation := rapid.SampledFrom([]job.Mutation{job.MutationCreate, job.MutationReplace, job.MutationDrop}).Draw(t, "mutation")
	c := job.Admit{
		Header: w.head(), RequestID: rapid.SampledFrom([]string{"", "", "", "", "r1", "r2"}).Draw(t, "request"),
		Target: job.Target{
			Catalog: catalog, Store: "s", Database: "d", Table: "t", Provider: job.Provider,
			Locator:   rapid.SampledFrom([]string{"s3://b/1", "s3://b/2", "s3://b/3"}).Draw(t, "locator"),
			IndexName: name, IndexKey: job.NormalizeIndexName(name),
		},
		Spec:     job.Spec{Mutation: mutation, MaxNumPartitions: 1, MaxNumSubVectors: 1, ExecuteDeadline: 1000},
		Snapshot: job.Snapshot{DatasetVersion: 1, Source: job.SnapshotCaller},
	}
	c.Actor = rapid.SampledFrom([]string{"ann", "ben"}).Draw(t, "creator")
	c.RequestHash = job.Hash{byte(rapid.IntRange(1, 2).Draw(t, "body"))}
	if mutation == job.MutationDrop {
		c.Spec.IfExists = rapid.Bool().Draw(t, "if exists")
	} else {
		c.Spec.IndexType, c.Spec.Column, c.Snapshot.SchemaContract = job.IndexBTree, "c", "{}"
	}
	w.apply(c, w.model.admit(c))
}

// begin takes the step's own t and lets time pass, or not.
func (w *world) begin(t *rapid.T) {
	w.t = t
	w.now += job.Millis(rapid.IntRange(0, 3).Draw(t, "time"))
}

func (w *world) markRunning(t *rapid.T) {
	w.begin(t)
	id, rev := w.prefer(func(r *job.Record) bool { return r.State == job.StatePending })
	c := job.MarkRunning{
		Header: w.head(), Job: id, Expected: rev, Backend: rapid.SampledFrom([]job.BackendID{1, 1, 1, 2, 3, 4}).Draw(t, "backend"),
		ProcessEpoch: 5, InvocationID: fmt.Sprint("inv", id), SecretHash: job.Hash{1}, DeadlineAt: w.now + 10,
	}
	w.apply(c, w.model.markRunning(c))
}

var (
	someCodes = []job.ResultCode{1, 2, 3, 4, 5, 5, 5, 6, 7, 8, 9, 10, 11, 12, job.CodeNoTrustedResult}
	lateCodes = []job.ResultCode{5, 5, 7, 11, 12}
	allProofs = []job.Proof{job.ProofChildReaped, job.ProofNeverLaunched, job.ProofProcessEpochGone, job.ProofNotEnqueued}
	noneOrAny = append([]job.Proof{job.ProofNone, job.ProofNone, job.ProofNone}, allProofs...)
)

func (w *world) complete(t *rapid.T) {
	w.begin(t)
	id, _ := w.prefer(func(r *job.Record) bool { return r.State == job.StateRunning })
	c := job.Complete{
		Header: w.head(), Identity: w.identity(id), Code: rapid.SampledFrom(someCodes).Draw(t, "code"),
		Message: rapid.SampledFrom([]string{"", "m"}).Draw(t, "message"), MetadataAdvanced: rapid.Bool().Draw(t, "advanced"),
		Proof: rapid.SampledFrom(noneOrAny).Draw(t, "proof"), NotEnqueued: rapid.IntRange(0, 9).Draw(t, "enqueued") == 0,
	}
	w.apply(c, w.model.complete(c))
}

func (w *world) terminate(t *rapid.T) {
	w.begin(t)
	id, _ := w.prefer(func(r *job.Record) bool { return r.Dispatch.Dispatched() })
	c := job.RecordTermination{Header: w.head(), Identity: w.identity(id), Proof: rapid.SampledFrom(allProofs).Draw(t, "proof")}
	if r := w.state.Job(id); r != nil {
		c.Backend = r.Dispatch.BackendID
	}
	if rapid.IntRange(0, 20).Draw(t, "other backend") == 0 {
		c.Backend++
	}
	w.apply(c, w.model.terminate(c))
}

func (w *world) late(t *rapid.T) {
	w.begin(t)
	id, _ := w.prefer(func(r *job.Record) bool { return r.State == job.StateUnknown })
	c := job.RecordLateResult{
		Header: w.head(), Identity: w.identity(id), Code: rapid.SampledFrom(lateCodes).Draw(t, "code"),
		Message: rapid.SampledFrom([]string{"", "m"}).Draw(t, "message"), Proof: rapid.SampledFrom(noneOrAny).Draw(t, "proof"),
	}
	w.apply(c, w.model.lateResult(c))
}

func (w *world) refreshStart(t *rapid.T) {
	w.begin(t)
	id, rev := w.prefer(func(r *job.Record) bool {
		return r.Refresh.State == job.RefreshRequired || r.Refresh.State == job.RefreshFailed || r.OwesLateRefresh()
	})
	c := job.RefreshStart{Header: w.head(), Job: id, Expected: rev}
	w.apply(c, w.model.refreshStart(c))
}

func (w *world) refreshFinish(t *rapid.T) {
	w.begin(t)
	id, _ := w.prefer(func(r *job.Record) bool {
		return r.Refresh.State == job.RefreshRunning || r.LateRefresh.State == job.RefreshRunning
	})
	c := job.RefreshFinish{Header: w.head(), Job: id, Evidence: "seen", Failed: rapid.Bool().Draw(t, "failed")}
	if r := w.state.Job(id); r != nil {
		c.Attempt = max(r.Refresh.Attempt, r.LateRefresh.Attempt)
	}
	if rapid.IntRange(0, 9).Draw(t, "attempt") == 0 {
		c.Attempt--
	}
	w.apply(c, w.model.refreshFinish(c))
}

func (w *world) cancel(t *rapid.T) {
	w.begin(t)
	id, rev := w.prefer(func(r *job.Record) bool { return r.State == job.StatePending })
	if rapid.Bool().Draw(t, "reject") {
		c := job.RejectBeforeDispatch{Header: w.head(), Job: id, Expected: rev, Message: "no"}
		w.apply(c, w.model.endPending(c.Job, c.Expected, c.At))
		return
	}
	c := job.Cancel{Header: w.head(), Job: id, Expected: rev}
	w.apply(c, w.model.endPending(c.Job, c.Expected, c.At))
}

func (w *world) release(t *rapid.T) {
	w.begin(t)
	note := rapid.SampledFrom([]string{"n", "n", "n", ""}).Draw(t, "note")
	if rapid.Bool().Draw(t, "slot") {
		id, rev := w.prefer(func(r *job.Record) bool { return r.State.Terminal() && r.HoldsSlot() })
		c := job.ReleaseSlot{Header: w.head(), Job: id, Expected: rev, Note: note}
		w.apply(c, w.model.releaseSlot(c))
		return
	}
	id, rev := w.prefer(func(r *job.Record) bool { return r.State == job.StateUnknown })
	c := job.ForceRelease{Header: w.head(), Job: id, Expected: rev, Note: note, Warning: job.ForceReleaseWarning}
	w.apply(c, w.model.forceRelease(c))
}

func (w *world) cluster(t *rapid.T) {
	w.begin(t)
	switch n := rapid.IntRange(0, 40).Draw(t, "cluster"); {
	case n >= 30 && n < 34: // small numbers are drawn more often than others
		c := job.Quarantine{Header: w.head(), Incarnation: int64(rapid.IntRange(1, 3).Draw(t, "incarnation")), Cause: "restored"}
		if rapid.IntRange(0, 2).Draw(t, "follows") > 0 {
			c.Incarnation = w.model.incarnation + 1
		}
		c.Members = jobtest.Members(rapid.SampledFrom([][]string{{"a"}, {"b", "c"}, {"a", "b", "d"}}).Draw(t, "survivors")...)
		w.apply(c, w.model.quarantine(c))
	case n < 12:
		c := job.RemoveResolved{
			Header: w.head(), Before: w.now - job.Millis(rapid.IntRange(0, 5).Draw(t, "age")),
			Limit: int32(rapid.IntRange(1, 3).Draw(t, "limit")),
		}
		w.apply(c, w.model.removeResolved(c))
	case n < 24:
		c := job.TermStart{Header: w.head(), Term: w.model.term + uint64(rapid.IntRange(0, 2).Draw(t, "term"))}
		w.apply(c, w.model.termStart(c))
	default:
		rebuilt, err := w.state.Rebuilt()
		if err != nil {
			t.Fatal(err)
		}
		w.state.Live = rebuilt
	}
}

func (w *world) tables(t *rapid.T) {
	w.begin(t)
	id := job.BackendID(rapid.IntRange(1, 5).Draw(t, "backend"))
	catalog := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "catalog")
	switch rapid.IntRange(0, 8).Draw(t, "table") {
	case 0:
		c := job.RemoveBackend{Header: w.head(), Backend: id}
		w.apply(c, w.model.removeBackend(c))
	case 1:
		c := w.newBackend()
		w.apply(c, w.model.addBackend(c))
	case 2, 3, 4, 5:
		c := job.SetBackendState{Header: w.head(), Backend: id, State: rapid.SampledFrom([]job.BackendState{
			job.BackendActive, job.BackendActive, job.BackendDraining,
		}).Draw(t, "state")}
		w.apply(c, w.model.backendState(c))
	case 6:
		c := job.RemoveCatalog{Header: w.head(), Catalog: catalog}
		w.apply(c, w.model.removeCatalog(c))
	default:
		c := putCatalog(w, catalog)
		w.apply(c, w.model.putCatalog(c))
	}
}

func putCatalog(w *world, name string) job.PutCatalog {
	return job.PutCatalog{Header: w.head(), Catalog: job.Catalog{Name: name, Store: "s"}}
}

func (w *world) newBackend() job.AddBackend {
	return job.AddBackend{Header: w.head(), Address: job.Address{
		Host: fmt.Sprintf("h%d", w.state.Cluster().NextBackend), BePort: 1, HeartbeatPort: 2,
	}}
}

func (w *world) settings(t *rapid.T) {
	w.begin(t)
	name := rapid.SampledFrom([]string{
		"admission.enabled", "dispatch.paused", "leader_change.running", "admission.max_unresolved_per_table",
		"admission.max_unresolved_per_catalog", "admission.max_unresolved_global", "dispatch.max_inflight_per_backend",
	}).Draw(t, "setting")
	value := rapid.IntRange(1, 6).Draw(t, "value")
	switch name {
	case "admission.enabled": // open, as a rule, so that the run goes on
		value = min(1, rapid.IntRange(0, 4).Draw(t, "open"))
	case "dispatch.max_inflight_per_backend":
		value = (value + 1) / 2
	case "dispatch.paused", "leader_change.running":
		value = rapid.IntRange(0, 3).Draw(t, "flag") / 3
	}
	w.apply(w.setting(name, value), w.model.change(name, value))
}

func (w *world) setting(name string, value int) job.ChangeSettings {
	text := strconv.Itoa(value)
	switch name {
	case "admission.enabled", "dispatch.paused":
		text = strconv.FormatBool(value == 1)
	case "leader_change.running":
		text = []string{"keep", "unknown"}[value]
	}
	return job.ChangeSettings{Header: w.head(), Values: []job.SettingValue{{Name: name, Value: text}}}
}

// check holds after every step.
func (w *world) check(t *rapid.T) {
	w.t = t
	w.checkAgainstModel()
	w.checkHeld()
	w.checkMemory()
	for r, was := range w.written {
		if now := asJSON(t, r); now != was {
			t.Fatalf("a record was changed after it was written\nwas %s\nnow %s", was, now)
		}
	}
}

func asJSON(t *rapid.T, v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func (w *world) checkAgainstModel() {
	w.checkRegistry()
	all := w.state.All()
	if len(all) != len(w.model.jobs) {
		w.t.Fatalf("%d jobs, the model has %d", len(all), len(w.model.jobs))
	}
	for _, r := range all {
		m := w.model.jobs[r.ID]
		if m == nil {
			w.t.Fatalf("job %d is not in the model", r.ID)
		}
		proofs := []string{}
		if r.Dispatch.Proof.Proves() {
			proofs = append(proofs, r.Dispatch.Proof.String())
		}
		for _, e := range r.Dispatch.Evidence {
			proofs = append(proofs, e.Proof.String())
		}
		got := fmt.Sprintln(r.State, r.Revision, r.Refresh.State, r.Refresh.Attempt, r.LateRefresh.State, r.LateRefresh.Attempt,
			r.HoldsFence(), r.HoldsSlot(), r.ForceRelease != nil, len(r.LateResults), r.ClosedAt, proofs)
		want := fmt.Sprintln(m.state, m.rev, m.refresh, m.attempt, m.late, m.lateTry,
			m.fence(), m.slot, m.released, m.lates, m.closed, m.proofNames())
		if got != want {
			w.t.Fatalf("job %d is\n%s, the model says\n%s", r.ID, got, want)
		}
	}
}

// checkHeld holds what the contract says of fences, quotas and slots, from the
// records alone.
func (w *world) checkHeld() {
	owners := map[job.FenceKey]job.ID{}
	catalogs, tables, slots := map[string]int{}, map[job.TableKey]int{}, map[job.BackendID]int{}
	for _, r := range w.state.All() {
		if r.HoldsFence() {
			if other, taken := owners[r.Target.Fence()]; taken {
				w.t.Fatalf("jobs %d and %d own one fence", other, r.ID)
			}
			owners[r.Target.Fence()] = r.ID
			catalogs[r.Target.Catalog]++
			tables[r.Target.TableKey()]++
		}
		if r.HoldsSlot() {
			slots[r.Dispatch.BackendID]++
		}
	}
	if w.state.Unresolved() != len(owners) {
		w.t.Fatalf("%d unresolved, %d fences", w.state.Unresolved(), len(owners))
	}
	for key, id := range owners {
		if owner, held := w.state.FenceOwner(key); !held || owner != id {
			w.t.Fatalf("the fence of job %d is owned by %d (%v)", id, owner, held)
		}
	}
	for _, name := range []string{"a", "b"} {
		if got := w.state.UnresolvedInCatalog(name); got != catalogs[name] {
			w.t.Fatalf("catalog %s: %d unresolved, %d fences", name, got, catalogs[name])
		}
	}
	for key, n := range tables {
		if got := w.state.UnresolvedAtTable(key); got != n {
			w.t.Fatalf("table %v: %d unresolved, %d fences", key, got, n)
		}
	}
	counts := w.state.StateCounts()
	for s := job.StatePending; s <= job.StateUnknown; s++ {
		n := 0
		for _, r := range w.state.All() {
			if r.State == s && (r.Open() || r.OwesLateRefresh()) {
				n++
			}
		}
		if got, known := counts[s]; got != n || !known {
			w.t.Fatalf("%d jobs counted as %s, %d are", got, s, n)
		}
	}
	for id := range job.BackendID(6) {
		if got := w.state.SlotsHeld(id); got != slots[id] {
			w.t.Fatalf("backend %d: %d slots counted, %d held", id, got, slots[id])
		}
	}
}

// checkMemory compares the memory with a rebuilt one: a restart forgets nothing.
func (w *world) checkMemory() {
	rebuilt, err := w.state.Rebuilt()
	if err != nil {
		w.t.Fatal(err)
	}
	if !reflect.DeepEqual(w.state.Live, rebuilt) {
		w.t.Fatalf("the memory differs from a rebuilt one\nkept    %+v\nrebuilt %+v", w.state.Live, rebuilt)
	}
	for _, r := range w.state.All() {
		if (w.state.Live.Job(r.ID) != nil) != (r.Open() || r.OwesLateRefresh()) {
			w.t.Fatalf("job %d: in memory %v, open %v", r.ID, w.state.Live.Job(r.ID) != nil, r.Open())
		}
	}
	if ids := w.state.OpenJobs(); !slices.IsSorted(ids) {
		w.t.Fatalf("the open jobs are not in order: %v", ids)
	}
	w.checkQueues()
}

// checkQueues compares the queues with what the records say.
func (w *world) checkQueues() {
	var pending, running, refresh []job.ID
	for _, r := range w.state.All() {
		switch {
		case r.State == job.StatePending:
			pending = append(pending, r.ID)
		case r.State == job.StateRunning:
			running = append(running, r.ID)
		case r.OwesLateRefresh(), r.State != job.StateUnknown && r.HoldsFence():
			refresh = append(refresh, r.ID)
		}
	}
	for _, q := range []struct {
		name string
		got  []*job.Record
		want []job.ID
	}{{"pending", w.state.Pending(), pending}, {"running", w.state.Running(), running}, {"refresh", w.state.RefreshQueue(), refresh}} {
		if !slices.Equal(ids(q.got), q.want) {
			w.t.Fatalf("%s: %v, want %v", q.name, ids(q.got), q.want)
		}
	}
}

package job_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/job/jobtest"
)

// Edges of the contract. A state may also stay as it is.
var (
	stateEdges = map[job.State][]job.State{
		job.StatePending: {job.StateRunning, job.StateNotCommitted, job.StateUnknown},
		job.StateRunning: {job.StateCommitted, job.StateNotCommitted, job.StateUnknown},
	}
	refreshEdges = map[job.RefreshState][]job.RefreshState{
		job.RefreshRequired: {job.RefreshRunning},
		job.RefreshRunning:  {job.RefreshDone, job.RefreshFailed, job.RefreshRequired},
		job.RefreshFailed:   {job.RefreshRunning},
	}
)

// checkStep holds what the contract says of one transition of one job.
func (w *world) checkStep(c job.Command, j job.JobChange) {
	if j.New == nil {
		if j.Old.Open() {
			w.t.Fatalf("open job %d was removed", j.Old.ID)
		}
		return
	}
	w.written[j.New] = asJSON(w.t, j.New)
	e := j.Event
	if e.Job != j.New.ID || e.Revision != j.New.Revision || e.To != j.New.State || e.Index != w.state.Position.Index || e.At != w.now {
		w.t.Fatalf("%s: the event does not tell of the step: %+v", c.Name(), *e)
	}
	if j.Old == nil {
		if j.New.Revision != 0 || j.New.State != job.StatePending || !j.New.HoldsFence() || j.New.HoldsSlot() {
			w.t.Fatalf("an admitted job is %+v", *j.New)
		}
		return
	}
	was, is := j.Old, j.New
	if is.Revision != was.Revision+1 {
		w.t.Fatalf("%s: revision %d after %d", c.Name(), is.Revision, was.Revision)
	}
	if is.State != was.State && !slices.Contains(stateEdges[was.State], is.State) {
		w.t.Fatalf("%s: %s to %s", c.Name(), was.State, is.State)
	}
	w.checkRefreshStep(c, was.Refresh.State, is.Refresh.State, is.State != was.State)
	_, late := c.(job.RecordLateResult)
	w.checkRefreshStep(c, was.LateRefresh.State, is.LateRefresh.State, late)
	w.checkKept(c, was, is)
	w.checkSlotStep(c, was, is)
	if !was.HoldsFence() && is.HoldsFence() {
		w.t.Fatalf("%s: job %d took its fence back", c.Name(), is.ID)
	}
	if entered := runs(w.state.Events[is.ID]); entered > 1 {
		w.t.Fatalf("job %d entered RUNNING %d times", is.ID, entered)
	}
}

func runs(events []job.Event) int {
	n := 0
	for _, e := range events {
		if e.To == job.StateRunning && e.From != job.StateRunning {
			n++
		}
	}
	return n
}

// checkRefreshStep allows NOT_REQUIRED to become REQUIRED only where it may be owed
// anew: with the outcome, or with a late result.
func (w *world) checkRefreshStep(c job.Command, was, is job.RefreshState, owed bool) {
	switch {
	case was == is, slices.Contains(refreshEdges[was], is):
	case was == job.RefreshNotRequired && is == job.RefreshRequired && owed:
	default:
		w.t.Fatalf("%s: refresh %s to %s", c.Name(), was, is)
	}
	_, term := c.(job.TermStart)
	if was == job.RefreshRunning && is == job.RefreshRequired && !term {
		w.t.Fatalf("%s: refresh RUNNING to REQUIRED within a term", c.Name())
	}
}

// checkKept holds what never changes once it is there.
func (w *world) checkKept(c job.Command, was, is *job.Record) {
	if was.State.Terminal() && asJSON(w.t, was.Result) != asJSON(w.t, is.Result) {
		w.t.Fatalf("%s: the outcome of job %d changed", c.Name(), is.ID)
	}
	if is.Target != was.Target || is.Spec != was.Spec || is.Snapshot != was.Snapshot || is.Creator != was.Creator {
		w.t.Fatalf("%s: job %d is about something else", c.Name(), is.ID)
	}
	a, b := was.Dispatch, is.Dispatch
	same := a.BackendID == b.BackendID && a.ProcessEpoch == b.ProcessEpoch && a.Revision == b.Revision &&
		a.InvocationID == b.InvocationID && a.SecretHash == b.SecretHash && a.StartedAt == b.StartedAt
	if a.Dispatched() && !same {
		w.t.Fatalf("%s: job %d made another dispatch", c.Name(), is.ID)
	}
	if a.Proof.Proves() && (a.Proof != b.Proof || a.ProofAt != b.ProofAt) {
		w.t.Fatalf("%s: the standing proof of job %d was overwritten", c.Name(), is.ID)
	}
	if (is.ResolvedAt != 0) == is.HoldsFence() || (is.ClosedAt != 0) == is.Open() {
		w.t.Fatalf("%s: job %d is resolved at %d, closed at %d: %+v", c.Name(), is.ID, is.ResolvedAt, is.ClosedAt, *is)
	}
	if was.ResolvedAt != 0 && is.ResolvedAt != was.ResolvedAt || was.ClosedAt != 0 && is.ClosedAt != was.ClosedAt {
		w.t.Fatalf("%s: job %d was resolved or closed once more", c.Name(), is.ID)
	}
	if is.UpdatedAt != w.now || is.CreatedAt != was.CreatedAt {
		w.t.Fatalf("%s: job %d was created at %d and updated at %d", c.Name(), is.ID, is.CreatedAt, is.UpdatedAt)
	}
	if was.ForceRelease != nil && *is.ForceRelease != *was.ForceRelease {
		w.t.Fatalf("%s: the force release of job %d changed", c.Name(), is.ID)
	}
}

// checkSlotStep: a slot is taken by MarkRunning and released by a proof, a force
// release or an operator, and by nothing else. A proof moves no fence.
func (w *world) checkSlotStep(c job.Command, was, is *job.Record) {
	_, run := c.(job.MarkRunning)
	if !was.HoldsSlot() && is.HoldsSlot() && !run {
		w.t.Fatalf("%s: job %d took a slot", c.Name(), is.ID)
	}
	if run && !is.HoldsSlot() {
		w.t.Fatalf("job %d runs without a slot", is.ID)
	}
	proved := !was.Dispatch.Proof.Proves() && is.Dispatch.Proof.Proves()
	forced := was.ForceRelease == nil && is.ForceRelease != nil
	operator := was.SlotRelease == nil && is.SlotRelease != nil
	if was.HoldsSlot() && !is.HoldsSlot() && !proved && !forced && !operator {
		w.t.Fatalf("%s: the slot of job %d was released by nothing", c.Name(), is.ID)
	}
	if _, termination := c.(job.RecordTermination); termination {
		if was.State != is.State || was.HoldsFence() != is.HoldsFence() || was.Refresh.State != is.Refresh.State {
			w.t.Fatalf("a proof changed more than the slot of job %d", is.ID)
		}
	}
}

// TestProofsAndResultsCommute: the same report and proof, in either order or in
// one command, leave the job in the same place.
func TestProofsAndResultsCommute(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mutation := rapid.SampledFrom([]job.Mutation{job.MutationCreate, job.MutationDrop}).Draw(t, "mutation")
		proof := rapid.SampledFrom(allProofs).Draw(t, "proof")
		code := rapid.SampledFrom(someCodes).Draw(t, "code")
		advanced := rapid.Bool().Draw(t, "advanced")

		h := job.Header{At: 50, Actor: "ann"}
		play := func(together bool, proofFirst bool) *job.Record {
			s := running(t, mutation)
			d := s.Job(1).Dispatch
			id := job.Identity{Job: 1, Revision: d.Revision, InvocationID: d.InvocationID, ProcessEpoch: d.ProcessEpoch}
			result := job.Complete{Header: h, Identity: id, Code: code, MetadataAdvanced: advanced, Proof: job.ProofNone}
			end := job.RecordTermination{Header: h, Identity: id, Backend: 1, Proof: proof}
			commands := []job.Command{result, end}
			if proofFirst {
				commands = []job.Command{end, result}
			}
			if together {
				result.Proof = proof
				commands = []job.Command{result}
			}
			for _, c := range commands {
				if _, refusal := s.Apply(c); refusal != nil {
					t.Fatalf("%s was refused: %v", c.Name(), refusal)
				}
			}
			r := s.Job(1).Clone()
			r.Revision = 0
			return r
		}
		a, b, c := asJSON(t, play(false, false)), asJSON(t, play(false, true)), asJSON(t, play(true, false))
		if a != b || b != c {
			t.Fatalf("result first %s\nproof first  %s\ntogether     %s", a, b, c)
		}
	})
}

// running is a state whose job 1 is RUNNING on backend 1.
func running(t interface{ Fatalf(string, ...any) }, mutation job.Mutation) *jobtest.State {
	s := jobtest.Formed()
	h := job.Header{At: 10, Actor: "ann"}
	admit := job.Admit{
		Header: h,
		Target: job.Target{
			Catalog: "c", Store: "file", Database: "d", Table: "t", Provider: job.Provider,
			Locator: "file:///d", IndexName: "i", IndexKey: "i",
		},
		Spec:     job.Spec{Mutation: mutation, MaxNumPartitions: 1, MaxNumSubVectors: 1, ExecuteDeadline: 1000},
		Snapshot: job.Snapshot{DatasetVersion: 1, Source: job.SnapshotManifest},
	}
	if mutation != job.MutationDrop {
		admit.Spec.IndexType, admit.Spec.Column, admit.Snapshot.SchemaContract = job.IndexBTree, "c", "{}"
	}
	for _, c := range []job.Command{
		job.ChangeSettings{Header: h, Values: []job.SettingValue{{Name: "admission.enabled", Value: "true"}}},
		job.PutCatalog{Header: h, Catalog: job.Catalog{Name: "c"}},
		job.AddBackend{Header: h, Address: job.Address{Host: "h", BePort: 1, HeartbeatPort: 2}},
		admit,
		job.MarkRunning{
			Header: h, Job: 1, Backend: 1, ProcessEpoch: 1, InvocationID: "inv", SecretHash: job.Hash{1}, DeadlineAt: 20,
		},
	} {
		if _, refusal := s.Apply(c); refusal != nil {
			t.Fatalf("%s was refused: %v", c.Name(), refusal)
		}
	}
	return s
}

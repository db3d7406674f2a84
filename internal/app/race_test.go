package app

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/gen-go/admin"
	"github.com/lancemaster/lancemaster/gen-go/shared"
	"github.com/lancemaster/lancemaster/internal/job"
)

func reaped() *shared.TLanceIndexTerminationProof {
	proof := shared.TLanceIndexTerminationProof_CHILD_REAPED
	return &proof
}

// A force release against a report of the same job: the report is kept either way. The
// release is at the revision it saw, so it comes first or not at all, and then says what
// the job is now.
func TestRaceForceReleaseAgainstReport(t *testing.T) {
	t.Parallel()
	r := newRing(t)
	list := r.jobs(run, lose)
	r.passed.Store(int64(time.Hour)) // it is not too early
	seen := make(map[job.ID]func(), races)
	saw := make(map[job.ID]<-chan struct{}, races)
	for _, rec := range list {
		ch := make(chan struct{})
		seen[rec.ID], saw[rec.ID] = sync.OnceFunc(func() { close(ch) }), ch
	}
	r.verified = func(id job.ID) {
		seen[id]()
		for range int(id%2) * 32 {
			runtime.Gosched() // the report has a longer way to the journal: every other time it gets ahead
		}
	}
	var score tally
	each(races, func(i int) {
		rec := list[i]
		var lost error
		both(i, func() {
			defer seen[rec.ID]()
			_, lost = r.releaser.ForceRelease(context.Background(), "ada", rec.ID, nil, "gone")
		}, func() {
			<-saw[rec.ID]
			r.result(rec, reaped())
		})
		now := r.job(rec.ID)
		if now.State != job.StateUnknown || len(now.LateResults) != 1 || now.Dispatch.Proof == job.ProofNone && len(now.Dispatch.Evidence) == 0 || now.HoldsSlot() {
			t.Errorf("the report was not kept whole: %+v", now)
		}
		if lost == nil {
			score.win("the release")
			if now.ForceRelease == nil || now.HoldsFence() {
				t.Errorf("the release was acknowledged and did nothing: %+v", now)
			}
			return
		}
		score.win("the report")
		present := presentOf(t, lost, job.CodeRevisionMismatch)
		if len(present.LateResults) != 1 || now.ForceRelease != nil || !now.HoldsFence() {
			t.Errorf("the release was refused and did something: %+v", now)
		}
	})
	score.wantBoth(t, "the release", "the report")
}

// Two force releases: both are told of the one that was done.
func TestRaceTwoForceReleases(t *testing.T) {
	t.Parallel()
	r := newRing(t)
	list := r.jobs(run, lose)
	r.passed.Store(int64(time.Hour)) // it is not too early
	var score tally
	each(races, func(i int) {
		answers := make([]*job.Record, 2)
		release := func(n int) func() {
			return func() {
				rec, err := r.releaser.ForceRelease(context.Background(), fmt.Sprint("operator ", n), list[i].ID, nil, "gone")
				if err != nil {
					t.Errorf("operator %d: %v", n, err)
					return
				}
				answers[n] = rec
			}
		}
		both(i, release(0), release(1))
		now := r.job(list[i].ID)
		if answers[0] == nil || answers[1] == nil || now.ForceRelease == nil {
			t.Errorf("job %d was not released: %+v", now.ID, now)
			return
		}
		for _, told := range answers {
			if told.ForceRelease == nil || *told.ForceRelease != *now.ForceRelease || now.Revision != list[i].Revision+1 {
				t.Errorf("told of %+v, and it is %+v at revision %d", told.ForceRelease, now.ForceRelease, now.Revision)
			}
		}
		score.win(now.ForceRelease.Actor)
	})
	score.wantBoth(t, "operator 0", "operator 1")
}

// A cancel against the dispatch of the job: one of them, by revision.
func TestRaceCancelAgainstDispatch(t *testing.T) {
	t.Parallel()
	r := newRing(t)
	list := r.jobs()
	var score tally
	each(races, func(i int) {
		id, revision := int64(list[i].ID), int64(list[i].Revision)
		var cancelled, sent error
		both(i, func() {
			_, cancelled = r.admin.CancelJob(context.Background(), &admin.TJobVerbRequest{JobID: &id, ExpectedRevision: &revision})
		}, func() {
			_, sent = r.propose(marking(list[i]))
		})
		now := r.job(list[i].ID)
		switch {
		case cancelled == nil && sent != nil:
			score.win("the cancel")
			present := presentOf(t, sent, job.CodeRevisionMismatch, job.CodeWrongState)
			if present.State != job.StateNotCommitted || now.State != job.StateNotCommitted || now.HoldsSlot() || now.HoldsFence() {
				t.Errorf("cancelled, and it is %+v", now)
			}
		case cancelled != nil && sent == nil:
			score.win("the dispatch")
			var told *admin.TAdminError
			if !errors.As(cancelled, &told) || told.Present == nil || told.Present.State != admin.TJobState_RUNNING || told.GetNextStep() == "" {
				t.Errorf("the loser was told %v", cancelled)
			}
			if now.State != job.StateRunning || !now.HoldsSlot() {
				t.Errorf("marked running, and it is %+v", now)
			}
		default:
			t.Errorf("the cancel ended with %v, the dispatch with %v: one of them must win", cancelled, sent)
		}
	})
	score.wantBoth(t, "the cancel", "the dispatch")
}

// A proof against a result: both apply, in either order.
func TestRaceProofAgainstResult(t *testing.T) {
	t.Parallel()
	r := newRing(t)
	list := r.jobs(run)
	var score tally
	each(races, func(i int) {
		both(i, func() { r.result(list[i], nil) }, func() { r.termination(list[i]) })
		now := r.job(list[i].ID)
		if now.State != job.StateCommitted || now.Refresh.State != job.RefreshRequired || now.HoldsSlot() ||
			now.Dispatch.Proof != job.ProofChildReaped || now.Revision != list[i].Revision+2 {
			t.Errorf("not both have applied: %+v", now)
		}
		events, _, err := r.machine.History(now.ID)
		if err != nil {
			t.Error(err)
			return
		}
		score.win(string(events[2].Kind))
	})
	score.wantBoth(t, string(job.EventCompleted), string(job.EventTermination))
}

// group is how many contests one change of a setting or a backend is part of.
const group = 20

// against races groups of commands with one change, which is undone after each group.
// What is ordered after the change is refused, what is before it applies.
func (r *ring) against(list []job.Command, change, undo job.Command, code job.Code, refused func(i int)) {
	r.t.Helper()
	var score tally
	for begin := 0; begin < len(list); begin += group {
		errs := make([]error, group)
		each(group+1, func(i int) {
			if i == group/2 {
				r.must(change)
				return
			}
			if i > group/2 {
				i--
			}
			_, errs[i] = r.propose(list[begin+i])
		})
		for i, err := range errs {
			refusal, _ := job.AsRefusal(err)
			switch {
			case err == nil:
				score.win("the job")
			case refusal != nil && refusal.Code == code && refusal.Next != "":
				score.win("the change")
				refused(begin + i)
			default:
				r.t.Errorf("%s ended with %v", list[begin+i].Name(), err)
			}
		}
		r.must(undo)
	}
	score.wantBoth(r.t, "the job", "the change")
}

func (r *ring) markings(list []*job.Record) []job.Command {
	out := make([]job.Command, len(list))
	for i, rec := range list {
		out[i] = marking(rec)
	}
	return out
}

func (r *ring) stillPending(list []*job.Record) func(int) {
	return func(i int) {
		if now := r.job(list[i].ID); now.State != job.StatePending || now.Revision != 0 || now.HoldsSlot() {
			r.t.Errorf("refused, and it is %+v", now)
		}
	}
}

// slotsAreHeldByTheRunning: no refused dispatch took a slot, and no applied one lacks it.
func (r *ring) slotsAreHeldByTheRunning() {
	r.machine.Read(func(l *job.Live) {
		if held, running := l.SlotsHeld(1), len(l.Running()); held != running || held == 0 {
			r.t.Errorf("%d slots are held by %d RUNNING jobs", held, running)
		}
	})
}

func setting(name, value string) job.Command {
	return job.ChangeSettings{Header: head(), Values: []job.SettingValue{{Name: name, Value: value}}}
}

// Dispatch that is paused while jobs are on their way to RUNNING.
func TestRacePauseAgainstDispatch(t *testing.T) {
	t.Parallel()
	r := newRing(t)
	list := r.jobs()
	r.against(r.markings(list), setting("dispatch.paused", "true"), setting("dispatch.paused", "false"),
		job.CodeDispatchPaused, r.stillPending(list))
	r.slotsAreHeldByTheRunning()
}

// A backend that is drained while jobs are on their way to it.
func TestRaceDrainAgainstDispatch(t *testing.T) {
	t.Parallel()
	r := newRing(t)
	list := r.jobs()
	r.against(r.markings(list), job.SetBackendState{Header: head(), Backend: 1, State: job.BackendDraining},
		job.SetBackendState{Header: head(), Backend: 1, State: job.BackendActive}, job.CodeBackendNotActive, r.stillPending(list))
	r.slotsAreHeldByTheRunning()
}

// A gate that closes while admissions are in flight: what is refused leaves nothing.
func TestRaceGateAgainstAdmission(t *testing.T) {
	r := newRing(t)
	list := make([]job.Command, races)
	for i := range list {
		list[i] = admitting(i)
	}
	refused := 0
	r.against(list, setting("admission.enabled", "false"), setting("admission.enabled", "true"), job.CodeGateClosed, func(i int) {
		refused++
		if _, held := r.fenceOwner(admitting(i).Target.Fence()); held {
			t.Errorf("admission %d was refused and holds its name", i)
		}
	})
	r.machine.Read(func(l *job.Live) {
		if n := l.Unresolved(); n != races-refused || l.UnresolvedInCatalog("c") != n || len(l.Pending()) != n {
			t.Errorf("%d jobs are unresolved after %d admissions of which %d were refused", n, races, refused)
		}
		if next := l.Cluster().NextJob; next != job.ID(races-refused+1) {
			t.Errorf("the next job is %d: a refused admission used up an id", next)
		}
	})
}

func (r *ring) fenceOwner(k job.FenceKey) (id job.ID, held bool) {
	r.machine.Read(func(l *job.Live) { id, held = l.FenceOwner(k) })
	return id, held
}

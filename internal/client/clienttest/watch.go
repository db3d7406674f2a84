package clienttest

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/lancemaster/lancemaster/gen-go/admin"
)

// firstIndex is where the world's journal begins for those who watch it: the events
// of its jobs come after it, and what Next adds is journaled when it is watched.
const firstIndex = 40

// event writes down a step of a job at the next index.
func (w *world) event(j *admin.TJob, kind, actor, reason string, from admin.TJobState) {
	w.index++
	e := &admin.TJobEvent{
		JobID: j.JobID, Revision: j.Revision, RaftIndex: w.index, RaftTerm: 4, AtMs: at(int(w.index)), Actor: actor, Kind: kind,
		ToState: j.State, ToRefresh: j.Refresh.State, Reason: reason,
	}
	if from != 0 {
		notRequired := admin.TRefreshState_NOT_REQUIRED
		e.FromState, e.FromRefresh = &from, &notRequired
	}
	w.events = append(w.events, e)
}

// watch answers with what happened after an index, and where nothing did lets the
// next step of a job happen first. Index 0 begins with the admission of a job.
func (w *world) watch(r *admin.TWatchJobsRequest) (*admin.TWatchJobsResponse, error) {
	out := &admin.TWatchJobsResponse{Events: []*admin.TJobEvent{}, NextIndex: w.index}
	if r.JobID != nil {
		j, err := w.job(r.GetJobID())
		if err != nil {
			return nil, err
		}
		w.admitted(j)
		out.NextIndex = w.index
	}
	if r.AfterIndex != nil {
		w.step(r.GetAfterIndex(), r.JobID)
		for _, e := range w.events {
			if e.RaftIndex > r.GetAfterIndex() && (r.JobID == nil || e.JobID == r.GetJobID()) {
				out.Events = append(out.Events, e)
			}
		}
		if n := len(out.Events); n > 0 {
			out.NextIndex = out.Events[n-1].RaftIndex
		}
	}
	if r.JobID != nil {
		out.Job = w.jobs[r.GetJobID()]
	}
	return out, nil
}

// admitted journals a job's admission, once.
func (w *world) admitted(j *admin.TJob) {
	if slices.ContainsFunc(w.events, func(e *admin.TJobEvent) bool { return e.JobID == j.JobID }) {
		return
	}
	first := *j
	first.Revision = 0
	w.event(&first, "ADMITTED", j.Creator, "", 0)
}

// step takes one job's next step, the lowest id first, if there is nothing to tell
// yet.
func (w *world) step(after int64, only *int64) {
	if len(w.events) > 0 && w.events[len(w.events)-1].RaftIndex > after {
		return
	}
	var ids []int64
	for id, steps := range w.steps {
		if len(steps) > 0 && (only == nil || *only == id) {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return
	}
	slices.SortFunc(ids, cmp.Compare)
	id := ids[0]
	from := w.jobs[id].State
	j := w.change(w.jobs[id], w.steps[id][0])
	w.steps[id] = w.steps[id][1:]
	kind, reason := "COMPLETED", ""
	switch {
	case j.State == admin.TJobState_RUNNING:
		kind, reason = "MARK_RUNNING", "backend 1"
	case j.Refresh.State == admin.TRefreshState_DONE:
		kind, reason = "REFRESH_DONE", j.Refresh.Evidence
	case j.ForceRelease != nil:
		kind, reason = "FORCE_RELEASED", j.ForceRelease.Note
	case j.Result_ != nil:
		reason = j.Result_.Code
	}
	w.event(j, kind, "system", reason, from)
}

func (w *world) forceRelease(id int64, note string) (*admin.TJob, error) {
	j, err := w.job(id)
	if err != nil {
		return nil, err
	}
	if j.ForceRelease != nil {
		return j, nil
	}
	if j.State != admin.TJobState_UNKNOWN {
		return nil, &admin.TAdminError{
			Code: admin.TAdminErrorCode_WRONG_STATE, Message: fmt.Sprintf("job %d was not force released: it is %s", id, j.State), Present: j,
			NextStep: ptr("only an UNKNOWN job can be force released; others are resolved by their outcome"),
		}
	}
	return w.change(j, func(j *admin.TJob) {
		j.ForceRelease = &admin.TJobRelease{Actor: "unverified:ada", AtMs: at(500), Note: note, Warning: warning}
		j.SlotHeld, j.Dispatch.SlotHeld = false, false
		resolve(j, 500)
	}), nil
}

func (w *world) explain(id int64) (*admin.TExplainJobResponse, error) {
	j, err := w.job(id)
	if err != nil {
		return nil, err
	}
	out := &admin.TExplainJobResponse{Job: j, Reasons: []*admin.TReason{}}
	switch j.State {
	case admin.TJobState_PENDING:
		out.Reasons = append(out.Reasons,
			&admin.TReason{
				Code: "NO_ELIGIBLE_BACKEND", Message: "none of the 2 registered backends can take it now",
				NextStep: ptr("see: lancemaster backend list"),
			},
			&admin.TReason{Code: "SLOTS_FULL", Message: "backend 1 (10.0.0.7:9060): 2 of 2 slots are held"},
			&admin.TReason{Code: "BACKEND_DRAINING", Message: "backend 2 (10.0.0.8:9060): it is draining", NextStep: ptr("lancemaster backend undrain 2")})
	case admin.TJobState_UNKNOWN:
		out.Reasons = append(out.Reasons, &admin.TReason{
			Code: "OUTCOME_UNKNOWN", Message: "nobody can tell whether the dataset was changed", NextStep: ptr("look at the dataset with a Lance client"),
		}, &admin.TReason{
			Code: "FENCE_HELD", Message: "it holds the index name \x1b[31mtitle_idx", NextStep: ptr(fmt.Sprintf("lancemaster job force-release %d --note TEXT", id)),
		})
	case admin.TJobState_NOT_COMMITTED:
		out.Reasons = append(out.Reasons,
			&admin.TReason{Code: "OUTCOME", Message: fmt.Sprintf("%s, reported by backend 1 at 2026-03-01T12:01:10Z: %s", j.Result_.Code, j.Result_.Message)},
			&admin.TReason{Code: "CLOSED", Message: "it waits for nothing and holds nothing"})
	case admin.TJobState_RUNNING, admin.TJobState_COMMITTED:
	}
	return out, nil
}

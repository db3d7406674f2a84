package rpc

import (
	"context"
	"fmt"
	"time"

	"github.com/lancemaster/lancemaster/gen-go/admin"
	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/thriftnet"
)

// Bounds of a long poll, in milliseconds.
const (
	defaultWait = 30_000
	maxWait     = 60_000
)

func waitOf(f *fields, ms *int64) time.Duration {
	return time.Duration(f.upTo("wait_ms", ms, maxWait, defaultWait)) * time.Millisecond
}

// WaitJob answers when a job's revision is above one, or the wait is over, or this server begins to
// stop; with the job as it then is.
func (a *Admin) WaitJob(ctx context.Context, req *admin.TWaitJobRequest) (*admin.TJob, error) {
	return serve(ctx, a, "waitJob", req, (*remote).WaitJob, func(c call) (*admin.TJob, error) {
		var f fields
		wait := waitOf(&f, req.WaitMs)
		after := job.Revision(-1)
		if req.AfterRevision != nil {
			after = job.Revision(*req.AfterRevision)
		}
		if f.refusal != nil {
			return nil, f.refusal
		}
		var rec *job.Record
		err := a.wait(c, wait, func() (over bool, err error) {
			if rec, err = a.job(req.JobID); err != nil {
				return false, err
			}
			return rec.Revision > after, nil
		})
		if err != nil {
			return nil, err
		}
		return a.wireJob(rec), nil
	})
}

// wait calls look at each applied change until it is satisfied, the time is up, or nobody waits any
// more. An answer that tells of no change is as current as one that does: this node may have been
// deposed meanwhile, and its state be old.
func (a *Admin) wait(c call, wait time.Duration, look func() (bool, error)) error {
	over := time.NewTimer(wait)
	defer over.Stop()
	for {
		changed := a.cfg.State.AppliedChanged() // before the look, or a change in between goes unseen
		if satisfied, err := look(); satisfied || err != nil {
			return err
		}
		select {
		case <-changed:
			continue
		case <-over.C:
		case <-thriftnet.Draining(c):
		case <-thriftnet.Gone(c):
		case <-c.Done():
		}
		if !c.stale {
			if err := a.barrier(c); err != nil {
				return err
			}
		}
		_, err := look()
		return err
	}
}

// defaultEvents is how many events one answer to a watch holds, where the request does not say.
const defaultEvents = 100

// watch is one request for events.
type watch struct {
	after uint64
	job   *int64
	limit int
}

// WatchJobs answers with the events after an index of the Raft log, as soon as there are any.
func (a *Admin) WatchJobs(ctx context.Context, req *admin.TWatchJobsRequest) (*admin.TWatchJobsResponse, error) {
	return serve(ctx, a, "watchJobs", req, (*remote).WatchJobs, func(c call) (*admin.TWatchJobsResponse, error) {
		var f fields
		w := watch{job: req.JobID, limit: int(f.upTo("limit", wide(req.Limit), job.MaxPageLimit, defaultEvents))}
		wait := waitOf(&f, req.WaitMs)
		newest := a.cfg.State.Applied().Index
		w.after = newest
		if req.AfterIndex != nil {
			if *req.AfterIndex < 0 {
				f.refuse("the index to watch from", fmt.Sprintf("is %d; it must not be negative", *req.AfterIndex))
			}
			w.after = uint64(*req.AfterIndex)
		}
		if f.refusal != nil {
			return nil, f.refusal
		}
		if w.after > newest {
			return nil, &job.Refusal{
				Code:    job.CodeInvalid,
				Message: fmt.Sprintf("the index to watch from is %d, but the newest entry of this cluster's log is %d", w.after, newest),
				Next:    "the cluster was restored, or is another one; watch again without an index, or from 0",
			}
		}
		var answer *admin.TWatchJobsResponse
		err := a.wait(c, wait, func() (over bool, err error) {
			answer, err = a.events(w)
			return err != nil || len(answer.Events) > 0 || req.AfterIndex == nil, err
		})
		return answer, err
	})
}

// events looks once. What it reads last is the newest, so that the index to go on from skips nothing
// and the job is no newer than its events.
func (a *Admin) events(w watch) (*admin.TWatchJobsResponse, error) {
	answer := &admin.TWatchJobsResponse{Events: []*admin.TJobEvent{}}
	next := max(a.cfg.State.Applied().Index, w.after)
	var events []job.Event
	var err error
	if w.job == nil {
		events, err = a.cfg.State.EventsAfter(w.after, w.limit)
	} else {
		var rec *job.Record
		if rec, err = a.job(w.job); err != nil {
			return nil, err
		}
		answer.Job = a.wireJob(rec)
		events, _, err = a.cfg.State.History(rec.ID)
	}
	if err != nil {
		return nil, inside(err)
	}
	for i := range events {
		if e := &events[i]; e.Index > w.after {
			answer.Events = append(answer.Events, wireEvent(e))
			next = e.Index
		}
	}
	answer.NextIndex = int64(next)
	return answer, nil
}

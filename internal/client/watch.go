package client

import (
	"context"
	"time"

	"github.com/lancemaster/lancemaster/gen-go/admin"
)

// Events is one answer to a watch.
type Events struct {
	Events []Event `json:"events"` // in the order of the log; empty when the wait was over
	Next   int64   `json:"next_index"`
	Job    *Job    `json:"job,omitempty"` // of a watch on one job: no newer than the events
}

// FromNow watches what is journaled from now on.
const FromNow int64 = -1

// WatchJobs answers once there are events after an index of the log, or after wait
// without any. With FromNow it answers at once, with the index to go on from. JobID 0
// means all jobs. It is one call; see Watch for one that survives a master.
func (c *Client) WatchJobs(ctx context.Context, after, jobID int64, wait time.Duration) (*Events, error) {
	ms := min(max(wait, time.Millisecond), MaxWait).Milliseconds()
	request := &admin.TWatchJobsRequest{Ctx: c.caller(), WaitMs: &ms}
	if after != FromNow {
		request.AfterIndex = &after
	}
	if jobID != 0 {
		request.JobID = &jobID
	}
	op := read("watching jobs")
	op.extra = min(wait, MaxWait)
	answer, err := invoke(ctx, c, op, func(ctx context.Context, a *admin.AdminServiceClient) (*admin.TWatchJobsResponse, error) {
		return a.WatchJobs(ctx, request)
	})
	if err != nil {
		return nil, err
	}
	out := &Events{Events: []Event{}, Next: answer.NextIndex}
	for _, e := range answer.Events {
		out.Events = append(out.Events, eventOf(e))
	}
	if answer.Job != nil {
		out.Job = jobOf(answer.Job)
	}
	if out.Next < after || jobID != 0 && out.Job == nil {
		return nil, &Error{Code: CodeBadReply, Message: "the answer to the watch does not fit the question"}
	}
	return out, nil
}

// Watch says what to watch and whom to tell.
type Watch struct {
	JobID int64 // 0: all jobs
	After int64 // an index of the log, or FromNow
	// Seen is told of each answer, one without events too; it ends the watch by true.
	Seen func(*Events) (done bool)
	// Lost, if set, is told when no master can be asked for the moment, and Found
	// when one can again.
	Lost  func(error)
	Found func()
}

// Watch follows the events across lost connections, restarts and changes of the
// leader, without missing or repeating one, as long as ctx lasts or until Seen ends
// it. Only the first answer must come. It returns the index to go on from and, when
// ctx ended the watch, ctx's error.
func (c *Client) Watch(ctx context.Context, w Watch) (next int64, err error) {
	next, first, lost, pause := w.After, true, false, followPause
	for {
		begun := time.Now()
		got, err := c.WatchJobs(ctx, next, w.JobID, pollFor(first || lost))
		switch {
		case err == nil:
			if lost && w.Found != nil {
				w.Found()
			}
			moved := first || lost || got.Next > next
			next, first, lost = got.Next, false, false
			if w.Seen(got) {
				return next, nil
			}
			if moved || time.Since(begun) >= followPause {
				pause = followPause
				continue
			}
			// A master that does not hold the call back must not be asked in a loop.
		case over(ctx):
			return next, endOf(ctx)
		case first || !Transient(err):
			return next, err
		default:
			if !lost && w.Lost != nil {
				w.Lost(err)
			}
			lost = true
		}
		if c.pause(ctx, pause) != nil {
			return next, endOf(ctx)
		}
		pause = min(2*pause, maxPause)
	}
}

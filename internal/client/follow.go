package client

import (
	"context"
	"time"
)

const (
	followWait  = 30 * time.Second // one long poll
	followPause = 500 * time.Millisecond
)

// Follow says what to wait for and whom to tell.
type Follow struct {
	// Until ends the wait; it is asked about the job as first seen, too.
	Until func(*Job) bool
	// Seen, if set, is told of each revision that this client came to see.
	Seen func(*Job)
	// Lost, if set, is told when no master can be asked for the moment, and Found
	// when one can again.
	Lost  func(error)
	Found func()
}

// Follow waits until a job is as wanted, across lost connections, restarts and
// changes of the leader, as long as ctx lasts. Only the first look must succeed. When
// ctx ends first it returns the job as last seen together with ctx's error.
func (c *Client) Follow(ctx context.Context, id int64, f Follow) (*Job, error) {
	j, err := c.Job(ctx, id)
	if err != nil {
		return nil, err
	}
	return c.FollowFrom(ctx, j, f)
}

// FollowFrom is Follow for a job seen already.
func (c *Client) FollowFrom(ctx context.Context, j *Job, f Follow) (*Job, error) {
	if f.Seen != nil {
		f.Seen(j)
	}
	lost, pause := false, followPause
	for !f.Until(j) {
		if over(ctx) {
			return j, endOf(ctx)
		}
		begun := time.Now()
		next, err := c.WaitJob(ctx, j.ID, j.Revision, pollFor(lost))
		found := lost && err == nil
		if found {
			lost, pause = false, followPause
			if f.Found != nil {
				f.Found()
			}
		}
		switch {
		case err == nil && next.Revision > j.Revision:
			j, pause = next, followPause
			if f.Seen != nil {
				f.Seen(j)
			}
			continue
		case err == nil:
			if found || time.Since(begun) >= followPause {
				continue // the wait was over
			}
			// A master that does not hold the call back must not be asked in a loop.
		case over(ctx):
			return j, endOf(ctx)
		case !Transient(err):
			return j, err
		default:
			if !lost && f.Lost != nil {
				f.Lost(err)
			}
			lost = true
		}
		if c.pause(ctx, pause) != nil {
			return j, endOf(ctx)
		}
		pause = min(2*pause, maxPause)
	}
	return j, nil
}

// pollFor is how long a master may hold its answer back. Where none answered before, it
// is to say at once that it is there.
func pollFor(short bool) time.Duration {
	if short {
		return time.Millisecond
	}
	return followWait
}

// endOf is why a context is over.
func endOf(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return context.DeadlineExceeded // its timer has not fired yet
}

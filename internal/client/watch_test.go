package client_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/internal/client"
	"github.com/lancemaster/lancemaster/internal/client/clienttest"
)

// seen collects what a watch tells.
type seen struct {
	said []string
	stop func(*client.Events) bool
}

func (s *seen) watch(id, after int64) client.Watch {
	return client.Watch{
		JobID: id, After: after,
		Seen: func(e *client.Events) bool {
			for _, event := range e.Events {
				s.said = append(s.said, fmt.Sprint(event.RaftIndex, event.Kind))
			}
			return s.stop(e)
		},
		Lost:  func(error) { s.said = append(s.said, "lost") },
		Found: func() { s.said = append(s.said, "found") },
	}
}

func (s *seen) want(t *testing.T, want string) {
	t.Helper()
	if got := strings.Join(s.said, " "); got != want {
		t.Errorf("the watch told %q, want %q", got, want)
	}
}

func resolved(e *client.Events) bool { return e.Job != nil && e.Job.Terminal() && e.Job.Resolved() }

func TestWatchOneJob(t *testing.T) {
	s := clienttest.New(t)
	s.Next(5, "RUNNING", "COMMITTED", "REFRESHED")
	c, _ := newClient(t, s.Addr())
	w := &seen{stop: resolved}
	next, err := c.Watch(t.Context(), w.watch(5, 0))
	if err != nil || next != 44 {
		t.Fatalf("it ended at %d, %v", next, err)
	}
	w.want(t, "41ADMITTED 42MARK_RUNNING 43COMPLETED 44REFRESH_DONE")
}

// Lost connections and a master without a leader are waited out; nothing is told
// twice and nothing is left out.
func TestWatchSurvives(t *testing.T) {
	s := clienttest.New(t)
	s.Next(5, "RUNNING", "NOT_COMMITTED")
	lost := slices.Repeat([]clienttest.Behavior{{Drop: true, Served: true}}, 2*client.MaxRounds)
	s.Script("watchJobs", slices.Concat([]clienttest.Behavior{{NoHold: true}}, lost,
		slices.Repeat([]clienttest.Behavior{unavailable(), notLeader("")}, client.MaxRounds))...)
	c, _ := newClient(t, s.Addr())
	w := &seen{stop: resolved}
	if _, err := c.Watch(t.Context(), w.watch(5, 0)); err != nil {
		t.Fatal(err)
	}
	w.want(t, "41ADMITTED lost found 42MARK_RUNNING 43COMPLETED")
}

// A watch from now learns where that is before anything can be lost.
func TestWatchFromNow(t *testing.T) {
	s := clienttest.New(t)
	s.Next(5, "RUNNING")
	s.Next(4, "UNKNOWN")
	c, _ := newClient(t, s.Addr())
	w := &seen{stop: func(e *client.Events) bool { return e.Next == 42 }}
	next, err := c.Watch(t.Context(), w.watch(0, client.FromNow))
	if err != nil || next != 42 {
		t.Fatalf("it ended at %d, %v", next, err)
	}
	w.want(t, "41COMPLETED 42MARK_RUNNING")
	if first := s.Requests()[0]; first != `watchJobs {"wait_ms":1}` {
		t.Errorf("it began with %s", first)
	}
}

func TestWatchNeedsTheFirstAnswer(t *testing.T) {
	c, _ := newClient(t, closedAddr(t))
	w := &seen{stop: resolved}
	if _, err := c.Watch(t.Context(), w.watch(0, client.FromNow)); !client.IsCode(err, client.CodeUnreachable) {
		t.Errorf("%v", err)
	}
	s := clienttest.New(t)
	c, _ = newClient(t, s.Addr())
	if _, err := c.Watch(t.Context(), w.watch(99, 0)); !client.IsCode(err, "NOT_FOUND") {
		t.Errorf("%v", err)
	}
	w.want(t, "")
}

// TestWatchStops at an error that no waiting mends, such as the job's removal.
func TestWatchStops(t *testing.T) {
	s := clienttest.New(t)
	s.Script("watchJobs", clienttest.Behavior{NoHold: true},
		clienttest.Behavior{Refusal: &clienttest.Refusal{Code: "NOT_FOUND", Message: "there is no job 5"}})
	c, _ := newClient(t, s.Addr())
	w := &seen{stop: resolved}
	next, err := c.Watch(t.Context(), w.watch(5, 0))
	wantCode(t, err, "NOT_FOUND")
	if next != 41 {
		t.Errorf("it went as far as %d", next)
	}
}

func TestWatchIsBounded(t *testing.T) {
	s := clienttest.New(t)
	c, _ := newClient(t, s.Addr())
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	w := &seen{stop: resolved}
	next, err := c.Watch(ctx, w.watch(4, 0))
	if !errors.Is(err, context.DeadlineExceeded) || next != 41 {
		t.Errorf("it ended at %d, %v", next, err)
	}
}

// A master that answers each wait at once is asked at intervals all the same.
func TestWatchDoesNotSpin(t *testing.T) {
	s := clienttest.New(t)
	s.Always("watchJobs", clienttest.Behavior{NoHold: true})
	c, p := newClient(t, s.Addr())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	asked := 0
	w := &seen{stop: func(*client.Events) bool {
		if asked++; asked == 5 {
			cancel()
		}
		return false
	}}
	if _, err := c.Watch(ctx, w.watch(4, 41)); err == nil {
		t.Error("it ended without an error")
	}
	if n := p.count(); n < 3 {
		t.Errorf("it paused %d times between 5 answers", n)
	}
}

func TestForceReleaseIsRepeated(t *testing.T) {
	s := clienttest.New(t)
	s.Script("forceReleaseJob", clienttest.Behavior{Drop: true, Served: true}, clienttest.Behavior{Drop: true})
	c, _ := newClient(t, s.Addr())
	j, err := c.ForceRelease(t.Context(), client.JobVerb{JobID: 2, Note: "it burned"})
	if err != nil || j.ForceRelease == nil || j.ForceRelease.Note != "it burned" || j.FenceHeld {
		t.Errorf("%+v, %v", j, err)
	}
}

func TestExplain(t *testing.T) {
	s := clienttest.New(t)
	c, _ := newClient(t, s.Addr())
	x, err := c.Explain(t.Context(), 5)
	if err != nil || x.Job.ID != 5 || len(x.Reasons) != 3 || x.Reasons[0].Code != "NO_ELIGIBLE_BACKEND" || x.Reasons[0].Next == "" {
		t.Errorf("%+v, %v", x, err)
	}
}

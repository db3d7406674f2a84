package client_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/internal/client"
	"github.com/lancemaster/lancemaster/internal/client/clienttest"
)

// watch collects what a wait tells.
type watch struct{ said []string }

func (w *watch) follow() client.Follow {
	return client.Follow{
		Until: func(j *client.Job) bool { return j.Terminal() && j.Resolved() },
		Seen:  func(j *client.Job) { w.said = append(w.said, j.State) },
		Lost:  func(error) { w.said = append(w.said, "lost") },
		Found: func() { w.said = append(w.said, "found") },
	}
}

func (w *watch) want(t *testing.T, want string) {
	t.Helper()
	if got := strings.Join(w.said, " "); got != want {
		t.Errorf("the wait told %q, want %q", got, want)
	}
}

func TestFollow(t *testing.T) {
	s := clienttest.New(t)
	s.Next(5, "RUNNING", "COMMITTED", "REFRESHED")
	c, _ := newClient(t, s.Addr())
	w := &watch{}
	j, err := c.Follow(t.Context(), 5, w.follow())
	if err != nil || j.State != client.StateCommitted || j.Refresh.State != "DONE" {
		t.Fatalf("%+v, %v", j, err)
	}
	w.want(t, "PENDING RUNNING COMMITTED COMMITTED")
}

// TestFollowSurvives: lost connections, a master that stops, and an election.
func TestFollowSurvives(t *testing.T) {
	s := clienttest.New(t)
	s.Next(5, "RUNNING", "NOT_COMMITTED")
	lost := slices.Repeat([]clienttest.Behavior{{Drop: true}}, 2*client.MaxRounds)
	s.Script("waitJob", slices.Concat(lost, slices.Repeat([]clienttest.Behavior{unavailable(), notLeader("")}, client.MaxRounds))...)
	c, _ := newClient(t, s.Addr())
	w := &watch{}
	j, err := c.Follow(t.Context(), 5, w.follow())
	if err != nil || j.State != client.StateNotCommitted {
		t.Fatalf("%+v, %v", j, err)
	}
	w.want(t, "PENDING lost found RUNNING NOT_COMMITTED")
}

func TestFollowNeedsTheFirstLook(t *testing.T) {
	c, _ := newClient(t, closedAddr(t))
	if _, err := c.Follow(t.Context(), 5, (&watch{}).follow()); !client.IsCode(err, client.CodeUnreachable) {
		t.Errorf("%v", err)
	}
	s := clienttest.New(t)
	c, _ = newClient(t, s.Addr())
	if _, err := c.Follow(t.Context(), 99, (&watch{}).follow()); !client.IsCode(err, "NOT_FOUND") {
		t.Errorf("%v", err)
	}
}

// TestFollowStops at an error that no waiting mends.
func TestFollowStops(t *testing.T) {
	s := clienttest.New(t)
	s.Script("waitJob", clienttest.Behavior{Refusal: &clienttest.Refusal{Code: "PERMISSION", Message: "not yours"}})
	c, _ := newClient(t, s.Addr())
	j, err := c.Follow(t.Context(), 4, (&watch{}).follow())
	wantCode(t, err, "PERMISSION")
	if j == nil || j.ID != 4 {
		t.Errorf("the job as last seen is %+v", j)
	}
}

func TestFollowIsBounded(t *testing.T) {
	s := clienttest.New(t)
	c, _ := newClient(t, s.Addr())
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	begun := time.Now()
	j, err := c.Follow(ctx, 4, (&watch{}).follow())
	if !errors.Is(err, context.DeadlineExceeded) || j == nil || j.State != client.StateRunning {
		t.Errorf("%+v, %v", j, err)
	}
	if took := time.Since(begun); took > 3*time.Second {
		t.Errorf("it took %s", took)
	}
}

// TestFollowDoesNotSpin: a master that answers each wait at once is asked at
// intervals all the same.
func TestFollowDoesNotSpin(t *testing.T) {
	s := clienttest.New(t)
	s.Script("waitJob", slices.Repeat([]clienttest.Behavior{{NoHold: true}}, 4)...)
	s.Next(4, "NOT_COMMITTED")
	c, p := newClient(t, s.Addr())
	// The first call takes the step; the three that remain find nothing new.
	_, err := c.Follow(t.Context(), 4, client.Follow{Until: func(j *client.Job) bool { return p.count() == 3 }})
	if err != nil {
		t.Fatal(err)
	}
	if len(p.list) != 3 || p.list[0] < 100*time.Millisecond || p.list[2] <= p.list[0] {
		t.Errorf("the pauses were %v", p.list)
	}
}

// TestFoundIsToldAtOnce: a master that answers again is told of although the job does
// not move, before the next long poll is over.
func TestFoundIsToldAtOnce(t *testing.T) {
	for _, what := range []string{"waitJob", "watchJobs"} {
		t.Run(what, func(t *testing.T) {
			s := clienttest.New(t)
			c, _ := newClient(t, s.Addr())
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			var said []string
			lost := func(error) { said = append(said, "lost") }
			found := func() { said = append(said, "found"); cancel() }
			gone := slices.Repeat([]clienttest.Behavior{unavailable()}, client.MaxRounds)
			var err error
			if what == "waitJob" {
				s.Script(what, gone...)
				_, err = c.Follow(ctx, 4, client.Follow{Until: (*client.Job).Terminal, Lost: lost, Found: found})
			} else {
				s.Script(what, append([]clienttest.Behavior{{NoHold: true}}, gone...)...)
				_, err = c.Watch(ctx, client.Watch{JobID: 4, Seen: func(*client.Events) bool { return false }, Lost: lost, Found: found})
			}
			if got := strings.Join(said, " "); got != "lost found" || !errors.Is(err, context.Canceled) && !client.IsCode(err, client.CodeCanceled) {
				t.Errorf("it told %q and ended with %v", got, err)
			}
		})
	}
}

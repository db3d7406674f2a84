package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/lancemaster/lancemaster/internal/client"
)

// goal is what to wait for.
type goal struct {
	forWhat string // terminal or resolved
	timeout time.Duration
}

func (g goal) check() error {
	if g.forWhat != "terminal" && g.forWhat != "resolved" {
		return usagef("--for %q is not terminal or resolved", g.forWhat)
	}
	if g.timeout < 0 {
		return usagef("--timeout %s is negative; 0 waits without limit", g.timeout)
	}
	return nil
}

func (g goal) reached(j *client.Job) bool {
	return j.Terminal() && (g.forWhat != "resolved" || j.Resolved())
}

// follow waits for a job and tells its steps on stderr. Its error is nil when the
// goal was reached, and then says nothing about the outcome.
func (a *cli) follow(ctx context.Context, c *client.Client, j *client.Job, g goal) (*client.Job, error) {
	if g.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, g.timeout)
		defer cancel()
	}
	interruptible, end := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer end()
	p := a.showProgress(interruptible, waitsFor(c, j.ID))
	last, err := c.FollowFrom(interruptible, j, client.Follow{
		Until: g.reached,
		Seen: func(j *client.Job) {
			fmt.Fprintf(a.Err, "job %d: %s\n", j.ID, clean(step(j)))
			p.say(fmt.Sprintf("job %d: %s", j.ID, clean(step(j))))
		},
		Lost:  func(err error) { a.lost("waiting", err) },
		Found: a.found,
	})
	p.close()
	interrupted := err != nil && ctx.Err() == nil && interruptible.Err() != nil
	if interrupted || errors.Is(err, context.DeadlineExceeded) {
		next := fmt.Sprintf("wait on with: lancemaster job wait %d", j.ID)
		if g.forWhat == "resolved" {
			next += " --for=resolved"
		}
		next += fmt.Sprintf("; see why it waits with: lancemaster job explain %d", j.ID)
		if interrupted {
			return last, &statusError{
				status: exitFailed, message: fmt.Sprintf("the wait was ended; job %d is not %s yet and goes on", j.ID, g.forWhat), next: next,
			}
		}
		return last, &statusError{
			status:  exitTimedOut,
			message: fmt.Sprintf("job %d is not %s after %s; it goes on", j.ID, g.forWhat, client.Duration(g.timeout)),
			next:    next,
		}
	}
	return last, err
}

// lost and found tell of an outage: a line when it begins and one when it is over. The
// code says enough for a line that asks nothing of its reader.
func (a *cli) lost(doing string, err error) {
	code := ""
	var e *client.Error
	if errors.As(err, &e) {
		code = fmt.Sprintf(" (%s)", clean(e.Code))
	}
	fmt.Fprintf(a.Err, "no master answers for now, still %s%s\n", doing, code)
}

func (a *cli) found() { fmt.Fprintln(a.Err, "a master answers again") }

// step says in a few words where a job is.
func step(j *client.Job) string {
	s := j.State
	switch {
	case j.State == client.StateRunning && j.Dispatch != nil:
		s += fmt.Sprintf(" on backend %d", j.Dispatch.BackendID)
	case j.Noop():
		s += ", nothing to do"
	case j.Terminal() && j.Refresh.State != "NOT_REQUIRED":
		s += ", refresh " + j.Refresh.State
	}
	if j.Terminal() {
		s += map[bool]string{true: ", name held", false: ", name free"}[j.FenceHeld]
	}
	return s
}

// outcome turns a settled job into an exit status.
func outcome(j *client.Job) error {
	switch {
	case j.State == client.StateCommitted || j.Noop():
		return nil
	case j.State == client.StateNotCommitted:
		return &statusError{status: exitNotCommitted}
	}
	return &statusError{status: exitUnknown}
}

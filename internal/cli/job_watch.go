package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lancemaster/lancemaster/internal/client"
)

const watchLong = `Print each step of one job, or of all, as it is journaled: one line a step, or with -o json one JSON object
a line, with -o yaml one document a step. A line begins with the step's index in the log, which is the
place to go on from with --from-index.

Of one job the watch begins with what is kept of its past; of all jobs it begins now. It goes on across
lost connections, restarts of masters and changes of the leader, and neither repeats a step nor misses
one that is kept. On a terminal the last line of stderr says how things stand. It ends with Ctrl-C, or of
one job with --until: "terminal" at the outcome, "resolved" when the index name is free too.

Not everything is kept for ever. Of a job with very many steps the first 16 and the last 112 are; a watch
that comes after the others were dropped goes on behind them, and of one job says so on stderr. When
retention removes a job its steps go with it: a watch of all jobs from before then does not show them,
and a watch of that job ends with NOT_FOUND. After a restore the log may be shorter than --from-index,
which is refused.

`

// watching is one run of job watch.
type watching struct {
	a     *cli
	id    int64 // 0: all jobs
	until goal
	last  int64 // the job's newest revision seen; -1 before the first
	job   *client.Job
	steps int // seen so far
	shown *progress
}

func (a *cli) jobWatchCmd() *cobra.Command {
	var until string
	var from int64
	cmd := a.leaf(&cobra.Command{
		Use:   "watch [JOB]",
		Short: "Print each step of a job, or of all jobs, as it happens",
		Long:  watchLong + exitUntil,
		Example: `  lancemaster job watch
  lancemaster job watch 7 --until resolved
  lancemaster job watch --from-index 0 -o json`,
	}, func(ctx context.Context, cmd *cobra.Command, args []string) error {
		w := watching{a: a, until: goal{forWhat: until}, last: -1}
		after := client.FromNow
		if len(args) > 0 {
			id, err := parseID("job", args[0])
			if err != nil {
				return err
			}
			w.id, after = id, 0
		}
		if cmd.Flags().Changed("from-index") {
			if after = from; from < 0 {
				return usagef("--from-index %d is negative", from)
			}
		}
		switch {
		case until == "" && cmd.Flags().Changed("until"):
			return usagef("--until is empty; leave it out to watch without end")
		case until == "":
		case w.id == 0:
			return usagef("--until needs a JOB")
		case w.until.check() != nil:
			return usagef("--until %q is not terminal or resolved", until)
		}
		return a.withClient(func(c *client.Client) error { return w.run(ctx, c, after) })
	})
	f := cmd.Flags()
	f.StringVar(&until, "until", "", "end when the job is: terminal or resolved")
	f.Int64Var(&from, "from-index", 0, "begin after this index of the log; 0: with all that is kept")
	a.complete(cmd, "until", "terminal", "resolved")
	return cmd
}

func (w *watching) run(ctx context.Context, c *client.Client, after int64) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	signals, end := notify()
	defer end()
	stopped := make(chan struct{})
	watcher := make(chan struct{})
	go func() {
		defer close(watcher)
		select {
		case <-signals:
			cancel()
		case <-stopped:
		}
	}()
	var ask func(context.Context) string
	if w.id != 0 {
		ask = waitsFor(c, w.id)
	}
	w.shown = w.a.showProgress(ctx, ask)
	w.shown.say(w.standing())
	var failed error
	next, err := c.Watch(ctx, client.Watch{
		JobID: w.id, After: after,
		Seen: func(e *client.Events) bool {
			failed = w.show(e)
			return failed != nil || w.reached()
		},
		Lost:  func(err error) { w.a.lost("watching", err) },
		Found: w.a.found,
	})
	close(stopped)
	<-watcher
	w.shown.close()
	switch {
	case failed != nil:
		return failed
	case err == nil:
		return outcome(w.job)
	case errors.Is(err, context.Canceled) || client.IsCode(err, client.CodeCanceled):
		return w.cut(max(next, 0))
	}
	return err
}

// cut ends a watch that was ended from outside.
func (w *watching) cut(next int64) error {
	on := "lancemaster job watch"
	if w.id != 0 {
		on += fmt.Sprintf(" %d", w.id)
	}
	if w.until.forWhat == "" {
		fmt.Fprintf(w.a.Err, "watch on with: %s --from-index %d\n", on, next)
		return nil
	}
	return &statusError{
		status:  exitFailed,
		message: fmt.Sprintf("the watch was ended; job %d is not %s yet and goes on", w.id, w.until.forWhat),
		next:    fmt.Sprintf("watch on with: %s --until %s --from-index %d", on, w.until.forWhat, next),
	}
}

func (w *watching) reached() bool {
	return w.until.forWhat != "" && w.job != nil && w.until.reached(w.job)
}

func (w *watching) show(e *client.Events) error {
	var out bytes.Buffer
	for i := range e.Events {
		event := &e.Events[i]
		if w.id != 0 {
			if gap := event.Revision - w.last - 1; w.last >= 0 && gap > 0 {
				fmt.Fprintf(w.a.Err, "job %d: no longer kept: %s before revision %d\n", w.id, counted(gap, "step"), event.Revision)
			}
			w.last = event.Revision
		}
		if err := w.line(&out, event); err != nil {
			return err
		}
	}
	w.job = e.Job
	w.steps += len(e.Events)
	defer func() { w.shown.say(w.standing()) }()
	if out.Len() == 0 {
		return nil
	}
	if _, err := w.a.Out.Write(out.Bytes()); err != nil {
		return fmt.Errorf("cannot write the output: %w", err)
	}
	return nil
}

// standing says how things stand, in the line of progress.
func (w *watching) standing() string {
	if w.job != nil {
		return fmt.Sprintf("job %d: %s", w.id, clean(step(w.job)))
	}
	return fmt.Sprintf("watching, %s seen", counted(w.steps, "step"))
}

func (w *watching) line(out *bytes.Buffer, e *client.Event) error {
	if w.a.output == "table" || w.a.output == "wide" {
		colours := w.a.colours(w.a.Out)
		fmt.Fprintf(out, "%d %s job %d %s: %s", e.RaftIndex, e.At, e.JobID, clean(e.Kind), painted(clean(edge(e.FromState, e.ToState)), colours))
		if e.ToRefresh != "NOT_REQUIRED" || e.FromRefresh != "" && e.FromRefresh != e.ToRefresh {
			fmt.Fprintf(out, ", refresh %s", painted(clean(edge(e.FromRefresh, e.ToRefresh)), colours))
		}
		fmt.Fprintf(out, ", by %s", clean(e.Actor))
		if e.Reason != "" {
			fmt.Fprintf(out, ": %s", clean(e.Reason))
		}
		out.WriteByte('\n')
		return nil
	}
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(e); err != nil {
		return err
	}
	if w.a.output == "json" {
		out.Write(line.Bytes())
		return nil
	}
	text, err := yamlOf(line.Bytes())
	if err != nil {
		return err
	}
	out.WriteString("---\n")
	out.Write(text)
	return nil
}

package cli

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lancemaster/lancemaster/internal/client"
)

const (
	// defaultWait is the longest that a job may run by default (the setting
	// dispatch.max_execute_deadline).
	defaultWait = 24 * time.Hour

	waitHelp = `"terminal" waits for the outcome: COMMITTED, NOT_COMMITTED or UNKNOWN. "resolved" also waits until the
index name is free: until the metadata is refreshed, or for UNKNOWN until an operator force-releases it.
The wait goes on across restarts of masters and changes of the leader. --timeout bounds it in all; 0
waits without limit. A wait that is cut short changes nothing: the job goes on.`
)

func (a *cli) jobWaitCmd() *cobra.Command {
	var g goal
	cmd := a.leaf(&cobra.Command{
		Use:   "wait JOB",
		Short: "Wait for a job's outcome, and exit by it",
		Long: `Wait for a job's outcome, and exit by it. The steps are told on stderr, and the job is shown at the end.
On a terminal the last line of stderr says how long it has been and what the job waits for. Ctrl-C ends the
wait, not the job.

` + waitHelp + `

` + exitWait,
		Example: `  lancemaster job wait 7
  lancemaster job wait 7 --for=resolved --timeout 30m`,
	}, func(ctx context.Context, _ *cobra.Command, args []string) error {
		id, err := parseID("job", args[0])
		if err != nil {
			return err
		}
		if err := g.check(); err != nil {
			return err
		}
		return a.withClient(func(c *client.Client) error {
			j, err := c.Job(ctx, id)
			if err != nil {
				return err
			}
			j, err = a.follow(ctx, c, j, g)
			var s *statusError
			if err != nil && !errors.As(err, &s) {
				return err
			}
			if printed := a.printJob(j); printed != nil {
				return printed
			}
			if err != nil {
				return err
			}
			return outcome(j)
		})
	})
	goalFlags(cmd.Flags(), &g)
	a.complete(cmd, "for", "terminal", "resolved")
	return cmd
}

func goalFlags(f *pflag.FlagSet, g *goal) {
	f.StringVar(&g.forWhat, "for", "terminal", "what to wait for: terminal or resolved")
	f.DurationVar(&g.timeout, "timeout", defaultWait, "how long to wait; 0: without limit")
}

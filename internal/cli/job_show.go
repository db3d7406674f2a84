package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/lancemaster/lancemaster/internal/client"
)

func (a *cli) jobShowCmd() *cobra.Command {
	return a.staleRead(a.leaf(&cobra.Command{
		Use:        "show JOB",
		SuggestFor: []string{"get", "describe", "inspect", "status"},
		Short:      "Show one job: what it is for, where it stands, what it holds",
		Long: `Show one job: what it is for, where it stands, what it holds. Times are UTC. Secrets are never part of
a job and never shown.

` + exitPlain,
		Example: `  lancemaster job show 7
  lancemaster job show 7 -o yaml`,
	}, func(ctx context.Context, _ *cobra.Command, args []string) error {
		id, err := parseID("job", args[0])
		if err != nil {
			return err
		}
		return a.withClient(func(c *client.Client) error {
			j, err := c.Job(ctx, id)
			if err != nil {
				return err
			}
			return a.printJob(j)
		})
	}))
}

func (a *cli) printJob(j *client.Job) error {
	return a.print(j, func(out *page) { jobCard(out, j) })
}

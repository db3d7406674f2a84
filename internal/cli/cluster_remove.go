package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lancemaster/lancemaster/internal/client"
)

func (a *cli) clusterRemoveCmd() *cobra.Command {
	var yes bool
	cmd := a.leaf(&cobra.Command{
		Use:        "remove NODE",
		SuggestFor: []string{"delete", "leave"},
		Short:      "Take a master out of the cluster",
		Long: `Take a master out of the cluster. It is refused where too few voters would be left working. The leader may
be removed; it hands over first.

The master's data is not deleted, and it may not come back with it: stop it, delete its data directory,
and let it join anew with "lancemaster cluster add".

` + exitPlain,
		Example: `  lancemaster cluster remove master-2
  lancemaster cluster remove master-2 --yes`,
	}, func(ctx context.Context, _ *cobra.Command, args []string) error {
		return a.withClient(func(c *client.Client) error {
			err := a.confirm(ctx, confirmation{"yes", yes, []string{
				fmt.Sprintf("%s is taken out of the cluster, which then bears fewer losses", args[0]),
				"It cannot come back with the data that it has",
			}})
			if err != nil {
				return err
			}
			if err := c.RemoveMember(ctx, args[0]); err != nil {
				return err
			}
			return a.print(struct {
				Removed string `json:"removed"`
			}{args[0]}, func(out *page) {
				out.named(args[0])
				fmt.Fprintf(out, "removed %s\n", clean(args[0]))
				steps := newCard(out)
				steps.add("stop it", "it runs on, answers reads with --stale, and learns of no revoked token: docs/security.md")
				steps.add("then", "take it out of cluster.members of every other master: docs/clusters.md")
				steps.end()
			})
		})
	})
	yesFlag(cmd, &yes)
	return cmd
}

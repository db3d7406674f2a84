package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lancemaster/lancemaster/internal/client"
)

func (a *cli) clusterReplaceCmd() *cobra.Command {
	var yes bool
	cmd := a.leaf(&cobra.Command{
		Use:   "replace NODE [ADDRESS]",
		Short: "Let an empty master take the place of a member that lost its data",
		Long: `Let an empty master take the place of a member that lost its data: start it with the configuration
that the member had, which has its node_id and cluster.members or cluster.join, and with an empty data directory.
Give ADDRESS where it is not where the member is registered.

What the member knew before counts for nothing from then on, and its old data is refused should it come
back. So be sure that it is gone: of two that run under one name, only the one that is registered is heard.

` + exitPlain,
		Example: `  lancemaster cluster replace master-2
  lancemaster cluster replace master-2 10.0.0.12:9010 --yes`,
	}, func(ctx context.Context, _ *cobra.Command, args []string) error {
		address := ""
		if len(args) > 1 {
			address = args[1]
		}
		return a.withClient(func(c *client.Client) error {
			err := a.confirm(ctx, confirmation{"yes", yes, []string{
				fmt.Sprintf("What %s has on its disk is given up, and is refused should it come back", args[0]),
				"Until the new one has caught up, the cluster bears fewer losses",
			}})
			if err != nil {
				return err
			}
			m, err := c.ReplaceMember(ctx, args[0], address)
			if err != nil {
				return err
			}
			return a.printMember(m, "has its place back, with an empty disk,", "")
		})
	})
	yesFlag(cmd, &yes)
	return cmd
}

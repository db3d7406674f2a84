package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lancemaster/lancemaster/internal/client"
)

func (a *cli) clusterTransferLeaderCmd() *cobra.Command {
	return a.leaf(&cobra.Command{
		Use:   "transfer-leader [NODE]",
		Short: "Hand the leadership to another master",
		Long: `Hand the leadership to another voter, or without NODE to the one whose log is the most complete. Running
jobs go on; calls wait a moment for the new leader.

` + exitPlain,
		Example: `  lancemaster cluster transfer-leader
  lancemaster cluster transfer-leader master-2`,
	}, func(ctx context.Context, _ *cobra.Command, args []string) error {
		node := ""
		if len(args) > 0 {
			node = args[0]
		}
		return a.withClient(func(c *client.Client) error {
			leader, err := c.TransferLeader(ctx, node)
			if err != nil {
				return err
			}
			return a.done(leader, fmt.Sprintf("%s leads now", leader), struct {
				Leader string `json:"new_leader"`
			}{leader})
		})
	})
}

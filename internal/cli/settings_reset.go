package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/lancemaster/lancemaster/internal/client"
)

func (a *cli) settingsResetCmd() *cobra.Command {
	return a.leaf(&cobra.Command{
		Use:   "reset NAME...",
		Short: "Give settings their defaults back, all of those given or none",
		Long: `Give settings their defaults back, all of those given or none, and show how they then are.

` + exitPlain,
		Example: `  lancemaster settings reset dispatch.execute_deadline`,
	}, func(ctx context.Context, _ *cobra.Command, args []string) error {
		return a.withClient(func(c *client.Client) error {
			list, err := c.ResetSettings(ctx, args)
			if err != nil {
				return err
			}
			return a.printSettings(named(list, args))
		})
	})
}

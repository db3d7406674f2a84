package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/lancemaster/lancemaster/internal/client"
)

func (a *cli) settingsListCmd() *cobra.Command {
	return a.staleRead(a.leaf(&cobra.Command{
		Use:   "list",
		Short: "List all settings with their values, defaults and meaning",
		Long: `List all settings by name, with their values, defaults and meaning. Times are UTC.

` + exitPlain,
		Example: `  lancemaster settings list
  lancemaster settings list --columns setting,value --no-headers`,
	}, func(ctx context.Context, _ *cobra.Command, _ []string) error {
		return a.withClient(func(c *client.Client) error {
			list, err := c.Settings(ctx)
			if err != nil {
				return err
			}
			return a.printSettings(list)
		})
	}))
}

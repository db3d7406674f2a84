package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/lancemaster/lancemaster/internal/client"
)

func (a *cli) settingsSetCmd() *cobra.Command {
	return a.leaf(&cobra.Command{
		Use:   "set NAME=VALUE...",
		Short: "Change settings, all of those given or none",
		Long: `Change settings, all of those given or none, and show how they then are. Durations are written like 90s, 15m or 1h.
The history keeps who changed what.

` + exitPlain,
		Example: `  lancemaster settings set admission.enabled=true
  lancemaster settings set dispatch.execute_deadline=2h dispatch.max_per_round=32`,
	}, func(ctx context.Context, _ *cobra.Command, args []string) error {
		pairs, err := parsePairs("the argument", args)
		if err != nil {
			return err
		}
		var values []client.SettingValue
		var names []string
		for _, p := range pairs {
			values = append(values, client.SettingValue{Name: p.Key, Value: p.Value})
			names = append(names, p.Key)
		}
		return a.withClient(func(c *client.Client) error {
			list, err := c.SetSettings(ctx, values)
			if err != nil {
				return err
			}
			return a.printSettings(named(list, names))
		})
	})
}

package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/lancemaster/lancemaster/internal/client"
)

var changeColumns = []column{
	{name: "AT"}, {name: "BY", kind: textCell}, {name: "SETTING"}, {name: "OLD", kind: textCell}, {name: "NEW", kind: textCell}, {name: "INDEX", wide: true},
}

func (a *cli) settingsHistoryCmd() *cobra.Command {
	var limit int
	cmd := a.leaf(&cobra.Command{
		Use:   "history [NAME]",
		Short: "Show who changed which setting when, newest first",
		Long: `Show who changed which setting when (UTC), newest first: of one setting, or of all.

` + exitPlain,
		Example: `  lancemaster settings history admission.enabled`,
	}, func(ctx context.Context, _ *cobra.Command, args []string) error {
		if limit < 1 || limit > 1000 {
			return usagef("--limit %d is not from 1 to 1000", limit)
		}
		name := ""
		if len(args) > 0 {
			if name = args[0]; name == "" {
				return usagef("NAME is empty; leave it out if you mean all settings")
			}
		}
		return a.withClient(func(c *client.Client) error {
			list, err := c.SettingsHistory(ctx, name, limit)
			if err != nil {
				return err
			}
			value := struct {
				Changes []client.SettingChange `json:"changes"`
			}{list}
			return a.print(value, func(out *page) {
				t := newTable(out, changeColumns)
				for _, s := range list {
					value := s.New
					if s.Reset {
						value += " (reset)"
					}
					t.row(s.At.String(), s.Actor, s.Name, s.Old, value, number(s.RaftIndex))
				}
				t.end()
			})
		})
	})
	cmd.Flags().IntVar(&limit, "limit", 100, "changes at most, 1 to 1000")
	return a.staleRead(cmd)
}

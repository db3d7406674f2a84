package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lancemaster/lancemaster/internal/client"
)

func (a *cli) settingsGetCmd() *cobra.Command {
	return a.staleRead(a.leaf(&cobra.Command{
		Use:   "get NAME",
		Short: "Print one setting's value",
		Long: `Print one setting's value, alone on a line; with -o json or yaml all that is known of it.

` + exitPlain,
		Example: `  lancemaster settings get admission.enabled
  lancemaster settings get admission.enabled -o json`,
	}, func(ctx context.Context, _ *cobra.Command, args []string) error {
		return a.withClient(func(c *client.Client) error {
			list, err := c.Settings(ctx)
			if err != nil {
				return err
			}
			for _, s := range list {
				if s.Name == args[0] {
					return a.print(s, func(out *page) { fmt.Fprintln(out, clean(s.Value)) })
				}
			}
			return &client.Error{
				Code: "NOT_FOUND", Message: fmt.Sprintf("there is no setting %q", args[0]), Next: "list them with: lancemaster settings list",
			}
		})
	}))
}

package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/lancemaster/lancemaster/internal/client"
)

func (a *cli) tokenListCmd() *cobra.Command {
	return a.staleRead(a.leaf(&cobra.Command{
		Use:   "list",
		Short: "List the access tokens, without what they are",
		Long: `List the access tokens by name: their roles, when they were made and by whom. The tokens themselves are
known to nobody but their holders. Times are UTC.

` + exitPlain,
		Example: `  lancemaster token list
  lancemaster token list --token-file admin.token`,
	}, func(ctx context.Context, _ *cobra.Command, _ []string) error {
		return a.withClient(func(c *client.Client) error {
			list, err := c.Tokens(ctx)
			if err != nil {
				return err
			}
			value := struct {
				Tokens []client.Token `json:"tokens"`
			}{list}
			return a.print(value, func(out *page) { tokenTable(out, list) })
		})
	}))
}

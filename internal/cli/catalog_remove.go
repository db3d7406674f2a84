package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/lancemaster/lancemaster/internal/client"
)

func (a *cli) catalogRemoveCmd() *cobra.Command {
	return a.leaf(&cobra.Command{
		Use:        "remove NAME",
		SuggestFor: []string{"delete", "drop"},
		Short:      "Remove a catalog",
		Long: `Remove a catalog. It is refused while the catalog has open jobs. Datasets are not touched.

` + exitPlain,
		Example: `  lancemaster catalog remove lake`,
	}, func(ctx context.Context, _ *cobra.Command, args []string) error {
		return a.withClient(func(c *client.Client) error {
			if err := c.RemoveCatalog(ctx, args[0]); err != nil {
				return err
			}
			return a.done(args[0], "removed catalog "+args[0], struct {
				Removed string `json:"removed"`
			}{args[0]})
		})
	})
}

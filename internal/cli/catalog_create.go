package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/lancemaster/lancemaster/internal/client"
)

func (a *cli) catalogCreateCmd() *cobra.Command {
	var v catalogFlags
	cmd := a.leaf(&cobra.Command{
		Use:        "create NAME",
		SuggestFor: []string{"add", "register"},
		Short:      "Create a catalog",
		Long: `Create a catalog.

` + catalogHelp + `

` + exitPlain,
		Example: `  lancemaster catalog create local
  lancemaster catalog create lake --option endpoint=https://s3.example.com --option region=eu \
      --secret-option aws_secret_access_key=file:/etc/lancemaster/lake.key \
      --refresher http --refresh-url https://meta.example.com/refresh --refresh-timeout 30s`,
	}, func(ctx context.Context, cmd *cobra.Command, args []string) error {
		k := client.Catalog{Name: args[0]}
		if err := v.apply(cmd, &k); err != nil {
			return err
		}
		return a.withClient(func(c *client.Client) error {
			stored, err := c.PutCatalog(ctx, k)
			if err != nil {
				return v.advise(err)
			}
			return a.printCatalog(stored)
		})
	})
	a.addCatalogFlags(cmd, &v)
	return cmd
}

package cli

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/lancemaster/lancemaster/internal/client"
)

func (a *cli) catalogUpdateCmd() *cobra.Command {
	var v catalogFlags
	var unset []string
	cmd := a.leaf(&cobra.Command{
		Use:   "update NAME",
		Short: "Change a catalog",
		Long: `Change a catalog: what the flags given say is changed, the rest stays. If somebody else changes it at the
same moment, one of the two is refused. The store of a catalog with open jobs cannot be changed.

` + catalogHelp + `

` + exitPlain,
		Example: `  lancemaster catalog update lake --option region=us --unset-option endpoint
  lancemaster catalog update lake --refresher none`,
	}, func(ctx context.Context, cmd *cobra.Command, args []string) error {
		if err := v.checkUpdate(cmd, unset); err != nil {
			return err
		}
		return a.withClient(func(c *client.Client) error {
			k, err := c.Catalog(ctx, args[0])
			if err != nil {
				return err
			}
			for _, key := range unset {
				if !slices.ContainsFunc(k.Options, func(o client.StorageOption) bool { return o.Key == key }) {
					return usagef("catalog %s has no option %q", k.Name, key)
				}
			}
			k.Options = slices.DeleteFunc(k.Options, func(o client.StorageOption) bool { return slices.Contains(unset, o.Key) })
			if err := v.apply(cmd, k); err != nil {
				return err
			}
			stored, err := c.PutCatalog(ctx, *k)
			if err != nil {
				return v.advise(err)
			}
			return a.printCatalog(stored)
		})
	})
	a.addCatalogFlags(cmd, &v)
	cmd.Flags().StringArrayVar(&unset, "unset-option", nil, "KEY, a storage option to remove; may be repeated")
	return cmd
}

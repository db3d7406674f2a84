package cli

import "github.com/spf13/cobra"

func (a *cli) catalogCmd() *cobra.Command {
	return a.group(&cobra.Command{
		Use:   "catalog",
		Short: "Manage catalogs: where datasets live and how to reach them",
		Long: `Manage catalogs: where datasets live, how to reach them, and how metadata is refreshed after a change.
Secrets are never stored: an option of a catalog refers to one as file:/absolute/path or env:NAME, and
each master resolves it when it needs it.

` + exitPlain,
		Example: `  lancemaster catalog create local
  lancemaster catalog show local`,
	}, a.nameable(a.catalogCreateCmd()), a.listing(a.catalogListCmd(), catalogColumns), a.nameable(a.catalogShowCmd()), a.nameable(a.catalogUpdateCmd()), a.nameable(a.catalogRemoveCmd()))
}

package cli

import "github.com/spf13/cobra"

func (a *cli) datasetCmd() *cobra.Command {
	return a.group(&cobra.Command{
		Use:   "dataset",
		Short: "Look at a Lance dataset as a master sees it",
		Long: `Look at a Lance dataset as a master sees it.

` + exitPlain,
		Example: `  lancemaster dataset inspect file:///data/items.lance`,
	}, a.datasetInspectCmd())
}

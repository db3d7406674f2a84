package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lancemaster/lancemaster/internal/config"
)

func (a *cli) versionCmd() *cobra.Command {
	return a.leaf(&cobra.Command{
		Use:   "version",
		Short: "Print this program's version",
		Long: `Print this program's version. The masters' versions are shown by "lancemaster health".

` + exitPlain,
		Example: `  lancemaster version
  lancemaster version -o json`,
	}, func(context.Context, *cobra.Command, []string) error {
		b := config.BuildInfo()
		return a.print(b, func(out *page) {
			revision := b.Revision
			if b.Modified {
				revision += ", modified"
			}
			fmt.Fprintf(out, "lancemaster %s (revision %s, %s)\n", b.Version, revision, b.Go)
		})
	})
}

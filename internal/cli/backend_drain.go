package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/lancemaster/lancemaster/internal/client"
)

func (a *cli) backendDrainCmd() *cobra.Command {
	return a.leaf(&cobra.Command{
		Use:   "drain BACKEND",
		Short: "Send no new jobs to a backend",
		Long: `Send no new jobs to a backend. Those that it has go on.

` + exitPlain,
		Example: `  lancemaster backend drain 2
  lancemaster job list --backend 2 --open     # what it still has`,
	}, func(ctx context.Context, _ *cobra.Command, args []string) error {
		return a.turned(ctx, args[0], (*client.Client).DrainBackend)
	})
}

package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/lancemaster/lancemaster/internal/client"
)

func (a *cli) backendUndrainCmd() *cobra.Command {
	return a.leaf(&cobra.Command{
		Use:   "undrain BACKEND",
		Short: "Send new jobs to a drained backend again",
		Long: `Send new jobs to a drained backend again.

` + exitPlain,
		Example: `  lancemaster backend undrain 2`,
	}, func(ctx context.Context, _ *cobra.Command, args []string) error {
		return a.turned(ctx, args[0], (*client.Client).UndrainBackend)
	})
}

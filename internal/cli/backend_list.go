package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/lancemaster/lancemaster/internal/client"
)

func (a *cli) backendListCmd() *cobra.Command {
	return a.staleRead(a.leaf(&cobra.Command{
		Use:   "list",
		Short: "List backends and what the leader's heartbeats say of them",
		Long: `List backends by id and what the leader's heartbeats say of them. SLOTS counts the jobs whose worker may
still be alive there. Times are UTC.

` + exitPlain,
		Example: `  lancemaster backend list
  lancemaster backend list -o wide
  lancemaster backend list --columns backend,alive,last_error`,
	}, func(ctx context.Context, _ *cobra.Command, _ []string) error {
		return a.withClient(func(c *client.Client) error {
			list, err := c.Backends(ctx)
			if err != nil {
				return err
			}
			value := struct {
				Backends []client.Backend `json:"backends"`
			}{list}
			return a.print(value, func(out *page) { backendTable(out, list) })
		})
	}))
}

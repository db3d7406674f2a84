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
		Long: `List backends by id and what the leader's heartbeats say of them. ALIVE is yes for three intervals
(backend.heartbeat_interval) after a heartbeat that was answered with OK, at LAST OK; LAST ERROR is what came
of the newest one where that was not. SLOTS counts the jobs whose worker may still be alive there. Times are
UTC.

A backend that is active, alive and has a free slot (dispatch.max_inflight_per_backend) is sent jobs, the one
with the fewest SLOTS first. One with a LAST ERROR, or that the leader could not connect to since, comes after
all others until it answers a heartbeat again.

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

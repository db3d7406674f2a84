package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/lancemaster/lancemaster/internal/client"
)

func (a *cli) clusterAddCmd() *cobra.Command {
	return a.leaf(&cobra.Command{
		Use:        "add NODE ADDRESS",
		SuggestFor: []string{"join"},
		Short:      "Let a master join the cluster",
		Long: `Let a master join the cluster. NODE is its node_id, ADDRESS the host:port of its Raft service as every
other member reaches it. It must run with cluster.join and the cluster's id, on an empty data directory.

It gets no vote before it has caught up, which "lancemaster cluster status" shows.

` + exitPlain,
		Example: `  lancemaster cluster add master-4 10.0.0.4:9010`,
	}, func(ctx context.Context, _ *cobra.Command, args []string) error {
		return a.withClient(func(c *client.Client) error {
			m, err := c.AddMember(ctx, args[0], args[1])
			if err != nil {
				return err
			}
			return a.printMember(m, "is a member", "list it in cluster.members of every master: docs/clusters.md")
		})
	})
}

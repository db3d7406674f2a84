package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lancemaster/lancemaster/internal/client"
)

func (a *cli) clusterCmd() *cobra.Command {
	return a.group(&cobra.Command{
		Use:   "cluster",
		Short: "See and change the masters that form the cluster",
		Long: `See and change the masters that form the cluster. A cluster works while more than half of its voters do,
so three masters bear the loss of one, and five of two.

` + exitPlain,
		Example: `  lancemaster cluster status
  lancemaster cluster add master-4 10.0.0.4:9010`,
	}, a.listing(a.clusterStatusCmd(), memberColumns), a.nameable(a.clusterAddCmd()), a.nameable(a.clusterRemoveCmd()),
		a.nameable(a.clusterReplaceCmd()), a.nameable(a.clusterTransferLeaderCmd()), a.clusterReopenCmd(), a.clusterRecoverCmd())
}

// printMember says what has become of a member; the whole record is for programs.
func (a *cli) printMember(m *client.Member, done, then string) error {
	return a.print(m, func(out *page) {
		out.named(m.NodeID)
		votes := "it votes"
		if !m.Voter {
			votes = "it votes when it has caught up"
		}
		fmt.Fprintf(out, "%s %s at %s, instance %s; %s\n", clean(m.NodeID), done, clean(m.Address), clean(m.InstanceID), votes)
		c := newCard(out)
		c.add("watch it", "lancemaster cluster status")
		c.add("then", then)
		c.end()
	})
}

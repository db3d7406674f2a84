package cli

import (
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

// printMember shows a member after a change.
func (a *cli) printMember(m *client.Member) error {
	return a.print(m, func(out *page) {
		out.named(m.NodeID)
		c := newCard(out)
		c.section("Member " + clean(m.NodeID))
		c.add("address", m.Address)
		c.add("instance", m.InstanceID)
		c.add("state", memberState(*m))
		c.add("voter", yesNo(m.Voter))
		c.add("version", m.Version)
		c.end()
	})
}

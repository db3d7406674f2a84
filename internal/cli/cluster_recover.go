package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lancemaster/lancemaster/internal/app"
)

const recoverLong = `Make a cluster that has lost its quorum for good one of this node alone. It is the last resort: when more than
half of the voters are gone with their disks and there is no better copy. If they can be started again, or
their disks be put into other machines, do that instead: then nothing is lost.

What comes of it:
  - Whatever only the lost masters had is lost, acknowledged jobs among it. Whatever this disk has counts,
    also what was never committed. Take the disk that ends last: at the highest term, and in that at the
    highest entry. Each says where it ends before anything is confirmed.
  - The lost masters may have sent jobs that this node knows nothing of. So the cluster begins a new
    incarnation in quarantine: jobs that were PENDING or RUNNING become UNKNOWN, admission is closed and
    dispatch paused, until an operator has made sure and runs: lancemaster cluster reopen
  - Every other master of this cluster is refused from then on. One that still runs, or is started, with the
    data that it has, is a second cluster that sends jobs to the same backends. Stop them all and
    move their data directories away first; keep those until nothing is missing.

The node must not run. The work is done on a copy, which needs as much free space as the data has; the former
content is kept in a directory inside the data directory. The command may be ended at any moment and run
again; either the old content counts or the new one. Run again after its end, and before the node has begun
the new incarnation, it changes nothing and says what is there. It is refused where another address or incarnation
is asked for, unless that incarnation is a higher one: then it is done once more.

On a terminal the cluster's id is asked for; a script gives it with --yes-i-know.

`

func (a *cli) clusterRecoverCmd() *cobra.Command {
	const flag = "yes-i-know"
	var know string
	var v *offlineFlags
	cmd := a.leaf(&cobra.Command{
		Use:   "recover",
		Short: "Last resort: make a stopped node the only one of a cluster that lost its quorum",
		Long:  recoverLong + exitPlain,
		Example: `  lancemaster cluster recover --config /etc/lancemaster.yaml
  lancemaster cluster recover --data-dir /var/lib/lancemaster --node-id m1 \
    --raft-advertise 10.0.0.1:9010 --yes-i-know 271828`,
	}, func(ctx context.Context, cmd *cobra.Command, _ []string) error {
		if err := refuseCalling(cmd); err != nil {
			return err
		}
		offline, cfg, err := a.offline(cmd, v)
		if err != nil {
			return err
		}
		if err := filled(cmd, flag); err != nil {
			return err
		}
		cluster, err := expected(flag, know, cfg)
		if err != nil {
			return err
		}
		offline.Confirm = func(p app.OfflinePlan) error {
			return a.confirmCluster(ctx, flag, know != "", p.ClusterID, recoverPlan(p)...)
		}
		r, err := app.Recover(ctx, app.RecoverOptions{Offline: offline, ExpectCluster: cluster})
		if err != nil {
			return err
		}
		return a.printRecovered(resultOf(r), a.serveAgain(v, cfg))
	})
	v = a.addOfflineFlags(cmd)
	cmd.Flags().StringVar(&know, flag, "", "the cluster's id: confirms that its other masters are gone, and what follows, without asking")
	return cmd
}

func recoverPlan(p app.OfflinePlan) []string {
	lines := []string{
		fmt.Sprintf("THE OTHER MASTERS OF CLUSTER %d ARE GIVEN UP. The data in %s, of %s, becomes all there is.", p.ClusterID, p.DataDir, p.NodeID),
		fmt.Sprintf("It ends at entry %d of term %d. What only other masters have is lost, acknowledged jobs among it.", p.Index, p.Term),
		fmt.Sprintf("Incarnation %d begins in quarantine: admission is closed, dispatch is paused, and jobs without an outcome become UNKNOWN (%d of %s).",
			p.NewIncarnation, p.Unsettled, counted(p.OpenJobs, "open job")),
	}
	var others []string
	for _, id := range p.Members {
		if id != p.NodeID {
			others = append(others, id)
		}
	}
	if len(others) > 0 {
		lines = append(lines, fmt.Sprintf("These must be stopped, and never run again with the data that they have: %s.", strings.Join(others, ", ")))
	}
	return append(lines, onceMore(p)...)
}

func (a *cli) printRecovered(r offlineResult, again commands) error {
	return a.print(r, func(out *page) {
		if r.Already {
			fmt.Fprintln(out, "recovered or restored already, and the quarantine is still owed; nothing was changed")
		} else {
			fmt.Fprintln(out, "recovered")
		}
		c := newCard(out)
		c.addResult(r)
		c.end()
		afterwards(out, again)
	})
}

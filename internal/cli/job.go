package cli

import "github.com/spf13/cobra"

func (a *cli) jobCmd() *cobra.Command {
	return a.group(&cobra.Command{
		Use:   "job",
		Short: "Watch and understand index jobs",
		Long: `Watch and understand index jobs.

A job is PENDING, then RUNNING on one backend, and ends COMMITTED (the index is changed),
NOT_COMMITTED (the dataset is as it was) or UNKNOWN (nobody can tell). It holds its index name until
it is resolved: when its outcome is known and the metadata refresh that this owes is done, or, for
UNKNOWN, when an operator force-releases it.

` + exitPlain,
		Example: `  lancemaster job list --unresolved
  lancemaster job show 7
  lancemaster job explain 7
  lancemaster job wait 7`,
	}, a.listing(a.jobListCmd(), jobColumns), a.nameable(a.jobShowCmd()), a.jobExplainCmd(), a.tabled(a.jobHistoryCmd(), historyColumns), a.jobWatchCmd(), a.nameable(a.jobWaitCmd()),
		a.nameable(a.jobCancelCmd()), a.nameable(a.jobReleaseSlotCmd()), a.nameable(a.jobForceReleaseCmd()))
}

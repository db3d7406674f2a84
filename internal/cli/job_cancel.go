package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/lancemaster/lancemaster/internal/client"
)

func (a *cli) jobCancelCmd() *cobra.Command {
	var v client.JobVerb
	var revision int64
	cmd := a.leaf(&cobra.Command{
		Use:   "cancel JOB",
		Short: "Cancel a job that was not sent yet",
		Long: `Cancel a job that was not sent yet: a PENDING job ends NOT_COMMITTED and its index name is free. A job
that is RUNNING cannot be cancelled: its backend may be about to commit.

` + exitPlain,
		Example: `  lancemaster job cancel 7 --note "wrong column"`,
	}, func(ctx context.Context, cmd *cobra.Command, args []string) error {
		return a.jobVerb(cmd, args[0], v, revision, func(c *client.Client, v client.JobVerb) (*client.Job, error) { return c.CancelJob(ctx, v) })
	})
	verbFlags(cmd, &v, &revision)
	return cmd
}

func verbFlags(cmd *cobra.Command, v *client.JobVerb, revision *int64) {
	f := cmd.Flags()
	f.StringVar(&v.Note, "note", "", "why, for the history; at most 1024 bytes")
	f.Int64Var(revision, "expected-revision", 0, "only if the job is still at this revision; default: at whatever revision it is")
}

// jobVerb carries out an operator's verb and shows the job as it then is.
func (a *cli) jobVerb(cmd *cobra.Command, id string, v client.JobVerb, revision int64, do func(*client.Client, client.JobVerb) (*client.Job, error)) (err error) {
	if v.JobID, err = parseID("job", id); err != nil {
		return err
	}
	if cmd.Flags().Changed("expected-revision") {
		v.ExpectedRevision = &revision
	}
	return a.withClient(func(c *client.Client) error {
		j, err := do(c, v)
		if err != nil {
			return err
		}
		return a.printJob(j)
	})
}

package cli

import (
	"context"
	"fmt"

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

Nothing was sent and nothing has changed, so it is done without asking. It is not taken back either: who
wants the index after all submits it again.

` + exitPlain,
		Example: `  lancemaster job cancel 7 --note "wrong column"
  lancemaster job cancel 7 -o json`,
	}, func(ctx context.Context, cmd *cobra.Command, args []string) error {
		return a.jobVerb(cmd, args[0], v, revision, func(c *client.Client, v client.JobVerb) (*client.Job, error) {
			return c.CancelJob(ctx, v)
		}, func(j *client.Job) string { return "is cancelled: it was never sent" })
	})
	verbFlags(cmd, &v, &revision)
	return cmd
}

func verbFlags(cmd *cobra.Command, v *client.JobVerb, revision *int64) {
	f := cmd.Flags()
	f.StringVar(&v.Note, "note", "", "why, for the history; at most 1024 bytes")
	f.Int64Var(revision, "expected-revision", 0, "only if the job is still at this revision; default: at whatever revision it is")
}

// jobVerb carries out an operator's verb and says what has come of it; the whole record is for programs.
func (a *cli) jobVerb(
	cmd *cobra.Command, id string, v client.JobVerb, revision int64,
	do func(*client.Client, client.JobVerb) (*client.Job, error), done func(*client.Job) string,
) (err error) {
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
		return a.print(j, func(out *page) {
			out.named(number(j.ID))
			fmt.Fprintf(out, "Job %d %s\n", j.ID, clean(done(j)))
			fmt.Fprintf(out, "%s: %s\n", painted(clean(j.State), out.colours), clean(meaning(j)))
			c := newCard(out)
			c.addf("look at it", "lancemaster job show %d", j.ID)
			c.end()
		})
	})
}

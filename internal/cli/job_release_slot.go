package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/lancemaster/lancemaster/internal/client"
)

func (a *cli) jobReleaseSlotCmd() *cobra.Command {
	var v client.JobVerb
	var revision int64
	cmd := a.leaf(&cobra.Command{
		Use:   "release-slot JOB",
		Short: "Free the backend slot of an ended job, on your word that its worker is gone",
		Long: `Free the backend slot of an ended job, on your word that its worker is gone. The slot is kept because
nothing proves that the worker has ended; freeing it lets the backend take another job beside a worker
that may still be at work. The outcome and the index name are not touched.
A note is required, 1 to 1024 bytes: why the worker is known to be gone.

` + exitPlain,
		Example: `  lancemaster job release-slot 7 --note "host 10.0.0.7 was scrapped"`,
	}, func(ctx context.Context, cmd *cobra.Command, args []string) error {
		if err := checkNote(v.Note); err != nil {
			return err
		}
		return a.jobVerb(cmd, args[0], v, revision, func(c *client.Client, v client.JobVerb) (*client.Job, error) { return c.ReleaseSlot(ctx, v) })
	})
	verbFlags(cmd, &v, &revision)
	return cmd
}

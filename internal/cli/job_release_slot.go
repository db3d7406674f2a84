package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lancemaster/lancemaster/internal/client"
)

func (a *cli) jobReleaseSlotCmd() *cobra.Command {
	var v client.JobVerb
	var revision int64
	var yes bool
	cmd := a.leaf(&cobra.Command{
		Use:   "release-slot JOB",
		Short: "Free the backend slot of an ended job, on your word that its worker is gone",
		Long: `Free the backend slot of an ended job, on your word that its worker is gone. The slot is kept because
nothing proves that the worker has ended; freeing it lets the backend take another job beside a worker
that may still be at work. The outcome and the index name are not touched.

A note is required, 1 to 1024 bytes: why the worker is known to be gone. On a terminal you are asked whether
to go on; a script gives --yes.

` + exitPlain,
		Example: `  lancemaster job release-slot 7 --note "host 10.0.0.7 was scrapped"
  lancemaster job release-slot 7 --note "host 10.0.0.7 was scrapped" --yes`,
	}, func(ctx context.Context, cmd *cobra.Command, args []string) error {
		if err := checkNote(v.Note); err != nil {
			return err
		}
		return a.jobVerb(cmd, args[0], v, revision, func(c *client.Client, v client.JobVerb) (*client.Job, error) {
			if err := a.confirmVerb(ctx, c, &v, yes, slotSettled, slotReleaseMeans); err != nil {
				return nil, err
			}
			return c.ReleaseSlot(ctx, v)
		}, slotReleased)
	})
	verbFlags(cmd, &v, &revision)
	yesFlag(cmd, &yes)
	return cmd
}

// slotSettled reports whether a slot release changes nothing, or is refused.
func slotSettled(j *client.Job) bool { return !j.SlotHeld || !j.Terminal() }

// slotReleased says where a job's slot is after a release.
func slotReleased(j *client.Job) string {
	if j.SlotRelease == nil {
		return "holds no slot"
	}
	return fmt.Sprintf("gave up its slot: released by %s at %s", j.SlotRelease.Actor, j.SlotRelease.At)
}

// slotReleaseMeans is what follows from releasing a job's slot.
func slotReleaseMeans(j *client.Job) []string {
	where := "Its backend"
	if j.Dispatch != nil {
		where = fmt.Sprintf("Backend %d", j.Dispatch.BackendID)
	}
	return []string{
		fmt.Sprintf("Job %d gives up its slot%s", j.ID, ofIndex(j)),
		where + " may then be sent another job, beside this one's worker if that is still at work; releasing stops no worker",
		"The outcome and the index name stay as they are, and the slot is not given back",
	}
}

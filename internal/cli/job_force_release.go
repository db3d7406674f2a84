package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lancemaster/lancemaster/internal/client"
)

// maxNote is the longest note that the masters take.
const maxNote = 1024

const forceReleaseLong = `Release what an UNKNOWN job holds: its index name, its share of the quotas, and its slot on the backend.
Nothing else ever releases the name of an UNKNOWN job.

What it means: nobody knows whether the job's worker is gone or what it did. It may still commit, and so
overwrite, remove or bring back the index under the name that you free, even after a new job has used
that name. Releasing stops no worker, and the job's outcome stays UNKNOWN. Make sure that the worker is
gone first, for instance by restarting its backend; see what is known with: lancemaster job explain.

In this order, and nothing is released unless all goes well:
  1. a job that is released already is shown again, which is a success
  2. any other state than UNKNOWN is refused
  3. a note is required, 1 to 1024 bytes: why the worker is known to be gone
  4. too soon is refused, with how long to wait: while the master that sent the job may still have been
     writing, which is 10s and the setting backend.rpc_timeout after it became RUNNING
  5. where the job's catalog exists, the dataset is read, if the masters can read it (file:), and the
     catalog's refresher runs once; a dataset that is gone is no failure
  6. the release is journaled, if the job has not moved on meanwhile

The warning, your note and your name are stored with the job. On a terminal you are asked whether to go on,
with the job as it is then; a script gives --yes.

` + exitPlain

func (a *cli) jobForceReleaseCmd() *cobra.Command {
	var v client.JobVerb
	var revision int64
	var yes bool
	cmd := a.leaf(&cobra.Command{
		Use:   "force-release JOB",
		Short: "Free the index name of an UNKNOWN job, on your word that its worker is gone",
		Long:  forceReleaseLong,
		Example: `  lancemaster job force-release 7 --note "host 10.0.0.7 was scrapped; the index was looked at by hand"
  lancemaster job force-release 7 --note "backend 2 was restarted at 10:40" --yes`,
	}, func(ctx context.Context, cmd *cobra.Command, args []string) error {
		if err := checkNote(v.Note); err != nil {
			return err
		}
		return a.jobVerb(cmd, args[0], v, revision, func(c *client.Client, v client.JobVerb) (*client.Job, error) {
			if err := a.confirmVerb(ctx, c, &v, yes, forceSettled, forceReleaseMeans); err != nil {
				return nil, err
			}
			j, err := c.ForceRelease(ctx, v)
			if err == nil && j.ForceRelease != nil {
				fmt.Fprintf(a.Err, "warning: %s\n", clean(j.ForceRelease.Warning))
			}
			return j, err
		}, forceReleased)
	})
	verbFlags(cmd, &v, &revision)
	yesFlag(cmd, &yes)
	return cmd
}

// forceSettled reports whether a force release changes nothing, or is refused.
func forceSettled(j *client.Job) bool { return j.ForceRelease != nil || j.State != client.StateUnknown }

// forceReleased says by whom a job was released, which may have been before.
func forceReleased(j *client.Job) string {
	if j.ForceRelease == nil {
		return "is not released"
	}
	return fmt.Sprintf("was force-released by %s at %s", j.ForceRelease.Actor, j.ForceRelease.At)
}

// forceReleaseMeans is what follows from releasing a job by force.
func forceReleaseMeans(j *client.Job) []string {
	return []string{
		fmt.Sprintf("Job %d gives up its index name, its share of the quotas and its slot%s", j.ID, ofIndex(j)),
		"Its worker may still commit, and so overwrite, remove or bring back the index, even after a new job has used the name; releasing stops no worker",
		"Its outcome stays UNKNOWN, and what is released is not taken back",
	}
}

// ofIndex says which index a job is about, where that is known.
func ofIndex(j *client.Job) string {
	if j.Target.IndexName == "" {
		return ""
	}
	return fmt.Sprintf(": %s of %s on %s.%s, which is %s", j.Intent.Mutation, j.Target.IndexName, j.Target.Database, j.Target.Table, j.State)
}

// checkNote refuses what the masters would of a verb that rests on the caller's word.
func checkNote(note string) error {
	switch {
	case strings.TrimSpace(note) == "":
		return usagef("--note is missing or empty: say why the job's worker is known to be gone")
	case len(note) > maxNote:
		return usagef("--note has %d bytes; at most %d are kept", len(note), maxNote)
	}
	return nil
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/lancemaster/lancemaster/internal/client"
)

// submissionFlags are what index create and index drop have in common.
type submissionFlags struct {
	s        client.Submission
	table    string
	deadline time.Duration
	wait     bool
	goal     goal
	version  int64
	contract string
	stored   string
}

const submissionHelp = `The submission carries a request id, your own with --request-id or else a random one that is shown, and
so is safe to repeat: the same id with the same request gives the job it gave before.

--dry-run does all but admit, and says what would stand in the way now; it exits 0 when the request itself
is in order, whatever it says. --wait follows the job (see lancemaster job wait).

Where the master cannot read the dataset, say what is there with --dataset-version and --schema-contract
(for an existing index also --stored-name). A schema contract is one line of JSON, such as
{"scv":1,"flds":[{"fid":0,"nn":"id","nt":"int64","nul":false}]}; of a dataset that a master can read
"lancemaster dataset inspect --column" shows it.`

func (a *cli) addSubmissionFlags(cmd *cobra.Command, v *submissionFlags) {
	f := cmd.Flags()
	f.StringVar(&v.s.Catalog, "catalog", "", "the dataset's catalog (required)")
	f.StringVar(&v.table, "table", "", "the dataset's table, DATABASE.TABLE, split at the first dot: a.b.c is table b.c of database a (required)")
	f.StringVar(&v.s.Dataset, "dataset", "", "the dataset's URI, such as file:///data/items.lance (required)")
	f.StringVar(&v.s.RequestID, "request-id", "", "makes the submission safe to repeat, 1 to 1024 bytes; default: random")
	f.DurationVar(&v.deadline, "execute-deadline", 0, "how long the backend may take, such as 6h; default: the setting dispatch.execute_deadline")
	f.BoolVar(&v.s.DryRun, "dry-run", false, "check only: admit nothing")
	f.BoolVar(&v.wait, "wait", false, "wait for the outcome and exit by it")
	goalFlags(f, &v.goal)
	f.Int64Var(&v.version, "dataset-version", 0, "the dataset's version, where the master cannot read it")
	f.StringVar(&v.stored, "stored-name", "", "the index's name as the dataset spells it; needs --dataset-version")
	for _, name := range []string{"catalog", "table", "dataset"} {
		require(cmd, name)
	}
	a.complete(cmd, "for", "terminal", "resolved")
}

func require(cmd *cobra.Command, flag string) {
	if err := cmd.MarkFlagRequired(flag); err != nil {
		panic(err) // the flag is not there: a mistake in this package that any run shows
	}
}

// finish checks the flags against each other and completes the submission.
func (v *submissionFlags) finish(cmd *cobra.Command, name string) (err error) {
	changed := cmd.Flags().Changed
	v.s.IndexName = name
	if v.s.Database, v.s.Table, err = parseTable(v.table); err != nil {
		return err
	}
	if changed("execute-deadline") && v.deadline < time.Millisecond {
		return usagef("--execute-deadline %s is not positive", v.deadline)
	}
	v.s.ExecuteDeadline = v.deadline
	switch {
	case v.wait && v.s.DryRun:
		return usagef("--dry-run admits nothing to --wait for")
	case !v.wait && (changed("for") || changed("timeout")):
		return usagef("--for and --timeout need --wait")
	case changed("request-id") && v.s.RequestID == "":
		return usagef("--request-id is empty; leave it out for a random one")
	}
	if err := v.goal.check(); err != nil {
		return err
	}
	if v.s.RequestID == "" && !v.s.DryRun {
		v.s.RequestID = client.NewRequestID()
	}
	if !changed("dataset-version") {
		if changed("schema-contract") || changed("stored-name") {
			return usagef("--schema-contract and --stored-name need --dataset-version: together they say what the master cannot read")
		}
		return nil
	}
	if v.version <= 0 {
		return usagef("--dataset-version %d is not positive", v.version)
	}
	contract, err := textOrFile("--schema-contract", v.contract)
	if err != nil {
		return err
	}
	v.s.Snapshot = &client.CallerSnapshot{DatasetVersion: v.version, SchemaContract: contract, StoredIndexName: v.stored}
	return nil
}

// submit sends the submission, waits if asked to, and shows what came of it.
func (a *cli) submit(ctx context.Context, v *submissionFlags) error {
	return a.withClient(func(c *client.Client) error {
		answer, err := c.Submit(ctx, v.s)
		if err != nil {
			return err
		}
		if answer.Job == nil || !v.wait {
			return a.print(answer, func(out *page) { submissionText(out, answer) })
		}
		fmt.Fprintf(a.Err, "%s, request id %s\n", clean(admitted(answer)), clean(answer.RequestID))
		j, err := a.follow(ctx, c, answer.Job, v.goal)
		var s *statusError
		if err != nil && !errors.As(err, &s) {
			return err
		}
		answer.Job = j
		if printed := a.print(answer, func(out *page) { jobCard(out, j) }); printed != nil {
			return printed
		}
		if err != nil {
			return err
		}
		return outcome(j)
	})
}

func admitted(s *client.Submitted) string {
	if s.Outcome == client.OutcomeExisting {
		return fmt.Sprintf("job %d was admitted by this very request before", s.Job.ID)
	}
	return fmt.Sprintf("job %d is admitted", s.Job.ID)
}

func submissionText(out *page, s *client.Submitted) {
	switch s.Outcome {
	case client.OutcomeNoop:
		fmt.Fprintf(out, "Nothing to do: %s\n", clean(s.Detail))
	case client.OutcomeDryRun:
		if s.WouldAdmit != nil {
			jobCard(out, s.WouldAdmit)
		}
		if len(s.Advice) == 0 {
			fmt.Fprintf(out, "\nIt would be admitted.\n")
			return
		}
		fmt.Fprintf(out, "\nNow it would be refused:\n")
		for _, x := range s.Advice {
			fmt.Fprintf(out, "  %s: %s\n", clean(x.Code), clean(x.Message))
		}
	default:
		if s.Job == nil {
			fmt.Fprintf(out, "%s\n", clean(s.Outcome))
			return
		}
		out.named(number(s.Job.ID))
		text := admitted(s)
		fmt.Fprintf(out, "J%s: %s of %q, %s\n", text[1:], clean(s.Job.Intent.Mutation), s.Job.Target.IndexName, clean(s.Job.State))
		c := newCard(out)
		c.add("request id", s.RequestID)
		c.addf("wait for it", "lancemaster job wait %d", s.Job.ID)
		c.addf("look at it", "lancemaster job show %d", s.Job.ID)
		c.end()
	}
}

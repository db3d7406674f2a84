package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lancemaster/lancemaster/internal/client"
)

func (a *cli) jobExplainCmd() *cobra.Command {
	return a.leaf(&cobra.Command{
		Use:   "explain JOB",
		Short: "Say why a job is where it is, what it holds and what would free that",
		Long: `Say why a job is where it is, what it holds and what would free that, as the leader sees it now: what keeps
a PENDING job from being sent, and each backend from taking it; how long a RUNNING one has left and
whether its backend answers; what a refresh waits for; what an UNKNOWN job holds and what would release
it. Of a job that has ended it says first how: OUTCOME (OUTCOME_UNKNOWN where nobody can tell) has the code
or reason, who said so and when, and the message, with the note of who cancelled it. Who released a slot or
the job is told too. Each line begins with a code for programs; "next" says what to do where something can be done.

A job that was refused was never admitted, so there is nothing to explain: ask with
lancemaster index create --dry-run, which tells of the gate, the name and the quotas.

` + exitPlain,
		Example: `  lancemaster job explain 7
  lancemaster job explain 7 -o json`,
	}, func(ctx context.Context, _ *cobra.Command, args []string) error {
		id, err := parseID("job", args[0])
		if err != nil {
			return err
		}
		return a.withClient(func(c *client.Client) error {
			x, err := c.Explain(ctx, id)
			if err != nil {
				return err
			}
			return a.print(x, func(out *page) { explanation(out, x) })
		})
	})
}

func explanation(out *page, x *client.Explanation) {
	fmt.Fprintf(out, "Job %d: %s\n%s\n\n", x.Job.ID, painted(clean(x.Job.State), out.colours), clean(meaning(x.Job)))
	if len(x.Reasons) == 0 {
		fmt.Fprintln(out, "It waits for nothing and holds nothing.")
	}
	for _, r := range x.Reasons {
		fmt.Fprintf(out, "%s: %s\n", clean(r.Code), clean(r.Message))
		if r.Next != "" {
			fmt.Fprintf(out, "  next: %s\n", clean(r.Next))
		}
	}
}

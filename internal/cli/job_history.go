package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lancemaster/lancemaster/internal/client"
)

func (a *cli) jobHistoryCmd() *cobra.Command {
	return a.staleRead(a.leaf(&cobra.Command{
		Use:   "history JOB",
		Short: "Show each step of a job: when, by whom, why",
		Long: `Show each step of a job, oldest first: when it was journaled (UTC), by whom, and why. Of a job with very
many steps the first 16 and the last 112 are kept. The history goes with its job when retention removes
that.

` + exitPlain,
		Example: `  lancemaster job history 7`,
	}, func(ctx context.Context, _ *cobra.Command, args []string) error {
		id, err := parseID("job", args[0])
		if err != nil {
			return err
		}
		return a.withClient(func(c *client.Client) error {
			h, err := c.History(ctx, id)
			if err != nil {
				return err
			}
			return a.print(h, func(out *page) { historyTable(out, h) })
		})
	}))
}

var historyColumns = []column{
	{name: "REVISION"}, {name: "AT"}, {name: "KIND"}, {name: "STATE", kind: stateCell}, {name: "REFRESH", kind: stateCell},
	{name: "BY", kind: textCell}, {name: "REASON", kind: textCell}, {name: "INDEX", wide: true}, {name: "TERM", wide: true},
}

func historyTable(out *page, h *client.History) {
	t := newTable(out, historyColumns)
	for _, e := range h.Events {
		t.row(fmt.Sprint(e.Revision), e.At.String(), e.Kind, edge(e.FromState, e.ToState), edge(e.FromRefresh, e.ToRefresh), e.Actor, e.Reason, number(e.RaftIndex), number(e.RaftTerm))
	}
	t.end()
	if h.Dropped > 0 {
		out.note("no longer kept: %s in between", counted(h.Dropped, "step"))
	}
}

// edge shows a change, or what stays.
func edge(from, to string) string {
	if from == "" || from == to {
		return to
	}
	return from + " -> " + to
}

package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/lancemaster/lancemaster/internal/client"
)

// staleRead lets a read be answered by one master's own state.
func (a *cli) staleRead(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().BoolVar(&a.stale, "stale", false, "take the answer of the first of --addr that answers, from its own state, which may be behind")
	return cmd
}

// aged tells whose state an answer is from, once for each master.
func (a *cli) aged(s client.Staleness) {
	if s.NodeID == a.answeredBy {
		return
	}
	a.answeredBy = s.NodeID
	fmt.Fprintf(a.Err, "answered by %s from its own state at index %d or later%s\n", clean(s.NodeID), s.AppliedIndex, contact(s))
}

func contact(s client.Staleness) string {
	switch {
	case s.Leader:
		return "; it leads"
	case s.LastContact == nil:
		return "; it has not heard from a leader"
	}
	return ", heard from the leader " + seconds(*s.LastContact) + " ago"
}

// seconds shows a short time to a tenth of a second, and a long one in words that are short.
func seconds(d client.Duration) string {
	t := time.Duration(d)
	if t.Abs() < time.Minute {
		return fmt.Sprintf("%.1fs", t.Seconds())
	}
	return client.Duration(t.Round(time.Second)).String()
}

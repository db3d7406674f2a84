package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lancemaster/lancemaster/internal/client"
)

func (a *cli) clusterStatusCmd() *cobra.Command {
	return a.staleRead(a.leaf(&cobra.Command{
		Use:   "status",
		Short: "Show the members, how far behind they are, and what is wrong",
		Long: `Show the members as the leader knows them: who votes, how many entries of the log each has applied and how
far that is behind, how long ago it was heard, and how far its clock is off. What is wrong stands below.

The master that answers asks the others first, and waits half a second for them: all that is shown of another
is as old as CONTACT says, and one that works is at most a few entries behind. Of one that does not answer,
APPLIED is what it told last, marked (last). CLOCK is how far a clock is ahead (+) of that of the master that
answers.

A member is other-disk where its node answers with another disk than the registered one, as after a lost
disk: then it is heard, and does not take part. The warning says what to do.

With --stale a master says what it knows by itself, which works without a leader too.

` + exitPlain,
		Example: `  lancemaster cluster status
  lancemaster cluster status -o wide
  lancemaster cluster status --stale --addr 10.0.0.2:9021`,
	}, func(ctx context.Context, _ *cobra.Command, _ []string) error {
		return a.withClient(func(c *client.Client) error {
			k, err := c.Cluster(ctx)
			if err != nil {
				return err
			}
			return a.print(k, func(out *page) { clusterTable(out, k) })
		})
	}))
}

var memberColumns = []column{
	{name: "NODE"}, {name: "ROLE", kind: stateCell}, {name: "VOTER"}, {name: "ADDRESS"}, {name: "APPLIED"}, {name: "CONTACT"},
	{name: "VERSION", kind: textCell}, {name: "CLOCK"}, {name: "STATE", kind: textCell, wide: true}, {name: "LEVEL", wide: true},
	{name: "INSTANCE", kind: textCell, wide: true}, {name: "ADMIN", wide: true}, {name: "REPORT", wide: true}, {name: "HTTP", wide: true},
	{name: "LAST ERROR", kind: textCell, wide: true},
}

func clusterTable(out *page, k *client.Cluster) {
	var newest int64
	for _, m := range k.Members {
		newest = max(newest, m.AppliedIndex)
	}
	if len(k.Members) > 0 {
		t := newTable(out, memberColumns)
		for _, m := range k.Members {
			t.row(m.NodeID, memberRole(m), yesNo(m.Voter), m.Address, applied(m, newest), heard(m), m.Version, clock(m),
				memberState(m), fmt.Sprint(m.FeatureLevel), m.InstanceID, m.AdminAddress, m.ReportAddress, m.HTTPAddress, m.LastError)
		}
		t.end()
		out.note("")
	}
	out.note("%s", clean(clusterLine(k)))
	for _, w := range clusterWarnings(k) {
		out.note("warning: %s", clean(w))
	}
}

// roleOtherDisk is shown of a member in whose place another disk answers.
const roleOtherDisk = "other-disk"

func memberRole(m client.Member) string {
	switch {
	case m.Leader:
		return "leader"
	case !m.Reachable && !m.ThisNode && m.State == "another disk answers":
		return roleOtherDisk
	case !m.Reachable && !m.ThisNode:
		return "unreachable"
	case !m.Voter:
		return "joining"
	}
	return "follower"
}

// memberState is what a member is doing. One that has just been taken in has no Raft yet, which it
// calls as it would call one that was stopped.
func memberState(m client.Member) string {
	if m.State == "Shutdown" {
		return "starting"
	}
	return m.State
}

// applied shows how far a member is behind the newest; of one that does not answer, what it told last, and nothing
// where that was never heard, or is another disk's.
func applied(m client.Member, newest int64) string {
	if !m.Reachable && !m.ThisNode {
		if m.AppliedIndex == 0 && (m.LastContact == nil || memberRole(m) == roleOtherDisk) {
			return ""
		}
		return fmt.Sprintf("%d (last)", m.AppliedIndex)
	}
	if lag := newest - m.AppliedIndex; lag > 0 {
		return fmt.Sprintf("%d (-%d)", m.AppliedIndex, lag)
	}
	return number(m.AppliedIndex)
}

func heard(m client.Member) string {
	switch {
	case m.ThisNode:
		return ""
	case m.LastContact == nil:
		return "never"
	}
	return seconds(*m.LastContact)
}

func clock(m client.Member) string {
	if m.ThisNode || m.ClockOffset == nil {
		return ""
	}
	switch text := seconds(*m.ClockOffset); {
	case text == "0.0s" || text == "-0.0s":
		return "0.0s"
	case strings.HasPrefix(text, "-"):
		return text
	default:
		return "+" + text
	}
}

// clusterLine says in a line whether the cluster works.
func clusterLine(k *client.Cluster) string {
	n := k.Node
	switch {
	case n.WaitingFor != "":
		return fmt.Sprintf("%s has no cluster yet; it is waiting: %s", n.NodeID, n.WaitingFor)
	case k.Voters == 0:
		return fmt.Sprintf("%s knows of no members", n.NodeID)
	}
	line := fmt.Sprintf("cluster %d, incarnation %d, term %d, feature level %d: ", n.ClusterID, n.Incarnation, n.RaftTerm, n.FeatureLevel)
	line += fmt.Sprintf("%s, %d needed", counted(k.Voters, "voter"), k.Quorum)
	switch {
	case n.LeaderID == "":
		return line + ", no leader known"
	case k.FailuresTolerated == 0:
		return line + ", none may be lost now"
	}
	return fmt.Sprintf("%s, %d may be lost now", line, k.FailuresTolerated)
}

// clusterWarnings are what the status itself shows to be wrong, and what the master warns of.
func clusterWarnings(k *client.Cluster) []string {
	var out []string
	if n := k.Node; n.Quarantined {
		cause := ""
		if n.QuarantineCause != "" {
			cause = ": " + n.QuarantineCause
		}
		out = append(out, fmt.Sprintf("the cluster is quarantined since %s%s; reopen it with: lancemaster cluster reopen", moment(n.QuarantinedAt), cause))
	}
	for _, m := range k.Members {
		if m.ConfiguredAddress != "" && m.ConfiguredAddress != m.Address {
			out = append(out, fmt.Sprintf("%s is registered at %s, but %s has it at %s in its configuration", m.NodeID, m.Address, k.Node.NodeID, m.ConfiguredAddress))
		}
	}
	for _, w := range k.Warnings {
		// The line above the warnings says it already.
		if k.Node.WaitingFor == "" || !strings.Contains(w, k.Node.WaitingFor) {
			out = append(out, w)
		}
	}
	return out
}

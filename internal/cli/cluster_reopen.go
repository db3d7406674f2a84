package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lancemaster/lancemaster/internal/client"
)

// What is confirmed before a cluster is reopened.
const (
	mastersStopped = "Every master of the older incarnation is stopped, and will not be started again"
	strayMaster    = "If one still runs, it sends jobs that this cluster knows nothing of, and two may write one index"
	backendsAnew   = "After that, at least 10 seconds later, every backend was restarted"
	strayWorker    = "If one was not, what it began for the old masters may still change datasets under new jobs"
)

func (a *cli) clusterReopenCmd() *cobra.Command {
	var r client.Reopening
	cmd := a.leaf(&cobra.Command{
		Use:   "reopen",
		Short: "End the quarantine after a restore or a recovery, on your word",
		Long: `End the quarantine that a restored or recovered cluster is in. What the lost masters did last is not known
here, so two things must be true first, and no program can find them out:

  1. Every master of the older incarnation is stopped, and will not be started again.
     One that still runs could send jobs that this cluster knows nothing of.
  2. After that, at least 10 seconds later, every backend was restarted.
     A send that was under way reaches a backend within 10 seconds, and a restart ends what it began.

On a terminal both are asked for; a script confirms them with the two flags. A note is required.

Each backend that answers as a process of before the quarantine is named. It is refused while one answers as
the very process that a job was sent to before it: restart that one, or stop it. Of any other, only its own
clock says when it started, and the old masters may have been stopped before that: so it is a warning. It is
refused too in the first moments of a leader, until each backend has answered it or failed to.

Afterwards the gate is still closed and dispatch still paused. Look at the jobs that are UNKNOWN, then open
with "lancemaster settings set admission.enabled=true dispatch.paused=false".

` + exitPlain,
		Example: `  lancemaster cluster reopen --note "restored the backup of 03:00 after the fire"
  lancemaster cluster reopen --note "lost two disks" --masters-stopped --backends-restarted`,
	}, func(ctx context.Context, _ *cobra.Command, _ []string) error {
		switch {
		case strings.TrimSpace(r.Note) == "":
			return usagef("--note is missing or empty: say what happened and how you know that it may be reopened")
		case len(r.Note) > maxNote:
			return usagef("--note has %d bytes; at most %d are kept", len(r.Note), maxNote)
		}
		return a.withClient(func(c *client.Client) error { return a.reopen(ctx, c, r) })
	})
	f := cmd.Flags()
	f.StringVar(&r.Note, "note", "", "why it may be reopened, 1 to 1024 bytes, for the record (required)")
	f.BoolVar(&r.MastersStopped, "masters-stopped", false, "confirm that every master of the older incarnation is stopped")
	f.BoolVar(&r.BackendsRestarted, "backends-restarted", false, "confirm that every backend was restarted 10 seconds or more after that")
	return cmd
}

func (a *cli) reopen(ctx context.Context, c *client.Client, r client.Reopening) error {
	var old []string
	if a.interactive() || r.MastersStopped && r.BackendsRestarted {
		var err error
		if old, err = unrestarted(ctx, c); err != nil {
			return err
		}
	}
	restarted := []string{backendsAnew, strayWorker}
	for _, w := range old {
		restarted = append(restarted, "But "+w)
	}
	err := a.confirm(ctx,
		confirmation{"masters-stopped", r.MastersStopped, []string{mastersStopped, strayMaster}},
		confirmation{"backends-restarted", r.BackendsRestarted, restarted})
	if err != nil {
		return err
	}
	r.MastersStopped, r.BackendsRestarted = true, true
	s, err := c.Reopen(ctx, r)
	if err != nil {
		return err
	}
	for _, w := range old {
		fmt.Fprintf(a.Err, "warning: %s\n", clean(w))
	}
	if len(old) > 0 {
		fmt.Fprintln(a.Err, "next: restart each, unless every old master had stopped at least 10 seconds before it started; do so before dispatch goes on")
	}
	return a.print(s, func(out *page) {
		fmt.Fprintf(out, "cluster %d is open again in incarnation %d\n", s.ClusterID, s.Incarnation)
		fmt.Fprintln(out, "its gate is still closed and dispatch paused; look at the UNKNOWN jobs first:")
		fmt.Fprintln(out, "  lancemaster job list --state UNKNOWN")
		fmt.Fprintln(out, "  lancemaster settings set admission.enabled=true dispatch.paused=false")
	})
}

// unrestarted names the backends that answer as a process of before the quarantine, if there is one.
func unrestarted(ctx context.Context, c *client.Client) ([]string, error) {
	k, err := c.Cluster(ctx)
	if err != nil || !k.Node.Quarantined {
		return nil, err
	}
	backends, err := c.Backends(ctx)
	if err != nil {
		return nil, err
	}
	var old []string
	for _, b := range backends {
		if startedBefore(b, k.Node.QuarantinedAt) {
			old = append(old, fmt.Sprintf("backend %d, %s, %s", b.ID, hostPort(b.Host, b.Port), answersAsOld(b, k.Node.QuarantinedAt)))
		}
	}
	return old, nil
}

// startedBefore says that a backend answers as a process that started before the quarantine, by the
// backend's own clock.
func startedBefore(b client.Backend, quarantine client.Time) bool {
	return b.Alive && b.ProcessEpoch > 0 && b.ProcessEpoch < quarantine.UnixMilli()
}

func answersAsOld(b client.Backend, quarantine client.Time) string {
	return fmt.Sprintf("answers as a process that by its own clock started at %s, before the quarantine began at %s",
		moment(client.Time{Time: time.UnixMilli(b.ProcessEpoch).UTC()}), moment(quarantine))
}

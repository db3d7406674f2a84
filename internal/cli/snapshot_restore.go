package cli

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/lancemaster/lancemaster/internal/app"
	"github.com/lancemaster/lancemaster/internal/client"
	"github.com/lancemaster/lancemaster/internal/config"
)

const restoreLong = `Make a data directory of a snapshot file. The node must not run, and no master of the cluster may: the
snapshot goes back to an earlier time, and they do not know.

What comes of it:
  - A cluster of this node alone. Other masters are added to it afterwards, with empty data directories.
  - What was journaled after the snapshot is lost. It may have been sent to backends all the same, so the
    cluster begins a new incarnation in quarantine: jobs that were PENDING or RUNNING become UNKNOWN,
    admission is closed and dispatch paused, until an operator has made sure and runs: lancemaster cluster reopen
  - Masters and data directories of older incarnations are refused from then on.

The snapshot is verified to its last byte first. A directory with content is refused, unless it is this very
node's of this very cluster and --replace is given: then the content is kept in a directory inside it. The
command may be ended at any moment and run again; either the old content counts or the new one. Run again
after its end it changes nothing, and says what is there. If another --incarnation or address is asked for then,
it is refused; with --replace the snapshot is restored once more, in a higher incarnation.

On a terminal the cluster's id is asked for; a script gives it with --expect-cluster-id.

--incarnation is needed where the cluster was restored or recovered after this snapshot was made, and the
directory is empty: then nothing here knows of that. Give one above all that have been; "lancemaster cluster
status", the metric lancemaster_incarnation, each master's node.json and a newer snapshot tell the highest.
Without it an incarnation begins that has been before:
  - masters that are left of it are not refused as older,
  - backends that have seen it refuse this cluster's heartbeats until its term is above the old one's,
  - numbers of jobs are given that were given before.
With the node's old content in the directory, and --replace, the incarnation is found by itself.

`

func (a *cli) snapshotRestoreCmd() *cobra.Command {
	var expect string
	var replace bool
	var v *offlineFlags
	cmd := a.leaf(&cobra.Command{
		Use:   "restore FILE",
		Short: "Make a stopped node's data directory of a snapshot file",
		Long:  restoreLong + exitPlain,
		Example: `  lancemaster snapshot restore backup.lms --config /etc/lancemaster.yaml
  lancemaster snapshot restore backup.lms --data-dir /var/lib/lancemaster --node-id m1 \
    --raft-advertise 10.0.0.1:9010 --expect-cluster-id 271828`,
	}, func(ctx context.Context, cmd *cobra.Command, args []string) error {
		if err := refuseCalling(cmd); err != nil {
			return err
		}
		offline, cfg, err := a.offline(cmd, v)
		if err != nil {
			return err
		}
		if err := filled(cmd, "expect-cluster-id"); err != nil {
			return err
		}
		cluster, err := expected("expect-cluster-id", expect, cfg)
		if err != nil {
			return err
		}
		offline.Confirm = func(p app.OfflinePlan) error {
			return a.confirmCluster(ctx, "expect-cluster-id", expect != "", p.ClusterID, restorePlan(p)...)
		}
		r, err := app.Restore(ctx, app.RestoreOptions{Offline: offline, File: args[0], ExpectCluster: cluster, Replace: replace})
		if err != nil {
			return err
		}
		return a.printRestored(resultOf(r), a.serveAgain(v, cfg))
	})
	v = a.addOfflineFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&expect, "expect-cluster-id", "", "the id of the cluster that the file must be of; confirms the restore without asking")
	f.BoolVar(&replace, "replace", false, "replace this node's own content, which is kept in a directory inside the data directory")
	return cmd
}

func restorePlan(p app.OfflinePlan) []string {
	made := client.Time{Time: time.UnixMilli(p.CreatedAt).UTC()}
	lines := []string{
		fmt.Sprintf("The data directory %s becomes that of %s, alone in cluster %d, incarnation %d.", p.DataDir, p.NodeID, p.ClusterID, p.NewIncarnation),
		fmt.Sprintf("It goes on after entry %d of term %d, from the snapshot that %s made at %s.", p.Index, p.Term, p.CreatedBy, moment(made)),
		"What was journaled after that is lost. Jobs that were not settled become UNKNOWN; the cluster is in quarantine until it is reopened.",
		"No other master of this cluster may run, now or later, with the data that it has.",
	}
	if p.Uncertain {
		lines = append(lines, fmt.Sprintf("INCARNATION %d IS COUNTED FROM THE FILE ALONE: the directory is empty. If this cluster was restored or recovered after the snapshot was made, "+
			"%d may have been; then masters that are left of it are not refused, and backends refuse this one. In that case answer no, and give --incarnation one above all that have been; if it is done already, with --replace.", p.NewIncarnation, p.NewIncarnation))
	}
	if p.Replaces {
		lines = append(lines, "The directory's present content is kept in a directory inside it.")
	}
	return append(lines, onceMore(p)...)
}

// onceMore says that what an earlier run has made is made anew.
func onceMore(p app.OfflinePlan) []string {
	if p.Again == 0 {
		return nil
	}
	return []string{fmt.Sprintf("The directory was restored or recovered already, for incarnation %d. That is given up.", p.Again)}
}

func (a *cli) printRestored(r offlineResult, again commands) error {
	return a.print(r, func(out *page) {
		if r.Already {
			fmt.Fprintln(out, "restored already; nothing was changed")
		} else {
			fmt.Fprintln(out, "restored")
		}
		c := newCard(out)
		c.addResult(r)
		c.end()
		afterwards(out, again)
	})
}

// commands are those that follow a restore or a recovery, as they can be run here.
type commands struct{ serve, reopen, status string }

// serveAgain repeats what this command was told of the node.
func (a *cli) serveAgain(v *offlineFlags, cfg config.Config) commands {
	serve := "lancemaster serve"
	for _, f := range []struct{ name, value string }{
		{"config", v.file}, {"data-dir", v.dataDir}, {"node-id", v.nodeID}, {"raft-advertise", v.advertise},
	} {
		if f.value != "" {
			serve += " --" + f.name + " " + quoted(f.value)
		}
	}
	where := ""
	if a.getenv("LANCEMASTER_ADDR", "") == "" && cfg.Sources["admin.listen"] != config.SourceDefault {
		where = " --addr " + quoted(cfg.AdminListen)
	}
	return commands{serve, `lancemaster cluster reopen --note "what happened"` + where, "lancemaster cluster status" + where}
}

// quoted is a word as a shell takes it.
func quoted(word string) string {
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_./:,=@%+", r)
	}) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// afterwards says what follows a restore or a recovery.
func afterwards(out *page, again commands) {
	for n, step := range []string{
		"make sure that no other master of this cluster runs, and move their data directories away; keep those until nothing is missing",
		"start this node, with its service manager, or by hand: " + clean(again.serve),
		"see that it serves, in quarantine: " + clean(again.status),
		"restart every backend, at least 10 seconds after the last of the old masters was stopped",
		"reopen the cluster: " + clean(again.reopen),
		"add the other masters, each with an empty data directory, one by one, as docs/backup.md says: lancemaster cluster add NODE ADDRESS",
	} {
		if n == 0 {
			fmt.Fprintln(out, "next:")
		}
		fmt.Fprintf(out, "  %d. %s\n", n+1, step)
	}
}

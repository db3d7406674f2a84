package cli

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/lancemaster/lancemaster/internal/app"
)

// devStop bounds the stop of a development node.
const devStop = 10 * time.Second

func (a *cli) devCmd() *cobra.Command {
	var o app.DevOptions
	var level string
	cmd := a.leaf(&cobra.Command{
		Use:   "dev",
		Short: "Run one master with a stub backend on this machine, ready for a first job",
		Long: `Run one master with a stub backend on this machine, ready for a first job: admission is open, datasets
on this machine's disk are allowed, there is a catalog named local, and the stub is registered. The stub
refuses every job on purpose, so jobs end NOT_COMMITTED. Data stays in --data from one start to the next.

Port 0 in an address picks a free one. The addresses and what to try next are printed on stdout, the log
goes to stderr. SIGTERM or SIGINT (Ctrl-C) stop it within 10s, a second one ends it at once.

Exit status: 0 stopped as told, 1 failed or could not start, 2 wrong usage.`,
		Example: `  lancemaster dev
  lancemaster dev --data /tmp/try --admin-listen 127.0.0.1:0`,
	}, func(ctx context.Context, cmd *cobra.Command, _ []string) error {
		if err := refuseFlags(cmd, "addr", "client-name", "call-timeout"); err != nil {
			return err
		}
		var l slog.Level
		if err := l.UnmarshalText([]byte(level)); err != nil {
			return usagef("--log-level %q is not debug, info, warn or error", level)
		}
		o.Logger = nodeLogger(a.Err, l, "text")
		return a.dev(ctx, o)
	})
	f := cmd.Flags()
	f.StringVar(&o.DataDir, "data", "./lancemaster-data", "directory of the journal and the state")
	f.StringVar(&o.AdminListen, "admin-listen", "127.0.0.1:9021", "host:port of the admin service, which the command line uses")
	f.StringVar(&o.ReportListen, "report-listen", "127.0.0.1:9020", "host:port on which backends report")
	f.StringVar(&o.HTTPListen, "http-listen", "127.0.0.1:8030", "host:port of /livez, /readyz and /metrics")
	f.StringVar(&o.RaftListen, "raft-listen", "127.0.0.1:9010", "host:port on which members would replicate")
	f.StringVar(&o.StubListen, "stub-listen", "127.0.0.1:9060", "host:port on which the stub takes jobs")
	f.StringVar(&o.StubHeartbeatListen, "stub-heartbeat-listen", "127.0.0.1:9050", "host:port on which the stub answers heartbeats")
	f.StringVar(&level, "log-level", "warn", "debug, info, warn or error")
	a.complete(cmd, "log-level", "debug", "info", "warn", "error")
	return cmd
}

func (a *cli) dev(ctx context.Context, o app.DevOptions) error {
	signals, end := notify()
	defer end()
	var d *app.Dev
	return tend(ctx, tending{
		signals: signals,
		bound:   func() time.Duration { return devStop },
		start: func(ctx context.Context) (_ node, err error) {
			d, err = app.StartDev(ctx, o)
			return d, err
		},
		up: func() error {
			v := devAddresses{
				Admin: d.Addrs().Admin, Report: d.Addrs().Report, HTTP: d.Addrs().HTTP, Raft: d.Addrs().Raft, Stub: d.StubAddr(), Data: o.DataDir,
			}
			return a.print(v, func(out *page) { v.text(out, exampleDataset()) })
		},
	})
}

// devAddresses is where a development node is.
type devAddresses struct {
	Admin  string `json:"admin"`
	Report string `json:"report"`
	HTTP   string `json:"http"`
	Raft   string `json:"raft"`
	Stub   string `json:"stub"`
	Data   string `json:"data"`
}

func (v devAddresses) text(out *page, dataset string) {
	fmt.Fprintf(out, "One master and a stub backend, for trying things on; data in %s.\n\n", clean(v.Data))
	c := newCard(out)
	c.add("admin", v.Admin)
	c.add("report", v.Report)
	c.add("http", "http://"+v.HTTP)
	c.add("raft", v.Raft)
	c.add("stub", v.Stub)
	c.end()
	fmt.Fprint(out, "\nThe stub refuses every job on purpose, so a job ends NOT_COMMITTED. Try, in another terminal:\n\n")
	if v.Admin != "127.0.0.1:9021" {
		fmt.Fprintf(out, "  export LANCEMASTER_ADDR=%s\n", v.Admin)
	}
	fmt.Fprintf(out, `  lancemaster dataset inspect %[1]s --column vec
  lancemaster index create demo_vec --catalog local --table demo.items --dataset %[1]s \
      --column vec --type ivf_pq --property num_partitions=2 --property num_sub_vectors=4 --wait
  lancemaster job list
  lancemaster job history 1

Ctrl-C stops it.
`, dataset)
}

// exampleDataset is one to try things on: that of a checkout, where this is one.
func exampleDataset() string {
	path, err := filepath.Abs(filepath.Join("testdata", "lance", "typed.lance"))
	if err == nil {
		if _, err := os.Stat(path); err == nil {
			return shellQuoted(path)
		}
	}
	return "file:///path/to/a/dataset.lance"
}

// shellQuoted writes a path so that a shell reads it as one word.
func shellQuoted(path string) string {
	if strings.ContainsFunc(path, func(r rune) bool {
		return !strings.ContainsRune("/._-", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}) {
		return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
	}
	return path
}

package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lancemaster/lancemaster/internal/client"
)

const doctorLong = `Look at a cluster from outside and say what to fix, one line a check: ok, note, warn or FAIL. It changes
nothing. What cannot be looked at is told, and the rest is looked at all the same.

It asks the masters of --addr, and those that the cluster names where they can be reached from here, each by
itself: do they answer, is there one leader that all agree on, are versions and clocks the same, is the cluster
quarantined, are gate and dispatch open, are all members there, may a voter be lost, do certificates expire,
are backends there, do jobs wait for an operator or wait too long.

Disk space, snapshots, further certificates, and whether the configuration and certificate files of a master
could be read again are in its metrics, which are read where the HTTP address that it tells can be reached,
or those of --http. Certificates of the admin service are those that are shown on the way, with TLS.

It is bounded by --timeout, whatever does not answer.

Exit status: 0 nothing failed, 1 a check is FAIL, 2 wrong usage.`

// How a check ended.
const (
	doctorOK   = "ok"
	doctorNote = "note"
	doctorWarn = "warn"
	doctorFail = "FAIL"
)

// check is one line of what was found.
type check struct {
	Result string `json:"result"`
	Name   string `json:"check"`
	Detail string `json:"detail"`
	Next   string `json:"next_step,omitempty"` // what to do about it
}

// checks is what is found, in the order in which it is told.
type checks []check

func (l *checks) add(result, name, next, format string, args ...any) {
	*l = append(*l, check{result, name, fmt.Sprintf(format, args...), next})
}

// worst is the result of all.
func (l *checks) worst() string {
	for _, r := range []string{doctorFail, doctorWarn, doctorNote} {
		if slices.ContainsFunc(*l, func(c check) bool { return c.Result == r }) {
			return r
		}
	}
	return doctorOK
}

func (a *cli) doctorCmd() *cobra.Command {
	var pages []string
	var timeout time.Duration
	cmd := a.leaf(&cobra.Command{
		Use:   "doctor",
		Short: "Look at a cluster from outside and say what to fix",
		Long:  doctorLong,
		Example: `  lancemaster doctor
  lancemaster doctor --addr 10.0.0.1:9021,10.0.0.2:9021,10.0.0.3:9021
  lancemaster doctor --http 10.0.0.1:8030,10.0.0.2:8030,10.0.0.3:8030 -o json`,
	}, func(ctx context.Context, cmd *cobra.Command, _ []string) error {
		if timeout <= 0 {
			return usagef("--timeout %s is not positive", timeout)
		}
		if err := filled(cmd, "http"); err != nil {
			return err
		}
		for _, p := range pages {
			if _, err := client.ParseAddresses(p); err != nil || strings.HasPrefix(p, "unix:") {
				return usagef("--http %q is not host:port", p)
			}
		}
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		found, err := a.examine(ctx, pages)
		if err != nil {
			return err
		}
		return a.printChecks(found.judged())
	})
	cmd.Flags().StringSliceVar(&pages, "http", nil, "host:port[,host:port...] of the masters' HTTP servers, where they are not reached at what they tell")
	cmd.Flags().DurationVar(&timeout, "timeout", 20*time.Second, "how long it may take in all")
	return cmd
}

func (a *cli) printChecks(list checks) error {
	worst := list.worst()
	value := struct {
		Result string `json:"result"`
		Checks checks `json:"checks"`
	}{worst, list}
	err := a.print(value, func(out *page) {
		wide := 0
		for _, c := range list {
			wide = max(wide, cellsOf(clean(c.Name)))
		}
		for _, c := range list {
			name := clean(c.Name)
			fmt.Fprintf(out, "%s%s  %s%s  %s", painted(c.Result, out.colours), strings.Repeat(" ", 4-len(c.Result)),
				name, strings.Repeat(" ", wide-cellsOf(name)), clean(c.Detail))
			if c.Next != "" {
				fmt.Fprintf(out, "; next: %s", clean(c.Next))
			}
			fmt.Fprintln(out)
		}
	})
	if err == nil && worst == doctorFail {
		return &statusError{status: exitFailed}
	}
	return err
}

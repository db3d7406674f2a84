package cli

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/lancemaster/lancemaster/internal/client"
	"github.com/lancemaster/lancemaster/internal/config"
)

func (a *cli) backendAddCmd() *cobra.Command {
	var b client.NewBackend
	var labels []string
	cmd := a.leaf(&cobra.Command{
		Use:        "add HOST",
		SuggestFor: []string{"create", "register"},
		Short:      "Register a backend",
		Long: `Register a backend under a new id. The leader's heartbeats begin at once; jobs are sent to it when it
answers them. An address has one id, and an id's address never changes. A backend on another machine must
reach the masters' report.advertise; a master that tells it a loopback address is warned of on stderr.

` + exitPlain,
		Example: `  lancemaster backend add 10.0.0.7
  lancemaster backend add worker-3.example.com --be-port 9061 --heartbeat-port 9051 --label zone=a`,
	}, func(ctx context.Context, _ *cobra.Command, args []string) error {
		b.Host = args[0]
		pairs, err := parsePairs("--label", labels)
		if err != nil {
			return err
		}
		for _, p := range pairs {
			if slices.ContainsFunc(b.Labels, func(l client.Label) bool { return l.Key == p.Key }) {
				return usagef("the label %q is given twice", p.Key)
			}
			b.Labels = append(b.Labels, client.Label(p))
		}
		for flag, port := range map[string]int{"--be-port": b.Port, "--heartbeat-port": b.HeartbeatPort} {
			if port < 1 || port > 65535 {
				return usagef("%s %d is not a port from 1 to 65535", flag, port)
			}
		}
		return a.withClient(func(c *client.Client) error {
			stored, err := c.AddBackend(ctx, b)
			if err != nil {
				return err
			}
			if err := a.printBackend(stored); err != nil {
				return err
			}
			a.warnOfReports(ctx, c, stored)
			return nil
		})
	})
	f := cmd.Flags()
	f.IntVar(&b.Port, "be-port", 9060, "port that takes jobs")
	f.IntVar(&b.HeartbeatPort, "heartbeat-port", 9050, "port that answers heartbeats")
	f.StringArrayVar(&labels, "label", nil, "KEY=VALUE, a note on the backend; may be repeated")
	return cmd
}

// warnOfReports says so where a backend on another machine is told to report to a loopback address. That
// it cannot be found out is no fault of what was done: the doctor finds it too.
func (a *cli) warnOfReports(ctx context.Context, c *client.Client, b *client.Backend) {
	if config.Loopback(hostPort(b.Host, b.Port)) {
		return
	}
	k, err := c.Cluster(ctx)
	if err != nil {
		return
	}
	if who, _ := unreportable(k.Members, b); who != "" {
		fmt.Fprintf(a.Err, "warning: it is told to report to a loopback address, so that its jobs end UNKNOWN unless it runs on that master's machine: %s\nnext: %s\n",
			clean(who), reachReports)
	}
}

func hostPort(host string, port int32) string { return net.JoinHostPort(host, strconv.Itoa(int(port))) }

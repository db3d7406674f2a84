package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lancemaster/lancemaster/internal/client"
)

func (a *cli) backendCmd() *cobra.Command {
	return a.group(&cobra.Command{
		Use:   "backend",
		Short: "Manage the backends that run index jobs",
		Long: `Manage the backends that run index jobs. A backend serves one cluster of masters.

` + exitPlain,
		Example: `  lancemaster backend add 10.0.0.7
  lancemaster backend list`,
	}, a.listing(a.backendAddCmd(), backendColumns), a.listing(a.backendListCmd(), backendColumns), a.nameable(a.backendRemoveCmd()),
		a.listing(a.backendDrainCmd(), backendColumns), a.listing(a.backendUndrainCmd(), backendColumns))
}

func (a *cli) printBackend(b *client.Backend) error {
	return a.print(b, func(out *page) { backendTable(out, []client.Backend{*b}) })
}

var backendColumns = []column{
	{name: "BACKEND"}, {name: "ADDRESS"}, {name: "HEARTBEAT"}, {name: "STATE", kind: stateCell}, {name: "ALIVE", kind: stateCell}, {name: "SLOTS"},
	{name: "VERSION", kind: textCell}, {name: "LAST OK"}, {name: "LABELS", kind: textCell}, {name: "LAST ERROR", kind: textCell},
	{name: "EPOCH", wide: true}, {name: "CREATED", wide: true}, {name: "UPDATED", wide: true}, {name: "BY", kind: textCell, wide: true},
}

func backendTable(out *page, list []client.Backend) {
	t := newTable(out, backendColumns)
	for _, b := range list {
		var labels []string
		for _, l := range b.Labels {
			labels = append(labels, l.Key+"="+l.Value)
		}
		t.row(number(b.ID), hostPort(b.Host, b.Port), fmt.Sprint(b.HeartbeatPort), b.State, yesNo(b.Alive), fmt.Sprint(b.SlotsHeld),
			b.Version, moment(b.LastOKAt), strings.Join(labels, ","), b.LastError,
			number(b.ProcessEpoch), moment(b.CreatedAt), moment(b.UpdatedAt), b.UpdatedBy)
	}
	t.end()
}

// byID runs a call on the backend that the argument names.
func (a *cli) byID(arg string, f func(*client.Client, int64) error) error {
	id, err := parseID("backend", arg)
	if err != nil {
		return err
	}
	return a.withClient(func(c *client.Client) error { return f(c, id) })
}

// turned carries out a drain or its end and shows the backend.
func (a *cli) turned(ctx context.Context, arg string, turn func(*client.Client, context.Context, int64) (*client.Backend, error)) error {
	return a.byID(arg, func(c *client.Client, id int64) error {
		b, err := turn(c, ctx, id)
		if err != nil {
			return err
		}
		return a.printBackend(b)
	})
}

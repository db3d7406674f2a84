package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lancemaster/lancemaster/internal/client"
)

func (a *cli) datasetInspectCmd() *cobra.Command {
	var column, catalog string
	cmd := a.leaf(&cobra.Command{
		Use:   "inspect URI",
		Short: "Show a dataset's version, fields, indexes and, for a column, its schema contract",
		Long: `Show a dataset's version, fields and indexes, read from its latest manifest by the leader, and the index
names of it that jobs hold. With --column also that column's stored spelling and its schema contract, as
an index job would carry it. Times are UTC.

` + exitPlain,
		Example: `  lancemaster dataset inspect file:///data/items.lance
  lancemaster dataset inspect file:///data/items.lance --column vec -o json`,
	}, func(ctx context.Context, cmd *cobra.Command, args []string) error {
		if err := filled(cmd, "column", "catalog"); err != nil {
			return err
		}
		return a.withClient(func(c *client.Client) error {
			d, err := c.InspectDataset(ctx, args[0], column, catalog)
			if err != nil {
				return err
			}
			return a.print(d, func(out *page) { datasetCard(out, d) })
		})
	})
	f := cmd.Flags()
	f.StringVar(&column, "column", "", "show this column's schema contract")
	f.StringVar(&catalog, "catalog", "", "look up held names in this catalog's store; default: the URI's scheme")
	return a.staleRead(cmd)
}

func datasetCard(out *page, d *client.Dataset) {
	fmt.Fprintf(out, "%s\n", clean(d.Locator))
	c := newCard(out)
	c.addf("version", "%d", d.Version)
	c.add("written", d.At.String())
	c.add("column", d.Column)
	c.add("schema contract", d.SchemaContract)
	c.end()
	fmt.Fprintln(out)
	t := newTable(out, plain("FIELD", "PARENT", "NAME", "TYPE", "NULLABLE"))
	for _, f := range d.Fields {
		parent := ""
		if f.ParentID >= 0 {
			parent = fmt.Sprint(f.ParentID)
		}
		t.row(fmt.Sprint(f.ID), parent, f.Name, f.Type, yesNo(f.Nullable))
	}
	t.end()
	if len(d.Indexes)+len(d.Fences) > 0 {
		fmt.Fprintln(out)
		indexTable(out, d)
	}
}

package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lancemaster/lancemaster/internal/client"
)

func (a *cli) indexListCmd() *cobra.Command {
	var dataset, catalog string
	cmd := a.leaf(&cobra.Command{
		Use:   "list",
		Short: "List a dataset's indexes, and which jobs hold which names",
		Long: `List a dataset's indexes as its manifest has them now, and the jobs that hold index names of it. A name
that is held but not in the dataset is listed without a type. Times are UTC.

` + exitPlain,
		Example: `  lancemaster index list --dataset file:///data/items.lance
  lancemaster index list --dataset file:///data/items.lance --catalog local -o json`,
	}, func(ctx context.Context, cmd *cobra.Command, _ []string) error {
		if err := filled(cmd, "catalog"); err != nil {
			return err
		}
		return a.withClient(func(c *client.Client) error {
			d, err := c.InspectDataset(ctx, dataset, "", catalog)
			if err != nil {
				return err
			}
			value := struct {
				Locator string                `json:"locator"`
				Version int64                 `json:"version"`
				Indexes []client.DatasetIndex `json:"indexes"`
				Fences  []client.DatasetFence `json:"fences"`
			}{d.Locator, d.Version, d.Indexes, d.Fences}
			return a.print(value, func(out *page) { indexTable(out, d) })
		})
	})
	f := cmd.Flags()
	f.StringVar(&dataset, "dataset", "", "the dataset's URI (required)")
	f.StringVar(&catalog, "catalog", "", "look up held names in this catalog's store; default: the URI's scheme")
	require(cmd, "dataset")
	return a.staleRead(cmd)
}

var indexColumns = []column{
	{name: "INDEX", kind: textCell}, {name: "TYPE"}, {name: "COLUMNS", kind: textCell}, {name: "DETAILS", kind: textCell}, {name: "DATASET VERSION"},
	{name: "CREATED"}, {name: "HELD BY"}, {name: "KEY", kind: textCell, wide: true}, {name: "UUID", wide: true},
}

// indexTable lists indexes and, below them, names that are held without being there.
func indexTable(out *page, d *client.Dataset) {
	held := map[string][]string{}
	for _, f := range d.Fences {
		held[f.Key] = append(held[f.Key], fmt.Sprintf("job %d", f.JobID))
	}
	t := newTable(out, indexColumns)
	for _, x := range d.Indexes {
		t.row(x.Name, x.Type, strings.Join(x.Columns, ","), indexDetails(x), number(x.DatasetVersion), moment(x.CreatedAt), strings.Join(held[x.Key], ","), x.Key, x.UUID)
		held[x.Key] = nil
	}
	for _, f := range d.Fences {
		if by := held[f.Key]; by != nil {
			t.row(f.Key, "", "", "", "", "", strings.Join(by, ","), f.Key, "")
			held[f.Key] = nil
		}
	}
	t.end()
}

func indexDetails(x client.DatasetIndex) string {
	var out []string
	if x.Metric != "" {
		out = append(out, "metric="+x.Metric)
	}
	if x.NumSubVectors != 0 {
		out = append(out, fmt.Sprintf("num_sub_vectors=%d", x.NumSubVectors))
	}
	if x.NumBits != 0 {
		out = append(out, fmt.Sprintf("num_bits=%d", x.NumBits))
	}
	return strings.Join(out, " ")
}

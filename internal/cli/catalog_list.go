package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lancemaster/lancemaster/internal/client"
)

var catalogColumns = []column{
	{name: "CATALOG"}, {name: "STORE", kind: textCell}, {name: "OPTIONS"}, {name: "REFRESHER", kind: textCell}, {name: "OPEN"}, {name: "UNRESOLVED"},
	{name: "UPDATED"}, {name: "REVISION", wide: true}, {name: "BY", kind: textCell, wide: true}, {name: "CREATED", wide: true},
}

func (a *cli) catalogListCmd() *cobra.Command {
	return a.staleRead(a.leaf(&cobra.Command{
		Use:   "list",
		Short: "List catalogs",
		Long: `List catalogs by name. OPEN counts the jobs that hold a name or a slot, UNRESOLVED those that hold a name.

` + exitPlain,
		Example: `  lancemaster catalog list
  lancemaster catalog list -o name`,
	}, func(ctx context.Context, _ *cobra.Command, _ []string) error {
		return a.withClient(func(c *client.Client) error {
			list, err := c.Catalogs(ctx)
			if err != nil {
				return err
			}
			value := struct {
				Catalogs []client.Catalog `json:"catalogs"`
			}{list}
			return a.print(value, func(out *page) {
				t := newTable(out, catalogColumns)
				for _, k := range list {
					t.row(k.Name, k.Store, fmt.Sprint(len(k.Options)), k.Refresher.Kind, fmt.Sprint(k.OpenJobs), fmt.Sprint(k.UnresolvedJobs), moment(k.UpdatedAt),
						number(k.Revision), k.UpdatedBy, moment(k.CreatedAt))
				}
				t.end()
			})
		})
	}))
}

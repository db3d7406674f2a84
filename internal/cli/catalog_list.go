package cli

import (
	"bytes"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lancemaster/lancemaster/internal/client"
)

func (a *cli) catalogListCmd() *cobra.Command {
	return a.staleRead(a.leaf(&cobra.Command{
		Use:   "list",
		Short: "List catalogs",
		Long: `List catalogs by name. OPEN counts the jobs that hold a name or a slot, UNRESOLVED those that hold a name.

` + exitPlain,
		Example: `  lancemaster catalog list`,
	}, func(ctx context.Context, _ *cobra.Command, _ []string) error {
		return a.withClient(func(c *client.Client) error {
			list, err := c.Catalogs(ctx)
			if err != nil {
				return err
			}
			value := struct {
				Catalogs []client.Catalog `json:"catalogs"`
			}{list}
			return a.print(value, func(out *bytes.Buffer) {
				t := newTable(out, "CATALOG", "STORE", "OPTIONS", "REFRESHER", "OPEN", "UNRESOLVED", "UPDATED")
				for _, k := range list {
					t.row(k.Name, k.Store, fmt.Sprint(len(k.Options)), k.Refresher.Kind, fmt.Sprint(k.OpenJobs), fmt.Sprint(k.UnresolvedJobs), moment(k.UpdatedAt))
				}
				t.end()
			})
		})
	}))
}

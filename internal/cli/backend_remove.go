package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lancemaster/lancemaster/internal/client"
)

func (a *cli) backendRemoveCmd() *cobra.Command {
	return a.leaf(&cobra.Command{
		Use:        "remove BACKEND",
		SuggestFor: []string{"delete", "drop"},
		Short:      "Remove a backend that holds no slots",
		Long: `Remove a backend. It is refused while jobs hold slots there: drain it first and wait for them, or free a
slot whose worker is certainly gone with "lancemaster job release-slot". Its id is never used again.

` + exitPlain,
		Example: `  lancemaster backend remove 2`,
	}, func(ctx context.Context, _ *cobra.Command, args []string) error {
		return a.byID(args[0], func(c *client.Client, id int64) error {
			if err := c.RemoveBackend(ctx, id); err != nil {
				return err
			}
			return a.done(number(id), fmt.Sprintf("removed backend %d", id), struct {
				Removed int64 `json:"removed"`
			}{id})
		})
	})
}

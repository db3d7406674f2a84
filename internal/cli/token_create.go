package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/lancemaster/lancemaster/internal/client"
)

var roles = []string{"read", "submit", "operate", "admin"}

func (a *cli) tokenCreateCmd() *cobra.Command {
	var role string
	cmd := a.leaf(&cobra.Command{
		Use:        "create NAME",
		SuggestFor: []string{"add"},
		Short:      "Make an access token and print it, once",
		Long: `Make an access token and print it, alone on a line. The masters keep only its hash, so nobody can print it
again: send the output to a file that only its holder reads. One that is lost is revoked and made anew.

` + exitPlain,
		Example: `  (umask 077; lancemaster token create ci --role submit > ci.token)
  lancemaster token create dashboards --role read -o json`,
	}, func(ctx context.Context, _ *cobra.Command, args []string) error {
		if !slices.Contains(roles, role) {
			return usagef("--role %q is not read, submit, operate or admin", role)
		}
		return a.withClient(func(c *client.Client) error {
			t, err := c.CreateToken(ctx, args[0], role)
			if err != nil {
				return err
			}
			fmt.Fprintf(a.Err, "created the token %s with the role %s; it is shown this once\n", clean(t.Name), clean(t.Role))
			return a.print(t, func(out *page) { fmt.Fprintln(out, clean(t.Text)) })
		})
	})
	cmd.Flags().StringVar(&role, "role", "", "read, submit, operate or admin (required)")
	a.complete(cmd, "role", roles...)
	return cmd
}

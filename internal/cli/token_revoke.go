package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lancemaster/lancemaster/internal/client"
)

func (a *cli) tokenRevokeCmd() *cobra.Command {
	return a.leaf(&cobra.Command{
		Use:   "revoke NAME",
		Short: "Make an access token worthless",
		Long: `Make an access token worthless, at once and for good. What was done with it stays in the history under its
name.

` + exitPlain,
		Example: `  lancemaster token revoke ci`,
	}, func(ctx context.Context, _ *cobra.Command, args []string) error {
		return a.withClient(func(c *client.Client) error {
			if err := c.RevokeToken(ctx, args[0]); err != nil {
				return err
			}
			return a.done(args[0], fmt.Sprintf("revoked the token %s", args[0]), struct {
				Revoked string `json:"revoked"`
			}{args[0]})
		})
	})
}

package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lancemaster/lancemaster/internal/client"
)

func (a *cli) tokenRevokeCmd() *cobra.Command {
	var yes bool
	cmd := a.leaf(&cobra.Command{
		Use:        "revoke NAME",
		SuggestFor: []string{"remove", "delete"},
		Short:      "Make an access token worthless",
		Long: `Make an access token worthless, at once and for good. What was done with it stays in the history under its
name.

One in the file of a master's admin.tokens_file is none of the cluster's and is not listed: take its line out of
that file on each master that has it, and within 30s it is worthless there.

Before a token of the role admin you are asked on a terminal, and a script gives --yes: it may be the one
that you call with, or the last one that may make tokens and change the cluster.

` + exitPlain,
		Example: `  lancemaster token revoke ci
  lancemaster token revoke ada --yes`,
	}, func(ctx context.Context, _ *cobra.Command, args []string) error {
		return a.withClient(func(c *client.Client) error {
			if err := a.confirmRevoke(ctx, c, args[0], yes); err != nil {
				return err
			}
			if err := c.RevokeToken(ctx, args[0]); err != nil {
				return err
			}
			return a.done(args[0], fmt.Sprintf("revoked the token %s", args[0]), struct {
				Revoked string `json:"revoked"`
			}{args[0]})
		})
	})
	yesFlag(cmd, &yes)
	return cmd
}

// confirmRevoke has the caller agree to revoking a token of role admin. A caller who may revoke any has
// that role, so its own is one of these; which one, a token does not tell.
func (a *cli) confirmRevoke(ctx context.Context, c *client.Client, name string, yes bool) error {
	if yes {
		return nil
	}
	tokens, err := c.Tokens(ctx)
	if err != nil {
		return err
	}
	found, others := false, 0
	for _, t := range tokens {
		switch {
		case t.Role != "admin":
		case t.Name == name:
			found = true
		default:
			others++
		}
	}
	if !found {
		return nil // the masters say what becomes of it
	}
	states := []string{fmt.Sprintf("The token %s, of role admin, is worthless from then on; nobody can bring it back", name)}
	if a.access.tokenFile != "" {
		states = append(states, "If it is the one that you call with, this is the last thing that is done with it")
	}
	if others == 0 {
		states = append(states, "It is the last one of that role: without a certificate of role admin nobody can then make tokens or change the cluster")
	}
	return a.confirm(ctx, confirmation{"yes", yes, states})
}

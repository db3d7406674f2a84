package cli

import (
	"github.com/spf13/cobra"

	"github.com/lancemaster/lancemaster/internal/client"
)

func (a *cli) tokenCmd() *cobra.Command {
	return a.group(&cobra.Command{
		Use:   "token",
		Short: "Manage the access tokens of callers",
		Long: `Manage the access tokens of callers. A token has a name, which stands in the history as who did it, and a
role: read sees everything; submit also submits jobs; operate also cancels and releases jobs and changes
catalogs, backends and settings; admin also changes the cluster, takes snapshots and manages tokens.

A caller gives its token with --token-file, never as an argument, where other users of the machine see it.

` + exitPlain,
		Example: `  (umask 077; lancemaster token create ci --role submit > ci.token)
  lancemaster job list --token-file ci.token`,
	}, a.tokenCreateCmd(), a.listing(a.tokenListCmd(), tokenColumns), a.nameable(a.tokenRevokeCmd()))
}

var tokenColumns = []column{{name: "NAME"}, {name: "ROLE"}, {name: "CREATED"}, {name: "BY", kind: textCell}}

func tokenTable(out *page, list []client.Token) {
	t := newTable(out, tokenColumns)
	for _, k := range list {
		t.row(k.Name, k.Role, moment(k.CreatedAt), k.CreatedBy)
	}
	t.end()
}

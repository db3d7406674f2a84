package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lancemaster/lancemaster/internal/client"
)

func (a *cli) catalogShowCmd() *cobra.Command {
	return a.staleRead(a.leaf(&cobra.Command{
		Use:        "show NAME",
		SuggestFor: []string{"get", "describe", "inspect"},
		Short:      "Show one catalog",
		Long: `Show one catalog: its options (secrets as references only), its refresher and the jobs that are open in it.
Times are UTC.

` + exitPlain,
		Example: `  lancemaster catalog show lake
  lancemaster catalog show lake -o yaml`,
	}, func(ctx context.Context, _ *cobra.Command, args []string) error {
		return a.withClient(func(c *client.Client) error {
			k, err := c.Catalog(ctx, args[0])
			if err != nil {
				return err
			}
			return a.printCatalog(k)
		})
	}))
}

func (a *cli) printCatalog(k *client.Catalog) error {
	return a.print(k, func(out *page) { catalogCard(out, k) })
}

func catalogCard(out *page, k *client.Catalog) {
	out.named(k.Name)
	fmt.Fprintf(out, "Catalog %s\n", clean(k.Name))
	c := newCard(out)
	store := k.Store
	if store == "" {
		store = "derived from the endpoint option, else the URI scheme"
	}
	c.add("store", store)
	c.addf("jobs", "%d open, %d unresolved", k.OpenJobs, k.UnresolvedJobs)
	c.addf("revision", "%d", k.Revision)
	c.add("created", k.CreatedAt.String())
	c.addf("updated", "%s by %s", k.UpdatedAt, k.UpdatedBy)
	c.section("Options")
	for _, o := range k.Options {
		if o.Ref != "" {
			c.addf(clean(o.Key), "(by reference) %s", o.Ref)
		} else {
			c.addf(clean(o.Key), "%q", o.Value)
		}
	}
	c.section("Refresher")
	r := k.Refresher
	c.add("kind", r.Kind)
	c.add("url", r.URL)
	c.add("frontends", strings.Join(r.Frontends, ", "))
	c.add("user", r.User)
	c.add("password", r.PasswordRef)
	c.add("ca", r.CARef)
	if r.TLS {
		c.add("tls", "yes")
	}
	if r.Timeout != 0 {
		c.add("timeout", r.Timeout.String())
	}
	c.end()
}

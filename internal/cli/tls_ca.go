package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/lancemaster/lancemaster/internal/tlsconf"
)

func (a *cli) tlsCACmd() *cobra.Command {
	var out, name string
	var valid int
	var force bool
	cmd := a.leaf(&cobra.Command{
		Use:   "ca",
		Short: "Make a certificate authority",
		Long: `Make a certificate authority: ca.crt, which everybody is given, and ca.key, which signs certificates.
Whoever has ca.key can make themselves a certificate of any role. Keep it where no master, backend or
script runs, with a copy in a safe place.

The key is ECDSA on P-256, in PKCS #8, and not encrypted. The directory is made with mode 0700, the key
with mode 0600. A file that is there already is replaced only with --force.

` + exitPlain,
		Example: `  lancemaster tls ca --out pki
  lancemaster tls ca --out pki --name acme-lancemaster --days 1825`,
	}, func(context.Context, *cobra.Command, []string) error {
		if out == "" {
			return usagef("--out is missing: the directory to write to")
		}
		validity, err := days(valid)
		if err != nil {
			return err
		}
		if err := tlsconf.CheckName(name); err != nil {
			return usagef("--name: %v", err)
		}
		ca, err := tlsconf.NewCA(name, time.Now(), validity)
		if err != nil {
			return err
		}
		return a.tlsCA(out, ca, force)
	})
	f := cmd.Flags()
	f.StringVar(&out, "out", "", "directory to write to; made when it is not there (required)")
	f.StringVar(&name, "name", "lancemaster-ca", "the authority's name")
	f.IntVar(&valid, "days", int(tlsconf.CAValidity/(24*time.Hour)), "days until it expires, and with it all that it signed")
	f.BoolVar(&force, "force", false, "replace the files that are there; what the old key signed must be issued anew")
	return cmd
}

func (a *cli) tlsCA(out string, ca tlsconf.Pair, force bool) error {
	leaf, err := ca.Leaf()
	if err != nil {
		return err
	}
	r := &tlsResult{
		Name: leaf.Subject.CommonName, NotAfter: leaf.NotAfter.UTC().Format(time.RFC3339),
		Files: []tlsFile{
			{Path: filepath.Join(out, caKeyFile), What: "private key, mode 0600", Goes: "nowhere: it stays here, for tls cert --ca", content: ca.Key(), secret: true},
			{Path: filepath.Join(out, caCertFile), What: "the CA's certificate", Goes: keyCA + " of each master, " + flagCA + " of its clients", content: ca.Cert},
		},
	}
	r.note = fmt.Sprintf("CA %s, valid until %s. Next: lancemaster tls cert --ca %s --help", r.Name, r.NotAfter, out)
	if err := writeTLS(out, r.Files, force); err != nil {
		return err
	}
	return a.printTLS(r)
}

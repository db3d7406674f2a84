package cli

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lancemaster/lancemaster/internal/tlsconf"
)

const tlsCertLong = `Make a key and a certificate for it, signed by the CA of tls ca. NAME.crt and NAME.key go to --out, with a copy
of the CA's certificate, so that the directory is all that its holder needs.

  --role read, submit, operate, admin   somebody who calls the admin service; NAME is the actor in the history
  --role backend                        a backend, which reports; with --host it can be dialled with TLS too
  --role master                         a master: --node is its node_id, --host all names and addresses under
                                        which others reach it

The key is ECDSA on P-256, in PKCS #8, and not encrypted. The directory is made with mode 0700, the key with
mode 0600. A file that is there already is replaced only with --force; a running master notices within 30s.
A ca.crt that is there is never narrowed: with --force the CA is added to the CAs in it, so that who is trusted now
stays trusted; without, one that lacks this CA is refused. One that cannot be read, or holds no certificate, is
refused with --force too, and nothing is written.
A certificate cannot be revoked: let it live short, or rotate the CA (docs/security.md).

` + exitPlain

func (a *cli) tlsCertCmd() *cobra.Command {
	var ca, out, role string
	var r tlsconf.Request
	var valid int
	var force bool
	cmd := a.leaf(&cobra.Command{
		Use:   "cert",
		Short: "Make a certificate for a master, a backend or somebody who calls",
		Long:  tlsCertLong,
		Example: `  lancemaster tls cert --ca pki --out m1 --name m1 --role master --node m1 --host 10.0.0.1,m1.example.com
  lancemaster tls cert --ca pki --out ada --name ada --role operate --days 90`,
	}, func(_ context.Context, cmd *cobra.Command, _ []string) error {
		for _, needed := range []struct{ flag, value, what string }{
			{"ca", ca, "the directory that tls ca wrote"}, {"out", out, "the directory to write to"},
			{"name", r.Name, "the holder's name"}, {"role", role, "read, submit, operate, admin, backend or master"},
		} {
			if needed.value == "" {
				return usagef("--%s is missing: %s", needed.flag, needed.what)
			}
		}
		if err := filled(cmd, "host", "node"); err != nil {
			return err
		}
		r.Role = tlsconf.Role(role)
		var err error
		if r.Validity, err = days(valid); err != nil {
			return err
		}
		if err := checkCertRequest(r); err != nil {
			return err
		}
		return a.tlsCert(ca, out, r, force)
	})
	f := cmd.Flags()
	f.StringVar(&ca, "ca", "", "directory with the CA's ca.crt and ca.key (required)")
	f.StringVar(&out, "out", "", "directory to write to; made when it is not there (required)")
	f.StringVar(&r.Name, "name", "", "the holder's name, also of the files (required)")
	f.StringVar(&role, "role", "", "read, submit, operate, admin, backend or master (required)")
	f.StringSliceVar(&r.Hosts, "host", nil, "host names and IP addresses at which the holder is reached, separated by commas")
	f.StringVar(&r.Node, "node", "", "of a master: its node_id")
	f.IntVar(&valid, "days", int(tlsconf.CertValidity/(24*time.Hour)), "days until it expires; never later than its CA")
	f.BoolVar(&force, "force", false, "replace the files that are there")
	a.complete(cmd, "role", "read", "submit", "operate", "admin", "backend", "master")
	return cmd
}

func checkCertRequest(r tlsconf.Request) error {
	switch {
	case r.Role == tlsconf.RoleMaster && r.Node == "":
		return usagef("--node is missing: the master's node_id; others hold the certificate against it")
	case r.Role == tlsconf.RoleMaster && len(r.Hosts) == 0:
		return usagef("--host is missing: the names and addresses under which others reach the master")
	case strings.EqualFold(r.Name, "ca"):
		return usagef("--name ca would take the names of the CA's files; choose another")
	}
	if err := r.Check(); err != nil {
		return usagef("%v", err)
	}
	return nil
}

func (a *cli) tlsCert(caDir, out string, r tlsconf.Request, force bool) error {
	ca, err := readCA(caDir)
	if err != nil {
		return err
	}
	trustPath := filepath.Join(out, caCertFile)
	there, err := readTrust(trustPath)
	if err != nil {
		return err
	}
	pair, err := tlsconf.Issue(ca, r, time.Now())
	if err != nil {
		return fmt.Errorf("cannot issue a certificate with the CA in %s: %w", caDir, err)
	}
	leaf, err := pair.Leaf()
	if err != nil {
		return err
	}
	goes := certPlaces(r)
	result := &tlsResult{
		Name: r.Name, Role: string(r.Role), Node: r.Node, Hosts: r.Hosts, NotAfter: leaf.NotAfter.UTC().Format(time.RFC3339),
		Files: []tlsFile{
			{Path: filepath.Join(out, r.Name+".key"), What: "private key, mode 0600", Goes: goes[1], content: pair.Key(), secret: true},
			{Path: filepath.Join(out, r.Name+".crt"), What: "certificate", Goes: goes[0], content: pair.Cert},
		},
	}
	trust := tlsFile{Path: trustPath, What: "the CA's certificate", Goes: goes[2], content: ca.Cert}
	trusted := trusts(there, ca.Cert) // from a certificate of before
	if len(there) > 0 && !trusted {
		trust.What += ", added to the others"
		trust.content = slices.Concat(bytes.TrimRight(there, "\n"), []byte("\n"), ca.Cert)
	}
	if !trusted {
		result.Files = append(result.Files, trust)
	}
	if err := writeTLS(out, result.Files, force); err != nil {
		return err
	}
	if trusted {
		trust.What += ", as it was"
		result.Files = append(result.Files, trust)
	}
	result.note = certNote(result)
	return a.printTLS(result)
}

// readTrust reads the file of CAs that a new one is added to; nothing where there is none yet. One that cannot
// be read, or that nobody can tell what it is, is refused before anything is written: to write this CA alone in
// its place would make strangers of all who have certificates of the others.
func readTrust(path string) ([]byte, error) {
	there, err := readPEM(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, &statusError{
			status: exitFailed, message: fmt.Sprintf("which CAs are trusted now cannot be read, and nothing was written: %v", err),
			next: fmt.Sprintf("make %s readable, move it away, or name another directory with --out", path),
		}
	case len(bytes.TrimSpace(there)) == 0:
		return nil, nil
	case len(certificatesIn(there)) == 0:
		return nil, &statusError{
			status: exitFailed, message: fmt.Sprintf("%s has no certificate in PEM, and nothing was written: the CA is added only to a file of CAs", path),
			next: "put the CAs' certificates into it, move it away, or name another directory with --out",
		}
	}
	if err := tlsconf.CheckCAs(there); err != nil { // a start would refuse it, and the old certificate would be gone
		return nil, &statusError{
			status: exitFailed, message: fmt.Sprintf("%s cannot be loaded as it is, and nothing was written: %v", path, err),
			next: "correct it, move it away, or name another directory with --out",
		}
	}
	return there, nil
}

// trusts reports whether a file of CAs has the one in another.
func trusts(bundle, ca []byte) bool {
	all := certificatesIn(bundle)
	for _, der := range certificatesIn(ca) {
		if !slices.ContainsFunc(all, func(b []byte) bool { return bytes.Equal(b, der) }) {
			return false
		}
	}
	return true
}

// certificatesIn returns the certificates in PEM, as DER.
func certificatesIn(text []byte) (out [][]byte) {
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			return out
		}
		if block.Type == "CERTIFICATE" {
			out = append(out, block.Bytes)
		}
		text = rest
	}
}

// certPlaces says where the certificate, the key and the CA's certificate go.
func certPlaces(r tlsconf.Request) [3]string {
	switch r.Role {
	case tlsconf.RoleMaster:
		on := " on the master " + r.Node
		return [3]string{keyCert + on, keyKey + on, keyCA + on}
	case tlsconf.RoleBackend:
		return [3]string{"the backend's certificate", "the backend's key", "what the backend trusts"}
	case tlsconf.RoleRead, tlsconf.RoleSubmit, tlsconf.RoleOperate, tlsconf.RoleAdmin:
	}
	return [3]string{flagCert + " or LANCEMASTER_TLS_CERT", flagKey + " or LANCEMASTER_TLS_KEY", flagCA + " or LANCEMASTER_TLS_CA"}
}

func certNote(r *tlsResult) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, role %s", r.Name, r.Role)
	if r.Node != "" {
		fmt.Fprintf(&b, ", node %s", r.Node)
	}
	if len(r.Hosts) > 0 {
		fmt.Fprintf(&b, ", at %s", strings.Join(r.Hosts, " "))
	}
	fmt.Fprintf(&b, ", valid until %s.", r.NotAfter)
	if r.Role == string(tlsconf.RoleBackend) && len(r.Hosts) == 0 {
		b.WriteString(" It can report; to be dialled with TLS too it needs --host.")
	}
	return b.String()
}

func readCA(dir string) (tlsconf.Pair, error) {
	cert, err := readPEM(filepath.Join(dir, caCertFile))
	var key []byte
	if err == nil {
		key, err = readPEM(filepath.Join(dir, caKeyFile))
	}
	if err != nil {
		return tlsconf.Pair{}, &statusError{
			status: exitFailed, message: fmt.Sprintf("there is no CA that can be read in %s: %v", dir, err),
			next: fmt.Sprintf("make one: lancemaster tls ca --out %s", dir),
		}
	}
	return tlsconf.NewPair(cert, key), nil
}

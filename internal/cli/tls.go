package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/lancemaster/lancemaster/internal/tlsconf"
)

func (a *cli) tlsCmd() *cobra.Command {
	return a.group(&cobra.Command{
		Use:   "tls",
		Short: "Make a certificate authority and certificates for masters, backends and people",
		Long: `Make a certificate authority of your own, and certificates that it signs. Whoever has a PKI already uses
that instead: what a certificate must say is in docs/security.md. No master is asked and nothing is sent.

` + exitPlain,
		Example: `  lancemaster tls ca --out pki
  lancemaster tls cert --ca pki --out m1 --name m1 --role master --node m1 --host 10.0.0.1,m1.example.com`,
	}, a.tlsCACmd(), a.tlsCertCmd())
}

// The names of a CA's files.
const (
	caCertFile = "ca.crt"
	caKeyFile  = "ca.key"
)

// maxPEM bounds a file that is read, in bytes.
const maxPEM = 1 << 20

// Where a file's name is to be put.
const (
	keyCert, keyKey, keyCA    = "tls.cert_file", "tls.key_file", "tls.ca_file"
	flagCert, flagKey, flagCA = "--tls-cert", "--tls-key", "--tls-ca"
)

// tlsFile is one file that was written.
type tlsFile struct {
	Path string `json:"path"`
	What string `json:"what"`
	Goes string `json:"goes_to"`

	content []byte
	secret  bool
}

// tlsResult is what the commands print. Keys are in files only.
type tlsResult struct {
	Name     string    `json:"name"`
	Role     string    `json:"role,omitempty"`
	Node     string    `json:"node,omitempty"`
	Hosts    []string  `json:"hosts,omitempty"`
	NotAfter string    `json:"not_after"`
	Files    []tlsFile `json:"files"`

	note string // for people
}

func (a *cli) printTLS(r *tlsResult) error {
	return a.print(r, func(out *page) {
		t := newTable(out, plain("WROTE", "WHAT", "GOES TO"))
		for _, f := range r.Files {
			t.row(f.Path, f.What, f.Goes)
		}
		t.end()
		fmt.Fprintf(out, "\n%s\n", clean(r.note))
	})
}

// days reads a validity.
func days(n int) (time.Duration, error) {
	const most = int(tlsconf.MaxValidity / (24 * time.Hour))
	if n < 1 || n > most {
		return 0, usagef("--days %d is not from 1 to %d", n, most)
	}
	return time.Duration(n) * 24 * time.Hour, nil
}

// writeTLS writes all files or, where one is there already and may not be replaced, none.
func writeTLS(dir string, files []tlsFile, force bool) error {
	if !force {
		for _, f := range files {
			if _, err := os.Lstat(f.Path); err == nil {
				return existsAlready(f.Path)
			} else if !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("cannot write to %s: %w", dir, err)
			}
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("cannot make the directory: %w", err)
	}
	for _, f := range files {
		mode := fs.FileMode(0o644)
		if f.secret {
			mode = 0o600
		}
		err := writeWhole(f.Path, f.content, mode, force)
		if errors.Is(err, fs.ErrExist) {
			return existsAlready(f.Path)
		}
		if err != nil {
			return fmt.Errorf("cannot write %s: %w", f.Path, err)
		}
	}
	return nil
}

func existsAlready(path string) error {
	return &statusError{
		status: exitFailed, message: fmt.Sprintf("%s is there already; nothing was written", path),
		next: "name another directory with --out, or give --force to replace it: a key that is replaced is lost",
	}
}

// writeWhole makes a file appear with all of its content: a master may be watching it.
func writeWhole(path string, content []byte, mode fs.FileMode, replace bool) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".lancemaster-*") // of mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // of the name under which it was made
	_, err = f.Write(content)
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return err
	}
	if replace {
		return os.Rename(f.Name(), path)
	}
	return os.Link(f.Name(), path) // fails where something is there
}

// readPEM reads a small file.
func readPEM(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxPEM+1))
	if err == nil && len(b) > maxPEM {
		err = fmt.Errorf("%s is larger than %d bytes", path, maxPEM)
	}
	return b, err
}

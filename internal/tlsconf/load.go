package tlsconf

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lancemaster/lancemaster/internal/smallfile"
)

// maxFile bounds each file, in bytes.
const maxFile = 1 << 20

// Files are where a certificate, its private key and a bundle of CAs are, all in PEM. The certificate
// and the key go together. Without a CA file a client trusts what the machine trusts, and a server
// cannot ask for certificates.
type Files struct {
	Cert string // the certificate first, then what leads from it to a CA
	Key  string
	CA   string
}

func (f Files) check() error {
	switch {
	case (f.Cert == "") != (f.Key == ""):
		return errors.New("a certificate and its key go together; name both files or neither")
	case f.Cert == "" && f.CA == "":
		return errors.New("no certificate and no CA file is named")
	}
	return nil
}

// content is what the files held at one moment.
type content struct{ cert, key, ca []byte }

func (f Files) read() (content, error) {
	var c content
	for _, one := range []struct {
		what, path string
		into       *[]byte
	}{{"certificate", f.Cert, &c.cert}, {"key", f.Key, &c.key}, {"CA", f.CA, &c.ca}} {
		if one.path == "" {
			continue
		}
		var err error
		if *one.into, _, err = smallfile.Read(one.path, maxFile); err != nil {
			return content{}, fmt.Errorf("cannot read the %s file: %w", one.what, err)
		}
	}
	return c, nil
}

// digest tells one content from another without keeping the key.
func (c content) digest() [sha256.Size]byte {
	h := sha256.New()
	for _, part := range [][]byte{c.cert, c.key, c.ca} {
		sum := sha256.Sum256(part)
		h.Write(sum[:])
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// loaded is what connections are made with. It is never changed, only replaced.
type loaded struct {
	cert     *tls.Certificate             // nil: none is named
	given    []*x509.Certificate          // the certificate, and what leads from it to a CA
	pool     *x509.CertPool               // nil: none is named
	roots    map[[sha256.Size]byte]string // the certificates in pool, by what they hash to, and whose they are
	notAfter time.Time                    // the first end among the certificate's chain; zero without a certificate
}

// load makes sense of the files' content. Its errors hold nothing of the key.
func (f Files) load(c content, now time.Time) (*loaded, error) {
	var l loaded
	if f.Cert != "" {
		pair, err := tls.X509KeyPair(c.cert, c.key)
		if err != nil {
			return nil, fmt.Errorf("the certificate %s and the key %s: %w", f.Cert, f.Key, err)
		}
		if err := whole(c.cert); err != nil {
			return nil, fmt.Errorf("the certificate %s: %w", f.Cert, err)
		}
		l.cert, l.given, l.notAfter = &pair, []*x509.Certificate{pair.Leaf}, pair.Leaf.NotAfter
		for _, der := range pair.Certificate[1:] {
			above, err := x509.ParseCertificate(der)
			if err != nil {
				return nil, fmt.Errorf("the certificate %s: a certificate after the first cannot be read: %w", f.Cert, err)
			}
			l.given = append(l.given, above)
			if above.NotAfter.Before(l.notAfter) {
				l.notAfter = above.NotAfter
			}
		}
		if now.After(pair.Leaf.NotAfter) {
			return nil, fmt.Errorf("the certificate %s expired at %s; issue a new one", f.Cert, pair.Leaf.NotAfter.UTC().Format(time.RFC3339))
		}
		if now.Before(pair.Leaf.NotBefore) {
			return nil, fmt.Errorf("the certificate %s is valid only from %s; check this machine's clock",
				f.Cert, pair.Leaf.NotBefore.UTC().Format(time.RFC3339))
		}
	}
	if f.CA != "" {
		var err error
		if l.pool, l.roots, err = pool(c.ca); err != nil {
			return nil, fmt.Errorf("the CA file %s: %w", f.CA, err)
		}
	}
	return &l, nil
}

// loses reports whether a bundle lacks a CA that is trusted now.
func (l *loaded) loses(bundle []byte) bool {
	_, roots, err := pool(bundle)
	if err != nil || l == nil {
		return false // which is told when it is loaded
	}
	for root := range l.roots {
		if _, kept := roots[root]; !kept {
			return true
		}
	}
	return false
}

// maxNamed bounds how many CAs a line of log names, and how much of each name.
const (
	maxNamed  = 8
	maxCAName = 64
)

// authorities names the CAs that are trusted, in an order of their own. Two may have one name, as before and after
// a rotation, so the begin of the fingerprint goes along.
func (l *loaded) authorities() []string {
	var out []string
	for sum, name := range l.roots {
		out = append(out, fmt.Sprintf("%.*s (SHA-256 %x…)", maxCAName, name, sum[:4]))
	}
	slices.Sort(out)
	if more := len(out) - maxNamed; more > 0 {
		out = append(out[:maxNamed], fmt.Sprintf("and %d more", more))
	}
	return out
}

// whole refuses PEM of which a part cannot be read, as of a file that is still being written: the decoder passes
// over such parts without a word.
func whole(text []byte) error {
	begun, read := bytes.Count(text, []byte("-----BEGIN ")), 0
	block, rest := pem.Decode(text)
	for ; block != nil; block, rest = pem.Decode(rest) {
		read++
	}
	if read < begun {
		return fmt.Errorf("of %d blocks in PEM that begin in it, only %d can be read", begun, read)
	}
	if bytes.HasPrefix(bytes.TrimSpace(rest), []byte("-")) {
		return fmt.Errorf("it is cut off where block %d in PEM begins", read+1)
	}
	return nil
}

// CheckCAs says whether a file of CAs with this content can be loaded, and why not.
func CheckCAs(bundle []byte) error {
	_, _, err := pool(bundle)
	return err
}

// pool reads a bundle of CAs. A bundle that is half understood would refuse people for no reason that
// anybody could see, so everything in it must be a CA's certificate.
func pool(bundle []byte) (out *x509.CertPool, roots map[[sha256.Size]byte]string, err error) {
	if err := whole(bundle); err != nil {
		return nil, nil, err
	}
	out, roots = x509.NewCertPool(), map[[sha256.Size]byte]string{}
	for n := 1; ; n++ {
		var block *pem.Block
		block, bundle = pem.Decode(bundle)
		if block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return nil, nil, fmt.Errorf("it holds a block %.40q; only certificates belong there", block.Type)
		}
		ca, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, nil, fmt.Errorf("certificate %d in it cannot be read: %w", n, err)
		}
		if !ca.IsCA {
			return nil, nil, fmt.Errorf("certificate %d in it, %.128q, is no CA's; name the certificate that signed the others", n, ca.Subject.CommonName)
		}
		out.AddCert(ca)
		roots[sha256.Sum256(ca.Raw)] = ca.Subject.CommonName
	}
	if len(roots) == 0 {
		return nil, nil, errors.New("it holds no certificate in PEM")
	}
	return out, roots, nil
}

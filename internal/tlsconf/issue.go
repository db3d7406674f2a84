package tlsconf

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net/netip"
	"regexp"
	"strings"
	"time"
)

// How long what is issued here lives when nobody says otherwise, and at most.
const (
	CAValidity   = 10 * 365 * 24 * time.Hour
	CertValidity = 365 * 24 * time.Hour
	MaxValidity  = 30 * 365 * 24 * time.Hour
)

// backdate lets a certificate be used at once on a machine whose clock is a little behind.
const backdate = 5 * time.Minute

const maxHosts = 100

// Pair is a certificate and its private key in PEM. No way of printing shows the key.
type Pair struct {
	Cert []byte
	key  []byte
}

// NewPair joins a certificate and its key that were read from files.
func NewPair(cert, key []byte) Pair { return Pair{Cert: cert, key: key} }

// Key returns the private key in PEM (PKCS #8). It is for a file of mode 0600.
func (p Pair) Key() []byte { return p.key }

// Format keeps every verb from reaching the key.
func (p Pair) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("certificate and key")) }

// LogValue keeps slog from reaching the key.
func (p Pair) LogValue() slog.Value { return slog.StringValue("certificate and key") }

// Leaf returns the certificate.
func (p Pair) Leaf() (*x509.Certificate, error) {
	block, _ := pem.Decode(p.Cert)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("it holds no certificate in PEM")
	}
	return x509.ParseCertificate(block.Bytes)
}

// CheckName refuses names that cannot be a certificate's, a file's and an actor's all at once.
func CheckName(name string) error {
	if !fileName.MatchString(name) {
		return fmt.Errorf("the name %.80q is not 1 to 64 letters, digits and . _ @ -, the first a letter or digit", name)
	}
	return nil
}

var (
	fileName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$`)
	hostName = regexp.MustCompile(`^(\*\.)?([A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?\.)*[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?$`)
)

// NewCA makes a certificate authority that signs what Issue makes, and nothing below itself.
func NewCA(name string, now time.Time, validity time.Duration) (Pair, error) {
	if err := CheckName(name); err != nil {
		return Pair{}, err
	}
	template, err := template(name, now, validity)
	if err != nil {
		return Pair{}, err
	}
	template.IsCA, template.MaxPathLenZero = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, err
	}
	return sign(template, template, key, key)
}

// Request is what a certificate shall say.
type Request struct {
	Name     string
	Role     Role
	Hosts    []string // names and addresses at which the holder is reached; none: it only calls others
	Node     string   // of a master: its node id
	Validity time.Duration
}

// masterActor is the name under which a master acts of its own accord, in every case of letters.
const masterActor = "system"

// calls reports whether the holder is one who calls the admin service, under the certificate's name.
func (r Request) calls() bool { return r.Role != RoleBackend && r.Role != RoleMaster }

// Check refuses what would not work as anybody expects.
func (r Request) Check() error {
	if err := CheckName(r.Name); err != nil {
		return err
	}
	if _, err := ParseRole(string(r.Role)); err != nil {
		return err
	}
	switch {
	case r.calls() && strings.EqualFold(r.Name, masterActor):
		// Masters refuse it at every call: better now than then.
		return fmt.Errorf("nobody who calls can be named %q: the master acts under that name itself, and lets no other use it", r.Name)
	case r.Role == RoleMaster && r.Node == "":
		return errors.New("a master's certificate needs its node id: others hold it against the member that they dial")
	case r.Role == RoleMaster && len(r.Hosts) == 0:
		return errors.New("a master's certificate needs the hosts at which it is reached: whoever dials it checks them")
	case r.Role != RoleMaster && r.Node != "":
		return fmt.Errorf("only a master's certificate has a node id; this one's role is %s", r.Role)
	case len(r.Hosts) > maxHosts:
		return fmt.Errorf("%d hosts are too many for one certificate; the most are %d", len(r.Hosts), maxHosts)
	}
	if r.Node != "" {
		if err := checkNode(r.Node); err != nil {
			return err
		}
	}
	for _, h := range r.Hosts {
		if ip, err := netip.ParseAddr(h); err == nil && ip.Zone() == "" {
			continue
		}
		if len(h) > 253 || !hostName.MatchString(h) {
			return fmt.Errorf("%.80q is neither a host name nor an IP address", h)
		}
	}
	return nil
}

// Issue makes a key and a certificate for it, signed by a CA. It never outlives the CA's.
func Issue(ca Pair, r Request, now time.Time) (Pair, error) {
	if err := r.Check(); err != nil {
		return Pair{}, err
	}
	authority, err := tls.X509KeyPair(ca.Cert, ca.key)
	if err != nil {
		return Pair{}, fmt.Errorf("the CA: %w", err)
	}
	issuer := authority.Leaf
	switch {
	case !issuer.IsCA || issuer.KeyUsage&x509.KeyUsageCertSign == 0:
		return Pair{}, fmt.Errorf("the certificate %.128q is no CA's", issuer.Subject.CommonName)
	case now.After(issuer.NotAfter):
		return Pair{}, fmt.Errorf("the CA %.128q expired at %s; make a new one", issuer.Subject.CommonName, issuer.NotAfter.UTC().Format(time.RFC3339))
	}
	template, err := template(r.Name, now, r.Validity)
	if err != nil {
		return Pair{}, err
	}
	if template.NotAfter.After(issuer.NotAfter) {
		template.NotAfter = issuer.NotAfter
	}
	if template.NotBefore.Before(issuer.NotBefore) {
		template.NotBefore = issuer.NotBefore
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if len(r.Hosts) > 0 {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	template.URIs = append(template.URIs, roleURI(r.Role))
	if r.Node != "" {
		template.URIs = append(template.URIs, nodeURI(r.Node))
	}
	for _, h := range r.Hosts {
		if ip, err := netip.ParseAddr(h); err == nil {
			template.IPAddresses = append(template.IPAddresses, ip.Unmap().AsSlice())
		} else {
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, err
	}
	return sign(template, issuer, key, authority.PrivateKey)
}

func template(name string, now time.Time, validity time.Duration) (*x509.Certificate, error) {
	if validity <= 0 || validity > MaxValidity {
		return nil, fmt.Errorf("a validity of %s is not between 0 and %d days", validity, MaxValidity/(24*time.Hour))
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 128))
	if err != nil {
		return nil, err
	}
	return &x509.Certificate{
		SerialNumber:          serial.Add(serial, big.NewInt(1)), // positive, as it must be
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(validity),
		BasicConstraintsValid: true,
	}, nil
}

func sign(template, issuer *x509.Certificate, key *ecdsa.PrivateKey, signer any) (Pair, error) {
	cert, err := x509.CreateCertificate(rand.Reader, template, issuer, &key.PublicKey, signer)
	if err != nil {
		return Pair{}, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Pair{}, err
	}
	return Pair{
		Cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}),
		key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	}, nil
}

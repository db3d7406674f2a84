package tlsconf_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/pem"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/internal/tlsconf"
)

func TestWhatIsIssued(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	ca, err := tlsconf.NewCA("acme-ca", now, 10*day)
	if err != nil {
		t.Fatal(err)
	}
	root, err := ca.Leaf()
	if err != nil {
		t.Fatal(err)
	}
	if !root.IsCA || root.MaxPathLen != 0 || !root.MaxPathLenZero || root.KeyUsage != x509.KeyUsageCertSign|x509.KeyUsageCRLSign || len(root.SubjectKeyId) == 0 {
		t.Errorf("the CA is %+v", root)
	}
	r := master("a")
	r.Hosts, r.Validity = []string{"m1.example", "*.masters.example", "10.0.0.1", "::1"}, day
	pair, err := tlsconf.Issue(ca, r, now)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := pair.Leaf()
	if err != nil {
		t.Fatal(err)
	}
	if leaf.IsCA || !leaf.BasicConstraintsValid || leaf.KeyUsage != x509.KeyUsageDigitalSignature {
		t.Errorf("the certificate is %+v", leaf)
	}
	if !slices.Equal(leaf.ExtKeyUsage, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}) {
		t.Errorf("its extended uses are %v", leaf.ExtKeyUsage)
	}
	if !slices.Equal(leaf.DNSNames, r.Hosts[:2]) || len(leaf.IPAddresses) != 2 || !leaf.IPAddresses[0].Equal(net.IPv4(10, 0, 0, 1)) {
		t.Errorf("its hosts are %v %v", leaf.DNSNames, leaf.IPAddresses)
	}
	if key, ok := leaf.PublicKey.(*ecdsa.PublicKey); !ok || key.Curve != elliptic.P256() {
		t.Errorf("its key is %T", leaf.PublicKey)
	}
	if !leaf.NotAfter.Equal(now.Add(day)) || leaf.NotBefore.After(now) || now.Sub(leaf.NotBefore) > time.Hour {
		t.Errorf("it is valid from %v to %v", leaf.NotBefore, leaf.NotAfter)
	}
	for _, c := range []*x509.Certificate{root, leaf} {
		if c.SerialNumber.Sign() <= 0 || c.SerialNumber.BitLen() < 64 || c.SerialNumber.BitLen() > 129 {
			t.Errorf("the serial number is %v", c.SerialNumber)
		}
	}
	if block, _ := pem.Decode(pair.Key()); block == nil || block.Type != "PRIVATE KEY" {
		t.Error("the key is not in PKCS #8")
	}
	if err := leaf.CheckSignatureFrom(root); err != nil {
		t.Error(err)
	}

	// One that only calls is good for nothing else.
	client, err := issue(t, ca, tlsconf.Request{Name: "ada@example", Role: tlsconf.RoleOperate}).Leaf()
	if err != nil || !slices.Equal(client.ExtKeyUsage, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}) {
		t.Errorf("a client's: %v, %v", client, err)
	}

	// Nothing outlives the CA that signed it.
	r.Validity = 20 * day
	if pair, err = tlsconf.Issue(ca, r, now); err != nil {
		t.Fatal(err)
	}
	if leaf, err = pair.Leaf(); err != nil || !leaf.NotAfter.Equal(root.NotAfter) {
		t.Errorf("it ends at %v, its CA at %v", leaf.NotAfter, root.NotAfter)
	}
}

func TestWhatIsNotIssued(t *testing.T) {
	ca := newCA(t, "ca")
	for _, tc := range []struct {
		name string
		r    tlsconf.Request
		want string
	}{
		{"no name", tlsconf.Request{Role: tlsconf.RoleRead}, "the name"},
		{"a path", tlsconf.Request{Name: "../x", Role: tlsconf.RoleRead}, "the name"},
		{"a flag", tlsconf.Request{Name: "-x", Role: tlsconf.RoleRead}, "the name"},
		{"no role", tlsconf.Request{Name: "x"}, "the roles are read, submit, operate, admin, backend, master"},
		{"an unknown role", tlsconf.Request{Name: "x", Role: "root"}, `"root" is no role`},
		{"a master without a node", tlsconf.Request{Name: "x", Role: tlsconf.RoleMaster, Hosts: []string{"h"}}, "needs its node id"},
		{"a master without a host", tlsconf.Request{Name: "x", Role: tlsconf.RoleMaster, Node: "x"}, "needs the hosts"},
		{"a backend with a node", tlsconf.Request{Name: "x", Role: tlsconf.RoleBackend, Node: "x"}, "only a master's"},
		{"a bad node", tlsconf.Request{Name: "x", Role: tlsconf.RoleMaster, Node: "a b", Hosts: []string{"h"}}, "the node id"},
		{"host and port", tlsconf.Request{Name: "x", Role: tlsconf.RoleBackend, Hosts: []string{"h:9020"}}, "neither a host name nor an IP address"},
		{"an empty host", tlsconf.Request{Name: "x", Role: tlsconf.RoleBackend, Hosts: []string{""}}, "neither a host name nor an IP address"},
		{"an address with a zone", tlsconf.Request{Name: "x", Role: tlsconf.RoleBackend, Hosts: []string{"fe80::1%eth0"}}, "neither a host name nor an IP address"},
		{"too many hosts", tlsconf.Request{Name: "x", Role: tlsconf.RoleBackend, Hosts: slices.Repeat([]string{"h"}, 101)}, "too many"},
	} {
		tc.r.Validity = day
		if _, err := tlsconf.Issue(ca, tc.r, time.Now()); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q", tc.name, err, tc.want)
		}
	}
	ok := tlsconf.Request{Name: "x", Role: tlsconf.RoleRead, Validity: day}
	if _, err := tlsconf.Issue(ca, tlsconf.Request{Name: "x", Role: tlsconf.RoleRead}, time.Now()); err == nil {
		t.Error("a certificate without a validity was issued")
	}
	if _, err := tlsconf.Issue(issue(t, ca, master("a")), ok, time.Now()); err == nil || !strings.Contains(err.Error(), "is no CA's") {
		t.Errorf("signed by a master's certificate: %v", err)
	}
	if _, err := tlsconf.Issue(ca, ok, time.Now().Add(2*day)); err == nil || !strings.Contains(err.Error(), "expired at") {
		t.Errorf("signed by an expired CA: %v", err)
	}
	if _, err := tlsconf.Issue(tlsconf.NewPair(ca.Cert, newCA(t, "b").Key()), ok, time.Now()); err == nil {
		t.Error("signed with another CA's key")
	}
	if _, err := tlsconf.NewCA("ca", time.Now(), 31*365*day); err == nil {
		t.Error("a CA for 31 years was made")
	}
}

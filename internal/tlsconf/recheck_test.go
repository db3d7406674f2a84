package tlsconf_test

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lancemaster/lancemaster/internal/await"
	"github.com/lancemaster/lancemaster/internal/tlsconf"
)

// standing is the state of a connection whose client showed this certificate, verified against a CA.
func standing(t *testing.T, ca, pair tlsconf.Pair) tls.ConnectionState {
	t.Helper()
	leaf, err := pair.Leaf()
	if err != nil {
		t.Fatal(err)
	}
	root, err := ca.Leaf()
	if err != nil {
		t.Fatal(err)
	}
	return tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}, VerifiedChains: [][]*x509.Certificate{{leaf, root}}}
}

// renewed is a CA's certificate issued anew for the same key.
func renewed(t *testing.T, ca tlsconf.Pair) tlsconf.Pair {
	t.Helper()
	pair, err := tls.X509KeyPair(ca.Cert, ca.Key())
	if err != nil {
		t.Fatal(err)
	}
	template := *pair.Leaf
	template.SerialNumber, template.NotAfter = big.NewInt(99), template.NotAfter.Add(day)
	key, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		t.Fatalf("the CA's key is a %T", pair.PrivateKey)
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tlsconf.NewPair(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), ca.Key())
}

func wantReason(t *testing.T, err error, want tlsconf.Reason) {
	t.Helper()
	var identity *tlsconf.IdentityError
	switch {
	case want == "" && err != nil:
		t.Errorf("refused: %v", err)
	case want != "" && (!errors.As(err, &identity) || identity.Reason != want):
		t.Errorf("got %v, want the reason %s", err, want)
	}
}

// A connection is held against the CAs of now, at each look.
func TestRecheckFollowsTheCAs(t *testing.T) {
	t.Parallel() // it waits until files have settled
	ca, other := newCA(t, "ca"), newCA(t, "other")
	pair := issue(t, ca, tlsconf.Request{Name: "be-1", Role: tlsconf.RoleBackend})
	p := newPlace(t, issue(t, ca, master("a")), ca)
	source := open(t, p)
	state := standing(t, ca, pair)
	wantReason(t, source.Recheck(state), "")
	wantReason(t, source.Recheck(tls.ConnectionState{PeerCertificates: state.PeerCertificates}), tlsconf.ReasonNoCertificate)
	for _, tc := range []struct {
		name  string
		trust []tlsconf.Pair
		want  tlsconf.Reason
	}{
		{"both, as in a rotation", []tlsconf.Pair{ca, other}, ""},
		{"the old one gone", []tlsconf.Pair{other}, tlsconf.ReasonUntrusted},
		{"the old one back", []tlsconf.Pair{ca}, ""},
		{"the same key with a new certificate", []tlsconf.Pair{renewed(t, ca)}, ""},
		{"another CA of the same name", []tlsconf.Pair{newCA(t, "ca")}, tlsconf.ReasonUntrusted},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p.trust(tc.trust...)
			reload(t, source)
			wantReason(t, source.Recheck(state), tc.want)
		})
	}
	p.trust()
	if source.Reload() == nil {
		t.Fatal("an empty CA file was loaded")
	}
	p.trust(ca)
	reload(t, source)
	wantReason(t, source.Recheck(state), "")
}

// A certificate ends when it says, and so does the CA's above it.
func TestRecheckFollowsTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca, err := tlsconf.NewCA("ca", time.Now(), 3*time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		short := tlsconf.Request{Name: "short", Role: tlsconf.RoleBackend, Validity: time.Hour}
		pair, err := tlsconf.Issue(ca, short, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		long := custom(t, ca, "long", time.Now().Add(day), "lancemaster://role/backend") // outlives its CA
		p := newPlace(t, issue(t, ca, master("a")), ca)
		source, system := open(t, p), open(t, &place{t, tlsconf.Files{Cert: p.Cert, Key: p.Key}})
		for _, tc := range []struct {
			after       time.Duration
			short, long tlsconf.Reason
		}{
			{0, "", ""},
			{time.Hour, "", ""}, // the last moment counts
			{time.Second, tlsconf.ReasonExpired, ""},
			{2 * time.Hour, tlsconf.ReasonExpired, tlsconf.ReasonExpired},
		} {
			await.Pass(tc.after)
			for _, s := range []*tlsconf.Source{source, system} {
				wantReason(t, s.Recheck(standing(t, ca, pair)), tc.short)
				wantReason(t, s.Recheck(standing(t, ca, long)), tc.long)
			}
		}
	})
}

package tlsconf_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/internal/tlsconf"
)

func verified(t *testing.T, p tlsconf.Pair) tls.ConnectionState {
	t.Helper()
	leaf, err := p.Leaf()
	if err != nil {
		t.Fatal(err)
	}
	return tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}, VerifiedChains: [][]*x509.Certificate{{leaf}}}
}

func reason(err error) tlsconf.Reason {
	var refused *tlsconf.IdentityError
	if errors.As(err, &refused) {
		return refused.Reason
	}
	return ""
}

func TestPeerOf(t *testing.T) {
	ca := newCA(t, "ca")
	const role, node = "lancemaster://role/", "lancemaster://node/"
	for _, tc := range []struct {
		name, cn string
		uris     []string
		want     tlsconf.Reason
	}{
		{"read", "ada", []string{role + "read"}, ""},
		{"others' URIs are none of ours", "ada", []string{role + "read", "spiffe://example/x", "https://example/role/admin"}, ""},
		{"none", "ada", nil, tlsconf.ReasonNoRole},
		{"only others' URIs", "ada", []string{"spiffe://example/role/admin"}, tlsconf.ReasonNoRole},
		{"two", "ada", []string{role + "read", role + "admin"}, tlsconf.ReasonSeveralRoles},
		{"the same twice", "ada", []string{role + "read", role + "read"}, tlsconf.ReasonSeveralRoles},
		{"unknown", "ada", []string{role + "root"}, tlsconf.ReasonUnknownRole},
		{"another case", "ada", []string{role + "Admin"}, tlsconf.ReasonUnknownRole},
		{"a longer path", "ada", []string{role + "admin/x"}, tlsconf.ReasonUnknownRole},
		{"an empty role", "ada", []string{role}, tlsconf.ReasonUnknownRole},
		{"a query", "ada", []string{role + "admin?x=1"}, tlsconf.ReasonUnknownRole},
		{"a fragment", "ada", []string{role + "admin#x"}, tlsconf.ReasonUnknownRole},
		{"a user", "ada", []string{"lancemaster://u@role/admin"}, tlsconf.ReasonUnknownRole},
		{"an unknown kind beside a role", "ada", []string{role + "read", "lancemaster://scope/all"}, tlsconf.ReasonUnknownRole},
		{"no name", "", []string{role + "read"}, tlsconf.ReasonBadName},
		{"a name that steers a terminal", "a\x1b[2Jb", []string{role + "read"}, tlsconf.ReasonBadName},
		{"a long name", strings.Repeat("a", 200), []string{role + "read"}, tlsconf.ReasonBadName},
		{"two nodes", "a", []string{role + "master", node + "a", node + "b"}, tlsconf.ReasonBadNode},
		{"a node that is no master", "a", []string{role + "admin", node + "a"}, tlsconf.ReasonBadNode},
		{"a node id with a space", "a", []string{role + "master", node + "a%20b"}, tlsconf.ReasonBadNode},
	} {
		t.Run(tc.name, func(t *testing.T) {
			peer, err := tlsconf.PeerOf(verified(t, custom(t, ca, tc.cn, time.Now().Add(day), tc.uris...)))
			if reason(err) != tc.want || (err == nil) != (tc.want == "") {
				t.Fatalf("got %+v, %v, want %q", peer, err, tc.want)
			}
			if err == nil && (peer.Name != "ada" || peer.Role != tlsconf.RoleRead) {
				t.Errorf("got %+v", peer)
			}
			if err != nil && strings.ContainsRune(err.Error(), '\x1b') {
				t.Errorf("the error carries control characters: %q", err)
			}
		})
	}
}

// A certificate that nobody verified names nobody, whatever it says.
func TestPeerOfBelievesOnlyVerifiedCertificates(t *testing.T) {
	state := verified(t, issue(t, newCA(t, "ca"), master("a")))
	state.VerifiedChains = nil
	if _, err := tlsconf.PeerOf(state); reason(err) != tlsconf.ReasonNoCertificate {
		t.Errorf("got %v", err)
	}
	if _, err := tlsconf.NodeOf(tls.ConnectionState{}); reason(err) != tlsconf.ReasonNoCertificate {
		t.Errorf("got %v", err)
	}
}

func TestNodeOf(t *testing.T) {
	ca := newCA(t, "ca")
	for _, id := range []string{"a", "master-1", "a/b?c#d%20e", strings.Repeat("x", 64)} {
		r := master(id)
		r.Name = "m"
		if got, err := tlsconf.NodeOf(verified(t, issue(t, ca, r))); err != nil || got != id {
			t.Errorf("%q: got %q, %v", id, got, err)
		}
	}
	if _, err := tlsconf.NodeOf(verified(t, issue(t, ca, tlsconf.Request{Name: "a", Role: tlsconf.RoleAdmin}))); reason(err) != tlsconf.ReasonWrongRole {
		t.Errorf("an admin's: got %v", err)
	}
	if _, err := tlsconf.NodeOf(verified(t, custom(t, ca, "a", time.Now().Add(day), "lancemaster://role/master"))); reason(err) != tlsconf.ReasonBadNode {
		t.Errorf("a master's without a node: got %v", err)
	}
}

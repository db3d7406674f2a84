package auth_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/internal/auth"
	"github.com/lancemaster/lancemaster/internal/tlsconf"
)

func TestCertificatesAreJudgedAtEachRequest(t *testing.T) {
	backend := certificate(t, tlsconf.Request{Name: "be-1", Role: tlsconf.RoleBackend})
	admin := certificate(t, tlsconf.Request{Name: "ada", Role: tlsconf.RoleAdmin})
	past := *backend.VerifiedChains[0][0]
	past.NotAfter = time.Now().Add(-time.Second)
	expired := &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{&past}}}
	nameless := *backend.VerifiedChains[0][0]
	nameless.URIs = nil
	says := func(reason tlsconf.Reason) auth.Recheck {
		return func(tls.ConnectionState) error { return &tlsconf.IdentityError{Reason: reason, Message: "no longer"} }
	}
	unknown := func(tls.ConnectionState) error { return errors.New("no longer") }
	for _, tc := range []struct {
		name    string
		role    tlsconf.Role
		recheck auth.Recheck
		state   *tls.ConnectionState
		want    auth.Reason
	}{
		{"a backend's", tlsconf.RoleBackend, nil, backend, ""},
		{"any", "", nil, admin, ""},
		{"any, without a role", "", nil, &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{&nameless}}}, ""},
		{"plain TCP", tlsconf.RoleBackend, nil, nil, auth.ReasonNoCredentials},
		{"none", "", nil, &tls.ConnectionState{}, auth.ReasonNoCredentials},
		{"not verified", "", nil, &tls.ConnectionState{PeerCertificates: admin.PeerCertificates}, auth.ReasonNoCredentials},
		{"an admin's where a backend's is needed", tlsconf.RoleBackend, nil, admin, auth.ReasonCertificateRole},
		{"without a role where one is needed", tlsconf.RoleBackend, nil, &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{&nameless}}}, auth.ReasonCertificate},
		{"expired", tlsconf.RoleBackend, nil, expired, auth.ReasonCertificateExpired},
		{"expired, of any role", "", nil, expired, auth.ReasonCertificateExpired},
		{"its CA expired", tlsconf.RoleBackend, says(tlsconf.ReasonExpired), backend, auth.ReasonCertificateExpired},
		{"its CA is gone", tlsconf.RoleBackend, says(tlsconf.ReasonUntrusted), backend, auth.ReasonCertificateUntrusted},
		{"its CA is gone, of any role", "", says(tlsconf.ReasonUntrusted), admin, auth.ReasonCertificateUntrusted},
		{"refused for a reason not known here", "", unknown, admin, auth.ReasonCertificateUntrusted},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := auth.Certificates{Service: auth.ServiceReport, Role: tc.role, Recheck: tc.recheck}.Check(tc.state)
			if got := reasonOf(t, err); got != tc.want {
				t.Errorf("got %q (%v), want %q", got, err, tc.want)
			}
		})
	}
	// The admin service asks in the same way.
	for reason, want := range map[tlsconf.Reason]auth.Reason{
		tlsconf.ReasonExpired: auth.ReasonCertificateExpired, tlsconf.ReasonUntrusted: auth.ReasonCertificateUntrusted,
	} {
		a := newAuth(t, auth.Config{Recheck: says(reason)})
		if _, err := a.Authenticate(t.Context(), home, admin, ""); reasonOf(t, err) != want {
			t.Errorf("the admin service says %v, want %s", err, want)
		}
	}
}

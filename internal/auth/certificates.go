package auth

import (
	"crypto/tls"
	"errors"
	"time"

	"github.com/lancemaster/lancemaster/internal/tlsconf"
)

// Recheck holds the certificate of a connection that stands against what counts now, as
// tlsconf.Source.Recheck does.
type Recheck func(tls.ConnectionState) error

// standing is the clock at least, and what recheck says.
func (recheck Recheck) standing(state tls.ConnectionState, peer tlsconf.Peer, now time.Time) *Error {
	if now.After(peer.NotAfter) {
		return refuse(ReasonCertificateExpired, "connect again with a new certificate",
			"the certificate of %q expired at %s", peer.Name, peer.NotAfter.UTC().Format(time.RFC3339))
	}
	if recheck == nil {
		return nil
	}
	err := recheck(state)
	if err == nil {
		return nil
	}
	reason := ReasonCertificateUntrusted
	if identity, ok := errors.AsType[*tlsconf.IdentityError](err); ok && identity.Reason == tlsconf.ReasonExpired {
		reason = ReasonCertificateExpired
	}
	return refuse(reason, "connect again with a new certificate", "%v", err)
}

// Certificates judges each request of a service whose callers are known by certificates alone. There is
// nothing to guess, and so no limit on failures: the bounds on connections and their handshakes are enough.
type Certificates struct {
	Service  Service
	Role     tlsconf.Role // what the certificate must say; empty: any that was verified will do
	Recheck  Recheck      // nil: only the clock counts
	Failures *Failures
}

// Check refuses the requests of a connection without a certificate of the role, or with one that has
// expired since the handshake or whose CA is trusted no longer. The error is an *Error.
func (c Certificates) Check(state *tls.ConnectionState) error {
	failed := c.check(state)
	if failed == nil {
		return nil
	}
	c.Failures.Count(c.Service, failed.Reason)
	return failed
}

func (c Certificates) check(state *tls.ConnectionState) *Error {
	if state == nil || len(state.VerifiedChains) == 0 || len(state.VerifiedChains[0]) == 0 {
		return refuse(ReasonNoCredentials, "connect with a client certificate", "this connection showed no certificate that was verified")
	}
	leaf := state.VerifiedChains[0][0]
	peer := tlsconf.Peer{Name: leaf.Subject.CommonName, NotAfter: leaf.NotAfter}
	if c.Role != "" {
		var err error
		if peer, err = tlsconf.PeerOf(*state); err != nil {
			return refuse(ReasonCertificate, "have the certificate issued anew: lancemaster tls cert", "%v", err)
		}
		if peer.Role != c.Role {
			return refuse(ReasonCertificateRole, "have the certificate issued anew: lancemaster tls cert",
				"the certificate of %q has the role %s where %s is needed", peer.Name, peer.Role, c.Role)
		}
	}
	return c.Recheck.standing(*state, peer, time.Now())
}

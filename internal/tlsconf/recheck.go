package tlsconf

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"slices"
	"time"
)

// Recheck holds the certificate at the other end of a connection that stands against what counts now: the
// clock and the CAs that are loaded. The handshake held it against what counted then. The error is an
// *IdentityError.
func (s *Source) Recheck(state tls.ConnectionState) error {
	if len(state.VerifiedChains) == 0 || len(state.VerifiedChains[0]) == 0 {
		return refuse(ReasonNoCertificate, "the other side gave no certificate that was verified")
	}
	now, loaded := time.Now(), s.current.Load()
	leaf := state.VerifiedChains[0][0]
	if now.After(leaf.NotAfter) {
		return refuse(ReasonExpired, "the certificate of %.200q expired at %s; connect again with a new one",
			leaf.Subject.CommonName, leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	if slices.ContainsFunc(state.VerifiedChains, func(chain []*x509.Certificate) bool { return loaded.holds(chain, now) }) {
		return nil
	}
	if loaded.pool == nil {
		return refuse(ReasonExpired, "a CA's certificate between that of %.200q and this machine's CAs has expired", leaf.Subject.CommonName)
	}
	// The CA's own certificate may have been renewed for the same key.
	if err := loaded.verify(state.PeerCertificates, now); err != nil {
		reason := ReasonUntrusted
		if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
			reason = ReasonExpired
		}
		return refuse(reason, "the certificate of %.200q leads to no CA that is trusted now: %v; connect again with one that does",
			leaf.Subject.CommonName, err)
	}
	return nil
}

// holds reports whether a chain that was verified would be again. Its signatures are as good as they were.
func (l *loaded) holds(chain []*x509.Certificate, now time.Time) bool {
	for _, c := range chain {
		if now.After(c.NotAfter) {
			return false
		}
	}
	if l.pool == nil {
		return true
	}
	_, trusted := l.roots[sha256.Sum256(chain[len(chain)-1].Raw)]
	return trusted
}

// verify looks for another chain to a CA. What the certificate may be used for was seen to in the handshake.
func (l *loaded) verify(given []*x509.Certificate, now time.Time) error {
	if len(given) == 0 {
		return errors.New("there is none")
	}
	between := x509.NewCertPool()
	for _, c := range given[1:] {
		between.AddCert(c)
	}
	_, err := given[0].Verify(x509.VerifyOptions{
		Roots: l.pool, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	})
	return err
}

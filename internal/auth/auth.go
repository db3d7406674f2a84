package auth

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/tlsconf"
)

// Principal is who calls.
type Principal struct {
	Name     string // empty where nothing vouches for it
	Role     job.Role
	Verified bool // a token or a certificate vouches for the name
}

// Config says whom an Authenticator knows.
type Config struct {
	// Registry returns the cluster's tokens as this node knows them; nil: none.
	Registry func() []*job.Token
	// File holds this node's own tokens; nil: none.
	File *TokenFile
	// Anonymous is the role of a caller that shows neither token nor certificate; zero: it is refused.
	// It is for listeners that NeedsAuth does not want to know their callers.
	Anonymous  job.Role
	Logger     *slog.Logger          // default: discard
	Registerer prometheus.Registerer // default: none
}

// Authenticator finds out who calls. It is safe for concurrent use.
type Authenticator struct {
	cfg      Config
	limiter  *limiter
	failures *prometheus.CounterVec
}

// New makes an Authenticator.
func New(cfg Config) (*Authenticator, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Anonymous != 0 && !cfg.Anonymous.Valid() {
		return nil, fmt.Errorf("the role %d of callers that nobody vouches for is none", cfg.Anonymous)
	}
	a := &Authenticator{cfg: cfg, limiter: newLimiter(), failures: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "lancemaster_auth_failures_total",
		Help: "Calls of the admin service whose caller was not found out or not let in, by reason.",
	}, []string{"reason"})}
	for _, r := range reasons {
		a.failures.WithLabelValues(string(r))
	}
	if cfg.Registerer == nil {
		return a, nil
	}
	return a, cfg.Registerer.Register(a.failures)
}

// Reason says why a caller was not let in. The values are few and fixed, fit for a metric's label.
type Reason string

// The reasons of an Error.
const (
	ReasonNoCredentials      Reason = "no_credentials"
	ReasonMalformedToken     Reason = "malformed_token"
	ReasonUnknownToken       Reason = "unknown_token"
	ReasonLockedOut          Reason = "locked_out"
	ReasonCertificate        Reason = "certificate" // it names nobody as it should
	ReasonCertificateRole    Reason = "certificate_role"
	ReasonCertificateExpired Reason = "certificate_expired"
)

var reasons = []Reason{
	ReasonNoCredentials, ReasonMalformedToken, ReasonUnknownToken, ReasonLockedOut, ReasonCertificate,
	ReasonCertificateRole, ReasonCertificateExpired,
}

// Error says that a caller was not let in. In its chain is the *job.Refusal, with code UNAUTHENTICATED,
// that the caller is told.
type Error struct {
	Reason     Reason
	RetryAfter time.Duration // of ReasonLockedOut
	refusal    *job.Refusal
}

func (e *Error) Error() string { return e.refusal.Error() }

// Unwrap returns the *job.Refusal.
func (e *Error) Unwrap() error { return e.refusal }

func refuse(reason Reason, next, format string, args ...any) *Error {
	return &Error{Reason: reason, refusal: &job.Refusal{Code: job.CodeUnauthenticated, Message: fmt.Sprintf(format, args...), Next: next}}
}

// Authenticate finds out who makes a call that came from peerAddr, with the state of its TLS connection
// (nil: plain) and the token in its context (empty: none). The error is an *Error.
func (a *Authenticator) Authenticate(_ context.Context, peerAddr string, state *tls.ConnectionState, token string) (Principal, error) {
	now := time.Now()
	var p Principal
	var failed *Error
	switch {
	case token != "":
		p, failed = a.byToken(peerAddr, token, now)
	case state != nil && len(state.PeerCertificates) > 0:
		p, failed = byCertificate(*state, now)
	case a.cfg.Anonymous != 0:
		p = Principal{Role: a.cfg.Anonymous}
	default:
		failed = refuse(ReasonNoCredentials, "give an access token or a client certificate", "this master must know who calls")
	}
	if failed == nil {
		return p, nil
	}
	a.failures.WithLabelValues(string(failed.Reason)).Inc()
	a.cfg.Logger.Debug("a caller was not let in", "peer", peerAddr, "reason", failed.Reason)
	return Principal{}, failed
}

func (a *Authenticator) byToken(peer, text string, now time.Time) (Principal, *Error) {
	given, malformed := HashToken(text)
	if wait := a.limiter.wait(peer, given, now); wait > 0 {
		e := refuse(ReasonLockedOut, "correct the token of whoever calls from there", "too many logins from this address failed; it is not listened to for %s",
			max(wait.Round(time.Second), time.Second))
		e.RetryAfter = wait
		return Principal{}, e
	}
	if malformed == nil {
		if t := find(given, a.registered(), a.cfg.File.Tokens()); t != nil {
			a.limiter.succeeded(peer, given, now)
			return Principal{Name: t.Name, Role: t.Role, Verified: true}, nil
		}
	}
	if a.limiter.failed(peer, now) {
		a.cfg.Logger.Warn("logins from an address failed often; it is not listened to for some seconds", "peer", peer)
	}
	if malformed != nil {
		return Principal{}, refuse(ReasonMalformedToken, "check that the whole token was given and nothing else", "%v", malformed)
	}
	return Principal{}, refuse(ReasonUnknownToken, "check that it was not revoked, or ask an admin for one: lancemaster token create",
		"this access token is not known here")
}

func (a *Authenticator) registered() []*job.Token {
	if a.cfg.Registry == nil {
		return nil
	}
	return a.cfg.Registry()
}

// byCertificate reads the caller from a certificate that the handshake has verified.
func byCertificate(state tls.ConnectionState, now time.Time) (Principal, *Error) {
	peer, err := tlsconf.PeerOf(state)
	if err != nil {
		return Principal{}, refuse(ReasonCertificate, "have the certificate issued anew: lancemaster tls cert", "%v", err)
	}
	if now.After(peer.NotAfter) {
		return Principal{}, refuse(ReasonCertificateExpired, "connect again with a new certificate",
			"the certificate of %q expired at %s", peer.Name, peer.NotAfter.UTC().Format(time.RFC3339))
	}
	role, ok := job.ParseRole(string(peer.Role))
	if !ok {
		return Principal{}, refuse(ReasonCertificateRole, "use a certificate with one of the roles read, submit, operate and admin, or a token",
			"the certificate of %q has the role %s, which calls no admin service", peer.Name, peer.Role)
	}
	if peer.Name == job.ActorSystem {
		return Principal{}, refuse(ReasonCertificate, "have the certificate issued for another name",
			"a certificate for the name %q cannot be used: the master acts under it itself", peer.Name)
	}
	return Principal{Name: peer.Name, Role: role, Verified: true}, nil
}

// CheckReporter refuses to take a report over a connection whose client certificate is no backend's, or
// has expired since. It is for a report service that requires client certificates; the invocation's
// secret authenticates each report in any case.
func CheckReporter(state *tls.ConnectionState) error {
	if state == nil {
		return errors.New("the report came over a connection without TLS")
	}
	peer, err := tlsconf.PeerOf(*state)
	switch {
	case err != nil:
		return err
	case peer.Role != tlsconf.RoleBackend:
		return fmt.Errorf("the certificate of %q has the role %s; only a backend reports", peer.Name, peer.Role)
	case time.Now().After(peer.NotAfter):
		return fmt.Errorf("the certificate of %q expired at %s", peer.Name, peer.NotAfter.UTC().Format(time.RFC3339))
	}
	return nil
}

package auth

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"time"

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
	// It is for listeners that only this machine can reach.
	Anonymous job.Role
	Recheck   Recheck      // of certificates; nil: only the clock counts
	Failures  *Failures    // nil: they are not counted
	Logger    *slog.Logger // default: discard
}

// Authenticator finds out who calls. It is safe for concurrent use.
type Authenticator struct {
	cfg     Config
	limiter *limiter
}

// New makes an Authenticator.
func New(cfg Config) (*Authenticator, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Anonymous != 0 && !cfg.Anonymous.Valid() {
		return nil, fmt.Errorf("the role %d of callers that nobody vouches for is none", cfg.Anonymous)
	}
	return &Authenticator{cfg: cfg, limiter: newLimiter()}, nil
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
		p, failed = a.byCertificate(*state, now)
	case a.cfg.Anonymous != 0:
		p = Principal{Role: a.cfg.Anonymous}
	default:
		failed = refuse(ReasonNoCredentials, "give an access token or a client certificate", "this master must know who calls")
	}
	if failed == nil {
		return p, nil
	}
	a.cfg.Failures.Count(ServiceAdmin, failed.Reason)
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
func (a *Authenticator) byCertificate(state tls.ConnectionState, now time.Time) (Principal, *Error) {
	peer, err := tlsconf.PeerOf(state)
	if err != nil {
		return Principal{}, refuse(ReasonCertificate, "have the certificate issued anew: lancemaster tls cert", "%v", err)
	}
	if failed := a.cfg.Recheck.standing(state, peer, now); failed != nil {
		return Principal{}, failed
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

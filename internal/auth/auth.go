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

	// Token is the hash of the registered token that vouches for it, for Confirm; zero: something else does.
	Token job.Hash
}

// Config says whom an Authenticator knows.
type Config struct {
	// Registry returns the cluster's tokens as this node knows them; nil: none.
	Registry func() []*job.Token
	// File holds this node's own tokens; nil: none.
	File *TokenFile
	// Current returns once the registry shows what the cluster had acknowledged before the call: a token that
	// another master made a moment ago may not be known here yet. nil: it always does. It is asked about tokens
	// that are unknown, for addresses that may still fail; its error only means that nobody can tell now.
	Current func(context.Context) error
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
	waits   *waits // for Current
}

// currentWait bounds the wait for a token that is not known yet.
const currentWait = 2 * time.Second

// New makes an Authenticator.
func New(cfg Config) (*Authenticator, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Anonymous != 0 && !cfg.Anonymous.Valid() {
		return nil, fmt.Errorf("the role %d of callers that nobody vouches for is none", cfg.Anonymous)
	}
	return &Authenticator{cfg: cfg, limiter: newLimiter(), waits: newWaits()}, nil
}

// Authenticate finds out who makes a call that came from peerAddr, with the state of its TLS connection
// (nil: plain) and the token in its context (empty: none). The error is an *Error.
func (a *Authenticator) Authenticate(ctx context.Context, peerAddr string, state *tls.ConnectionState, token string) (Principal, error) {
	now := time.Now()
	var p Principal
	var failed *Error
	switch {
	case token != "":
		p, failed = a.byToken(ctx, peerAddr, token)
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

// byToken lets a token that this node knows in from wherever it comes: whoever has one has not guessed it, however
// many others have failed at that address, and what an address learns of tokens by trying is what it could learn
// without the limit, of 256 bits. For a token that it does not know, the leader is not asked while an address has
// failed too often: that is the work that the limit spares.
func (a *Authenticator) byToken(ctx context.Context, peer, text string) (Principal, *Error) {
	given, malformed := HashToken(text)
	if malformed == nil {
		if p, ok := a.known(given); ok {
			return p, nil
		}
	}
	if wait := a.limiter.wait(peer, time.Now()); wait > 0 {
		e := refuse(ReasonLockedOut, "correct the token of whoever calls from there; a valid one is let in as soon as this master has heard of it",
			"this access token is not known here, and too many logins from this address failed: unknown ones are not looked into for %s",
			max(wait.Round(time.Second), time.Second))
		e.RetryAfter = wait
		return Principal{}, e
	}
	if malformed == nil && a.cfg.Current != nil {
		if failed := a.wait(ctx, peer); failed != nil {
			return Principal{}, failed // perhaps it is valid: nothing is held against the address
		}
		if p, ok := a.known(given); ok {
			return p, nil
		}
	}
	if a.limiter.failed(peer, time.Now()) {
		a.cfg.Logger.Warn("logins from an address failed often; unknown tokens from there are not looked into for some seconds", "peer", peer)
	}
	if malformed != nil {
		return Principal{}, refuse(ReasonMalformedToken, "check that the whole token was given and nothing else", "%v", malformed)
	}
	return Principal{}, refuse(ReasonUnknownToken, "check that it was not revoked, or ask an admin for one: lancemaster token create",
		"this access token is not known here")
}

func (a *Authenticator) known(given job.Hash) (Principal, bool) {
	registered, own := find(given, a.registered()), find(given, a.cfg.File.Tokens()) // both, for the time that takes
	switch {
	case registered != nil:
		return Principal{Name: registered.Name, Role: registered.Role, Verified: true, Token: given}, true
	case own != nil:
		return Principal{Name: own.Name, Role: own.Role, Verified: true}, true
	default:
		return Principal{}, false
	}
}

// Confirm looks up again whom Authenticate found by a registered token, here or at another master, in the registry
// as this node has it now. A master that is behind, or one that came to lead after it had looked, does not know of
// a revocation that another has acknowledged. For anybody else the registry has no say. The error is an *Error.
func (a *Authenticator) Confirm(p Principal) error {
	if p.Token == (job.Hash{}) {
		return nil
	}
	if t := find(p.Token, a.registered()); t != nil && t.Name == p.Name && t.Role == p.Role {
		return nil
	}
	a.cfg.Failures.Count(ServiceAdmin, ReasonUnknownToken)
	return refuse(ReasonUnknownToken, "ask an admin for another one: lancemaster token create", "this access token was revoked")
}

// wait returns once the registry is as new as the call. Of those who show unknown tokens only so many wait, and of
// those at one address only a few: whom there is no room for is not sent to the next master, which has no more.
func (a *Authenticator) wait(ctx context.Context, peer string) *Error {
	if !a.waits.enter(peer) {
		return notCurrent(job.CodeUnavailable, "try again shortly",
			"this access token is not known here, and too many others wait to hear whether theirs are new; nothing was changed")
	}
	defer a.waits.leave(peer)
	ctx, cancel := context.WithTimeout(ctx, currentWait)
	defer cancel()
	if err := a.cfg.Current(ctx); err != nil {
		// This code has a client ask the others, also for a change that must not be made twice.
		return notCurrent(job.CodeNotLeader, "try again shortly, or ask another master",
			"this access token is not known here, and this master cannot tell now whether it is new; nothing was changed")
	}
	return nil
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
	if err := job.CheckCaller(peer.Name); err != nil {
		return Principal{}, refuse(ReasonCertificate, "have the certificate issued for another name",
			"a certificate for the name %q cannot be used: %v", peer.Name, err)
	}
	return Principal{Name: peer.Name, Role: role, Verified: true}, nil
}

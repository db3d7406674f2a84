package rpc

import (
	"context"

	"github.com/lancemaster/lancemaster/gen-go/admin"
	"github.com/lancemaster/lancemaster/internal/job"
)

// Principal is who makes a call.
type Principal struct {
	Name     string
	Role     job.Role
	Verified bool // something vouches for the name

	// Token is the hash of the registered token that vouches for it; zero: something else does. It goes along to the
	// leader, which knows of every revocation.
	Token job.Hash `json:",omitzero"`
}

// actor names a principal in the history. A name that nothing vouches for says so.
func (p Principal) actor() string {
	name := cleanText(p.Name, maxClientName)
	if name == "" {
		name = "anonymous"
	}
	if p.Verified {
		return name
	}
	return job.Unverified + name
}

type principalKey struct{}

// WithPrincipal says who makes the calls of a context: nobody is asked again.
func WithPrincipal(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// PrincipalOf returns who makes the call that ctx is of, where that is known.
func PrincipalOf(ctx context.Context) (Principal, bool) {
	p, ok := ctx.Value(principalKey{}).(Principal)
	return p, ok
}

// Authenticator tells who makes a call from what the call shows: the token in its context, which may
// be empty, and the connection that ctx is of. A *job.Refusal is what the caller is told; with any
// other error the caller learns that nobody could be asked. Where nothing vouches for a caller but
// some may be let in, the name may be left empty: it is then the one the caller gives itself.
type Authenticator interface {
	Authenticate(ctx context.Context, token string) (Principal, error)
	// Confirm refuses whom Authenticate let in, here or at another master, by a token that this node knows to be
	// revoked. The leader asks when it serves.
	Confirm(p Principal) error
}

// maxClientName bounds the name a caller gives itself.
const maxClientName = job.MaxCaller

// confirm has the leader look again at who calls, once it knows all that was acknowledged: whoever let the caller in,
// another master or this one before it led, may not have known of a revocation.
func (a *Admin) confirm(ctx context.Context) error {
	p, ok := PrincipalOf(ctx)
	if !ok || a.cfg.Authenticator == nil {
		return nil
	}
	if err := a.cfg.Authenticator.Confirm(p); err != nil {
		return notAuthenticated(err)
	}
	return nil
}

// principal finds out who calls. Without an Authenticator everybody may do everything, and nobody's
// name is vouched for.
func (a *Admin) principal(ctx context.Context, c *admin.TRequestContext) (Principal, error) {
	if p, ok := PrincipalOf(ctx); ok {
		return p, nil
	}
	p := Principal{Role: job.RoleAdmin}
	if a.cfg.Authenticator != nil {
		token := ""
		if c != nil {
			token = c.GetToken()
		}
		var err error
		if p, err = a.cfg.Authenticator.Authenticate(ctx, token); err != nil {
			return Principal{}, notAuthenticated(err)
		}
	}
	if !p.Verified && p.Name == "" && c != nil {
		p.Name = cleanText(c.GetClientName(), maxClientName)
	}
	return p, nil
}

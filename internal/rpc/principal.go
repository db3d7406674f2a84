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
}

// maxClientName bounds the name a caller gives itself.
const maxClientName = job.MaxCaller

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

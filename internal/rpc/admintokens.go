package rpc

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"

	"github.com/lancemaster/lancemaster/gen-go/admin"
	"github.com/lancemaster/lancemaster/internal/job"
)

// TokenPrefix begins the text of every token, so that one that lies where it should not is known for
// what it is.
const TokenPrefix = "lm_"

// newToken makes the text of a token from 256 random bits.
func newToken() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	return TokenPrefix + base64.RawURLEncoding.EncodeToString(b[:])
}

// CreateToken makes an access token. Its text is in the answer and nowhere else; the journal gets its
// hash.
func (a *Admin) CreateToken(ctx context.Context, req *admin.TCreateTokenRequest) (*admin.TCreateTokenResponse, error) {
	return serve(ctx, a, "createToken", req, (*remote).CreateToken, func(c call) (*admin.TCreateTokenResponse, error) {
		var f fields
		name, role := f.text("name", req.Name), f.role(req.Role)
		if err := job.CheckCaller(name); err != nil {
			f.refuse("name", "cannot be used: "+err.Error())
		}
		if f.refusal != nil {
			return nil, f.refusal
		}
		text := newToken()
		put := job.PutToken{Header: a.header(c), Token: name, Role: role, Hash: sha256.Sum256([]byte(text))}
		if _, err := a.cfg.Journal.Propose(c, put); err != nil {
			return nil, err
		}
		return &admin.TCreateTokenResponse{Token: text, Info: &admin.TToken{
			Name: name, Role: role.String(), CreatedAtMs: int64(put.At), CreatedBy: put.Actor,
		}}, nil
	})
}

// role reads the name of a role.
func (f *fields) role(v *string) job.Role {
	role, ok := job.ParseRole(f.text("role", v))
	if !ok {
		f.refuse("role", fmt.Sprintf("is %q; the roles are read, submit, operate and admin", shown(f.optionalText("role", v))))
	}
	return role
}

// ListTokens returns every access token, by name. The hashes stay inside.
func (a *Admin) ListTokens(ctx context.Context, req *admin.TListRequest) (*admin.TListTokensResponse, error) {
	return serve(ctx, a, "listTokens", req, (*remote).ListTokens, func(call) (*admin.TListTokensResponse, error) {
		answer := &admin.TListTokensResponse{Tokens: []*admin.TToken{}}
		a.cfg.State.Read(func(v View) {
			for _, t := range v.Tokens() {
				answer.Tokens = append(answer.Tokens, &admin.TToken{
					Name: t.Name, Role: t.Role.String(), CreatedAtMs: int64(t.CreatedAt), CreatedBy: t.CreatedBy,
				})
			}
		})
		return answer, nil
	})
}

// RevokeToken removes an access token.
func (a *Admin) RevokeToken(ctx context.Context, req *admin.TRevokeTokenRequest) (*admin.TRemoveResponse, error) {
	return serve(ctx, a, "revokeToken", req, (*remote).RevokeToken, func(c call) (*admin.TRemoveResponse, error) {
		var f fields
		name := f.text("name", req.Name)
		if f.refusal != nil {
			return nil, f.refusal
		}
		_, err := a.cfg.Journal.Propose(c, job.RemoveToken{Header: a.header(c), Token: name})
		return &admin.TRemoveResponse{}, err
	})
}

package client

import (
	"context"
	"fmt"

	"github.com/lancemaster/lancemaster/gen-go/admin"
)

// Token is an access token as it is listed, without its text.
type Token struct {
	Name      string `json:"name"`
	Role      string `json:"role"` // read, submit, operate or admin; each includes the ones before
	CreatedAt Time   `json:"created_at,omitzero"`
	CreatedBy string `json:"created_by"`
}

// NewToken is a token with its text, which no master can tell again.
type NewToken struct {
	Token
	Text string `json:"token"`
}

// CreateToken makes an access token.
func (c *Client) CreateToken(ctx context.Context, name, role string) (*NewToken, error) {
	op := change("the creation of the token")
	op.next = fmt.Sprintf("look with: lancemaster token list; if %s is there, its text is lost: revoke it and create it again", name)
	w, err := invoke(ctx, c, op, func(ctx context.Context, a *admin.AdminServiceClient) (*admin.TCreateTokenResponse, error) {
		return a.CreateToken(ctx, &admin.TCreateTokenRequest{Ctx: c.caller(), Name: &name, Role: &role})
	})
	if err != nil {
		return nil, err
	}
	if w.Info == nil || w.Token == "" {
		return nil, &Error{Code: CodeBadReply, Message: "the answer has no token", Next: op.next}
	}
	return &NewToken{Token: tokenOf(w.Info), Text: w.Token}, nil
}

// Tokens returns all access tokens by name.
func (c *Client) Tokens(ctx context.Context) ([]Token, error) {
	w, err := invoke(ctx, c, read("listing tokens"), func(ctx context.Context, a *admin.AdminServiceClient) (*admin.TListTokensResponse, error) {
		return a.ListTokens(ctx, &admin.TListRequest{Ctx: c.caller()})
	})
	if err != nil {
		return nil, err
	}
	out := []Token{}
	for _, t := range w.Tokens {
		out = append(out, tokenOf(t))
	}
	return out, nil
}

// RevokeToken makes a token worthless.
func (c *Client) RevokeToken(ctx context.Context, name string) error {
	op := change("revoking the token")
	op.next = "look with: lancemaster token list; revoke it again if it is there"
	_, err := invoke(ctx, c, op, func(ctx context.Context, a *admin.AdminServiceClient) (*admin.TRemoveResponse, error) {
		return a.RevokeToken(ctx, &admin.TRevokeTokenRequest{Ctx: c.caller(), Name: &name})
	})
	return err
}

func tokenOf(w *admin.TToken) Token {
	return Token{Name: w.Name, Role: w.Role, CreatedAt: timeOf(w.CreatedAtMs), CreatedBy: w.CreatedBy}
}

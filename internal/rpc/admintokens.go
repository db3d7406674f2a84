package rpc

import (
	"context"

	"github.com/lancemaster/lancemaster/gen-go/admin"
	"github.com/lancemaster/lancemaster/internal/job"
)

func notYet() error {
	return &job.Refusal{Code: job.CodeUnavailable, Message: "this build has no replicated access tokens"}
}

// ReopenCluster ends the quarantine that a restore or a recovery began.
func (a *Admin) ReopenCluster(ctx context.Context, req *admin.TReopenClusterRequest) (*admin.TReopenClusterResponse, error) {
	return serve(ctx, a, method{name: "reopenCluster", access: writes, lost: lookAtCluster}, req, func(call) (*admin.TReopenClusterResponse, error) {
		return nil, notYet()
	})
}

// CreateToken makes an access token.
func (a *Admin) CreateToken(ctx context.Context, req *admin.TCreateTokenRequest) (*admin.TCreateTokenResponse, error) {
	return serve(ctx, a, method{name: "createToken", access: writes, lost: lookAtTokens}, req, func(call) (*admin.TCreateTokenResponse, error) {
		return nil, notYet()
	})
}

// ListTokens returns every access token, by name, without its secret.
func (a *Admin) ListTokens(ctx context.Context, req *admin.TListRequest) (*admin.TListTokensResponse, error) {
	return serve(ctx, a, method{name: "listTokens", access: reads}, req, func(call) (*admin.TListTokensResponse, error) {
		return nil, notYet()
	})
}

// RevokeToken removes an access token.
func (a *Admin) RevokeToken(ctx context.Context, req *admin.TRevokeTokenRequest) (*admin.TRemoveResponse, error) {
	return serve(ctx, a, method{name: "revokeToken", access: writes, lost: lookAtTokens}, req, func(call) (*admin.TRemoveResponse, error) {
		return nil, notYet()
	})
}

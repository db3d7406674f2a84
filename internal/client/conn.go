package client

import (
	"context"
	"errors"
	"time"

	"github.com/lancemaster/lancemaster/gen-go/admin"
	"github.com/lancemaster/lancemaster/internal/thriftnet"
)

const (
	maxReply     = 16 << 20 // bytes of one reply
	maxContainer = 1 << 16  // elements of one list
)

// conn is one connection and the Thrift client over it; one call at a time.
type conn struct {
	net     *thriftnet.Client
	service *admin.AdminServiceClient
	fit     bool // its last call left it fit for another
	idleAt  time.Time
	// withheld says that the caller has a certificate, and that it was not shown.
	withheld bool
}

// dial connects to address within the context's and the configuration's bounds.
// Nothing is sent that a service would act on.
func (c *Client) dial(ctx context.Context, address string) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.DialTimeout)
	defer cancel()
	var withheld bool
	n, err := thriftnet.Dial(ctx, address, thriftnet.ClientConfig{
		TLS: presenting(c.cfg.TLS, &withheld), Dial: c.cfg.Dial, MaxMessage: maxReply, MaxContainer: maxContainer,
	})
	if err != nil && withheld {
		return nil, &withheldError{err}
	}
	if err != nil {
		return nil, err
	}
	return &conn{net: n, service: admin.NewAdminServiceClient(n), withheld: withheld}, nil
}

// use runs one call on the connection.
func (k *conn) use(ctx context.Context, f callFunc) error {
	err := f(ctx, k.service)
	var refusal *admin.TAdminError
	k.fit = err == nil || errors.As(err, &refusal)
	return err
}

func (k *conn) close() {
	_ = k.net.Close() // no call is under way on it: nothing can be lost
}

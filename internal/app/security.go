package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"

	"github.com/lancemaster/lancemaster/internal/auth"
	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/refresh"
	"github.com/lancemaster/lancemaster/internal/rpc"
	"github.com/lancemaster/lancemaster/internal/thriftnet"
	"github.com/lancemaster/lancemaster/internal/tlsconf"
)

// modes of TLS, as the configuration names them.
const (
	tlsOff    = "off"
	tlsMutual = "mutual"
)

// certificates are the node's TLS, one source for each use that wants it.
type certificates struct {
	sources map[tlsconf.Use]*tlsconf.Source
}

// openCertificates loads what the configured uses of TLS need.
func (a *App) openCertificates() error {
	a.certs.sources = map[tlsconf.Use]*tlsconf.Source{}
	m, err := tlsconf.NewMetrics(a.registry)
	if err != nil {
		return err
	}
	for use, mode := range map[tlsconf.Use]string{
		tlsconf.UseRaft: a.cfg.RaftTLS, tlsconf.UseReport: a.cfg.ReportTLS, tlsconf.UseAdmin: a.cfg.AdminTLS,
		tlsconf.UseHTTP: a.cfg.HTTPTLS, tlsconf.UseBackend: a.cfg.BackendTLS, tlsconf.UseRefresh: a.cfg.RefreshTLS,
	} {
		if mode == tlsOff {
			continue
		}
		c := tlsconf.Config{
			Use: use, Files: tlsconf.Files{Cert: a.cfg.TLSCertFile, Key: a.cfg.TLSKeyFile, CA: a.cfg.TLSCAFile},
			Logger: a.log.With("part", "tls"), Metrics: m,
		}
		if use == tlsconf.UseRaft {
			c.Node = a.cfg.NodeID
		}
		source, err := tlsconf.Open(c)
		if err != nil {
			return fmt.Errorf("%s.tls: %w", use, err)
		}
		a.certs.sources[use] = source
		a.onStop(fmt.Sprintf("watch of the certificates for %s", use), func(context.Context) error { return source.Close() })
	}
	return nil
}

// reload looks at the files now.
func (c certificates) reload() error {
	var faults []error
	for use, source := range c.sources {
		if err := source.Reload(); err != nil {
			faults = append(faults, fmt.Errorf("%s.tls: %w", use, err))
		}
	}
	return errors.Join(faults...)
}

// server is the TLS of a listener; nil for plain TCP.
func (c certificates) server(use tlsconf.Use, o tlsconf.ServerOptions) (*tls.Config, error) {
	source := c.sources[use]
	if source == nil {
		return nil, nil //nolint:nilnil // no TLS is no fault
	}
	return source.Server(o)
}

// client makes the TLS of each dial; nil for plain TCP.
func (c certificates) client(use tlsconf.Use, want tlsconf.Expect) func() *tls.Config {
	source := c.sources[use]
	if source == nil {
		return nil
	}
	return func() *tls.Config { return source.Client(want) }
}

// towardsRefreshers is the certificate that refreshers which ask for one are shown;
// nil for none.
func (c certificates) towardsRefreshers() refresh.Certificate {
	source := c.sources[tlsconf.UseRefresh]
	if source == nil {
		return nil
	}
	return func(asked *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		return source.Client(tlsconf.Expect{}).GetClientCertificate(asked)
	}
}

// betweenMasters is the TLS of the Raft port: both ends show that they are masters,
// and which. Both are nil for plain TCP.
func (c certificates) betweenMasters() (server func() (*tls.Config, error), client func(nodeID string) (*tls.Config, error)) {
	source := c.sources[tlsconf.UseRaft]
	if source == nil {
		return nil, nil
	}
	return func() (*tls.Config, error) {
			return source.Server(tlsconf.ServerOptions{Clients: tlsconf.ClientsRequired, Role: tlsconf.RoleMaster})
		}, func(nodeID string) (*tls.Config, error) {
			return source.Client(tlsconf.Expect{Role: tlsconf.RoleMaster, Node: nodeID}), nil
		}
}

// clientsOf says what a service asks of clients.
func clientsOf(mode string) tlsconf.ClientAuth {
	if mode == tlsMutual {
		return tlsconf.ClientsRequired
	}
	return tlsconf.ClientsNone
}

// openAuth makes what finds out who calls the admin service.
func (a *App) openAuth() (err error) {
	c := auth.Config{
		Registry: func() (tokens []*job.Token) {
			a.machine.Read(func(l *job.Live) { tokens = l.Tokens() })
			return tokens
		},
		Logger: a.log.With("part", "auth"), Registerer: a.registry,
	}
	if a.cfg.AdminAuth == "none" && a.cfg.AdminTLS != tlsMutual {
		c.Anonymous = job.RoleAdmin
	}
	if a.cfg.TokensFile != "" {
		if c.File, err = auth.OpenTokenFile(a.cfg.TokensFile, c.Logger); err != nil {
			return fmt.Errorf("admin.tokens_file: %w", err)
		}
		a.onStop("watch of the tokens file", func(context.Context) error { return c.File.Close() })
		a.tokens = c.File
	}
	a.auth, err = auth.New(c)
	return err
}

// authenticator asks it about a call of the admin service.
type authenticator struct{ *auth.Authenticator }

// Authenticate finds out who makes the call that ctx is of.
func (a authenticator) Authenticate(ctx context.Context, token string) (rpc.Principal, error) {
	p, err := a.Authenticator.Authenticate(ctx, thriftnet.Peer(ctx), thriftnet.TLS(ctx), token)
	return rpc.Principal(p), err
}

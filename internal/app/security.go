package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/lancemaster/lancemaster/internal/auth"
	"github.com/lancemaster/lancemaster/internal/config"
	"github.com/lancemaster/lancemaster/internal/dispatch"
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

// certificates are the node's TLS: one source for all uses that want it, since they share the files.
type certificates struct {
	source *tlsconf.Source // nil: nothing uses TLS
	uses   []tlsconf.Use
}

// openCertificates loads what the configured uses of TLS need.
func (a *App) openCertificates() (err error) {
	c := certificatesFor(a.cfg)
	c.Logger = a.log.With("part", "tls")
	if c.Metrics, err = tlsconf.NewMetrics(a.registry); err != nil {
		return err
	}
	if len(c.Uses) == 0 {
		return nil
	}
	source, err := tlsconf.Open(c)
	if err != nil {
		return err
	}
	a.certs = certificates{source, c.Uses}
	a.onStop("watch of the certificates", a.endWatch(source.Close))
	return nil
}

// certificatesFor says what certificates a configuration needs; without uses none.
func certificatesFor(cfg config.Config) tlsconf.Config {
	c := tlsconf.Config{Files: tlsconf.Files{Cert: cfg.TLSCertFile, Key: cfg.TLSKeyFile, CA: cfg.TLSCAFile}}
	for _, u := range []struct {
		use  tlsconf.Use
		mode string
	}{
		{tlsconf.UseRaft, cfg.RaftTLS}, {tlsconf.UseReport, cfg.ReportTLS}, {tlsconf.UseAdmin, cfg.AdminTLS},
		{tlsconf.UseHTTP, cfg.HTTPTLS}, {tlsconf.UseBackend, cfg.BackendTLS}, {tlsconf.UseRefresh, cfg.RefreshTLS},
	} {
		if u.mode != tlsOff {
			c.Uses = append(c.Uses, u.use)
		}
	}
	if slices.Contains(c.Uses, tlsconf.UseRaft) {
		c.Node = cfg.NodeID
	}
	return c
}

// CheckFiles reads the files and secrets that a configuration names, as a start does, and tells every fault. What a
// start would warn of goes to the log.
func CheckFiles(ctx context.Context, cfg config.Config, log *slog.Logger) error {
	var faults []error
	if c := certificatesFor(cfg); len(c.Uses) > 0 {
		c.Logger = log
		source, err := tlsconf.Open(c)
		if err == nil {
			err = source.Close()
		}
		faults = append(faults, err)
	}
	if cfg.TokensFile != "" {
		file, err := auth.OpenTokenFile(cfg.TokensFile, log, nil)
		if err == nil {
			err = file.Close()
		}
		faults = append(faults, tokensFault(err))
	}
	_, err := backendToken(ctx, dispatch.NewReferences(), cfg)
	return errors.Join(append(faults, err, checkDataDir(cfg.DataDir, cfg.NodeID))...)
}

// backendToken reads the token shared with backends; empty where there is none.
func backendToken(ctx context.Context, references *dispatch.References, cfg config.Config) (string, error) {
	if cfg.BackendTokenRef == "" {
		return "", nil
	}
	token, err := references.Resolve(ctx, cfg.BackendTokenRef)
	if err != nil {
		return "", fmt.Errorf("backend.token: %w", err)
	}
	return token, nil
}

func tokensFault(err error) error {
	if err != nil {
		return fmt.Errorf("admin.tokens_file: %w", err)
	}
	return nil
}

// awaitWatches has a stop wait at last for the ends of the watches of files. Each has its bound.
func (a *App) awaitWatches() {
	a.onStop("watches of files", func(context.Context) error { a.watchEnds.Wait(); return nil })
}

// endWatch ends a watch of files. One whose file system does not answer is left behind: it holds nothing
// that a stop should wait for.
// All end beside the rest of the stop, which must not wait for each in turn before the leadership is handed over;
// it waits for them at last.
func (a *App) endWatch(end func() error) func(context.Context) error {
	return func(context.Context) error {
		a.watchEnds.Go(func() {
			if err := end(); err != nil {
				a.log.Warn("a watch of files was left behind", "error", err.Error())
			}
		})
		return nil
	}
}

// reload looks at the files now.
func (c certificates) reload() error {
	if c.source == nil {
		return nil
	}
	return c.source.Reload()
}

// of is the source, where a use wants TLS; nil where not.
func (c certificates) of(use tlsconf.Use) *tlsconf.Source {
	if slices.Contains(c.uses, use) {
		return c.source
	}
	return nil
}

// recheck holds certificates of connections that stand against what counts now; nil without TLS.
func (c certificates) recheck() auth.Recheck {
	if c.source == nil {
		return nil
	}
	return c.source.Recheck
}

// server is the TLS of a listener; nil for plain TCP.
func (c certificates) server(use tlsconf.Use, o tlsconf.ServerOptions) (*tls.Config, error) {
	source := c.of(use)
	if source == nil {
		return nil, nil //nolint:nilnil // no TLS is no fault
	}
	return source.Server(o)
}

// client makes the TLS of each dial; nil for plain TCP.
func (c certificates) client(use tlsconf.Use, want tlsconf.Expect) func() *tls.Config {
	source := c.of(use)
	if source == nil {
		return nil
	}
	return func() *tls.Config { return source.Client(want) }
}

// towardsRefreshers is the certificate that refreshers which ask for one are shown;
// nil for none.
func (c certificates) towardsRefreshers() refresh.Certificate {
	source := c.of(tlsconf.UseRefresh)
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
	source := c.of(tlsconf.UseRaft)
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
	if a.authFailures, err = auth.NewFailures(a.registry); err != nil {
		return err
	}
	c := auth.Config{
		Registry: func() (tokens []*job.Token) {
			a.machine.Read(func(l *job.Live) { tokens = l.Tokens() })
			return tokens
		},
		Current: a.catchUp,
		Recheck: a.certs.recheck(), Failures: a.authFailures, Logger: a.log.With("part", "auth"),
	}
	if a.cfg.AdminAuth == "none" && a.cfg.AdminTLS != tlsMutual {
		c.Anonymous = job.RoleAdmin
	}
	if a.cfg.TokensFile != "" {
		metrics, err := auth.NewFileMetrics(a.registry)
		if err != nil {
			return err
		}
		if c.File, err = auth.OpenTokenFile(a.cfg.TokensFile, c.Logger, metrics); err != nil {
			return tokensFault(err)
		}
		a.onStop("watch of the tokens file", a.endWatch(c.File.Close))
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
	return rpc.Principal(p), outlived(ctx, err)
}

// Confirm asks it whether a caller whom some master let in may still call.
func (a authenticator) Confirm(p rpc.Principal) error {
	return a.Authenticator.Confirm(auth.Principal(p))
}

// reporters says who may report over a connection; nil where everybody may.
func (a *App) reporters() func(context.Context) error {
	if a.cfg.ReportTLS != tlsMutual {
		return nil
	}
	c := auth.Certificates{Service: auth.ServiceReport, Role: tlsconf.RoleBackend, Recheck: a.certs.recheck(), Failures: a.authFailures}
	return func(ctx context.Context) error { return outlived(ctx, c.Check(thriftnet.TLS(ctx))) }
}

// outlived has a connection closed that has outlived its certificate: whoever has a new one shows it on the
// next.
func outlived(ctx context.Context, err error) error {
	if refused, ok := errors.AsType[*auth.Error](err); ok && refused.Standing() {
		thriftnet.CloseAfter(ctx)
	}
	return err
}

// viewers says who may see the details that the HTTP server has; nil where everybody may.
func (a *App) viewers() func(*tls.ConnectionState) error {
	if a.cfg.HTTPTLS != tlsMutual {
		return nil
	}
	return auth.Certificates{Service: auth.ServiceHTTP, Recheck: a.certs.recheck(), Failures: a.authFailures}.Check
}

package rpc

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"time"

	"github.com/lancemaster/lancemaster/gen-go/admin"
	"github.com/lancemaster/lancemaster/gen-go/report"
	"github.com/lancemaster/lancemaster/internal/thriftnet"
)

// The services' names in logs and metrics.
const (
	serviceReport = "report"
	serviceAdmin  = "admin"
)

// Bounds of the two services. A report is small; an admin request carries at most a schema contract,
// properties and a catalog's options.
const (
	maxReport         = 1 << 20
	maxAdmin          = 4 << 20
	maxReportItems    = 64
	maxAdminItems     = 1024
	reportTimeout     = 30 * time.Second
	adminTimeout      = 90 * time.Second // a long poll waits up to 60 s
	maxConnsPerServer = 512
)

// ListenConfig says how a service listens.
type ListenConfig struct {
	Address  string             // host:port
	Protocol thriftnet.Protocol // default binary
	Framed   bool
	TLS      *tls.Config // nil: plain TCP
	MaxConns int         // default 512
	// Listen makes the listener; default as in thriftnet.Config.
	Listen func(ctx context.Context, address string) (net.Listener, error)
}

func (l ListenConfig) config(name string, log *slog.Logger, m *Metrics) thriftnet.Config {
	if l.MaxConns <= 0 {
		l.MaxConns = maxConnsPerServer
	}
	return thriftnet.Config{
		Name: name, Address: l.Address, Protocol: l.Protocol, Framed: l.Framed, TLS: l.TLS, MaxConns: l.MaxConns, Listen: l.Listen,
		Logger: log, Observe: m.observe(name),
	}
}

// NewReportServer makes the server of the report service.
func NewReportServer(l ListenConfig, h *Reports) (*thriftnet.Server, error) {
	cfg := l.config(serviceReport, h.cfg.Logger, h.cfg.Metrics)
	cfg.Processor = report.NewReportServiceProcessor(h)
	cfg.MaxMessage, cfg.MaxContainer, cfg.RequestTimeout = maxReport, maxReportItems, reportTimeout
	return thriftnet.New(cfg)
}

// NewAdminServer makes the server of the admin service.
func NewAdminServer(l ListenConfig, h *Admin) (*thriftnet.Server, error) {
	cfg := l.config(serviceAdmin, h.cfg.Logger, h.cfg.Metrics)
	cfg.Processor = admin.NewAdminServiceProcessor(h)
	cfg.MaxMessage, cfg.MaxContainer, cfg.RequestTimeout = maxAdmin, maxAdminItems, adminTimeout
	return thriftnet.New(cfg)
}

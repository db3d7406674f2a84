package app

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/lancemaster/lancemaster/internal/admission"
	"github.com/lancemaster/lancemaster/internal/auth"
	"github.com/lancemaster/lancemaster/internal/config"
	"github.com/lancemaster/lancemaster/internal/dispatch"
	"github.com/lancemaster/lancemaster/internal/httpserver"
	"github.com/lancemaster/lancemaster/internal/lance"
	"github.com/lancemaster/lancemaster/internal/metrics"
	"github.com/lancemaster/lancemaster/internal/rpc"
	"github.com/lancemaster/lancemaster/internal/thriftnet"
	"github.com/lancemaster/lancemaster/internal/tlsconf"
)

// startServers opens the listeners. The handlers wait for the leader's services,
// which start afterwards because heartbeats tell backends where reports go.
func (a *App) startServers(ctx context.Context) error {
	m, err := rpc.NewMetrics(a.registry)
	if err != nil {
		return err
	}
	sends := dispatch.NewSends()
	reports, err := a.startReports(ctx, sends, m)
	if err != nil {
		return err
	}
	client := rpc.NewBackendClient(rpc.BackendClientConfig{
		Protocol: protocol(a.cfg.BackendProtocol), Framed: a.cfg.BackendProtocol.Framed,
		TLS: a.certs.client(tlsconf.UseBackend, tlsconf.Expect{}), Dial: a.opts.Dial,
	})
	if err := a.newServices(ctx, client, sends); err != nil {
		return err
	}
	if err := a.startAdmin(ctx, reports, m); err != nil {
		return err
	}
	return a.startHTTP()
}

// startReports serves the backends.
func (a *App) startReports(ctx context.Context, sends *dispatch.Sends, m *rpc.Metrics) (*rpc.Reports, error) {
	reports := rpc.NewReports(rpc.ReportConfig{
		Journal: servingJournal{leading{a}, a.journal}, State: rpcState{a.machine}, Leadership: leading{a},
		Latches: latches{sends}, Forward: toLeader{a}, Admit: a.reporters(), Clock: wallClock(a.now), Logger: a.log.With("part", "report"), Metrics: m,
	})
	options := tlsconf.ServerOptions{Clients: clientsOf(a.cfg.ReportTLS)}
	if a.cfg.ReportTLS == tlsMutual {
		options.Role = tlsconf.RoleBackend
	}
	secure, err := a.certs.server(tlsconf.UseReport, options)
	if err != nil {
		return nil, fmt.Errorf("report.tls: %w", err)
	}
	a.report, err = rpc.NewReportServer(rpc.ListenConfig{
		Address: a.cfg.ReportListen, Protocol: protocol(a.cfg.ReportProtocol), Framed: a.cfg.ReportProtocol.Framed, TLS: secure, Listen: a.listen("report.listen", true),
	}, reports)
	if err != nil {
		return nil, err
	}
	return reports, a.serve(ctx, "report service", "report.listen", a.report)
}

// startAdmin serves people and their programs, and what other masters forward.
func (a *App) startAdmin(ctx context.Context, reports *rpc.Reports, m *rpc.Metrics) error {
	journal := requestJournal{servingJournal{leading{a}, a.journal}}
	submissions := admission.New(a.machine, journal, lance.Open, a.now, a.members.Members)
	snapshots, err := a.startSnapshots()
	if err != nil {
		return err
	}
	admin := rpc.NewAdmin(rpc.AdminConfig{
		Journal: journal, State: rpcState{a.machine}, Leadership: leading{a}, Forward: toLeader{a},
		Authenticator: authenticator{a.auth}, Submitter: submitter{leading{a}, submissions},
		Releaser: a.releaser, Explainer: a.explainer(), Inspector: inspector{lance.Open, a.machine},
		Liveness: liveness{a.monitor}, Node: nodeStatus{a}, Cluster: membershipOf{a.members}, Snapshots: snapshots, Clock: wallClock(a.now),
		Logger: a.log.With("part", "admin"), Metrics: m,
	})
	a.forwarded.Store(rpc.NewForwarded(reports, admin))
	clients := clientsOf(a.cfg.AdminTLS)
	if clients == tlsconf.ClientsNone && a.cfg.TLSCAFile != "" {
		clients = tlsconf.ClientsOptional // a certificate or a token
	}
	secure, err := a.certs.server(tlsconf.UseAdmin, tlsconf.ServerOptions{Clients: clients})
	if err != nil {
		return fmt.Errorf("admin.tls: %w", err)
	}
	guarded := a.cfg.AdminTLS == tlsMutual || a.cfg.AdminTLS != tlsOff && a.cfg.AdminAuth == "required"
	a.admin, err = rpc.NewAdminServer(rpc.ListenConfig{Address: a.cfg.AdminListen, TLS: secure, Listen: a.listen("admin.listen", guarded)}, admin)
	if err != nil {
		return err
	}
	if err := a.serve(ctx, "admin service", "admin.listen", a.admin); err != nil {
		return err
	}
	a.registerServers(submissions)
	return nil
}

// startHTTP serves probes and the metrics.
func (a *App) startHTTP() error {
	options := tlsconf.ServerOptions{Clients: tlsconf.ClientsNone, Protocols: []string{"http/1.1"}}
	if a.cfg.HTTPTLS == tlsMutual { // probes have no certificate; see Viewers
		options.Clients = tlsconf.ClientsOptional
	}
	secure, err := a.certs.server(tlsconf.UseHTTP, options)
	if err != nil {
		return fmt.Errorf("http.tls: %w", err)
	}
	a.http, err = httpserver.Start(httpserver.Options{
		Address: a.cfg.HTTPListen, TLS: secure, Viewers: a.viewers(), DebugAddress: a.cfg.DebugListen,
		Listen: a.opts.Listen,
		Ready:  a.Ready, Standby: a.standby, Leader: a.leaderOverHTTP,
		HandshakeFailed: func() { a.authFailures.Count(auth.ServiceHTTP, auth.ReasonHandshake) },
		Metrics:         metrics.Handler(a.registry), Logger: a.log.With("part", "http"),
	})
	if err != nil {
		return fmt.Errorf("%w; free the address or change http.listen", err)
	}
	a.onStop("HTTP server", a.inTime(a.http.Stop))
	return nil
}

// maxStandbyLag is how many entries a follower may be behind and still stand by.
const maxStandbyLag = 1000

// standby says whether this node follows a leader that it hears, and keeps up.
func (a *App) standby() (ok bool, reason string) {
	if ready, reason := a.Ready(); ready || a.members.Waiting() != "" || a.members.Removed() {
		return false, reason
	}
	stats := a.node.Stats()
	switch {
	case stats.LeaderID == "" || stats.LeaderID == a.cfg.NodeID:
		return false, "no leader is known"
	case stats.LastContact < 0 || stats.LastContact > 2*a.cfg.HeartbeatTimeout:
		return false, "the leader has not been heard lately"
	}
	newest, told := a.members.LeaderIndex(stats.LeaderID, stats.Term)
	if !told {
		return false, "the leader has not told this node yet how far it is; it is asked each second"
	}
	if has := max(a.machine.Applied().Index, stats.PassedIndex); has+maxStandbyLag < newest {
		return false, fmt.Sprintf("this node catches up: it is %d entries behind the leader, %d at most are well", newest-has, maxStandbyLag)
	}
	return true, ""
}

// leaderOverHTTP says who leads.
func (a *App) leaderOverHTTP() (httpserver.Leader, bool) {
	id, _ := a.node.Leader()
	if id == "" {
		return httpserver.Leader{}, false
	}
	term, _ := a.node.Term()
	l := httpserver.Leader{NodeID: id, Self: id == a.cfg.NodeID, Term: term}
	l.RaftAddress, _ = a.memberAddress(id)
	if l.Self {
		at := a.selfReport()
		l.AdminAddress, l.ReportAddress, l.HTTPAddress = at.AdminAddress, at.ReportAddress, at.HTTPAddress
	} else if at, ok := a.members.ReportAddresses(id); ok {
		l.AdminAddress, l.ReportAddress, l.HTTPAddress = at.AdminAddress, at.ReportAddress, at.HTTPAddress
	}
	return l, true
}

// listen makes the listener of a Thrift service; guarded says that others than this machine may reach it.
func (a *App) listen(key string, guarded bool) func(context.Context, string) (net.Listener, error) {
	return func(ctx context.Context, address string) (l net.Listener, err error) {
		if a.opts.Listen != nil {
			l, err = a.opts.Listen(ctx, "tcp", address)
		} else {
			l, err = thriftnet.Listen(ctx, address)
		}
		if err != nil {
			return nil, err
		}
		if err := a.checkBound(key, l.Addr(), guarded); err != nil {
			return nil, errors.Join(err, l.Close())
		}
		return l, nil
	}
}

// checkBound refuses a listener that others than this machine can reach although its address did not look
// like it: the configuration was checked for what it says, and a name may lead elsewhere than it should.
func (a *App) checkBound(key string, at net.Addr, guarded bool) error {
	if guarded || at.Network() == "unix" || config.Loopback(at.String()) {
		return nil
	}
	return fmt.Errorf("%s leads to %s, which can be reached from other machines, and nobody would be asked who they are; write 127.0.0.1 for this machine", key, at)
}

// serve starts a service that listens where the configuration key says.
func (a *App) serve(ctx context.Context, name, key string, s *thriftnet.Server) error {
	if err := s.Start(ctx); err != nil {
		return fmt.Errorf("%w; free the address or change %s", err, key)
	}
	a.onStop(name, a.inTime(s.Stop))
	return nil
}

// inTime has a server end its requests while there is time to close Raft and the state in order. A
// request that waits for a leader which does not answer would take all there is.
func (a *App) inTime(stop func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if end, bounded := ctx.Deadline(); bounded {
			early, cancel := context.WithDeadline(ctx, end.Add(-a.ShutdownTimeout()/4))
			defer cancel()
			ctx = early
		}
		return stop(ctx)
	}
}

func protocol(p config.Protocol) thriftnet.Protocol {
	if p.Compact {
		return thriftnet.Compact
	}
	return thriftnet.Binary
}

// warnOfOpenServices says which services others than this machine reach without
// having to show who they are.
func (a *App) warnOfOpenServices() {
	for _, s := range []struct{ key, address, mode string }{
		{"report.listen", a.cfg.ReportListen, a.cfg.ReportTLS}, {"http.listen", a.cfg.HTTPListen, a.cfg.HTTPTLS},
	} {
		if !config.Loopback(s.address) && s.mode != tlsMutual {
			a.log.Warn("a service that does not ask who connects is reachable from other machines; use TLS or firewall it",
				"key", s.key, "address", s.address)
		}
	}
	if !config.Loopback(a.cfg.RaftListen) && a.cfg.RaftTLS != tlsMutual {
		a.log.Warn("the Raft port is reachable from other machines and does not ask who connects, as raft.trusted_network allows: whoever reaches it can pass for a master, and act as anybody at the admin service",
			"key", "raft.listen", "address", a.cfg.RaftListen)
	}
}

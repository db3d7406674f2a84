// Package httpserver serves a node's health and metrics over HTTP.
//
//	/livez              200 while the process can serve at all; it never depends on a quorum
//	/readyz             200 when this node leads and serves; otherwise 503 and the reason
//	/readyz?standbyok   200 also on a healthy follower that knows its leader, for load balancers
//	/leader             JSON that names the leader and its addresses; 503 when none is known
//	/metrics            Prometheus text
//
// Profiles of the process (/debug/pprof/) are served on a listener of their own, which only this machine
// can reach and which is off unless asked for: they cost time, and they show what is in memory.
//
// HTTP/1.1 only: health checks and scrapes gain nothing from HTTP/2, whose streams make many requests
// out of one connection and with that many ways to overload a server.
package httpserver

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"
)

// Ready says whether the node serves, and why not.
type Ready func() (ok bool, reason string)

// Leader is who leads the cluster, as far as this node knows. An address that it does not know is empty.
type Leader struct {
	NodeID        string `json:"node_id"`
	Self          bool   `json:"self"` // it is the node that was asked
	Term          uint64 `json:"term"`
	AdminAddress  string `json:"admin_address"`
	ReportAddress string `json:"report_address"`
	HTTPAddress   string `json:"http_address"`
	RaftAddress   string `json:"raft_address"`
}

// Options say what a Server serves.
type Options struct {
	Address string // host:port; port 0 picks one
	// Listen makes the listeners; default: TCP.
	Listen func(ctx context.Context, network, address string) (net.Listener, error)
	TLS    *tls.Config // nil: plain HTTP
	// Viewers refuses /leader and /metrics, and the reasons that /readyz gives, but not /livez and /readyz, at
	// each request by the TLS connection that brought it; nil: everybody sees them. It is for a TLS that asks for certificates and does not
	// require them, since probes often have none.
	Viewers func(*tls.ConnectionState) error
	// HandshakeFailed is told of each TLS handshake that failed; it may be nil.
	HandshakeFailed func()
	// DebugAddress is where profiles are served: host:port of this machine's own; empty: nowhere.
	DebugAddress string

	Ready Ready
	// Standby says whether this node follows, knows its leader and keeps up; nil: it never does.
	Standby Ready
	// Leader returns who leads; false when nobody is known to. nil: nobody ever is.
	Leader  func() (Leader, bool)
	Metrics http.Handler
	Logger  *slog.Logger // default: discard
}

// Server is the HTTP side of one node.
type Server struct {
	log             *slog.Logger
	make            func(ctx context.Context, network, address string) (net.Listener, error)
	handshakeFailed func()
	listeners       []net.Listener
	servers         []*http.Server
	done            []chan struct{}
}

// Bounds of a connection. Health checks and scrapes are small and quick.
const (
	readTimeout  = 5 * time.Second
	writeTimeout = 30 * time.Second
	idleTimeout  = 2 * time.Minute
	maxHeader    = 16 << 10
	maxConns     = 256
	stopGrace    = time.Second
)

// Start listens and serves until Stop.
func Start(o Options) (*Server, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = http.NotFoundHandler()
	}
	if o.Ready == nil {
		o.Ready = func() (bool, string) { return false, "nobody says whether this node is ready" }
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.HandshakeFailed == nil {
		o.HandshakeFailed = func() {}
	}
	s := &Server{log: o.Logger, make: o.Listen, handshakeFailed: o.HandshakeFailed}
	if s.make == nil {
		var lc net.ListenConfig
		s.make = lc.Listen
	}
	if err := s.listen("http.listen", o.Address); err != nil {
		return nil, err
	}
	if o.DebugAddress != "" {
		err := s.listen("http.debug_listen", o.DebugAddress)
		if err == nil { // a name may lead elsewhere than it says
			err = o.checkDebug(s.listeners[1].Addr().String())
		}
		if err != nil {
			for _, l := range s.listeners {
				err = errors.Join(err, l.Close())
			}
			return nil, err
		}
	}
	s.serve(s.listeners[0], o.TLS, routes(o), writeTimeout)
	if o.DebugAddress != "" {
		s.serve(s.listeners[1], nil, debugRoutes(), debugWriteTimeout)
	}
	return s, nil
}

func (o Options) check() error {
	if o.DebugAddress != "" {
		if err := o.checkDebug(o.DebugAddress); err != nil {
			return err
		}
	}
	if o.Viewers != nil && (o.TLS == nil || o.TLS.ClientAuth < tls.VerifyClientCertIfGiven) {
		return errors.New("client certificates for /metrics and /leader need a TLS that verifies them")
	}
	return nil
}

func (o Options) checkDebug(at string) error {
	if ownMachine(at) {
		return nil
	}
	return fmt.Errorf("http.debug_listen %s can be reached from other machines; profiles show what is in memory, so listen on 127.0.0.1 or [::1]", at)
}

func (s *Server) listen(key, address string) error {
	l, err := s.make(context.Background(), "tcp", address)
	if err != nil {
		return fmt.Errorf("cannot listen on %s %s: %w", key, address, err)
	}
	s.listeners = append(s.listeners, l)
	return nil
}

// serve serves one listener until Stop.
func (s *Server) serve(l net.Listener, secure *tls.Config, handler http.Handler, write time.Duration) {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	crowd := newCrowd(maxConns)
	server := &http.Server{
		Handler:           handler,
		TLSConfig:         secure,
		Protocols:         &protocols,
		ConnState:         crowd.changed,
		ReadTimeout:       readTimeout,
		ReadHeaderTimeout: readTimeout, // also of the TLS handshake
		WriteTimeout:      write,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          log.New(complaints{s}, "", 0),
	}
	done := make(chan struct{})
	s.servers, s.done = append(s.servers, server), append(s.done, done)
	go func() {
		defer close(done)
		var err error
		if secure != nil {
			err = server.ServeTLS(l, "", "")
		} else {
			err = server.Serve(l)
		}
		if !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("the HTTP server ended", "address", l.Addr().String(), "error", err)
		}
	}()
}

// complaints is what the library logs of connections. It tells of a failed handshake in no other way.
type complaints struct{ *Server }

func (c complaints) Write(line []byte) (int, error) {
	if bytes.HasPrefix(line, []byte("http: TLS handshake error")) {
		c.handshakeFailed()
	}
	c.log.Debug(strings.TrimSpace(string(line)))
	return len(line), nil
}

// Addr returns the bound address.
func (s *Server) Addr() string { return s.listeners[0].Addr().String() }

// DebugAddr returns the bound address of the profiles; empty when they are not served.
func (s *Server) DebugAddr() string {
	if len(s.listeners) < 2 {
		return ""
	}
	return s.listeners[1].Addr().String()
}

// Stop gives requests in progress a second, less when ctx ends before, and then
// cuts them. When it returns nothing of the server is left.
func (s *Server) Stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopGrace)
	defer cancel()
	var errs []error
	for i, server := range s.servers {
		err := server.Shutdown(ctx)
		if err != nil {
			err = server.Close()
		}
		<-s.done[i]
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

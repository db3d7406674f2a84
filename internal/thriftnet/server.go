package thriftnet

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/apache/thrift/lib/go/thrift"
)

// Config says what a Server serves and within which bounds. Zero bounds take the defaults.
type Config struct {
	Name      string // in logs: "report", "admin"
	Address   string // host:port; port 0 picks one
	Processor thrift.TProcessor
	Protocol  Protocol // default Binary
	Framed    bool
	TLS       *tls.Config // nil: plain TCP

	MaxMessage     int32         // bytes of one request; default 1 MiB
	MaxContainer   int32         // elements of one list, set or map; default 1024
	MaxInFlight    int64         // bytes of all requests being read; default 64 MiB
	MaxConns       int           // default 256
	IdleTimeout    time.Duration // between requests; default 10 min
	ReadTimeout    time.Duration // from a request's first byte to its last, and of a TLS handshake; default 10 s
	RequestTimeout time.Duration // from a request's first byte: the context of its handler; default 60 s
	WriteTimeout   time.Duration // of one answer; default 10 s

	Logger *slog.Logger // default: discard
	// Observe is told of what never reaches a handler, and of panics; it may be nil.
	Observe func(Incident)
	// Listen makes the listener; default: TCP at Address, or for unix:PATH a Unix socket of mode 0600.
	Listen func(ctx context.Context, address string) (net.Listener, error)
}

// Incident names something that went wrong outside a handler's reach. The values are few and fixed,
// fit for a metric's label.
type Incident string

// The incidents that Config.Observe is told of.
const (
	IncidentAccept        Incident = "accept_error"
	IncidentEvicted       Incident = "evicted"        // closed to make room
	IncidentFull          Incident = "full"           // closed because no room could be made
	IncidentForeign       Incident = "foreign"        // bytes of another protocol
	IncidentHandshake     Incident = "handshake"      // a TLS handshake failed
	IncidentUnreadable    Incident = "unreadable"     // a request that cannot be read
	IncidentUnknownMethod Incident = "unknown_method" //
	IncidentPanic         Incident = "panic"          //
)

func (c Config) withDefaults() Config {
	if c.Protocol == "" {
		c.Protocol = Binary
	}
	orInt := func(v *int32, d int32) {
		if *v <= 0 {
			*v = d
		}
	}
	orTime := func(v *time.Duration, d time.Duration) {
		if *v <= 0 {
			*v = d
		}
	}
	orInt(&c.MaxMessage, 1<<20)
	orInt(&c.MaxContainer, 1024)
	if c.MaxInFlight <= 0 {
		c.MaxInFlight = 64 << 20
	}
	if c.MaxConns <= 0 {
		c.MaxConns = 256
	}
	orTime(&c.IdleTimeout, 10*time.Minute)
	orTime(&c.ReadTimeout, 10*time.Second)
	orTime(&c.RequestTimeout, 60*time.Second)
	orTime(&c.WriteTimeout, 10*time.Second)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Observe == nil {
		c.Observe = func(Incident) {}
	}
	if c.Listen == nil {
		c.Listen = Listen
	}
	return c
}

// Server serves one Thrift service at one address.
type Server struct {
	cfg      Config
	conf     *thrift.TConfiguration
	shared   allowance
	base     context.Context // ended when requests in progress are cut
	cut      context.CancelFunc
	draining chan struct{} // closed when Stop begins

	mu       sync.Mutex
	listener net.Listener
	conns    map[*conn]struct{}
	stopping bool
	running  sync.WaitGroup
}

// New makes a server. It does nothing until Start.
func New(cfg Config) (*Server, error) {
	cfg = cfg.withDefaults()
	if !cfg.Protocol.valid() {
		return nil, fmt.Errorf("the %s service cannot speak %q; the protocols are binary and compact", cfg.Name, cfg.Protocol)
	}
	if cfg.Processor == nil {
		return nil, fmt.Errorf("the %s service has no processor", cfg.Name)
	}
	s := &Server{
		cfg: cfg, conf: configuration(cfg.MaxMessage, cfg.MaxContainer),
		draining: make(chan struct{}), conns: map[*conn]struct{}{},
	}
	s.shared.limit = cfg.MaxInFlight
	s.base, s.cut = context.WithCancel(context.Background())
	return s, nil
}

// Start listens and begins to serve. The context bounds the listening only.
func (s *Server) Start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping || s.listener != nil {
		return fmt.Errorf("the %s service was started before", s.cfg.Name)
	}
	listener, err := s.cfg.Listen(ctx, s.cfg.Address)
	if err != nil {
		return fmt.Errorf("the %s service cannot listen: %w", s.cfg.Name, err)
	}
	s.listener = listener
	s.running.Go(func() { s.accept(listener) })
	return nil
}

// Addr returns the address listened on, with the port that was bound; nil before Start.
func (s *Server) Addr() net.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener == nil {
		return nil
	}
	return s.listener.Addr()
}

// stopGrace is how long Stop waits for handlers whose context and connection it has ended.
const stopGrace = 2 * time.Second

// Stop closes the listener and the connections without a request. Requests in progress are
// answered until ctx ends and are cut then. An error says that a handler did not end even so.
func (s *Server) Stop(ctx context.Context) error {
	s.mu.Lock()
	if !s.stopping {
		s.stopping = true
		close(s.draining)
		if s.listener != nil {
			_ = s.listener.Close() // nothing was written to it
		}
	}
	for c := range s.conns {
		if c.state == idle {
			c.close()
		}
	}
	s.mu.Unlock()

	done := make(chan struct{})
	go func() { s.running.Wait(); close(done) }()
	defer s.cut()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	s.cut()
	s.mu.Lock()
	for c := range s.conns {
		c.close()
	}
	s.mu.Unlock()
	timer := time.NewTimer(stopGrace)
	defer timer.Stop()
	select {
	case <-done:
		return nil
	case <-timer.C:
		return fmt.Errorf("the %s service has a handler that did not end within %s of being told to", s.cfg.Name, stopGrace)
	}
}

// Pauses between failed accepts.
const (
	firstPause = 5 * time.Millisecond
	lastPause  = time.Second
)

// accept runs until the listener is closed by Stop.
func (s *Server) accept(listener net.Listener) {
	pause := time.Duration(0)
	for {
		nc, err := listener.Accept()
		if err == nil {
			if pause > 0 {
				s.cfg.Logger.Info("accepting connections again", "service", s.cfg.Name)
				pause = 0
			}
			s.admit(nc)
			continue
		}
		if s.isDraining() {
			return
		}
		s.cfg.Observe(IncidentAccept)
		if pause == 0 {
			s.cfg.Logger.Error("cannot accept connections; trying on", "service", s.cfg.Name, "error", err.Error())
		}
		if errors.Is(err, net.ErrClosed) {
			return // closed by nobody we know; logged above
		}
		pause = min(max(firstPause, pause*2), lastPause)
		// Descriptors may be what is missing, and a connection that does nothing has one.
		s.evict(idle)
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-s.draining:
			timer.Stop()
			return
		}
	}
}

func (s *Server) isDraining() bool {
	select {
	case <-s.draining:
		return true
	default:
		return false
	}
}

// admit takes a new connection in, at the cost of another where there is no room.
func (s *Server) admit(nc net.Conn) {
	c := newConn(s, nc)
	s.mu.Lock()
	full := false
	if len(s.conns) >= s.cfg.MaxConns {
		full = !s.evictLocked(idle) && !s.evictLocked(reading)
	}
	if full || s.stopping {
		s.mu.Unlock()
		_ = nc.Close()
		if full {
			s.cfg.Observe(IncidentFull)
		}
		return
	}
	s.conns[c] = struct{}{}
	s.running.Add(1)
	s.mu.Unlock()
	go func() {
		defer s.running.Done()
		defer s.remove(c)
		c.serve()
	}()
}

func (s *Server) remove(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.close()
	delete(s.conns, c)
}

func (s *Server) evict(state connState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.evictLocked(state)
}

// evictLocked closes the connection that has been in a state longest.
func (s *Server) evictLocked(state connState) bool {
	var oldest *conn
	for c := range s.conns {
		if c.state == state && (oldest == nil || c.since.Before(oldest.since)) {
			oldest = c
		}
	}
	if oldest == nil {
		return false
	}
	oldest.close()
	delete(s.conns, oldest) // its goroutine is about to end; the room is free now
	s.cfg.Observe(IncidentEvicted)
	return true
}

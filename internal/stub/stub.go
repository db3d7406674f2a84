package stub

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/apache/thrift/lib/go/thrift"

	"github.com/lancemaster/lancemaster/gen-go/backend"
	"github.com/lancemaster/lancemaster/internal/thriftnet"
)

// Config says where a stub listens and how it behaves. The zero value listens on the default ports
// of loopback.
type Config struct {
	Listen          string // BackendService; default 127.0.0.1:9060
	HeartbeatListen string // HeartbeatService; default 127.0.0.1:9050
	Version         string // told in heartbeats
	Behaviour       Behaviour
	ProcessEpoch    int64 // default: the time of New, UTC milliseconds

	Protocol  thriftnet.Protocol // default binary; of both services and of the reports
	Framed    bool
	TLS       *tls.Config        // of both services; nil: plain TCP
	ReportTLS func() *tls.Config // of the next report; nil: plain TCP

	RetryPause time.Duration // between attempts at a report; default 1 s
	Now        func() time.Time
	Logger     *slog.Logger // default: discard
}

// The default addresses.
const (
	DefaultListen          = "127.0.0.1:9060"
	DefaultHeartbeatListen = "127.0.0.1:9050"
)

// The largest request taken: a dispatch of the greatest legal size with room to spare.
const maxRequest = 4 << 20

// A handler that hangs on purpose does so until the stub stops or this has passed.
const requestTimeout = time.Hour

// Stub is a running backend.
type Stub struct {
	cfg       Config
	service   *thriftnet.Server
	heartbeat *thriftnet.Server
	sockets   sockets
	base      context.Context // ends with Stop
	end       context.CancelFunc
	running   sync.WaitGroup

	mu    sync.Mutex
	state process
}

// New makes a stub. It does nothing until Start.
func New(cfg Config) (*Stub, error) {
	if cfg.Listen == "" {
		cfg.Listen = DefaultListen
	}
	if cfg.HeartbeatListen == "" {
		cfg.HeartbeatListen = DefaultHeartbeatListen
	}
	if cfg.Behaviour == nil {
		cfg.Behaviour = NotImplemented{}
	}
	if cfg.RetryPause <= 0 {
		cfg.RetryPause = time.Second
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.ProcessEpoch == 0 {
		cfg.ProcessEpoch = cfg.Now().UnixMilli()
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Stub{cfg: cfg}
	s.base, s.end = context.WithCancel(context.Background())
	s.state = newProcess(s.base, cfg.ProcessEpoch)
	var err error
	s.service, err = s.server("backend", cfg.Listen, backend.NewBackendServiceProcessor(service{s}))
	if err != nil {
		return nil, err
	}
	s.heartbeat, err = s.server("heartbeat", cfg.HeartbeatListen, backend.NewHeartbeatServiceProcessor(service{s}))
	return s, err
}

func (s *Stub) server(name, address string, processor thrift.TProcessor) (*thriftnet.Server, error) {
	return thriftnet.New(thriftnet.Config{
		Name: name, Address: address, Processor: processor, Protocol: s.cfg.Protocol, Framed: s.cfg.Framed,
		TLS: s.cfg.TLS, MaxMessage: maxRequest, RequestTimeout: requestTimeout, Logger: s.cfg.Logger,
		Listen: s.sockets.listen,
	})
}

// Start listens on both ports and serves.
func (s *Stub) Start(ctx context.Context) error {
	if err := s.service.Start(ctx); err != nil {
		return err
	}
	if err := s.heartbeat.Start(ctx); err != nil {
		return errors.Join(err, s.service.Stop(ctx))
	}
	s.cfg.Logger.Info("stub backend listens", "backend", s.Addr().String(), "heartbeat", s.HeartbeatAddr().String(),
		"process_epoch", s.ProcessEpoch())
	return nil
}

// Stop ends both services and the work that behaviours have left, within ctx. When it returns nil
// nothing of the stub runs any more.
func (s *Stub) Stop(ctx context.Context) error {
	s.mu.Lock()
	s.state.end()
	s.end()
	s.mu.Unlock()
	err := errors.Join(s.service.Stop(ctx), s.heartbeat.Stop(ctx))
	done := make(chan struct{})
	go func() { s.running.Wait(); close(done) }()
	select {
	case <-done:
		return err
	case <-ctx.Done():
		return errors.Join(err, fmt.Errorf("a behaviour's work did not end: %w", ctx.Err()))
	}
}

// Addr returns where BackendService listens.
func (s *Stub) Addr() net.Addr { return s.service.Addr() }

// HeartbeatAddr returns where HeartbeatService listens.
func (s *Stub) HeartbeatAddr() net.Addr { return s.heartbeat.Addr() }

// ProcessEpoch returns the start time that heartbeats tell.
func (s *Stub) ProcessEpoch() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state.epoch
}

// Restart makes the stub what a restarted process would be: another process epoch, no memory of
// heartbeats or invocations, and no worker left alive.
func (s *Stub) Restart(epoch int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.base.Err() != nil {
		return
	}
	s.state.end()
	s.state = newProcess(s.base, epoch)
}

// portOf returns the port of an address that was listened on.
func portOf(a net.Addr) int32 {
	_, text, err := net.SplitHostPort(a.String())
	if err != nil {
		return 0
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return 0
	}
	return int32(port)
}

package raftnode

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// tcpStream carries Raft's requests over TCP. It knows every connection that is open, in either
// direction, and closes them all with itself: Raft's transport leaves the incoming ones, and their
// goroutines, to the other side.
type tcpStream struct {
	listener  net.Listener
	advertise advertised
	ctx       context.Context
	cancel    context.CancelFunc

	mu     sync.Mutex
	closed bool
	conns  map[*streamConn]struct{}
}

// advertised is an address as it was configured, not resolved.
type advertised string

// Network returns "tcp".
func (advertised) Network() string { return "tcp" }

func (a advertised) String() string { return string(a) }

// listen binds the node's address.
func listen(bind, advertise string) (*tcpStream, error) {
	ctx, cancel := context.WithCancel(context.Background())
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", bind)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("cannot listen for other members on raft.listen: %w", err)
	}
	if advertise == "" {
		advertise = listener.Addr().String()
		if tcp, ok := listener.Addr().(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
			cancel()
			err := fmt.Errorf("listening for other members on all addresses (%s) needs an advertised address, which is not configured", bind)
			return nil, errors.Join(err, listener.Close())
		}
	}
	return &tcpStream{
		listener: listener, advertise: advertised(advertise), ctx: ctx, cancel: cancel,
		conns: make(map[*streamConn]struct{}),
	}, nil
}

// Accept waits for a member to connect.
func (s *tcpStream) Accept() (net.Conn, error) {
	conn, err := s.listener.Accept()
	if err != nil {
		return nil, err
	}
	return s.track(conn)
}

// Dial connects to a member, whoever answers there. A name is resolved anew each time.
func (s *tcpStream) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	dialer := net.Dialer{Timeout: timeout}
	conn, err := dialer.DialContext(s.ctx, "tcp", unnamed(string(address)))
	if err != nil {
		return nil, err
	}
	return s.track(conn)
}

// Addr returns the advertised address.
func (s *tcpStream) Addr() net.Addr { return s.advertise }

// Close closes the listener and every connection, and ends dials under way.
func (s *tcpStream) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	conns := s.conns
	s.conns = nil
	s.mu.Unlock()

	s.cancel()
	err := s.listener.Close()
	for conn := range conns {
		// Nobody waits for what closing a connection says.
		_ = conn.Conn.Close()
	}
	return err
}

func (s *tcpStream) track(conn net.Conn) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errors.Join(net.ErrClosed, conn.Close())
	}
	tracked := &streamConn{Conn: conn, stream: s}
	s.conns[tracked] = struct{}{}
	return tracked, nil
}

// streamConn is a connection that its stream knows.
type streamConn struct {
	net.Conn
	stream *tcpStream
}

// Close closes the connection and forgets it.
func (c *streamConn) Close() error {
	c.stream.mu.Lock()
	delete(c.stream.conns, c)
	c.stream.mu.Unlock()
	return c.Conn.Close()
}

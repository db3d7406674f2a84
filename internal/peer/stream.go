package peer

import (
	"context"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// raftQueue is how many Raft connections wait for Accept.
const raftQueue = 16

// raftStream is the stream of Raft's connections.
type raftStream struct {
	e        *Endpoint
	incoming chan *link
	ctx      context.Context // of dials
	cancel   context.CancelFunc
}

func newRaftStream(e *Endpoint) *raftStream {
	s := &raftStream{e: e, incoming: make(chan *link, raftQueue)}
	s.ctx, s.cancel = context.WithCancel(e.base)
	return s
}

// arrived hands a connection over to Accept. Nobody waits for one that has to wait behind many.
func (s *raftStream) arrived(l *link) {
	for {
		select {
		case s.incoming <- l:
			if s.isClosed() {
				l.kill() // too late for Close to have seen it
			}
			return
		default:
		}
		select {
		case oldest := <-s.incoming:
			oldest.kill()
		default:
		}
	}
}

// Accept waits for a member to connect.
func (s *raftStream) Accept() (net.Conn, error) {
	select {
	case <-s.ctx.Done():
		return nil, net.ErrClosed
	default:
	}
	select {
	case l := <-s.incoming:
		return &raftConn{Conn: l.conn, link: l, stall: s.e.cfg.StallTimeout}, nil
	case <-s.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Dial connects to a member, "NODEID@host:port" or host:port. A name is resolved anew each time.
func (s *raftStream) Dial(to raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	ctx := s.ctx
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	node, at := split(string(to))
	l, err := s.e.dial(ctx, KindRaft, node, at, true)
	if err != nil {
		return nil, err
	}
	if s.isClosed() {
		l.kill() // too late for Close to have seen it
		return nil, net.ErrClosed
	}
	return &raftConn{Conn: l.conn, link: l}, nil
}

// split parts a node id from the address behind it.
func split(to string) (node, at string) {
	if i := strings.LastIndexByte(to, '@'); i >= 0 {
		return to[:i], to[i+1:]
	}
	return "", to
}

// Addr returns the advertised address.
func (s *raftStream) Addr() net.Addr { return s.e.advertise }

// Close closes every Raft connection, ends dials and Accepts under way, and lets none begin any more.
func (s *raftStream) Close() error {
	s.cancel()
	s.e.killAll(func(l *link) bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.class == memberRaft
	})
	return nil
}

func (s *raftStream) isClosed() bool { return s.ctx.Err() != nil }

// raftConn is a connection in Raft's hands.
type raftConn struct {
	net.Conn
	link  *link
	stall time.Duration // of a connection in; 0 for one out, whose deadlines Raft sets

	mu      sync.Mutex
	request bool // bytes of a request have come and its answer has not been sent
}

// Read reads. A request that stops arriving in its middle ends the connection: Raft reads a snapshot
// on its main goroutine and sets no deadline, so that a leader that is stopped while it sends one
// would take this node with it. Between requests a connection may be silent.
func (c *raftConn) Read(into []byte) (int, error) {
	if c.stall == 0 {
		return c.Conn.Read(into)
	}
	var deadline time.Time
	c.mu.Lock()
	if c.request {
		deadline = time.Now().Add(c.stall)
	}
	err := c.SetReadDeadline(deadline)
	c.mu.Unlock()
	if err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(into)
	if n > 0 {
		c.mu.Lock()
		begins := !c.request
		c.request = true
		c.mu.Unlock()
		if begins {
			if refusal := c.link.outlived(); refusal != nil {
				return 0, refusal
			}
		}
	}
	return n, err
}

// Write writes. Raft answers when it has read a request to its end, and sets no deadline for that
// either. A certificate is looked at before a request is sent, as it is where one arrives.
func (c *raftConn) Write(data []byte) (int, error) {
	if c.stall == 0 {
		if refusal := c.link.outlived(); refusal != nil {
			return 0, refusal
		}
	} else {
		c.mu.Lock()
		c.request = false
		c.mu.Unlock()
		if err := c.SetWriteDeadline(time.Now().Add(c.stall)); err != nil {
			return 0, err
		}
	}
	return c.Conn.Write(data)
}

// Close closes the connection and forgets it.
func (c *raftConn) Close() error {
	c.link.kill()
	return nil
}

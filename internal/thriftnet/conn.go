package thriftnet

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/thrift/lib/go/thrift"
)

// connState says what a connection is doing; Server.mu guards it.
type connState uint8

const (
	idle     connState = iota // waits for a request's first byte
	reading                   // shakes hands, or a request is arriving
	handling                  // a handler is at work or its answer is on the way
)

// conn is one connection of a server, and the goroutine that serves it.
type conn struct {
	server *Server
	nc     net.Conn
	peer   string
	tls    *tls.ConnectionState // after the handshake; nil over plain TCP
	once   sync.Once

	state connState // guarded by server.mu
	since time.Time // of state; guarded by server.mu
}

func newConn(s *Server, nc net.Conn) *conn {
	c := &conn{server: s, nc: nc, peer: nc.RemoteAddr().String(), state: idle, since: time.Now()}
	if s.cfg.TLS != nil {
		c.nc = tls.Server(nc, s.cfg.TLS)
		c.state = reading
	}
	return c
}

func (c *conn) close() {
	c.once.Do(func() {
		// A TLS connection's Close would first wait to send its farewell.
		if secure, ok := c.nc.(*tls.Conn); ok {
			_ = secure.NetConn().Close()
			return
		}
		_ = c.nc.Close()
	})
}

// enter notes what the connection does next. It reports false when the server stops and the
// connection has no request of its own to finish.
func (c *conn) enter(state connState) bool {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	if c.server.stopping && state != handling {
		return false
	}
	c.state, c.since = state, time.Now()
	return true
}

func (c *conn) serve() {
	s := c.server
	defer func() {
		if p := recover(); p != nil {
			c.panicked("", p)
		}
	}()
	if secure, ok := c.nc.(*tls.Conn); ok {
		ctx, cancel := context.WithTimeout(s.base, s.cfg.ReadTimeout)
		err := secure.HandshakeContext(ctx)
		cancel()
		if err != nil {
			s.cfg.Observe(IncidentHandshake)
			s.cfg.Logger.Debug("a TLS handshake failed", "service", s.cfg.Name, "peer", c.peer, "error", err.Error())
			return
		}
		state := secure.ConnectionState()
		c.tls = &state
	}
	t := newTransport(c.nc, s.cfg.Framed, s.cfg.MaxMessage, &s.shared)
	t.writeBy = func() time.Time { return time.Now().Add(s.cfg.WriteTimeout) }
	for c.await(t) && c.request(t) {
	}
}

// await waits for the first byte of a request.
func (c *conn) await(t *transport) bool {
	if !c.enter(idle) {
		return false
	}
	if err := c.nc.SetReadDeadline(time.Now().Add(c.server.cfg.IdleTimeout)); err != nil {
		return false
	}
	first, err := t.reader.Peek(1)
	if err != nil {
		return false
	}
	if c.foreign(first[0]) {
		c.server.cfg.Observe(IncidentForeign)
		c.server.cfg.Logger.Debug("closed a connection that does not speak this service's protocol",
			"service", c.server.cfg.Name, "peer", c.peer)
		return false
	}
	return c.enter(reading)
}

// foreign reports whether no message begins with this byte. A frame's length is under 16 MiB, so
// that its first byte is zero.
func (c *conn) foreign(first byte) bool {
	if c.server.cfg.Framed {
		return first != 0 && c.server.cfg.MaxMessage < 1<<24
	}
	return first != c.server.cfg.Protocol.firstByte()
}

// request reads, handles and answers one request. It reports whether another may follow.
func (c *conn) request(t *transport) (more bool) {
	s := c.server
	ctx, cancel := context.WithTimeoutCause(s.base, s.cfg.RequestTimeout, errTimeout)
	defer cancel()
	w := &watch{conn: c, transport: t, gone: make(chan struct{})}
	defer w.stop()
	var last atomic.Bool
	ctx = context.WithValue(ctx, requestKey{}, request{peer: c.peer, tls: c.tls, draining: s.draining, gone: w.gone, last: &last})
	if err := c.nc.SetReadDeadline(time.Now().Add(s.cfg.ReadTimeout)); err != nil {
		return false
	}
	defer func() { more = t.end() && more }()
	if err := t.begin(); err != nil {
		s.cfg.Observe(IncidentUnreadable)
		return false
	}
	in := &input{TProtocol: s.cfg.Protocol.over(t, s.conf), argumentsRead: w.start}
	out := &output{TProtocol: s.cfg.Protocol.over(t, s.conf)}
	method, kind, seq, err := in.ReadMessageBegin(ctx)
	if err != nil || len(method) > maxMethodName {
		s.cfg.Observe(IncidentUnreadable)
		return false
	}
	out.method = method
	if kind != thrift.CALL {
		s.cfg.Observe(IncidentUnreadable)
		_ = writeException(ctx, out.TProtocol, method, seq, thrift.INVALID_MESSAGE_TYPE_EXCEPTION, textNoCall)
		return false
	}
	function, known := s.cfg.Processor.ProcessorMap()[method]
	if !known {
		s.cfg.Observe(IncidentUnknownMethod)
		if in.Skip(ctx, thrift.STRUCT) != nil {
			return false
		}
		return writeException(ctx, out.TProtocol, method, seq, thrift.UNKNOWN_METHOD, textUnknownMethod) == nil
	}
	return c.process(ctx, function, seq, in, out) && !last.Load()
}

// maxMethodName bounds the name of a method: it is echoed in the answer.
const maxMethodName = 128

// panicked logs a panic: its type and place and never its value, which may hold what the request held.
func (c *conn) panicked(method string, value any) {
	c.server.cfg.Observe(IncidentPanic)
	c.server.cfg.Logger.Error("panic; the connection is closed", "service", c.server.cfg.Name, "method", method,
		"peer", c.peer, "panic", fmt.Sprintf("%T", value), "stack", string(debug.Stack()))
}

// process runs a handler. A panic becomes an exception to this peer and a line in the log.
func (c *conn) process(ctx context.Context, f thrift.TProcessorFunction, seq int32, in *input, out *output) (more bool) {
	s := c.server
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		more = false
		c.panicked(out.method, p)
		if t, ok := out.Transport().(*transport); ok {
			t.forget()
			fresh := s.cfg.Protocol.over(t, s.conf)
			_ = writeException(ctx, fresh, out.method, seq, thrift.INTERNAL_ERROR, textPanic)
		}
	}()
	ok, _ := f.Process(ctx, seq, in, out)
	if out.unreadable {
		s.cfg.Observe(IncidentUnreadable)
		return false
	}
	return ok
}

// watch waits, while a handler works, for the peer to go away. The news ends no context: a report
// whose sender has gone is worth recording. Handlers that only wait ask Gone.
type watch struct {
	conn      *conn
	transport *transport
	gone      chan struct{}
	stopped   atomic.Bool
	done      chan struct{} // nil: nothing was started
}

// start is called when the arguments have been read, or cannot be.
func (w *watch) start() {
	if w.done != nil {
		return
	}
	w.conn.enter(handling)
	if w.conn.nc.SetReadDeadline(time.Time{}) != nil || w.transport.reader.Buffered() > 0 {
		return
	}
	w.done = make(chan struct{})
	go func() {
		defer close(w.done)
		if _, err := w.transport.reader.Peek(1); err != nil && !w.stopped.Load() {
			close(w.gone)
		}
	}()
}

// stop ends the watch; the reader is the caller's again when it returns.
func (w *watch) stop() {
	if w.done == nil {
		return
	}
	w.stopped.Store(true)
	_ = w.conn.nc.SetReadDeadline(time.Unix(1, 0)) // in the past: wakes the reader
	<-w.done
}

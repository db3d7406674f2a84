// Package clienttest is an admin service for tests: it listens on a real loopback
// socket, serves a small fixed world of jobs, catalogs, backends and settings, writes
// down every request, and misbehaves on command.
package clienttest

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/apache/thrift/lib/go/thrift"

	"github.com/lancemaster/lancemaster/gen-go/admin"
)

// Server is one master's admin service.
type Server struct {
	tb       testing.TB
	listener net.Listener
	ctx      context.Context // ends with the server
	cancel   context.CancelFunc
	wg       sync.WaitGroup

	mu       sync.Mutex
	conns    map[net.Conn]bool
	accepted int
	requests []string
	callers  []string
	script   map[string][]Behavior
	w        *world
}

// Behavior is what the server does with one call instead of serving it.
type Behavior struct {
	Refusal *Refusal
	// Raw is written instead of a reply, then the connection is closed.
	Raw []byte
	// Drop closes the connection after the request was read.
	Drop bool
	// Hang holds the call until the server is closed.
	Hang bool
	// Exception is the type of a Thrift exception to answer with, 0 for none.
	Exception int32
	// Served says that the call is carried out before the server misbehaves.
	Served bool
	// NoHold serves the call, but a wait for a job is answered at once.
	NoHold bool
}

// Refusal is a typed error to answer with.
type Refusal struct {
	Code, Message, Next string
	Leader              string
	Holder              int64
	PresentJob          int64 // shown as it is in the world
}

// New starts a server, which ends with the test.
func New(tb testing.TB) *Server {
	tb.Helper()
	return NewTLS(tb, nil)
}

// NewTLS starts a server that speaks TLS, unless cfg is nil.
func NewTLS(tb testing.TB, cfg *tls.Config) *Server {
	tb.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	if cfg != nil {
		l = tls.NewListener(l, cfg)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &Server{
		tb: tb, listener: l, ctx: ctx, cancel: cancel,
		conns: map[net.Conn]bool{}, script: map[string][]Behavior{}, w: newWorld(),
	}
	s.wg.Go(s.accept)
	tb.Cleanup(s.Close)
	return s
}

// Addr returns host:port.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Close stops the server and ends its connections.
func (s *Server) Close() {
	s.cancel()
	_ = s.listener.Close() // closed twice by a test that closes it early
	s.CloseConns()
	s.wg.Wait()
}

// CloseConns ends the open connections; new ones are accepted.
func (s *Server) CloseConns() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		_ = c.Close() // the test wants it gone, however
	}
}

// Script adds behaviors for the coming calls of a method ("*" for any), one a call.
// When they are used up, calls are served.
func (s *Server) Script(method string, b ...Behavior) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.script[method] = append(s.script[method], b...)
}

// Always makes every call of a method ("*" for any) meet this behavior.
func (s *Server) Always(method string, b Behavior) {
	s.Script(method, slices.Repeat([]Behavior{b}, 1000)...)
}

// Requests returns what was asked so far: the method and the request as JSON.
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Callers returns the name and version that came with each request, and the token and
// whether it was a stale read where that is so.
func (s *Server) Callers() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.callers)
}

// Accepted counts the connections so far.
func (s *Server) Accepted() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.accepted
}

func (s *Server) accept() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.conns[c] = true
		s.accepted++
		s.mu.Unlock()
		if s.ctx.Err() != nil { // Close may have passed before this one was listed
			_ = c.Close() // nothing was read from it
		}
		s.wg.Go(func() {
			s.serve(c)
			s.mu.Lock()
			delete(s.conns, c)
			s.mu.Unlock()
		})
	}
}

func (s *Server) serve(c net.Conn) {
	defer c.Close()
	cfg := &thrift.TConfiguration{TBinaryStrictRead: new(true)}
	p := thrift.NewTBinaryProtocolConf(thrift.NewTBufferedTransport(thrift.NewTSocketFromConnConf(c, cfg), 4096), cfg)
	for s.ctx.Err() == nil {
		name, _, seq, err := p.ReadMessageBegin(s.ctx)
		if err != nil || !s.answer(c, p, name, seq) {
			return
		}
	}
}

// answer deals with one call, and reports whether the connection may go on.
func (s *Server) answer(c net.Conn, p *thrift.TBinaryProtocol, name string, seq int32) bool {
	h := &handler{s: s, method: name}
	b, scripted := s.next(name)
	if scripted && b.Refusal != nil {
		h.refusal = b.Refusal
	}
	h.noHold = b.NoHold
	scripted = scripted && !b.NoHold
	out, mute := thrift.TProtocol(p), scripted && b.Refusal == nil
	if mute {
		out = thrift.NewTBinaryProtocolConf(thrift.NewTMemoryBuffer(), &thrift.TConfiguration{})
	}
	f, known := admin.NewAdminServiceProcessor(h).GetProcessorFunction(name)
	if !known {
		s.tb.Errorf("unknown method %s", name)
		return false
	}
	h.serve = !scripted || b.Served
	if ok, err := f.Process(s.ctx, seq, p, out); err != nil && !ok {
		return false
	}
	if !mute {
		return true
	}
	switch {
	case b.Hang:
		<-s.ctx.Done()
	case b.Exception != 0:
		x := thrift.NewTApplicationException(b.Exception, "made up by the test")
		if p.WriteMessageBegin(s.ctx, name, thrift.EXCEPTION, seq) == nil && x.Write(s.ctx, p) == nil && p.WriteMessageEnd(s.ctx) == nil {
			return p.Flush(s.ctx) == nil
		}
	case b.Raw != nil:
		_, _ = c.Write(b.Raw) // the client may have gone
	}
	return false
}

func (s *Server) next(method string) (Behavior, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range []string{method, "*"} {
		if q := s.script[m]; len(q) > 0 {
			s.script[m] = q[1:]
			return q[0], true
		}
	}
	return Behavior{}, false
}

// record writes a request down without its context, which is checked apart.
func (s *Server) record(method string, request any, caller *admin.TRequestContext) {
	b, err := json.Marshal(request)
	if err != nil {
		s.tb.Errorf("%s: %v", method, err)
	}
	if caller == nil || caller.GetClientName() == "" {
		s.tb.Errorf("%s: the request says not who calls", method)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, fmt.Sprintf("%s %s", method, b))
	name := caller.GetClientName() + " " + caller.GetClientVersion()
	if caller.Token != nil {
		name += " with " + *caller.Token
	}
	if caller.GetStale() {
		name += ", stale"
	}
	s.callers = append(s.callers, name)
}

// at is the world's clock: a number of seconds after its beginning.
func at(seconds int) int64 {
	return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).Add(time.Duration(seconds) * time.Second).UnixMilli()
}

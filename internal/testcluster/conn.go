package testcluster

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"
)

// window is how many bytes of one direction may be under way or unread before a write waits.
const window = 64 << 10

// piece is data, or an end, and when it arrives.
type piece struct {
	data []byte
	end  error // io.EOF after a close, ECONNRESET after a reset
	at   time.Time
}

// pipe is one direction of a connection.
type pipe struct {
	net *Network
	way direction

	mu       sync.Mutex
	changed  chan struct{}
	pieces   []piece
	unread   int
	last     time.Time // when the newest piece arrives: they keep their order
	ended    bool      // the sending side has closed
	deaf     error     // the receiving side reads no more
	readBy   time.Time
	writeBy  time.Time
	readOver error // what the reading side of this process has done to itself
}

func newPipe(n *Network, way direction) *pipe {
	return &pipe{net: n, way: way, changed: make(chan struct{})}
}

// change runs f under the lock and wakes whoever waits.
func (p *pipe) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	close(p.changed)
	p.changed = make(chan struct{})
}

// wait waits for a change of the pipe or the network, or for a moment; the zero moment never comes.
func wait(until time.Time, changes ...<-chan struct{}) {
	var timer <-chan time.Time
	if !until.IsZero() {
		t := time.NewTimer(time.Until(until))
		defer t.Stop()
		timer = t.C
	}
	var second <-chan struct{}
	if len(changes) > 1 {
		second = changes[1]
	}
	select {
	case <-changes[0]:
	case <-second:
	case <-timer:
	}
}

func passed(deadline time.Time) bool { return !deadline.IsZero() && !time.Now().Before(deadline) }

// sooner is the earlier of two moments of which either may be zero, for never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func (p *pipe) read(to []byte) (int, error) {
	for {
		open, healed := p.net.passes(p.way)
		p.mu.Lock()
		var next time.Time
		switch {
		case p.readOver != nil:
			p.mu.Unlock()
			return 0, p.readOver
		case passed(p.readBy):
			p.mu.Unlock()
			return 0, os.ErrDeadlineExceeded
		case len(p.pieces) == 0 || !open:
		case time.Now().Before(p.pieces[0].at):
			next = p.pieces[0].at
		case p.pieces[0].end != nil:
			err := p.pieces[0].end
			p.mu.Unlock()
			return 0, err
		case len(to) == 0:
			p.mu.Unlock()
			return 0, nil
		default:
			n := copy(to, p.pieces[0].data)
			if p.pieces[0].data = p.pieces[0].data[n:]; len(p.pieces[0].data) == 0 {
				p.pieces = p.pieces[1:]
			}
			p.unread -= n
			p.mu.Unlock()
			p.change(func() {})
			return n, nil
		}
		changed, until := p.changed, sooner(next, p.readBy)
		p.mu.Unlock()
		wait(until, changed, healed)
	}
}

func (p *pipe) write(from []byte) (done int, err error) {
	arrives := time.Now().Add(p.net.takes(p.way))
	for {
		open, healed := p.net.passes(p.way)
		p.mu.Lock()
		switch {
		case p.ended:
			p.mu.Unlock()
			return done, net.ErrClosed
		case passed(p.writeBy):
			p.mu.Unlock()
			return done, os.ErrDeadlineExceeded
		case p.deaf != nil && open:
			p.mu.Unlock()
			return done, p.deaf
		case len(from) == 0:
			p.mu.Unlock()
			return done, nil
		}
		if room := min(window-p.unread, len(from)); room > 0 {
			if arrives.Before(p.last) {
				arrives = p.last
			}
			p.last = arrives
			if p.deaf == nil {
				p.pieces = append(p.pieces, piece{data: append([]byte(nil), from[:room]...), at: arrives})
			}
			p.unread += room
			from, done = from[room:], done+room
			p.mu.Unlock()
			p.change(func() {})
			continue
		}
		changed, until := p.changed, p.writeBy
		p.mu.Unlock()
		wait(until, changed, healed)
	}
}

// finish has the sending side send no more; the other side learns of it after all that was sent.
func (p *pipe) finish(end error) {
	takes := p.net.takes(p.way)
	p.change(func() {
		if p.ended {
			return
		}
		p.ended = true
		at := time.Now().Add(takes)
		if at.Before(p.last) {
			at = p.last
		}
		if !errors.Is(end, io.EOF) {
			p.pieces = nil // a reset overtakes what nobody has read
		}
		p.pieces = append(p.pieces, piece{end: end, at: at})
	})
}

// refuse has the receiving side read no more.
func (p *pipe) refuse(own, others error) {
	p.change(func() {
		if p.readOver == nil {
			p.readOver, p.deaf, p.pieces = own, others, nil
		}
	})
}

// conn is one end of a connection.
type conn struct {
	host          *Host
	in, out       *pipe
	local, remote netip.AddrPort
}

// newPair makes both ends of a connection.
func newPair(a, b *Host, at, bt netip.AddrPort) (*conn, *conn) {
	there := newPipe(a.net, direction{at.Addr(), bt.Addr()})
	back := newPipe(a.net, direction{bt.Addr(), at.Addr()})
	return &conn{host: a, in: back, out: there, local: at, remote: bt}, &conn{host: b, in: there, out: back, local: bt, remote: at}
}

func (c *conn) Read(p []byte) (int, error)  { return c.in.read(p) }
func (c *conn) Write(p []byte) (int, error) { return c.out.write(p) }

// Close lets what was written arrive.
func (c *conn) Close() error {
	c.host.forget(c)
	c.out.finish(io.EOF)
	c.in.refuse(net.ErrClosed, syscall.EPIPE)
	return nil
}

// reset ends the connection without what was not delivered yet.
func (c *conn) reset() {
	c.host.forget(c)
	c.out.finish(syscall.ECONNRESET)
	c.in.refuse(net.ErrClosed, syscall.ECONNRESET)
}

func (c *conn) LocalAddr() net.Addr  { return net.TCPAddrFromAddrPort(c.local) }
func (c *conn) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.remote) }

func (c *conn) SetReadDeadline(t time.Time) error {
	c.in.change(func() { c.in.readBy = t })
	return nil
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.out.change(func() { c.out.writeBy = t })
	return nil
}

func (c *conn) SetDeadline(t time.Time) error {
	_ = c.SetReadDeadline(t) // neither of them fails
	return c.SetWriteDeadline(t)
}

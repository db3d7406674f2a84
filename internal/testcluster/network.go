package testcluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"
)

// Network carries connections between hosts of one process. Each direction between two hosts can be cut
// and slowed by itself. All waiting is on channels and timers, so that it is durable inside a bubble.
type Network struct {
	mu        sync.Mutex
	random    *rand.Rand
	changed   chan struct{} // closed, and made anew, when cuts or listeners change
	cuts      map[direction]bool
	slow      map[direction]time.Duration
	listeners map[netip.AddrPort]*listener
	ports     map[netip.Addr]uint16
}

// direction is from one host to another.
type direction struct{ from, to netip.Addr }

const (
	// latency of one direction, without what Slow adds: at least, and at random up to this much more.
	latency = 200 * time.Microsecond
	jitter  = 2 * time.Millisecond
	// dialPatience is how long a dial without a deadline of its own tries, as an operating system does.
	dialPatience = 2 * time.Minute
	firstPort    = 20000
	backlog      = 128
)

// NewNetwork makes a network without hosts. The seed decides how long each piece of data takes.
func NewNetwork(seed uint64) *Network {
	return &Network{
		random: rand.New(rand.NewPCG(seed, 1)), changed: make(chan struct{}), //nolint:gosec // repeatable on purpose
		cuts: map[direction]bool{}, slow: map[direction]time.Duration{},
		listeners: map[netip.AddrPort]*listener{}, ports: map[netip.Addr]uint16{},
	}
}

// Cut keeps from the second host all that the first sends, until Heal. What was sent is not lost, as
// with TCP, but what waits may give up.
func (n *Network) Cut(from, to netip.Addr) { n.set(func() { n.cuts[direction{from, to}] = true }) }

// Mend undoes one Cut.
func (n *Network) Mend(from, to netip.Addr) { n.set(func() { delete(n.cuts, direction{from, to}) }) }

// Slow adds to the time that data takes from one host to another.
func (n *Network) Slow(from, to netip.Addr, by time.Duration) {
	n.set(func() { n.slow[direction{from, to}] = by })
}

// Heal undoes every Cut and Slow.
func (n *Network) Heal() { n.set(func() { clear(n.cuts); clear(n.slow) }) }

func (n *Network) set(change func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change()
	n.changedLocked()
}

func (n *Network) changedLocked() {
	close(n.changed)
	n.changed = make(chan struct{})
}

// passes says whether a direction is open, and what is closed when that may have changed.
func (n *Network) passes(d direction) (open bool, changed <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.cuts[d], n.changed
}

// takes is how long the next piece of data is on its way.
func (n *Network) takes(d direction) time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return latency + n.slow[d] + time.Duration(n.random.Int64N(int64(jitter)))
}

// Host is one process on the network. A process that starts again at the same address is another Host.
type Host struct {
	net  *Network
	addr netip.Addr

	mu        sync.Mutex
	dead      bool
	conns     map[*conn]struct{}
	listeners []*listener
}

// Host makes a process at an address.
func (n *Network) Host(addr netip.Addr) *Host {
	return &Host{net: n, addr: addr, conns: map[*conn]struct{}{}}
}

// Kill ends the process as the kernel does: listeners are gone, connections are reset, and nothing of
// it reaches the network any more.
func (h *Host) Kill() {
	h.mu.Lock()
	h.dead = true
	conns, listeners := h.conns, h.listeners
	h.conns, h.listeners = map[*conn]struct{}{}, nil
	h.mu.Unlock()
	for _, l := range listeners {
		_ = l.Close()
	}
	for c := range conns {
		c.reset()
	}
}

func (h *Host) track(c *conn) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dead {
		return false
	}
	h.conns[c] = struct{}{}
	return true
}

func (h *Host) forget(c *conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.conns, c)
}

func (h *Host) isDead() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.dead
}

// Listen listens at host:port of this host; port 0 picks one.
func (h *Host) Listen(_ context.Context, _, address string) (net.Listener, error) {
	at, err := netip.ParseAddrPort(address)
	if err != nil || at.Addr() != h.addr {
		return nil, fmt.Errorf("listen %s on %s: %w", address, h.addr, syscall.EADDRNOTAVAIL)
	}
	n := h.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if at.Port() == 0 {
		at = netip.AddrPortFrom(at.Addr(), n.portLocked(at.Addr()))
	}
	if n.listeners[at] != nil {
		return nil, fmt.Errorf("listen %s: %w", at, syscall.EADDRINUSE)
	}
	l := &listener{host: h, at: at, conns: make(chan *conn, backlog), closed: make(chan struct{})}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dead {
		return nil, fmt.Errorf("listen %s: %w", at, syscall.ENETDOWN)
	}
	h.listeners = append(h.listeners, l)
	n.listeners[at] = l
	n.changedLocked()
	return l, nil
}

func (n *Network) portLocked(host netip.Addr) uint16 {
	if n.ports[host] < firstPort {
		n.ports[host] = firstPort
	}
	n.ports[host]++
	return n.ports[host]
}

// Dial connects to host:port. Over a cut it hangs until the cut is mended or the context ends.
func (h *Host) Dial(ctx context.Context, _, address string) (net.Conn, error) {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", address, err)
	}
	ctx, cancel := context.WithTimeout(ctx, dialPatience)
	defer cancel()
	there, back := direction{h.addr, to.Addr()}, direction{to.Addr(), h.addr}
	for {
		if h.isDead() {
			return nil, fmt.Errorf("dial %s: %w", address, syscall.ENETDOWN)
		}
		open, changed := h.net.passes(there)
		if returns, _ := h.net.passes(back); open && returns {
			break
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("dial %s: %w", address, timeoutOf(ctx))
		}
	}
	trip := time.NewTimer(h.net.takes(there) + h.net.takes(back))
	defer trip.Stop()
	select {
	case <-trip.C:
	case <-ctx.Done():
		return nil, fmt.Errorf("dial %s: %w", address, timeoutOf(ctx))
	}
	return h.connect(to)
}

func (h *Host) connect(to netip.AddrPort) (net.Conn, error) {
	n := h.net
	n.mu.Lock()
	l := n.listeners[to]
	from := netip.AddrPortFrom(h.addr, n.portLocked(h.addr))
	n.mu.Unlock()
	if l == nil {
		return nil, fmt.Errorf("dial %s: %w", to, syscall.ECONNREFUSED)
	}
	here, there := newPair(h, l.host, from, to)
	if !h.track(here) {
		return nil, fmt.Errorf("dial %s: %w", to, syscall.ENETDOWN)
	}
	if !l.host.track(there) || !l.offer(there) {
		l.host.forget(there)
		h.forget(here)
		return nil, fmt.Errorf("dial %s: %w", to, syscall.ECONNREFUSED)
	}
	return here, nil
}

// timeoutOf is the error of a dial whose context has ended.
func timeoutOf(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return os.ErrDeadlineExceeded
	}
	return ctx.Err()
}

// listener takes connections at one port.
type listener struct {
	host  *Host
	at    netip.AddrPort
	conns chan *conn

	once   sync.Once
	closed chan struct{}
}

func (l *listener) offer(c *conn) bool {
	select {
	case <-l.closed:
		return false
	default:
	}
	select {
	case l.conns <- c:
		return true
	default:
		return false // the backlog is full
	}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case <-l.closed:
		return nil, net.ErrClosed
	default:
	}
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Addr() net.Addr { return net.TCPAddrFromAddrPort(l.at) }

// Close takes the listener off the network. Connections that nobody accepted are reset.
func (l *listener) Close() error {
	l.once.Do(func() {
		l.host.net.set(func() {
			if l.host.net.listeners[l.at] == l {
				delete(l.host.net.listeners, l.at)
			}
		})
		close(l.closed)
		for {
			select {
			case c := <-l.conns:
				c.reset()
				continue
			default:
			}
			return
		}
	})
	return nil
}

package auth

import (
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// How many logins may fail from one address: some at once, as a person at a keyboard or a service with an
// old token does, and then one each failEvery.
const (
	failBurst = 10
	failEvery = 6 * time.Second
)

// Bounds of what is remembered.
const (
	maxPeers   = 4096
	sweepEvery = time.Second
)

// limiter remembers the failures of each address.
type limiter struct {
	mu    sync.Mutex
	peers map[string]*standing
	// rest is the standing that addresses share when there is no room for one of their own.
	rest  *standing
	swept time.Time
}

// standing is what is remembered of one address.
type standing struct{ failures *rate.Limiter }

func newStanding() *standing {
	return &standing{failures: rate.NewLimiter(rate.Every(failEvery), failBurst)}
}

func newLimiter() *limiter {
	return &limiter{peers: map[string]*standing{}, rest: newStanding()}
}

// wait returns how long what is unknown is not looked into when it comes from an address; 0 when it is.
func (l *limiter) wait(address string, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.peers[peerKey(address)]
	if s == nil {
		// A stranger: only when there is no room to remember it does it share the others' standing.
		if len(l.peers) < maxPeers || l.sweep(now) {
			return 0
		}
		s = l.rest
	}
	missing := 1 - s.failures.TokensAt(now)
	if missing <= 0 {
		return 0
	}
	return max(time.Duration(missing*float64(failEvery)), time.Millisecond)
}

// failed counts a failure. It reports true for the one after which nothing unknown from there is looked into.
func (l *limiter) failed(address string, now time.Time) (last bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.standing(address, now)
	s.failures.AllowN(now, 1)
	return s.failures.TokensAt(now) < 1
}

func (l *limiter) standing(address string, now time.Time) *standing {
	key := peerKey(address)
	if s := l.peers[key]; s != nil {
		return s
	}
	if len(l.peers) >= maxPeers && !l.sweep(now) {
		return l.rest
	}
	s := newStanding()
	l.peers[key] = s
	return s
}

// sweep forgets the addresses with nothing against them and reports whether there is room. It never
// forgets a failure that still counts: whoever has many addresses would else wash them all clean.
func (l *limiter) sweep(now time.Time) bool {
	if now.Sub(l.swept) >= sweepEvery {
		l.swept = now
		for key, s := range l.peers {
			if s.failures.TokensAt(now) >= failBurst {
				delete(l.peers, key)
			}
		}
	}
	return len(l.peers) < maxPeers
}

// Bounds of the waits for a token that is not known yet: of all, and of one address.
const (
	maxWaits     = 256
	maxWaitsEach = 8
)

// waits counts who waits for this node to catch up.
type waits struct {
	mu   sync.Mutex
	all  int
	each map[string]int
}

func newWaits() *waits { return &waits{each: map[string]int{}} }

// enter takes a place, if there is one.
func (w *waits) enter(address string) bool {
	key := peerKey(address)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all == maxWaits || w.each[key] == maxWaitsEach {
		return false
	}
	w.all++
	w.each[key]++
	return true
}

func (w *waits) leave(address string) {
	key := peerKey(address)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all--
	if w.each[key]--; w.each[key] == 0 {
		delete(w.each, key)
	}
}

// peerKey is what stands for a peer: its IPv4 address, the /64 of its IPv6 address, which is what one
// machine is given, or for a unix socket just that.
func peerKey(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return "local"
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return "local"
	}
	ip = ip.Unmap().WithZone("")
	if ip.Is6() {
		if prefix, err := ip.Prefix(64); err == nil {
			return prefix.String()
		}
	}
	return ip.String()
}

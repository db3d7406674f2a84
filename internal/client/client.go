package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lancemaster/lancemaster/gen-go/admin"
)

// Config says whom to call and as whom. Only Addresses is required.
type Config struct {
	// Addresses are host:port of admin services, tried in this order. One is
	// enough: the leader is found from any member.
	Addresses []string

	Token   string // authenticates the caller where tokens are configured; without TLS it is sent to this machine only
	Name    string // the caller's name in the history where nothing vouches for one, as unverified:NAME
	Version string // the caller's version

	// Stale, where set, has every read answered by the first address that answers, from
	// that master's own state, which may be behind; it is told of each read whose state
	// that was. Such a client makes no changes.
	Stale func(Staleness)

	// TLS, where set, is used for every connection.
	TLS *tls.Config
	// Dial, where set, replaces TCP below TLS.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	DialTimeout time.Duration // bound of one connection attempt; default 5s
	CallTimeout time.Duration // bound of one attempt's answer; default 30s
}

const (
	defaultDialTimeout = 5 * time.Second
	defaultCallTimeout = 30 * time.Second
	maxIdle            = 2                // idle connections kept per address
	maxIdleAge         = 30 * time.Second // older ones are closed rather than used
)

// Client calls a cluster. It is safe for concurrent use.
type Client struct {
	cfg   Config
	pause pauseFunc
	now   func() time.Time

	mu     sync.Mutex
	closed bool
	leader string // the address that last served a leader's call, or ""
	idle   map[string][]*conn
}

// New checks the configuration; it connects to nobody yet.
func New(cfg Config) (*Client, error) {
	if len(cfg.Addresses) == 0 {
		return nil, errors.New("no address of a master is given")
	}
	for _, a := range cfg.Addresses {
		if err := checkAddress(a); err != nil {
			return nil, err
		}
	}
	if cfg.DialTimeout <= 0 {
		cfg.DialTimeout = defaultDialTimeout
	}
	if cfg.CallTimeout <= 0 {
		cfg.CallTimeout = defaultCallTimeout
	}
	return &Client{cfg: cfg, pause: pauseFor, now: time.Now, idle: map[string][]*conn{}}, nil
}

// ParseAddresses reads host:port[,host:port...].
func ParseAddresses(list string) ([]string, error) {
	var out []string
	for a := range strings.SplitSeq(list, ",") {
		a = strings.TrimSpace(a)
		if err := checkAddress(a); err != nil {
			return nil, err
		}
		out = append(out, a)
	}
	return out, nil
}

const maxAddress = 300 // a DNS name has at most 253 bytes

func notInAddress(r rune) bool { return r <= ' ' || r >= 0x7f }

// checkAddress takes host:port, or unix:/path.
func checkAddress(a string) error {
	if path, ok := strings.CutPrefix(a, "unix:"); ok && strings.HasPrefix(path, "/") && len(a) <= maxAddress && !strings.ContainsFunc(a, notInAddress) {
		return nil
	}
	host, port, err := net.SplitHostPort(a)
	n, notNumber := strconv.ParseUint(port, 10, 16)
	if err != nil || notNumber != nil || n == 0 || host == "" || len(a) > maxAddress || strings.ContainsFunc(a, notInAddress) {
		return fmt.Errorf("%q is not the host:port of a master's admin service, such as 127.0.0.1:9021, nor unix:/path", a)
	}
	return nil
}

// Addresses returns the configured addresses.
func (c *Client) Addresses() []string { return append([]string(nil), c.cfg.Addresses...) }

// Close closes the idle connections; calls under way end as they would have.
func (c *Client) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, conns := range c.idle {
		for _, k := range conns {
			k.close()
		}
	}
	c.idle = map[string][]*conn{}
	return nil
}

// caller is field 1 of every request.
func (c *Client) caller() *admin.TRequestContext {
	who := &admin.TRequestContext{Token: optional(c.cfg.Token), ClientName: optional(c.cfg.Name), ClientVersion: optional(c.cfg.Version)}
	if c.cfg.Stale != nil {
		who.Stale = ptr(true)
	}
	return who
}

// takeIdle returns a kept connection that is young enough, or nil.
func (c *Client) takeIdle(address string) *conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	conns := c.idle[address]
	for len(conns) > 0 {
		k := conns[len(conns)-1]
		conns = conns[:len(conns)-1]
		c.idle[address] = conns
		if time.Since(k.idleAt) <= maxIdleAge {
			return k
		}
		k.close()
	}
	return nil
}

// giveBack keeps the connection for a later read, or closes it.
func (c *Client) giveBack(address string, k *conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !k.fit || c.closed || len(c.idle[address]) >= maxIdle {
		k.close()
		return
	}
	k.idleAt = time.Now()
	c.idle[address] = append(c.idle[address], k)
}

func (c *Client) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

func (c *Client) setLeader(address string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leader = address
}

// route lists the addresses to try: the last leader first, then as configured.
func (c *Client) route() []string {
	c.mu.Lock()
	leader := c.leader
	c.mu.Unlock()
	var out []string
	if leader != "" {
		out = append(out, leader)
	}
	for _, a := range c.cfg.Addresses {
		if a != leader {
			out = append(out, a)
		}
	}
	return out
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func ptr[T any](v T) *T { return &v }

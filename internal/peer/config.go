package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Config says how an endpoint runs. Self, Judge, and Bind or Listener have no default.
type Config struct {
	// Bind is the host:port to listen on. Port 0 takes a free one.
	Bind string
	// Advertise is the host:port under which other nodes reach this one. Empty means the bound
	// address, which must then be of one host.
	Advertise string

	// Self returns what this node says of itself now. It is called for each connection and call and
	// must not block.
	Self func() Identity
	// Judge is asked on both sides of each new connection, and again at each call and Recheck. A nil
	// error lets the other side in: as a member, or as a stranger, whose calls reach only the
	// handlers that allow strangers. An error, best a *Refusal, ends the connection. It must not
	// block. See Check and Decide.
	Judge func(kind Kind, other Identity) (member bool, err error)
	// Handlers are the methods that others may call. A method that is not for strangers is not
	// called at strangers either.
	Handlers map[string]Handler

	// ServerTLS and ClientTLS give the configuration of one connection, so that new certificates
	// count at the next. nodeID is whom the dialler means, or empty. Without a ServerName the host
	// of the address is verified. Both nil: plain TCP.
	ServerTLS func() (*tls.Config, error)
	ClientTLS func(nodeID string) (*tls.Config, error)

	// Holder returns the node id that a dialler's certificate names: it must be the one of its
	// identity. nil: any certificate that ServerTLS accepts will do.
	Holder func(tls.ConnectionState) (nodeID string, err error)

	// Recheck holds the certificate at the other end of a TLS connection that stands against what counts
	// now. It is asked at each call and each request of Raft, on both sides, and ends the connection
	// with an error; it must not block. nil: what the handshake found holds for as long as the
	// connection.
	Recheck func(tls.ConnectionState) error

	// MaxConns bounds the incoming connections (default 512). Half of them are for calls of
	// members, a quarter for Raft, an eighth each for strangers and for those that have not said yet
	// who they are: none of these can take the others' room.
	MaxConns int
	// HandshakeTimeout bounds dialling and the handshake together, on either side (default 5s).
	HandshakeTimeout time.Duration
	// StallTimeout is how long a request from another member may stop arriving in its middle, and
	// how long that member may take to accept the answer (default 5s).
	StallTimeout time.Duration

	Logger     *slog.Logger          // default: none
	Registerer prometheus.Registerer // default: none

	// Dial and Listener replace TCP in tests.
	Dial     func(ctx context.Context, network, address string) (net.Conn, error)
	Listener net.Listener
}

// Handler answers the calls of one method.
type Handler struct {
	// Strangers says that also a node that is not a member may call.
	Strangers bool
	// Timeout bounds one call (default 30s); the caller's own deadline counts if it is sooner.
	Timeout time.Duration
	// Do answers. Its context ends early when the caller has gone or given up, and when the endpoint
	// closes. An error reaches the caller as a *RemoteError, a *Refusal as itself: then the handler
	// must have done nothing.
	Do func(ctx context.Context, from Identity, payload []byte) ([]byte, error)
}

const (
	defaultMaxConns         = 512
	defaultHandshakeTimeout = 5 * time.Second
	defaultStallTimeout     = 5 * time.Second
	defaultCallTimeout      = 30 * time.Second

	// Bounds of one call, in bytes.
	maxRequest         = 4 << 20
	maxStrangerRequest = 64 << 10
	maxReply           = 8 << 20
	maxMethod          = 64

	// clientIdle is how long the calling side keeps a connection without a call; serverIdle, for the
	// side that answers, is longer, so that as a rule the caller closes and no call is lost.
	clientIdle   = 60 * time.Second
	serverIdle   = 3 * time.Minute
	writeTimeout = 10 * time.Second
	// maxIdle and maxCalls bound the idle connections and the calls to one node, for each method.
	maxIdle  = 4
	maxCalls = 64
	// raftPerNode bounds the Raft connections that one node holds here. Raft keeps at most three
	// idle ones and needs a few more while it replicates, sends a snapshot and asks for votes.
	raftPerNode = 16
	// closeGrace is how long Close waits for handlers whose context and connection it has ended.
	closeGrace = 2 * time.Second
)

func (c Config) withDefaults() Config {
	if c.MaxConns <= 0 {
		c.MaxConns = defaultMaxConns
	}
	if c.HandshakeTimeout <= 0 {
		c.HandshakeTimeout = defaultHandshakeTimeout
	}
	if c.StallTimeout <= 0 {
		c.StallTimeout = defaultStallTimeout
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Dial == nil {
		dialer := net.Dialer{KeepAliveConfig: keepAlive}
		c.Dial = dialer.DialContext
	}
	return c
}

// keepAlive finds within about half a minute that a host has gone without a word.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 4}

func (c Config) validate() error {
	var faults []error
	if c.Self == nil || c.Judge == nil {
		faults = append(faults, errors.New("nobody says who this node is or judges others"))
	}
	if (c.ServerTLS == nil) != (c.ClientTLS == nil) {
		faults = append(faults, errors.New("TLS is configured for one direction only"))
	}
	if c.MaxConns < 8 {
		faults = append(faults, fmt.Errorf("at least 8 connections are needed, not %d", c.MaxConns))
	}
	for name, handler := range c.Handlers {
		if name == "" || len(name) > maxMethod || handler.Do == nil {
			faults = append(faults, fmt.Errorf("the handler of method %q has no function, or a name not of 1 to %d bytes", name, maxMethod))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("endpoint of the Raft port refused: %w", err)
	}
	return nil
}

// listen binds the endpoint's address and finds the advertised one.
func (c Config) listen(ctx context.Context) (net.Listener, address, error) {
	listener := c.Listener
	if listener == nil {
		config := net.ListenConfig{KeepAliveConfig: keepAlive}
		var err error
		if listener, err = config.Listen(ctx, "tcp", c.Bind); err != nil {
			return nil, "", fmt.Errorf("cannot listen for other masters on raft.listen: %w", err)
		}
	}
	if c.Advertise != "" {
		return listener, address(c.Advertise), nil
	}
	if tcp, ok := listener.Addr().(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		err := fmt.Errorf("listening for other masters on all addresses (%s) needs an advertised address; set raft.advertise", c.Bind)
		return nil, "", errors.Join(err, listener.Close())
	}
	return listener, address(listener.Addr().String()), nil
}

// address is an address as it was configured, not resolved.
type address string

// Network returns "tcp".
func (address) Network() string { return "tcp" }

func (a address) String() string { return string(a) }

package thriftnet

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/apache/thrift/lib/go/thrift"
)

// ClientConfig says how a Client speaks, and bounds what it reads. Zero bounds take the defaults.
type ClientConfig struct {
	Protocol     Protocol // default Binary
	Framed       bool
	TLS          *tls.Config   // nil: plain TCP; its ServerName defaults to the host dialled
	MaxMessage   int32         // bytes of one answer; default 1 MiB
	MaxContainer int32         // elements of one list, set or map; default 1024
	Timeout      time.Duration // of a dial or call whose context has no deadline; default 60 s
	// Dial makes the connection below TLS; default: TCP, or a Unix socket for unix:PATH.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

func (c ClientConfig) withDefaults() ClientConfig {
	if c.Protocol == "" {
		c.Protocol = Binary
	}
	if c.MaxMessage <= 0 {
		c.MaxMessage = 1 << 20
	}
	if c.MaxContainer <= 0 {
		c.MaxContainer = 1024
	}
	if c.Timeout <= 0 {
		c.Timeout = time.Minute
	}
	return c
}

// Client is one connection to a Thrift service. It implements thrift.TClient, for the generated
// clients. One call at a time; after a call that failed in any way but with an answer from the peer
// the connection is closed, since what would be read next belongs to nobody.
type Client struct {
	cfg       ClientConfig
	conf      *thrift.TConfiguration
	transport *transport
	seq       int32
	busy      atomic.Bool
	broken    atomic.Bool
}

var _ thrift.TClient = (*Client)(nil)

// Dial connects, TLS handshake included. Nothing is sent that a service would act on.
func Dial(ctx context.Context, address string, cfg ClientConfig) (*Client, error) {
	cfg = cfg.withDefaults()
	if !cfg.Protocol.valid() {
		return nil, fmt.Errorf("cannot speak %q; the protocols are binary and compact", cfg.Protocol)
	}
	ctx, cancel := context.WithDeadline(ctx, deadlineOf(ctx, cfg.Timeout))
	defer cancel()
	nc, err := cfg.connect(ctx, address)
	if err != nil {
		return nil, err
	}
	return &Client{
		cfg: cfg, conf: configuration(cfg.MaxMessage, cfg.MaxContainer), seq: beforeNewline,
		transport: newTransport(nc, cfg.Framed, cfg.MaxMessage, nil),
	}, nil
}

// beforeNewline has the first call's number be a newline. An HTTP server that is called by mistake then
// has a whole first line, of which it says at once that it is none of HTTP; it would wait for one until
// its patience ends.
const beforeNewline = '\n' - 1

// connect connects, TLS handshake included.
func (c ClientConfig) connect(ctx context.Context, address string) (net.Conn, error) {
	dial := c.Dial
	if dial == nil {
		var dialer net.Dialer
		dial = dialer.DialContext
	}
	network, at := networkOf(address)
	nc, err := dial(ctx, network, at)
	if err != nil || c.TLS == nil {
		return nc, err
	}
	conf := c.TLS
	if conf.ServerName == "" && !conf.InsecureSkipVerify {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("TLS needs a host to verify, which %q does not name", address), nc.Close())
		}
		conf = conf.Clone()
		conf.ServerName = host
	}
	secure := tls.Client(nc, conf)
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(err, nc.Close())
	}
	return secure, nil
}

// networkOf tells a Unix socket, unix:PATH, from host:port.
func networkOf(address string) (network, at string) {
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		return "unix", path
	}
	return "tcp", address
}

func deadlineOf(ctx context.Context, timeout time.Duration) time.Time {
	if deadline, ok := ctx.Deadline(); ok {
		return deadline
	}
	return time.Now().Add(timeout)
}

// RemoteAddr returns the address connected to, resolved.
func (c *Client) RemoteAddr() string { return c.transport.conn.RemoteAddr().String() }

// Close closes the connection; a call under way fails.
func (c *Client) Close() error { return c.transport.conn.Close() }

var (
	errConcurrent = errors.New("a call is under way on this connection; use one connection for each caller")
	errBroken     = errors.New("this connection is spent: an earlier call on it failed; dial again")
)

// Call makes one call, within the deadline of ctx. Every error but one is ambiguous: the service may
// have acted on the call. The one is a thrift.TApplicationException with the type UNKNOWN_METHOD.
func (c *Client) Call(ctx context.Context, method string, args, result thrift.TStruct) (thrift.ResponseMeta, error) {
	if !c.busy.CompareAndSwap(false, true) {
		return thrift.ResponseMeta{}, errConcurrent
	}
	defer c.busy.Store(false)
	if c.broken.Load() {
		return thrift.ResponseMeta{}, errBroken
	}
	err := c.call(ctx, method, args, result)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		err = fmt.Errorf("%w (%w)", err, context.Cause(ctx))
	case errors.Is(err, errSlow):
		// The socket's deadline strikes a little before the context's.
		err = fmt.Errorf("%w (%w)", err, context.DeadlineExceeded)
	}
	return thrift.ResponseMeta{}, err
}

func (c *Client) call(ctx context.Context, method string, args, result thrift.TStruct) (err error) {
	answered := false
	defer func() {
		if err != nil && !answered {
			c.broken.Store(true)
			_ = c.Close()
		}
	}()
	deadline := deadlineOf(ctx, c.cfg.Timeout)
	if err := c.transport.conn.SetDeadline(deadline); err != nil {
		return err
	}
	// A context that is cancelled wakes whatever waits on the socket.
	stop := context.AfterFunc(ctx, func() { _ = c.transport.conn.SetDeadline(time.Unix(1, 0)) })
	defer func() {
		if !stop() {
			c.broken.Store(true) // the past deadline may strike at any moment from now on
		}
	}()

	c.seq++
	p := c.cfg.Protocol.over(c.transport, c.conf)
	if err := p.WriteMessageBegin(ctx, method, thrift.CALL, c.seq); err != nil {
		return err
	}
	if err := args.Write(ctx, p); err != nil {
		return err
	}
	if err := p.WriteMessageEnd(ctx); err != nil {
		return err
	}
	if err := p.Flush(ctx); err != nil {
		return err
	}
	if result == nil {
		return nil
	}
	answered, err = c.receive(ctx, p, method, result)
	return err
}

// receive reads the answer. It reports true when an exception of the peer's was read to its end.
func (c *Client) receive(ctx context.Context, p thrift.TProtocol, method string, result thrift.TStruct) (bool, error) {
	if err := c.transport.begin(); err != nil {
		return false, err
	}
	first := c.transport.first()
	name, kind, seq, err := p.ReadMessageBegin(ctx)
	if err != nil {
		if other := spokenIn(first); other != "" {
			err = &ForeignError{Speaks: other, err: err}
		}
		return false, err
	}
	switch {
	case name != method:
		return false, thrift.NewTApplicationException(thrift.WRONG_METHOD_NAME, "the answer is to another method")
	case seq != c.seq:
		return false, thrift.NewTApplicationException(thrift.BAD_SEQUENCE_ID, "the answer is to another call")
	case kind == thrift.EXCEPTION:
		exception := thrift.NewTApplicationException(thrift.UNKNOWN_APPLICATION_EXCEPTION, "")
		if err := exception.Read(ctx, p); err != nil {
			return false, err
		}
		if !c.transport.end() {
			return false, errTrailing()
		}
		return true, exception
	case kind != thrift.REPLY:
		return false, thrift.NewTApplicationException(thrift.INVALID_MESSAGE_TYPE_EXCEPTION, "the answer is neither reply nor exception")
	}
	if err := result.Read(ctx, p); err != nil {
		return false, err
	}
	if !c.transport.end() {
		return false, errTrailing()
	}
	return false, p.ReadMessageEnd(ctx)
}

// errTrailing says of a frame that it is no answer, whatever it begins with.
func errTrailing() error {
	return thrift.NewTTransportExceptionFromError(errors.New("the answer's frame holds more than the answer"))
}

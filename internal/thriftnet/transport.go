package thriftnet

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/apache/thrift/lib/go/thrift"
)

// Protocol names an encoding of Thrift.
type Protocol string

// The protocols that both ends speak. Binary is strict TBinaryProtocol.
const (
	Binary  Protocol = "binary"
	Compact Protocol = "compact"
)

// firstByte is what every message of a protocol begins with, when it is not framed.
func (p Protocol) firstByte() byte {
	if p == Compact {
		return thrift.COMPACT_PROTOCOL_ID
	}
	return 0x80
}

func (p Protocol) valid() bool { return p == Binary || p == Compact }

// over makes the protocol over a transport. Both directions share one configuration, because the
// library hands it on from protocol to transport and the last one would win.
func (p Protocol) over(t thrift.TTransport, conf *thrift.TConfiguration) thrift.TProtocol {
	if p == Compact {
		return thrift.NewTCompactProtocolConf(t, conf)
	}
	return thrift.NewTBinaryProtocolConf(t, conf)
}

// configuration bounds what one length can ask for. MaxMessageSize bounds each single length; the
// transport bounds the message as a whole.
func configuration(maxMessage, maxContainer int32) *thrift.TConfiguration {
	return &thrift.TConfiguration{
		MaxMessageSize:     maxMessage,
		MaxFrameSize:       maxMessage,
		MaxContainerSize:   maxContainer,
		TBinaryStrictRead:  new(true),
		TBinaryStrictWrite: new(true),
	}
}

// ErrTooLarge is in the chain of the error that ends a call whose answer exceeds
// ClientConfig.MaxMessage.
var ErrTooLarge = errors.New("the message is larger than this side allows")

var (
	errSlow  = errors.New("the message did not arrive whole in time")
	errBusy  = errors.New("too many bytes of unfinished messages are held already")
	errFrame = errors.New("the frame ends before its message does")
)

// smallMessage is what every message may hold without counting against the allowance.
const smallMessage = 16 << 10

// keepBuffer is the largest output buffer that a connection keeps from one message to the next.
const keepBuffer = 64 << 10

// allowance is what all connections of one server may hold together of messages under way.
type allowance struct {
	limit int64
	used  atomic.Int64
}

func (a *allowance) take(n int) bool {
	if a == nil {
		return true
	}
	if a.used.Add(int64(n)) > a.limit {
		a.used.Add(-int64(n))
		return false
	}
	return true
}

func (a *allowance) give(n int) {
	if a != nil {
		a.used.Add(-int64(n))
	}
}

// transport is one connection as a Thrift protocol sees it. It counts what a message takes, keeps
// what is written until Flush, and never answers with an error that says it is a timeout: with a
// deadline in the context, the library's binary protocol would read again at once and spin.
type transport struct {
	conn    net.Conn
	reader  *bufio.Reader
	out     bytes.Buffer
	framed  bool
	limit   int        // bytes of one message
	left    int        // bytes that the present message, or frame, may still take
	taken   int        // bytes that the present message has taken
	charged int        // how many of those are taken from shared
	shared  *allowance // nil: not bounded together with others
	writeBy func() time.Time
}

func newTransport(conn net.Conn, framed bool, limit int32, shared *allowance) *transport {
	return &transport{conn: conn, reader: bufio.NewReader(conn), framed: framed, limit: int(limit), shared: shared}
}

// begin prepares for the next message; of a framed one it reads the length.
func (t *transport) begin() error {
	t.left = t.limit
	if !t.framed {
		return nil
	}
	var head [4]byte
	if _, err := io.ReadFull(t.reader, head[:]); err != nil {
		return readError(err)
	}
	size := binary.BigEndian.Uint32(head[:])
	if uint64(size) > uint64(t.limit) {
		return thrift.NewTTransportExceptionFromError(ErrTooLarge)
	}
	t.left = int(size)
	return nil
}

// end gives back what the message held. It reports whether nothing of its frame is left unread.
func (t *transport) end() bool {
	t.shared.give(t.charged)
	t.taken, t.charged = 0, 0
	return !t.framed || t.left == 0
}

// Read reads what is left of the message.
func (t *transport) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if t.left == 0 {
		return 0, t.exhausted()
	}
	n, err := t.reader.Read(p[:min(len(p), t.left)])
	if n > 0 {
		if err := t.took(n); err != nil {
			return 0, err
		}
	}
	if err != nil {
		return n, readError(err)
	}
	return n, nil
}

// ReadByte reads one byte of the message.
func (t *transport) ReadByte() (byte, error) {
	if t.left == 0 {
		return 0, t.exhausted()
	}
	b, err := t.reader.ReadByte()
	if err != nil {
		return 0, readError(err)
	}
	return b, t.took(1)
}

// took counts bytes of the message. Only what is beyond an ordinary message's size counts against
// the allowance, so that a few large messages never keep the small ones out.
func (t *transport) took(n int) error {
	t.left -= n
	t.taken += n
	over := t.taken - smallMessage - t.charged
	if over <= 0 {
		return nil
	}
	if !t.shared.take(over) {
		return thrift.NewTTransportExceptionFromError(errBusy)
	}
	t.charged += over
	return nil
}

func (t *transport) exhausted() error {
	if t.framed {
		return thrift.NewTTransportExceptionFromError(errFrame)
	}
	return thrift.NewTTransportExceptionFromError(ErrTooLarge)
}

// RemainingBytes is an upper bound of what the message still has, which the protocols hold the
// lengths of containers against.
func (t *transport) RemainingBytes() uint64 { return uint64(t.left) }

func (t *transport) Write(p []byte) (int, error)       { return t.out.Write(p) }
func (t *transport) WriteByte(b byte) error            { return t.out.WriteByte(b) }
func (t *transport) WriteString(s string) (int, error) { return t.out.WriteString(s) }

// Flush sends what was written, in one write.
func (t *transport) Flush(context.Context) error {
	defer t.forget()
	body := t.out.Bytes()
	buffers := net.Buffers{body}
	if t.framed {
		var head [4]byte
		binary.BigEndian.PutUint32(head[:], uint32(len(body))) //nolint:gosec // no answer comes near 4 GiB
		buffers = net.Buffers{head[:], body}
	}
	if t.writeBy != nil {
		if err := t.conn.SetWriteDeadline(t.writeBy()); err != nil {
			return thrift.NewTTransportExceptionFromError(err)
		}
	}
	if _, err := buffers.WriteTo(t.conn); err != nil {
		return thrift.NewTTransportExceptionFromError(fmt.Errorf("write: %w", plain(err)))
	}
	return nil
}

// forget drops what was written and not sent.
func (t *transport) forget() {
	if t.out.Cap() > keepBuffer {
		t.out = bytes.Buffer{}
		return
	}
	t.out.Reset()
}

// Open does nothing: a transport is made of an open connection.
func (t *transport) Open() error { return nil }

// IsOpen answers the library, which asks only to watch for a vanished peer; Server does that itself.
func (t *transport) IsOpen() bool { return true }

// Close closes the connection.
func (t *transport) Close() error { return t.conn.Close() }

// readError makes a transport exception of a failed read.
func readError(err error) error {
	return thrift.NewTTransportExceptionFromError(plain(err))
}

// plain replaces a timeout by an error that does not say it is one.
func plain(err error) error {
	var timeout interface{ Timeout() bool }
	if errors.As(err, &timeout) && timeout.Timeout() {
		return errSlow
	}
	return err
}

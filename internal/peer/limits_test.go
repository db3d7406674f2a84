package peer

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

func (n *node) evictions(c class) int {
	return int(testutil.ToFloat64(n.metrics.evicted.WithLabelValues(c.String())))
}

func timedOut(err error) bool { return failureReason(err) == failedTimeout }

// busy says whether a call is in progress.
func (n *node) busy() bool {
	for _, l := range n.snapshot() {
		if l.isBusy() {
			return true
		}
	}
	return false
}

// closed waits until the other side has closed a connection.
func closed(t *testing.T, conn net.Conn) {
	t.Helper()
	if got, err := io.ReadAll(conn); len(got) != 0 || (err != nil && !isReset(err)) {
		t.Errorf("read %q, %v from a connection that is to be closed", got, err)
	}
}

// Silent connections, however many, do not keep a member out and do not add up.
func TestFloodOfSilentConnections(t *testing.T) {
	a := start(t, member("m1"), nil)
	b := start(t, member("m2"), func(c *Config) {
		c.MaxConns = 32
		c.HandshakeTimeout = patience
	})
	const room = 32 / 8
	var first net.Conn
	for i := range 10 * room {
		conn := connect(t, b)
		if i == 0 {
			first = conn
		}
		if i%10 == 0 {
			_, _, err := a.Call(within(t), "m2", b.Addr(), "echo", nil)
			ok(t, err)
		}
		if got := b.count(unidentified); got > room {
			t.Fatalf("%d silent connections are held, room is for %d", got, room)
		}
	}
	closed(t, first)
	eventually(t, "what gave way is not counted", func() bool { return b.evictions(unidentified) >= 9*room })
	conn, err := a.RaftStream().Dial(at(b, "m2"), patience)
	ok(t, err)
	ok(t, conn.Close())
}

// A connection that keeps silent ends by itself.
func TestSilentConnectionEnds(t *testing.T) {
	b := start(t, member("m2"), func(c *Config) { c.HandshakeTimeout = 20 * time.Millisecond })
	conn := connect(t, b)
	closed(t, conn)
	half := connect(t, b)
	_, err := half.Write([]byte(magic))
	ok(t, err)
	closed(t, half)
	eventually(t, "they are not counted", func() bool { return b.failures(failedTimeout) == 2 })
	// And a dialler does not wait for ever for one that does not answer.
	a := start(t, member("m1"), func(c *Config) {
		c.HandshakeTimeout = 20 * time.Millisecond
		c.Dial = pipe(t, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
	})
	_, _, err = a.Call(within(t), "", "anywhere:1", "who", nil)
	var call *CallError
	if !errors.As(err, &call) || call.Sent || !timedOut(err) {
		t.Errorf("the call ended with %v", err)
	}
}

// Strangers have room of their own; the one that is idle longest gives way, one in a call does not.
func TestStrangersHaveTheirOwnRoom(t *testing.T) {
	block := make(chan struct{})
	started := make(chan struct{}, 8)
	handlers := map[string]Handler{
		"who": {Strangers: true, Do: func(context.Context, Identity, []byte) ([]byte, error) { return nil, nil }},
		"wait": {Strangers: true, Do: func(ctx context.Context, _ Identity, _ []byte) ([]byte, error) {
			started <- struct{}{}
			select {
			case <-block:
			case <-ctx.Done():
			}
			return nil, ctx.Err()
		}},
	}
	with := func(c *Config) { c.Handlers, c.MaxConns = handlers, 8 } // room for one
	a, b := start(t, Identity{NodeID: "m8", InstanceID: "d8", MaxLevel: 1}, with), start(t, member("m2"), with)
	c := start(t, Identity{NodeID: "m9", InstanceID: "d9", MaxLevel: 1}, with)
	for range 3 {
		for _, n := range []*node{a, c} {
			_, _, err := n.Call(within(t), "m2", b.Addr(), "who", nil)
			ok(t, err)
			// Who has given way must know before it calls again: a call into a connection that is
			// being closed may or may not have arrived.
			eventually(t, "the other does not notice that it gave way", func() bool { return a.count(stranger)+c.count(stranger) == 1 })
			eventually(t, "the call does not end at the other side", func() bool { return !b.busy() })
			if got := b.count(stranger); got != 1 {
				t.Fatalf("%d strangers are in", got)
			}
		}
	}
	done := make(chan error, 1)
	go func() {
		_, _, err := a.Call(within(t), "m2", b.Addr(), "wait", nil)
		done <- err
	}()
	<-started
	eventually(t, "the other does not notice that it gave way", func() bool { return c.count(stranger) == 0 })
	_, _, err := c.Call(within(t), "m2", b.Addr(), "who", nil)
	refusedAs(t, err, CodeFull, true)
	// Members are not concerned.
	m := start(t, member("m1"), with)
	_, _, err = m.Call(within(t), "m2", b.Addr(), "who", nil)
	ok(t, err)
	close(block)
	ok(t, <-done)
}

func TestRaftConnectionsOfOneNodeAreBounded(t *testing.T) {
	a, b := start(t, member("m1"), nil), start(t, member("m2"), nil)
	var conns []net.Conn
	for range raftPerNode + 3 {
		conn, err := a.RaftStream().Dial(at(b, "m2"), patience)
		ok(t, err)
		ok(t, conn.SetDeadline(time.Now().Add(patience)))
		conns = append(conns, conn)
		if _, err := b.RaftStream().Accept(); err != nil {
			t.Fatal(err)
		}
	}
	if got := b.evictions(memberRaft); got != 3 {
		t.Errorf("%d gave way", got)
	}
	for _, conn := range conns[:3] {
		closed(t, conn)
	}
	for _, conn := range conns {
		ok(t, conn.Close())
	}
}

// Nobody accepts Raft's connections, as while a node starts: the newest few are kept.
func TestRaftConnectionsWaitForAccept(t *testing.T) {
	a := start(t, member("m1"), nil)
	b := start(t, member("m2"), func(c *Config) { c.MaxConns = 1024 })
	c := start(t, member("m3"), nil)
	for range raftQueue {
		for _, n := range []*node{a, c} {
			conn, err := n.RaftStream().Dial(at(b, "m2"), patience)
			ok(t, err)
			t.Cleanup(func() { _ = conn.Close() })
		}
	}
	eventually(t, "more are kept than may wait", func() bool { return b.count(memberRaft) == raftQueue })
	for range raftQueue {
		conn, err := b.RaftStream().Accept()
		ok(t, err)
		ok(t, conn.Close())
	}
}

// failingListener fails a few times before it accepts, as without a free descriptor.
type failingListener struct {
	net.Listener
	failures chan struct{}
}

func (l failingListener) Accept() (net.Conn, error) {
	select {
	case <-l.failures:
		return nil, syscall.EMFILE
	default:
		return l.Listener.Accept()
	}
}

func TestAcceptGoesOnAfterErrors(t *testing.T) {
	var config net.ListenConfig
	inner, err := config.Listen(within(t), "tcp", "127.0.0.1:0")
	ok(t, err)
	listener := failingListener{inner, make(chan struct{}, 5)}
	for range cap(listener.failures) {
		listener.failures <- struct{}{}
	}
	a := start(t, member("m1"), nil)
	b := start(t, member("m2"), func(c *Config) { c.Listener = listener })
	_, _, err = a.Call(within(t), "m2", b.Addr(), "echo", nil)
	ok(t, err)
	if got := testutil.ToFloat64(b.metrics.acceptErrors); got != 5 {
		t.Errorf("%v errors are counted", got)
	}
	if len(b.log.with("cannot accept")) != 1 || len(b.log.with("accepting connections of other masters again")) != 1 {
		t.Error("the log does not say, once each, that it failed and that it goes on")
	}
}

// Close cuts the pause short.
func TestCloseWhileAcceptFails(t *testing.T) {
	var config net.ListenConfig
	inner, err := config.Listen(within(t), "tcp", "127.0.0.1:0")
	ok(t, err)
	listener := failingListener{inner, make(chan struct{}, 1000)}
	for range cap(listener.failures) {
		listener.failures <- struct{}{}
	}
	b := start(t, member("m2"), func(c *Config) { c.Listener = listener })
	eventually(t, "accepting does not fail", func() bool { return testutil.ToFloat64(b.metrics.acceptErrors) >= 2 })
	ok(t, b.Close(within(t)))
}

// At most so many calls to one node are under way; the next waits its turn, as long as its caller does.
func TestCallsToOneNodeAreBounded(t *testing.T) {
	block := make(chan struct{})
	started := make(chan struct{}, maxCalls)
	handlers := map[string]Handler{"wait": {Do: func(ctx context.Context, _ Identity, _ []byte) ([]byte, error) {
		started <- struct{}{}
		select {
		case <-block:
		case <-ctx.Done():
		}
		return nil, ctx.Err()
	}}, "other": {Do: func(context.Context, Identity, []byte) ([]byte, error) { return nil, nil }}}
	with := func(c *Config) { c.Handlers = handlers }
	a, b := start(t, member("m1"), with), start(t, member("m2"), with)
	done := make(chan error, maxCalls+1)
	call := func(ctx context.Context) {
		_, _, err := a.Call(ctx, "m2", b.Addr(), "wait", nil)
		done <- err
	}
	for range maxCalls {
		go call(within(t))
	}
	for range maxCalls {
		<-started
	}
	ctx, cancel := context.WithTimeout(within(t), 10*time.Millisecond)
	defer cancel()
	go call(ctx)
	var late *CallError
	if err := <-done; !errors.As(err, &late) || late.Sent {
		t.Errorf("one too many: %v", err)
	}
	if _, _, err := a.Call(within(t), "m2", b.Addr(), "other", nil); err != nil {
		t.Errorf("another method is held up: %v", err)
	}
	close(block)
	for range maxCalls {
		ok(t, <-done)
	}
	if len(a.pool.places) != 2 {
		t.Errorf("%d places are kept", len(a.pool.places))
	}
}

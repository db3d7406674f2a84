package peer

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/lancemaster/lancemaster/internal/await"
)

// pair returns both ends of a Raft connection from a to b.
func pair(t *testing.T, a, b *node) (out, in net.Conn) {
	t.Helper()
	out, err := a.RaftStream().Dial(at(b, b.identity().NodeID), patience)
	ok(t, err)
	in, err = b.RaftStream().Accept()
	ok(t, err)
	for _, conn := range []net.Conn{out, in} {
		ok(t, conn.SetDeadline(time.Now().Add(patience)))
		t.Cleanup(func() { _ = conn.Close() })
	}
	return out, in
}

func TestRaftConnection(t *testing.T) {
	a, b := start(t, member("m1"), nil), start(t, member("m2"), nil)
	out, in := pair(t, a, b)
	for _, way := range []struct{ from, to net.Conn }{{out, in}, {in, out}} {
		_, err := way.from.Write([]byte("hello"))
		ok(t, err)
		got := make([]byte, 5)
		if _, err := io.ReadFull(way.to, got); err != nil || string(got) != "hello" {
			t.Errorf("%q, %v", got, err)
		}
	}
	if got := a.RaftStream().Addr(); got.String() != a.Addr() || got.Network() != "tcp" {
		t.Errorf("the stream is at %s", got)
	}
	ok(t, out.Close())
	ok(t, out.Close())
	if a.count(memberRaft) != 0 {
		t.Error("a closed connection is still known")
	}
}

// A stranger gets no Raft connection, in either direction.
func TestRaftIsForMembers(t *testing.T) {
	a, b := start(t, Identity{NodeID: "m4", InstanceID: "d4", MaxLevel: 1}, nil), start(t, member("m2"), nil)
	_, err := a.RaftStream().Dial(at(b, "m2"), patience)
	refusedAs(t, err, CodeNotFormed, true)
	_, err = b.RaftStream().Dial(at(a, "m4"), patience)
	refusedAs(t, err, CodeNotFormed, true)
	if b.count(memberRaft)+a.count(memberRaft) != 0 {
		t.Error("a connection stands")
	}
}

// A name is looked up at each dial.
func TestEachDialResolvesAnew(t *testing.T) {
	b := start(t, member("m2"), nil)
	var dialled []string
	a := start(t, member("m1"), nil)
	direct := a.cfg.Dial
	a.cfg.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		dialled = append(dialled, address)
		return direct(ctx, network, b.Addr())
	}
	for range 2 {
		conn, err := a.RaftStream().Dial("m2@master-2.example:9010", patience)
		ok(t, err)
		ok(t, conn.Close())
	}
	if !slices.Equal(dialled, []string{"master-2.example:9010", "master-2.example:9010"}) {
		t.Errorf("dialled %q", dialled)
	}
}

// A leader that stops in the middle of a snapshot does not take its follower's main goroutine along.
func TestRequestThatStopsInItsMiddle(t *testing.T) { synctest.Test(t, stopInTheMiddle) }

func stopInTheMiddle(t *testing.T) {
	between := newMemory()
	a := start(t, member("m1"), func(c *Config) { c.Listener, c.Dial = newMemory(), between.dial })
	b := start(t, member("m2"), func(c *Config) { c.Listener = between })
	below := raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: b.RaftStream(), MaxPool: 1, Timeout: patience, Logger: hclog.NewNullLogger(),
	})
	t.Cleanup(func() { _ = below.Close() })
	sender := raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: a.RaftStream(), MaxPool: 1, Timeout: patience, Logger: hclog.NewNullLogger(),
	})
	t.Cleanup(func() { _ = sender.Close() })

	// It sends half of what it promises and then nothing more, and does not close.
	stopped, rest := io.Pipe()
	sent := make(chan error, 1)
	go func() {
		var answer raft.InstallSnapshotResponse
		sent <- sender.InstallSnapshot("m2", at(b, "m2"), &raft.InstallSnapshotRequest{Size: 1 << 20}, &answer, stopped)
	}()
	go func() { _, _ = rest.Write(make([]byte, 512<<10)) }()
	select {
	case rpc := <-below.Consumer():
		// This is what Raft does with it.
		if _, err := io.Copy(io.Discard, rpc.Reader); err == nil {
			t.Error("half a snapshot was read to its end")
		} else if timeout := net.Error(nil); !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("reading ended with %v", err)
		}
		rpc.Respond(nil, errors.New("half a snapshot"))
	case <-time.After(patience):
		t.Fatal("the request does not arrive")
	}
	ok(t, rest.Close())
	if err := <-sent; err == nil {
		t.Error("the sender believes in success")
	}
}

// Between requests a connection may keep silent for as long as it likes.
func TestSilenceBetweenRequestsIsFine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out, in := inMemory(t)
		ok(t, out.SetDeadline(time.Time{}))
		for range 2 {
			read := make(chan error, 1)
			go func() {
				_, err := io.ReadFull(in, make([]byte, 4))
				read <- err
			}()
			await.Pass(time.Hour)
			select {
			case err := <-read:
				t.Fatalf("the silence ended with %v", err)
			default:
			}
			_, err := out.Write([]byte("ask."))
			ok(t, err)
			ok(t, <-read)
			go func() { _, _ = io.ReadFull(out, make([]byte, 6)) }()
			_, err = in.Write([]byte("answer"))
			ok(t, err)
		}
		// Half a request is not.
		go func() { _, _ = out.Write([]byte("as")) }()
		began := time.Now()
		if _, err := io.ReadFull(in, make([]byte, 4)); err == nil {
			t.Error("half a request has become a whole one")
		}
		if took := time.Since(began); took != defaultStallTimeout {
			t.Errorf("half a request was waited for %s", took)
		}
	})
}

// inMemory is a pair of two endpoints in a bubble, whose connection holds nothing that is not read.
func inMemory(t *testing.T) (out, in net.Conn) {
	t.Helper()
	between := newMemory()
	a := start(t, member("m1"), func(c *Config) { c.Listener, c.Dial = newMemory(), between.dial })
	b := start(t, member("m2"), func(c *Config) { c.Listener = between })
	return pair(t, a, b)
}

// A member that does not read its answers does not hold a goroutine of Raft's.
func TestAnswerThatIsNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, in := inMemory(t)
		began := time.Now()
		_, err := in.Write([]byte("answer"))
		if timeout := net.Error(nil); !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("writing ended with %v", err)
		}
		if took := time.Since(began); took != defaultStallTimeout {
			t.Errorf("it took %s", took)
		}
	})
}

func TestClosingTheStream(t *testing.T) {
	a, b := start(t, member("m1"), nil), start(t, member("m2"), nil)
	out, in := pair(t, a, b)
	_, waiting := a.RaftStream().Dial(at(b, "m2"), patience) // nobody accepts it
	ok(t, waiting)
	accepted := make(chan error, 1)
	go func() {
		for {
			if _, err := a.RaftStream().Accept(); err != nil {
				accepted <- err
				return
			}
		}
	}()
	ok(t, a.RaftStream().Close())
	ok(t, a.RaftStream().Close())
	if err := <-accepted; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept ended with %v", err)
	}
	if _, err := out.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("an outgoing connection after the end: %v", err)
	}
	if _, err := in.Read(make([]byte, 1)); err == nil {
		t.Error("the other end does not notice")
	}
	if _, err := a.RaftStream().Dial(at(b, "m2"), patience); err == nil {
		t.Error("a dial after the end has passed")
	}
	_, err := b.RaftStream().Dial(at(a, "m1"), patience)
	refusedAs(t, err, CodeStopping, true)
	// Calls go on.
	_, _, err = b.Call(within(t), "m1", a.Addr(), "echo", nil)
	ok(t, err)
	if a.count(memberRaft) != 0 {
		t.Error("Raft connections are left")
	}
}

// After a change of members, whoever does not belong any more is cut off; others are left alone.
func TestRecheck(t *testing.T) {
	a, b, c := start(t, member("m1"), nil), start(t, member("m2"), nil), start(t, member("m3"), nil)
	fromA, atA := pair(t, a, b)
	toA, _ := pair(t, b, a)
	fromC, _ := pair(t, c, b)
	_, _, err := a.Call(within(t), "m2", b.Addr(), "echo", nil)
	ok(t, err)
	b.Recheck()
	if got := b.count(memberRaft); got != 3 {
		t.Fatalf("%d connections are left without a reason", got)
	}
	b.change(func(n *node) { delete(n.members, "m1") })
	b.Recheck()
	if got := b.count(memberRaft); got != 1 {
		t.Errorf("%d connections are left", got)
	}
	for _, conn := range []net.Conn{fromA, atA, toA} {
		if _, err := conn.Read(make([]byte, 1)); err == nil {
			t.Error("a connection of one that was removed stands")
		}
	}
	_, err = fromC.Write([]byte("x"))
	ok(t, err)
	// It may still ask as a stranger, over the connection that it has.
	_, _, err = a.Call(within(t), "m2", b.Addr(), "who", nil)
	ok(t, err)
	_, _, err = a.Call(within(t), "m2", b.Addr(), "echo", nil)
	refusedAs(t, err, CodeMembersOnly, true)
}

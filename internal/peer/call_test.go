package peer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestCall(t *testing.T) {
	a, b := start(t, member("m1"), nil), start(t, member("m2"), nil)
	for _, payload := range [][]byte{nil, []byte("x"), bytes.Repeat([]byte("long "), maxRequest/5)} {
		answer, other, err := a.Call(within(t), "m2", b.Addr(), "echo", payload)
		if err != nil || !bytes.Equal(answer, payload) || other != member("m2") {
			t.Fatalf("%d bytes came back as %d from %+v: %v", len(payload), len(answer), other, err)
		}
	}
	answer, other, err := a.Call(within(t), "", b.Addr(), "who", nil)
	if err != nil || string(answer) != "m1" || other.NodeID != "m2" {
		t.Errorf("whoever is there is %q, and was called by %q: %v", other.NodeID, answer, err)
	}
	// One connection serves one call after the other.
	if n := b.count(memberCall); n != 2 {
		t.Errorf("%d connections for two targets", n)
	}
}

func TestCallsRunSideBySide(t *testing.T) {
	const n = 20
	var inside sync.WaitGroup
	inside.Add(n)
	together := Handler{Do: func(ctx context.Context, _ Identity, payload []byte) ([]byte, error) {
		inside.Done()
		all := make(chan struct{})
		go func() { inside.Wait(); close(all) }()
		select {
		case <-all:
			return payload, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}
	handlers := map[string]Handler{"together": together}
	a := start(t, member("m1"), func(c *Config) { c.Handlers = handlers })
	b := start(t, member("m2"), func(c *Config) { c.Handlers = handlers })
	var calls sync.WaitGroup
	for i := range n {
		calls.Go(func() {
			want := fmt.Sprint(i)
			if got, _, err := a.Call(within(t), "m2", b.Addr(), "together", []byte(want)); err != nil || string(got) != want {
				t.Errorf("call %s: %q, %v", want, got, err)
			}
		})
	}
	calls.Wait()
	eventually(t, "connections beyond the pool stay open", func() bool { return b.count(memberCall) <= maxIdle })
}

func TestErrorsOfCalls(t *testing.T) {
	handlers := map[string]Handler{
		"fails":   {Do: func(context.Context, Identity, []byte) ([]byte, error) { return nil, errors.New("no luck") }},
		"panics":  {Do: func(context.Context, Identity, []byte) ([]byte, error) { panic("ouch") }},
		"refuses": {Do: func(context.Context, Identity, []byte) ([]byte, error) { return nil, refuse("LATER", "not now") }},
		"huge":    {Do: func(context.Context, Identity, []byte) ([]byte, error) { return make([]byte, maxReply+1), nil }},
		"slow": {Timeout: time.Millisecond, Do: func(ctx context.Context, _ Identity, _ []byte) ([]byte, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}},
	}
	a := start(t, member("m1"), func(c *Config) { c.Handlers = handlers })
	b := start(t, member("m2"), func(c *Config) { c.Handlers = handlers })
	for method, want := range map[string]string{
		"fails": "no luck", "panics": "see the log of that node", "huge": "too large", "slow": "deadline exceeded",
	} {
		_, other, err := a.Call(within(t), "m2", b.Addr(), method, nil)
		var remote *RemoteError
		if !errors.As(err, &remote) || !strings.Contains(err.Error(), want) || other.NodeID != "m2" {
			t.Errorf("%s: %v (%T) from %q", method, err, err, other.NodeID)
		}
	}
	if len(b.log.with("ouch")) != 1 {
		t.Error("the panic is not in the log")
	}
	_, _, err := a.Call(within(t), "m2", b.Addr(), "refuses", nil)
	refusedAs(t, err, "LATER", true)
	_, _, err = a.Call(within(t), "m2", b.Addr(), "unheard-of", nil)
	refusedAs(t, err, CodeUnknownMethod, true)
	for method, payload := range map[string][]byte{
		"fails": make([]byte, maxRequest+1), "": nil, strings.Repeat("x", maxMethod+1): nil,
	} {
		_, _, err = a.Call(within(t), "m2", b.Addr(), method, payload)
		if call := (*CallError)(nil); !errors.As(err, &call) || call.Sent {
			t.Errorf("out of bounds: %v", err)
		}
	}
}

// Whether a request may have reached the other side decides what a caller may do next.
func TestSent(t *testing.T) {
	started := make(chan struct{}, 1)
	ended := make(chan error, 1)
	handlers := map[string]Handler{"hang": {Timeout: time.Hour, Do: func(ctx context.Context, _ Identity, _ []byte) ([]byte, error) {
		started <- struct{}{}
		<-ctx.Done()
		ended <- ctx.Err()
		return nil, ctx.Err()
	}}}
	a := start(t, member("m1"), func(c *Config) { c.Handlers = handlers })
	b := start(t, member("m2"), func(c *Config) { c.Handlers = handlers })
	sent := func(err error) bool {
		t.Helper()
		var call *CallError
		if !errors.As(err, &call) {
			t.Fatalf("%v (%T) is no CallError", err, err)
		}
		return call.Sent
	}
	_, _, err := a.Call(within(t), "m2", "127.0.0.1:1", "hang", nil)
	if sent(err) {
		t.Errorf("nobody listens, and yet it counts as sent: %v", err)
	}
	ctx, cancel := context.WithCancelCause(within(t))
	go func() {
		<-started
		cancel(errors.New("had enough"))
	}()
	_, _, err = a.Call(ctx, "m2", b.Addr(), "hang", nil)
	if !sent(err) || !strings.Contains(err.Error(), "had enough") {
		t.Errorf("given up: %v", err)
	}
	// The handler learns of it.
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatal("the handler of a caller that has gone runs on")
	}
	if _, _, err = a.Call(ctx, "m2", b.Addr(), "hang", nil); sent(err) {
		t.Errorf("given up before: %v", err)
	}
	// The other side goes away in the middle.
	go func() {
		<-started
		b.killAll(func(*link) bool { return true })
	}()
	if _, _, err = a.Call(within(t), "m2", b.Addr(), "hang", nil); !sent(err) {
		t.Errorf("cut: %v", err)
	}
	// And for good.
	ok(t, b.Close(within(t)))
	if _, _, err = a.Call(within(t), "m2", b.Addr(), "hang", nil); sent(err) {
		t.Errorf("closed: %v", err)
	}
	ok(t, a.Close(within(t)))
	if _, _, err = a.Call(within(t), "m2", b.Addr(), "hang", nil); sent(err) || !errors.Is(err, errClosed) {
		t.Errorf("this side closed: %v", err)
	}
}

func TestStrangersReachOnlyWhatIsForThem(t *testing.T) {
	newcomer := Identity{NodeID: "m4", InstanceID: "disk-m4", MaxLevel: 1}
	a, b := start(t, newcomer, nil), start(t, member("m2"), nil)
	answer, other, err := a.Call(within(t), "m2", b.Addr(), "who", nil)
	if err != nil || string(answer) != "m4" || other != member("m2") {
		t.Fatalf("a stranger's call: %q from %+v, %v", answer, other, err)
	}
	// Neither side goes further: the stranger asks no secrets of one it does not know.
	_, _, err = a.Call(within(t), "m2", b.Addr(), "echo", nil)
	refusedAs(t, err, CodeMembersOnly, false)
	// A stranger that does not refrain is refused at the other side. It takes them for members.
	a.change(func(n *node) { n.self.ClusterID, n.self.Incarnation, n.members["m2"] = 7, 1, "disk-m2" })
	_, _, err = a.Call(within(t), "m2", b.Addr(), "echo", nil)
	refusedAs(t, err, CodeMembersOnly, true)
	// Registered, it is a member on the very same connection.
	b.change(func(n *node) { n.members["m4"] = "disk-m4" })
	_, _, err = a.Call(within(t), "m2", b.Addr(), "echo", nil)
	ok(t, err)
}

// What a node says of itself changes while connections stand.
func TestIdentitiesAreFresh(t *testing.T) {
	var mu sync.Mutex
	var seen []uint64
	with := func(c *Config) {
		c.Handlers["mine"] = Handler{Do: func(_ context.Context, from Identity, _ []byte) ([]byte, error) {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, from.RegisteredAt)
			return nil, nil
		}}
	}
	a, b := start(t, member("m1"), with), start(t, member("m2"), with)
	call := func() Identity {
		t.Helper()
		_, other, err := a.Call(within(t), "m2", b.Addr(), "echo", nil)
		ok(t, err)
		return other
	}
	call()
	b.change(func(n *node) { n.self.Version = "v2" })
	if got := call(); got.Version != "v2" {
		t.Errorf("the callee is known as %+v", got)
	}
	for _, at := range []uint64{1, 5, 5, 9} {
		a.change(func(n *node) { n.self.RegisteredAt = at })
		_, _, err := a.Call(within(t), "m2", b.Addr(), "mine", nil)
		ok(t, err)
	}
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(seen, []uint64{1, 5, 5, 9}) {
		t.Errorf("the caller was known as registered at %v", seen)
	}
}

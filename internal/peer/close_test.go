package peer

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/lancemaster/lancemaster/internal/await"
)

// A handler that has been told to end may still answer; the caller gets the answer.
func TestCloseLetsHandlersAnswer(t *testing.T) {
	started := make(chan struct{})
	handlers := map[string]Handler{"poll": {Do: func(ctx context.Context, _ Identity, _ []byte) ([]byte, error) {
		close(started)
		<-ctx.Done()
		return []byte("nothing new"), nil
	}}}
	with := func(c *Config) { c.Handlers = handlers }
	a, b := start(t, member("m1"), with), start(t, member("m2"), with)
	got := make(chan string, 1)
	go func() {
		answer, _, err := a.Call(within(t), "m2", b.Addr(), "poll", nil)
		if err != nil {
			answer = []byte(err.Error())
		}
		got <- string(answer)
	}()
	<-started
	ok(t, b.Close(within(t)))
	if answer := <-got; answer != "nothing new" {
		t.Errorf("the caller got %q", answer)
	}
	if _, _, err := a.Call(within(t), "m2", b.Addr(), "poll", nil); err == nil {
		t.Error("a closed endpoint answers")
	}
}

// One that does not end holds Close for as long as it is allowed to and is then named.
func TestCloseWithAHandlerThatDoesNotEnd(t *testing.T) {
	started, block := make(chan struct{}), make(chan struct{})
	handlers := map[string]Handler{"stuck": {Do: func(context.Context, Identity, []byte) ([]byte, error) {
		close(started)
		<-block
		return nil, nil
	}}}
	with := func(c *Config) { c.Handlers = handlers }
	a, b := start(t, member("m1"), with), start(t, member("m2"), with)
	done := make(chan error, 1)
	go func() {
		_, _, err := a.Call(within(t), "m2", b.Addr(), "stuck", nil)
		done <- err
	}()
	<-started
	ctx, cancel := context.WithTimeout(within(t), time.Millisecond)
	defer cancel()
	if err := b.Close(ctx); err == nil || !strings.Contains(err.Error(), "did not end") {
		t.Errorf("close: %v", err)
	}
	var call *CallError
	if err := <-done; !errors.As(err, &call) || !call.Sent {
		t.Errorf("the call: %v", err)
	}
	close(block)
	ok(t, b.Close(within(t)))
}

// Calls out end with the endpoint.
func TestCloseEndsItsOwnCalls(t *testing.T) {
	started := make(chan struct{})
	handlers := map[string]Handler{"poll": {Do: func(ctx context.Context, _ Identity, _ []byte) ([]byte, error) {
		close(started)
		<-ctx.Done()
		return nil, ctx.Err()
	}}}
	with := func(c *Config) { c.Handlers = handlers }
	a, b := start(t, member("m1"), with), start(t, member("m2"), with)
	done := make(chan error, 1)
	go func() {
		_, _, err := a.Call(within(t), "m2", b.Addr(), "poll", nil)
		done <- err
	}()
	<-started
	ok(t, a.Close(within(t)))
	if err := <-done; !errors.Is(err, errClosed) {
		t.Errorf("the call ended with %v", err)
	}
}

// Many open and close at once: nothing is left, nothing hangs.
func TestCloseInTheMiddleOfEverything(t *testing.T) {
	for range 20 {
		a, b := start(t, member("m1"), nil), start(t, member("m2"), nil)
		var busy sync.WaitGroup
		for range 4 {
			busy.Go(func() {
				for {
					if _, _, err := a.Call(within(t), "m2", b.Addr(), "echo", []byte("x")); err != nil {
						return
					}
				}
			})
			busy.Go(func() {
				for {
					if _, err := a.RaftStream().Dial(at(b, "m2"), patience); err != nil {
						return
					}
				}
			})
		}
		eventually(t, "nothing begins", func() bool { return b.count(memberRaft) > 0 && b.count(memberCall) > 0 })
		ok(t, b.Close(within(t)))
		busy.Wait()
		if left := len(b.snapshot()); left != 0 {
			t.Errorf("%d connections are left", left)
		}
	}
}

// memory is a listener whose connections are pipes, so that time can be played with.
type memory struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newMemory() *memory { return &memory{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (m *memory) Accept() (net.Conn, error) {
	select {
	case conn := <-m.conns:
		return conn, nil
	case <-m.closed:
		return nil, net.ErrClosed
	}
}

func (m *memory) Close() error {
	m.once.Do(func() { close(m.closed) })
	return nil
}

func (m *memory) Addr() net.Addr { return address("memory:1") }

func (m *memory) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case m.conns <- far:
		return near, nil
	case <-m.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// The calling side closes what it has not used for a while, and before the other side does.
func TestIdleConnectionsAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		between := newMemory()
		a := start(t, member("m1"), func(c *Config) { c.Listener, c.Dial = newMemory(), between.dial })
		b := start(t, member("m2"), func(c *Config) { c.Listener = between })
		call := func() {
			t.Helper()
			_, _, err := a.Call(t.Context(), "m2", "m2:1", "echo", nil)
			ok(t, err)
		}
		call()
		await.Pass(clientIdle - time.Second)
		call()
		await.Pass(clientIdle - time.Second)
		if a.count(memberCall) != 1 || b.count(memberCall) != 1 {
			t.Fatalf("%d and %d connections while in use", a.count(memberCall), b.count(memberCall))
		}
		await.Pass(2 * time.Second)
		synctest.Wait()
		if a.count(memberCall) != 0 || b.count(memberCall) != 0 || len(a.pool.places) != 0 {
			t.Errorf("%d and %d connections when idle, %d places", a.count(memberCall), b.count(memberCall), len(a.pool.places))
		}
		ok(t, a.Close(t.Context()))
		ok(t, b.Close(t.Context()))
	})
}

// A caller whose host has vanished without a word does not hold a connection for ever.
func TestIdleCallerIsClosedByTheOtherSide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		between := newMemory()
		b := start(t, member("m2"), func(c *Config) { c.Listener = between })
		conn, err := between.dial(t.Context(), "", "")
		ok(t, err)
		ok(t, writeMessage(conn, hello{Kind: KindCall, Identity: member("m1")}))
		var got answer
		_, err = readMessage(conn, &got)
		ok(t, err)
		ok(t, writeMessage(conn, verdict{}))
		synctest.Wait()
		if b.count(memberCall) != 1 {
			t.Fatal("it is not in")
		}
		await.Pass(serverIdle + time.Second)
		synctest.Wait()
		if b.count(memberCall) != 0 {
			t.Error("it is still in")
		}
		ok(t, b.Close(t.Context()))
	})
}

// A refusal that lasts is said again after an hour.
func TestToldAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said := newTold(nil)
		at := func(who string) bool {
			return said.first(struct {
				who     string
				kind    Kind
				what    string
				byOther bool
			}{who: who})
		}
		if !at("m1") || at("m1") || !at("m2") {
			t.Error("not once each")
		}
		await.Pass(sayAgain)
		if !at("m1") || at("m1") {
			t.Error("not again after an hour")
		}
		for i := range 2 * maxTold {
			at(string(rune(i + 1000)))
		}
		if len(said.at) > maxTold {
			t.Errorf("%d things are remembered", len(said.at))
		}
		await.Pass(sayAgain)
		if !at("new") {
			t.Error("what is old is not forgotten")
		}
	})
}

func TestMetrics(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	a := start(t, member("m1"), nil)
	b := start(t, member("m2"), func(c *Config) { c.Registerer = registry })
	_, _, err := a.Call(within(t), "m2", b.Addr(), "echo", nil)
	ok(t, err)
	_, _, err = a.Call(within(t), "m2", b.Addr(), "secret-method", nil)
	refusedAs(t, err, CodeUnknownMethod, true)
	_, err = a.RaftStream().Dial(at(b, "m9"), patience)
	refusedAs(t, err, CodeWrongNode, true)
	pair(t, a, b)
	const want = `# HELP lancemaster_peer_calls_total Calls between masters, by method, direction and result.
# TYPE lancemaster_peer_calls_total counter
lancemaster_peer_calls_total{direction="in",method="echo",result="ok"} 1
lancemaster_peer_calls_total{direction="in",method="other",result="refused"} 1
# HELP lancemaster_peer_connections Open connections between masters, by kind and direction.
# TYPE lancemaster_peer_connections gauge
lancemaster_peer_connections{direction="in",kind="call"} 2
lancemaster_peer_connections{direction="in",kind="raft"} 1
lancemaster_peer_connections{direction="in",kind="stranger"} 0
lancemaster_peer_connections{direction="in",kind="unidentified"} 0
lancemaster_peer_connections{direction="out",kind="call"} 0
lancemaster_peer_connections{direction="out",kind="raft"} 0
lancemaster_peer_connections{direction="out",kind="stranger"} 0
lancemaster_peer_connections{direction="out",kind="unidentified"} 0
# HELP lancemaster_peer_refusals_total Connections and calls between masters that were refused, by code and by whom.
# TYPE lancemaster_peer_refusals_total counter
lancemaster_peer_refusals_total{by="self",code="UNKNOWN_METHOD"} 1
lancemaster_peer_refusals_total{by="self",code="WRONG_NODE"} 1
`
	names := []string{"lancemaster_peer_calls_total", "lancemaster_peer_connections", "lancemaster_peer_refusals_total"}
	var fault error
	eventually(t, "the metrics are not as they should be", func() bool {
		fault = testutil.GatherAndCompare(registry, strings.NewReader(want), names...)
		return fault == nil || t.Context().Err() != nil
	})
	problems, err := testutil.GatherAndLint(registry)
	ok(t, err)
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	// What another version names is counted without being named.
	b.metrics.refused(&Refusal{Code: "OF_LATER", ByOther: true})
	if got := testutil.ToFloat64(b.metrics.refusals.WithLabelValues("OTHER", "other")); got != 1 {
		t.Errorf("counted %v", got)
	}
	ok(t, b.Close(within(t)))
	if families, err := registry.Gather(); err != nil || len(families) != 0 {
		t.Errorf("after the end there are %d families, %v", len(families), err)
	}
}

func TestListenRefuses(t *testing.T) {
	good := Config{
		Bind: "127.0.0.1:0", Self: func() Identity { return member("m1") },
		Judge: func(Kind, Identity) (bool, error) { return true, nil },
	}
	for name, change := range map[string]func(*Config){
		"nobody judges":     func(c *Config) { c.Judge = nil },
		"nobody says":       func(c *Config) { c.Self = nil },
		"few connections":   func(c *Config) { c.MaxConns = 7 },
		"no function":       func(c *Config) { c.Handlers = map[string]Handler{"x": {}} },
		"all addresses":     func(c *Config) { c.Bind = ":0" },
		"no such address":   func(c *Config) { c.Bind = "192.0.2.1:1" },
		"TLS one way":       func(c *Config) { c.ServerTLS = serverTLS(nil) },
		"registered before": func(c *Config) { r := prometheus.NewRegistry(); c.Registerer = r; taken(t, *c) },
	} {
		cfg := good
		change(&cfg)
		if e, err := Listen(cfg); err == nil {
			t.Errorf("%s: it listens", name)
			ok(t, e.Close(within(t)))
		}
	}
	good.Bind, good.Advertise = ":0", "master-1.example:9010"
	e, err := Listen(good)
	ok(t, err)
	if e.Addr() != good.Advertise {
		t.Errorf("it is reached at %s", e.Addr())
	}
	ok(t, e.Close(within(t)))
}

// taken registers the metrics of an endpoint.
func taken(t *testing.T, cfg Config) {
	t.Helper()
	e, err := Listen(cfg)
	ok(t, err)
	t.Cleanup(func() { ok(t, e.Close(within(t))) })
}

package peer

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"github.com/lancemaster/lancemaster/internal/await"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// patience is how long a test waits for what must happen; no test waits this long when all is well.
const patience = 20 * time.Second

// node is an endpoint and what it knows.
type node struct {
	*Endpoint
	log *lines

	mu      sync.Mutex
	self    Identity
	applied uint64
	members map[string]string // node id to instance id
}

func (n *node) identity() Identity {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.self
}

func (n *node) change(change func(*node)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change(n)
}

func (n *node) judge(kind Kind, other Identity) (bool, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return Decide(kind, Check(n.self, func(id string) (string, uint64, bool) {
		instance, ok := n.members[id]
		return instance, 1, ok
	}, n.applied, other))
}

func member(id string) Identity {
	return Identity{
		ClusterID: 7, Incarnation: 1, NodeID: id, InstanceID: "disk-" + id, RegisteredAt: 1,
		Level: 1, MaxLevel: 1, Version: "v1",
	}
}

// start starts a node that takes m1, m2 and m3 for members.
func start(t *testing.T, self Identity, change func(*Config)) *node {
	t.Helper()
	n := &node{self: self, applied: 100, members: map[string]string{}, log: &lines{}}
	for _, id := range []string{"m1", "m2", "m3"} {
		n.members[id] = "disk-" + id
	}
	cfg := Config{
		Bind: "127.0.0.1:0", Self: n.identity, Judge: n.judge,
		Logger: slog.New(slog.NewTextHandler(n.log, nil)),
		Handlers: map[string]Handler{
			"echo": {Do: func(_ context.Context, _ Identity, payload []byte) ([]byte, error) { return payload, nil }},
			"who": {Strangers: true, Do: func(_ context.Context, from Identity, _ []byte) ([]byte, error) {
				return []byte(from.NodeID), nil
			}},
		},
	}
	if change != nil {
		change(&cfg)
	}
	var err error
	if n.Endpoint, err = Listen(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := n.Close(ctx); err != nil {
			t.Errorf("close of %s: %v", self.NodeID, err)
		}
	})
	return n
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// refusedAs checks that an error is a refusal, and returns its words.
func refusedAs(t *testing.T, err error, code Code, byOther bool) string {
	t.Helper()
	var refusal *Refusal
	if !errors.As(err, &refusal) || refusal.Code != code || refusal.ByOther != byOther {
		t.Fatalf("error %v (%T), want refusal %s, by the other side: %v", err, err, code, byOther)
	}
	return refusal.Message
}

// eventually polls for a condition that nothing signals.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	await.Until(t, patience, what, holds)
}

// count counts a node's connections of one class.
func (n *node) count(c class) int {
	count := 0
	for _, l := range n.snapshot() {
		l.mu.Lock()
		if l.class == c {
			count++
		}
		l.mu.Unlock()
	}
	return count
}

// lines is a log.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// with returns the lines that have a text in them.
func (l *lines) with(text string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}

// connect opens a plain connection to a node.
func connect(t *testing.T, n *node) net.Conn {
	t.Helper()
	var dialer net.Dialer
	conn, err := dialer.DialContext(within(t), "tcp", n.Addr())
	ok(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	ok(t, conn.SetDeadline(time.Now().Add(patience)))
	return conn
}

// failures returns how many handshakes have failed for a reason.
func (n *node) failures(reason failure) int {
	return int(testutil.ToFloat64(n.metrics.handshakeFailures.WithLabelValues(string(reason))))
}

// pipe is a dial whose other end is served by a function.
func pipe(t *testing.T, serve func(net.Conn)) func(context.Context, string, string) (net.Conn, error) {
	t.Helper()
	var running sync.WaitGroup
	t.Cleanup(running.Wait)
	return func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		running.Go(func() {
			defer func() { _ = far.Close() }()
			serve(far)
		})
		return near, nil
	}
}

package raftnode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"go.uber.org/goleak"

	"github.com/lancemaster/lancemaster/internal/await"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// patience is how long a test waits for what must happen; no test waits this long when all is well.
const patience = 30 * time.Second

// recorder is a state machine that remembers its commands.
type recorder struct {
	mu       sync.Mutex
	commands []string
	last     uint64
	block    chan struct{} // Apply waits for it when not nil
}

func (r *recorder) Apply(entry *raft.Log) any {
	r.mu.Lock()
	block := r.block
	r.mu.Unlock()
	if block != nil {
		<-block
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.commands = append(r.commands, string(entry.Data))
	r.last = entry.Index
	return "did " + string(entry.Data)
}

func (r *recorder) Snapshot() (raft.FSMSnapshot, error) {
	return recorded(strings.Join(r.applied(), "\n")), nil
}

func (r *recorder) Restore(from io.ReadCloser) error {
	data, err := io.ReadAll(from)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.commands = strings.Split(string(data), "\n")
	return nil
}

func (r *recorder) applied() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.commands)
}

func (r *recorder) blockOn(block chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.block = block
}

type recorded string

func (s recorded) Persist(sink raft.SnapshotSink) error {
	if _, err := sink.Write([]byte(s)); err != nil {
		return errors.Join(err, sink.Cancel())
	}
	return sink.Close()
}

func (recorded) Release() {}

// fatals collects what a node calls fatal.
type fatals chan error

func (f fatals) tell(err error) { f <- err }

func testConfig(t *testing.T, id, dir string, fsm raft.FSM) (Config, fatals) {
	t.Helper()
	fatal := make(fatals, 10)
	var logger *slog.Logger
	if testing.Verbose() {
		logger = slog.New(slog.NewTextHandler(t.Output(), nil)).With("node", id)
	}
	return Config{
		ID: id, Dir: dir, BindAddress: "127.0.0.1:0", FSM: fsm, Fatal: fatal.tell, Logger: logger,
		HeartbeatTimeout: 200 * time.Millisecond, ElectionTimeout: 200 * time.Millisecond,
		LeaderLease: 200 * time.Millisecond, CommitTimeout: 5 * time.Millisecond,
	}, fatal
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func must[T any](value T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually polls for a condition that nothing signals.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	await.Until(t, patience, what, holds)
}

// startSingle starts a cluster of one, formed if its disk is empty, and waits until it leads.
func startSingle(t *testing.T, config Config) *Node {
	t.Helper()
	return runSingle(t, must(New(config))(t))
}

func runSingle(t *testing.T, n *Node) *Node {
	t.Helper()
	t.Cleanup(func() { stop(t, n) })
	if !must(n.HasState())(t) {
		address := n.Addr()
		if address == "" {
			address = "unused"
		}
		ok(t, n.Bootstrap([]Server{{ID: n.config.ID, Address: address, Voter: true}}))
	}
	ok(t, n.Start())
	waitLead(t, n)
	// The first entry of the term is on disk, and what a test breaks from here on is its own.
	eventually(t, "the first entry is not applied", func() bool { return n.ReadBarrier(within(t)) == nil })
	return n
}

func stop(t *testing.T, n *Node) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := n.Shutdown(ctx); err != nil {
		t.Errorf("shutdown of %s: %v", n.config.ID, err)
	}
}

// waitLead waits until the node leads and returns the term.
func waitLead(t *testing.T, n *Node) uint64 {
	t.Helper()
	ctx := within(t)
	for {
		term, leads, changed := n.Leadership()
		if leads {
			return term
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("%s does not become the leader: %+v", n.config.ID, n.Stats())
		}
	}
}

func propose(t *testing.T, n *Node, command string) uint64 {
	t.Helper()
	response, index, err := n.Propose(within(t), []byte(command))
	ok(t, err)
	if response != "did "+command {
		t.Fatalf("the answer to %q is %v", command, response)
	}
	return index
}

// copyDir copies a directory's files as they stand, which is what a crash leaves.
func copyDir(t *testing.T, from string) string {
	t.Helper()
	to := t.TempDir()
	ok(t, os.CopyFS(to, os.DirFS(from)))
	return to
}

// cluster is three members over transports in memory.
type cluster struct {
	nodes      []*Node
	fsms       []*recorder
	transports []*raft.InmemTransport
}

func startCluster(t *testing.T, wrap func(below *raft.InmemTransport) raft.Transport) *cluster {
	t.Helper()
	c := &cluster{}
	var members []Server
	for i := range 3 {
		address, below := raft.NewInmemTransportWithTimeout("", time.Second)
		fsm := &recorder{}
		config, _ := testConfig(t, fmt.Sprintf("m%d", i+1), t.TempDir(), fsm)
		steady(&config)
		config.NewTransport = func() (raft.Transport, error) {
			if wrap != nil {
				return wrap(below), nil
			}
			return below, nil
		}
		n := must(New(config))(t)
		t.Cleanup(func() { stop(t, n) })
		c.nodes, c.fsms, c.transports = append(c.nodes, n), append(c.fsms, fsm), append(c.transports, below)
		members = append(members, Server{ID: config.ID, Address: string(address), Voter: true})
	}
	for i := range c.nodes {
		c.connect(i)
	}
	for _, n := range c.nodes {
		ok(t, n.Bootstrap(members))
		ok(t, n.Start())
	}
	return c
}

// steady makes a member's timeouts long enough that a busy machine does not unseat the leader.
func steady(config *Config) {
	config.HeartbeatTimeout, config.ElectionTimeout = time.Second, time.Second
	config.LeaderLease = time.Second
}

// propose has a command appended by whoever leads, and returns that member.
func (c *cluster) propose(t *testing.T, command string) (lead int) {
	t.Helper()
	for {
		lead = c.leader(t)
		_, _, err := c.nodes[lead].Propose(within(t), []byte(command))
		if err == nil {
			return lead
		}
		if !errors.Is(err, ErrNotAppended) {
			t.Fatal(err)
		}
	}
}

// transfer makes another member lead.
func (c *cluster) transfer(t *testing.T) {
	t.Helper()
	eventually(t, "the leadership is not transferred", func() bool {
		return c.nodes[c.leader(t)].TransferLeadership(within(t)) == nil
	})
}

func (c *cluster) connect(i int) {
	for j := range c.transports {
		if i != j {
			c.transports[i].Connect(c.transports[j].LocalAddr(), c.transports[j])
			c.transports[j].Connect(c.transports[i].LocalAddr(), c.transports[i])
		}
	}
}

func (c *cluster) cut(i int) {
	for j := range c.transports {
		if i != j {
			c.transports[j].Disconnect(c.transports[i].LocalAddr())
		}
	}
	c.transports[i].DisconnectAll()
}

// leader waits for a member, other than those left out, that leads and can commit.
func (c *cluster) leader(t *testing.T, leftOut ...int) int {
	t.Helper()
	found := -1
	eventually(t, "no member leads", func() bool {
		for i, n := range c.nodes {
			if _, leads := n.Term(); leads && !slices.Contains(leftOut, i) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if n.ReadBarrier(ctx) == nil {
					found = i
					return true
				}
			}
		}
		return false
	})
	return found
}

// fakeStorage is a storage in memory whose calls can be made to fail or wait.
type fakeStorage struct {
	*raft.InmemStore
	mu    sync.Mutex
	calls []string
	hook  func(call string) error
}

func newFakeStorage() *fakeStorage {
	return &fakeStorage{InmemStore: raft.NewInmemStore()}
}

func (f *fakeStorage) storage() *storage {
	return &storage{
		logs: f, stable: f, snapshots: raft.NewInmemSnapshotStore(), close: func() error { return nil },
	}
}

func (f *fakeStorage) onCall(hook func(call string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hook = hook
}

func (f *fakeStorage) recordedCalls() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.calls)
}

func (f *fakeStorage) call(name string) error {
	f.mu.Lock()
	f.calls = append(f.calls, name)
	hook := f.hook
	f.mu.Unlock()
	if hook != nil {
		return hook(name)
	}
	return nil
}

func (f *fakeStorage) Set(key, value []byte) error {
	if err := f.call("set " + string(key)); err != nil {
		return err
	}
	return f.InmemStore.Set(key, value)
}

func (f *fakeStorage) SetUint64(key []byte, value uint64) error {
	if err := f.call("set " + string(key)); err != nil {
		return err
	}
	return f.InmemStore.SetUint64(key, value)
}

func (f *fakeStorage) StoreLogs(entries []*raft.Log) error {
	if err := f.call("append"); err != nil {
		return err
	}
	return f.InmemStore.StoreLogs(entries)
}

func (f *fakeStorage) StoreLog(entry *raft.Log) error {
	return f.StoreLogs([]*raft.Log{entry})
}

// startFake starts a cluster of one on a fake storage.
func startFake(t *testing.T, fake *fakeStorage, change func(*Config)) (*Node, fatals) {
	t.Helper()
	config, fatal := testConfig(t, "m1", "unused", &recorder{})
	if change != nil {
		change(&config)
	}
	config = config.withDefaults()
	ok(t, config.validate())
	return runSingle(t, must(newNode(config, fake.storage()))(t)), fatal
}

func snapshotFiles(t *testing.T, dir string) []string {
	t.Helper()
	return must(filepath.Glob(filepath.Join(dir, snapshotDir, "*")))(t)
}

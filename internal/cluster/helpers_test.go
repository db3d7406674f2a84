package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/lancemaster/lancemaster/internal/await"
	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/job/jobtest"
	"github.com/lancemaster/lancemaster/internal/peer"
	"github.com/lancemaster/lancemaster/internal/raftnode"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is everything around the nodes under test: their disks, the network, a Raft that follows the
// rules as far as membership goes, and the one replicated state.
type world struct {
	t *testing.T

	mu     sync.Mutex
	nodes  map[string]*node // the newest of each id
	state  *jobtest.State
	leader string
	term   uint64
	// boots counts the first member lists that were written.
	boots int
	// fault is asked before and after each step of a node; an error makes the step fail there.
	fault func(n *node, step string, after bool) error
	// cut are pairs of ids that do not reach each other.
	cut map[[2]string]bool
}

// node is one machine: a disk, and the process on it when it is up.
type node struct {
	*Cluster
	w                     *world
	id, instance, address string
	founders              []Member
	join                  bool
	clusterID, maxLevel   int32
	ready, stopping       bool
	configured            map[string]string // addresses by its own configuration
	clock                 time.Duration     // ahead of the others
	phase                 raftPhase
	votedLater            bool
	objects               string
	told                  string // the address that it advertises, where that is another

	// On disk.
	standing Standing
	servers  []raftnode.Server
	voted    uint64

	// The process. It is started once: a restart makes another node with the same disk.
	// runs says that it is to be stopped, also when it is dead.
	runs, up, dead, started, hangs bool
	follows                        bool   // its state is the cluster's
	lag                            uint64 // entries that it is behind
	passed                         uint64 // what Raft says that it has passed on
	uncommitted                    uint64 // entries that it has and does not know to be committed
	rechecks                       int
	fatal                          chan error
	endpoint                       *peer.Endpoint // nil: the network is the world's
	log                            logBook
}

// logBook keeps what was logged.
type logBook struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logBook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logBook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func newWorld(t *testing.T) *world {
	return &world{t: t, nodes: map[string]*node{}, state: jobtest.New(), term: 1, cut: map[[2]string]bool{}}
}

// machine makes a machine with an empty disk. One that had the id before loses it.
func (w *world) machine(id string) *node {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := &node{w: w, id: id, instance: "disk-" + id, address: id + ".example:9010", maxLevel: 1, ready: true}
	if old := w.nodes[id]; old != nil {
		n.instance, n.founders, n.join, n.clusterID = old.instance+"'", old.founders, old.join, old.clusterID
	}
	w.nodes[id] = n
	return n
}

// founders makes machines with one member list.
func (w *world) founders(ids ...string) []*node {
	var list []Member
	for _, id := range ids {
		list = append(list, Member{ID: id, Address: id + ".example:9010"})
	}
	var out []*node
	for _, id := range ids {
		n := w.machine(id)
		n.founders = list
		out = append(out, n)
	}
	return out
}

func (n *node) config() Config {
	address := n.address
	if n.told != "" {
		address = n.told
	}
	return Config{
		NodeID: n.id, InstanceID: n.instance, Address: address, Founders: n.founders, Join: n.join, ClusterID: n.clusterID,
		Version: "v1", MaxLevel: n.maxLevel, LevelDefaults: levelDefaults,
		AddressOf: func(id string) (string, bool) {
			n.w.mu.Lock()
			defer n.w.mu.Unlock()
			if n.configured == nil { // as of the start
				i := slices.IndexFunc(n.founders, func(m Member) bool { return m.ID == id })
				if i < 0 {
					return "", false
				}
				return n.founders[i].Address, true
			}
			a, ok := n.configured[id]
			return a, ok
		},
		Raft: raftOf{n}, State: stateOf{n}, Journal: journalOf{n}, Disk: diskOf{n},
		Report: func() Report {
			n.w.mu.Lock()
			defer n.w.mu.Unlock()
			return Report{AdminAddress: n.id + ":9021", Ready: n.ready && n.w.leader == n.id, Stopping: n.stopping}
		},
		Now:    func() time.Time { return time.Now().Add(n.clock) },
		Logger: slog.New(slog.NewTextHandler(&n.log, nil)),
	}
}

func levelDefaults(from, _ int32) []job.SettingValue {
	if from > 0 {
		return nil
	}
	return job.DefaultSettings()
}

// make makes the process without starting it.
func (n *node) make() *Cluster {
	n.w.t.Helper()
	c, err := New(n.config())
	if err != nil {
		n.w.t.Fatal(err)
	}
	c.lookup = func(context.Context, string) ([]net.IPAddr, error) {
		return []net.IPAddr{{IP: net.IPv4(10, 0, 0, 1)}}, nil
	}
	n.Cluster, n.fatal = c, make(chan error, 1)
	return c
}

// start starts the process.
func (n *node) start() *node {
	n.w.t.Helper()
	c := n.make()
	n.w.mu.Lock()
	n.runs, n.up, n.started, n.stopping = true, true, false, false
	n.w.mu.Unlock()
	if err := c.Start(n.caller(), func(err error) { n.fatal <- err }); err != nil && !errors.Is(err, errCrashed) {
		n.w.t.Fatal(err)
	}
	return n
}

// stop ends the process.
func (n *node) stop() {
	n.w.t.Helper()
	n.w.mu.Lock()
	was := n.runs
	n.runs, n.up, n.dead, n.started, n.follows = false, false, true, false, false
	if n.w.leader == n.id {
		n.w.leader = ""
	}
	n.w.mu.Unlock()
	if !was {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := n.Stop(ctx); err != nil {
		n.w.t.Error(err)
	}
	if n.endpoint != nil {
		if err := n.endpoint.Close(ctx); err != nil {
			n.w.t.Error(err)
		}
		n.endpoint = nil
	}
}

// restart starts the process anew, on the same disk.
func (n *node) restart() *node {
	n.w.t.Helper()
	return n.rebooted().start()
}

// rebooted is the machine of a node with its disk, after the process has ended.
func (n *node) rebooted() *node {
	n.w.t.Helper()
	n.stop()
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	again := &node{
		w: n.w, id: n.id, instance: n.instance, address: n.address, founders: n.founders, join: n.join, clusterID: n.clusterID,
		maxLevel: n.maxLevel, ready: true, configured: n.configured,
		standing: n.standing, servers: n.servers, voted: n.voted,
	}
	n.w.nodes[n.id] = again
	return again
}

func (w *world) stopAll() {
	for _, n := range w.nodes {
		n.stop()
	}
}

// crash ends what the process does, at once. The world is locked.
func (n *node) crash() {
	n.up, n.dead, n.started, n.follows = false, true, false, false
	if n.w.leader == n.id {
		n.w.leader = ""
	}
}

var errCrashed = errors.New("the machine has crashed")

// step is a step of a node that can fail.
func (n *node) step(name string, do func() error) error {
	n.w.mu.Lock()
	fault, dead := n.w.fault, n.dead
	n.w.mu.Unlock()
	if dead {
		return errCrashed
	}
	if fault == nil {
		return do()
	}
	if err := fault(n, name, false); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	return fault(n, name, true)
}

// The disk.
type diskOf struct{ n *node }

func (d diskOf) Standing() Standing {
	d.n.w.mu.Lock()
	defer d.n.w.mu.Unlock()
	return d.n.standing
}

func (d diskOf) SetStanding(s Standing) error {
	return d.n.step("standing", func() error {
		d.n.w.mu.Lock()
		defer d.n.w.mu.Unlock()
		d.n.standing = s
		return nil
	})
}

// The state and the journal.
type stateOf struct{ n *node }

func (s stateOf) Read(f func(*job.Live)) {
	s.n.w.mu.Lock()
	defer s.n.w.mu.Unlock()
	if !s.n.follows {
		f(job.NewLive())
		return
	}
	f(s.n.w.state.Live)
}

func (s stateOf) Applied() job.Position {
	s.n.w.mu.Lock()
	defer s.n.w.mu.Unlock()
	if !s.n.follows {
		return job.Position{}
	}
	p := s.n.w.state.Position
	p.Index -= s.n.lag
	return p
}

type journalOf struct{ n *node }

func (j journalOf) Propose(_ context.Context, c job.Command) (answer job.Answer, err error) {
	if _, leads := j.n.Term(); !leads {
		return answer, fmt.Errorf("%w: not the leader", job.ErrNotAppended)
	}
	err = j.n.step("propose "+c.Name(), func() error {
		j.n.w.mu.Lock()
		defer j.n.w.mu.Unlock()
		change, refusal := j.n.w.state.Apply(c)
		if refusal != nil {
			return refusal
		}
		answer = change.Answer
		return nil
	})
	return answer, err
}

// until pumps until something holds, for at most a minute of the bubble's time.
func (w *world) until(what string, holds func() bool) {
	w.t.Helper()
	if !await.Poll(50*time.Millisecond, time.Minute, func() bool {
		if holds() {
			return true
		}
		w.pump()
		return false
	}) {
		w.t.Fatalf("waited a minute in vain: %s\n%s", what, w.describe())
	}
}

// pass lets time pass.
func (w *world) pass(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		w.pump()
		await.Pass(50 * time.Millisecond)
	}
}

func (w *world) leaderID() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.leader
}

func (w *world) describe() string {
	var b strings.Builder
	for _, id := range []string{"a", "b", "c", "d"} {
		if n := w.nodes[id]; n != nil && n.Cluster != nil {
			w.mu.Lock()
			standing, servers := n.standing, n.servers
			w.mu.Unlock()
			fmt.Fprintf(&b, "%s: up %v, waiting %q, standing %+v, servers %v\n%s\n", id, n.up, n.Waiting(), standing, servers, n.log.String())
		}
	}
	return b.String()
}

// formed says whether the nodes make one cluster.
func formed(nodes ...*node) func() bool {
	return func() bool {
		for _, n := range nodes {
			if n.Waiting() != "" || len(n.Servers()) != len(nodes) || n.Identity().Level == 0 {
				return false
			}
		}
		return true
	}
}

// cluster forms a cluster, of which the first node leads and has heard the others.
func (w *world) cluster(ids ...string) []*node {
	w.t.Helper()
	nodes := w.founders(ids...)
	if len(ids) == 1 {
		nodes[0].founders = nil
	}
	for _, n := range nodes {
		n.start()
	}
	w.until("a cluster", formed(nodes...))
	w.until("that all hear each other", func() bool {
		for _, n := range nodes {
			for _, other := range nodes {
				if other != n && !n.reachable(other.id) {
					return false
				}
			}
		}
		return w.leaderID() == ids[0]
	})
	return nodes
}

// joiner is a machine that waits to be added to the cluster.
func (w *world) joiner(id string) *node {
	n := w.machine(id)
	n.join, n.clusterID, n.founders = true, w.state.Cluster().ClusterID, nil
	return n.start()
}

// lead makes another node the leader.
func (w *world) lead(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leader = id
	w.term++
}

// failOnce makes one step of a node fail, before or after it was done.
func (w *world) failOnce(step string, after bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	done := false
	w.fault = func(_ *node, s string, isAfter bool) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if done || s != step || isAfter != after {
			return nil
		}
		done = true
		return err
	}
}

// checkFormed checks that the nodes hold one plan, that came of one disk.
func (w *world) checkFormed(nodes ...*node) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.boots != 1 {
		w.t.Errorf("%d first member lists were written", w.boots)
	}
	for _, n := range nodes {
		if got, want := n.standing, nodes[0].standing; got.ClusterID != want.ClusterID || got.ClusterID <= 0 || got.Incarnation != 1 {
			w.t.Errorf("%s has the plan %+v, %s has %+v", n.id, got, nodes[0].id, want)
		}
		for _, other := range nodes {
			if n.standing.Instances[other.id] != other.instance {
				w.t.Errorf("%s takes %q for the disk of %s", n.id, n.standing.Instances[other.id], other.id)
			}
		}
	}
	if got := w.state.Cluster().ClusterID; got != nodes[0].standing.ClusterID {
		w.t.Errorf("the journal begins with cluster %d", got)
	}
	if got := len(w.state.Members()); got != len(nodes) {
		w.t.Errorf("%d members are registered", got)
	}
}

// bubble runs a test with a world in a bubble, in which time passes when all wait.
func bubble(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.stopAll()
		test(t, w)
	})
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// refusedWith checks a refusal's code, and that it has the texts in it.
func refusedWith(t *testing.T, err error, code job.Code, texts ...string) {
	t.Helper()
	if !job.IsCode(err, code) {
		t.Fatalf("error %v, want refusal %s", err, code)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%q does not say %q", err, text)
		}
	}
}

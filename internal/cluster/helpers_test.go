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

	"github.com/hashicorp/raft"
	"go.uber.org/goleak"

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
	up, dead, started, hangs bool
	follows                  bool   // its state is the cluster's
	lag                      uint64 // entries that it is behind
	rechecks                 int
	fatal                    chan error
	endpoint                 *peer.Endpoint // nil: the network is the world's
	log                      logBook
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
	n.up, n.started, n.stopping = true, false, false
	n.w.mu.Unlock()
	if err := c.Start(n.caller(), func(err error) { n.fatal <- err }); err != nil {
		n.w.t.Fatal(err)
	}
	return n
}

// stop ends the process.
func (n *node) stop() {
	n.w.t.Helper()
	n.w.mu.Lock()
	was := n.up
	n.up, n.dead, n.started, n.follows = false, true, false, false
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

// Raft.

func (n *node) HasState() (bool, error) {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	return len(n.servers) > 0 || n.voted > 0, nil
}

func (n *node) Bootstrap(members []raftnode.Server) error {
	return n.step("bootstrap", func() error {
		n.w.mu.Lock()
		defer n.w.mu.Unlock()
		if len(n.servers) > 0 || n.voted > 0 {
			return raftnode.ErrHasState
		}
		n.servers = slices.Clone(members)
		n.w.boots++
		return nil
	})
}

// raftOf is the node's Raft: a node's own Start is its Cluster's.
type raftOf struct{ *node }

func (r raftOf) Start() error {
	return r.step("start", func() error {
		r.w.mu.Lock()
		defer r.w.mu.Unlock()
		r.started = true
		return nil
	})
}

func (n *node) Servers() []raftnode.Server {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	if !n.started {
		return nil
	}
	return slices.Clone(n.servers)
}

func (n *node) Stats() raftnode.Stats {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	s := raftnode.Stats{State: "Shutdown", LastContact: -1}
	if !n.started {
		return s
	}
	s.State, s.Term, s.LastLogIndex = "Follower", n.voted, uint64(min(len(n.servers), 1))
	if n.follows {
		s.LeaderID, s.CommitIndex, s.LastLogIndex = n.w.leader, n.w.state.Position.Index, n.w.state.Position.Index-n.lag
	}
	if n.w.leader == n.id {
		s.State, s.LastContact = "Leader", 0
	}
	return s
}

func (n *node) Leader() (id, address string) {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	if !n.started || !n.follows || n.w.leader == "" {
		return "", ""
	}
	return n.w.leader, n.w.nodes[n.w.leader].address
}

func (n *node) Term() (uint64, bool) {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	return n.w.term, n.started && n.w.leader == n.id
}

// change changes the member list.
func (n *node) change(step string, do func()) error {
	if _, leads := n.Term(); !leads {
		return fmt.Errorf("%w: %w", raftnode.ErrNotAppended, raftnode.ErrNotLeader)
	}
	return n.step(step, func() error {
		n.w.mu.Lock()
		defer n.w.mu.Unlock()
		do()
		return nil
	})
}

func (n *node) set(s raftnode.Server) {
	i := slices.IndexFunc(n.servers, func(have raftnode.Server) bool { return have.ID == s.ID })
	if i < 0 {
		n.servers = append(n.servers, s)
		return
	}
	s.Voter = s.Voter || n.servers[i].Voter
	n.servers[i] = s
}

func (n *node) AddNonvoter(_ context.Context, id, address string) error {
	return n.change("nonvoter "+id, func() { n.set(raftnode.Server{ID: id, Address: address}) })
}

func (n *node) AddVoter(_ context.Context, id, address string) error {
	return n.change("voter "+id, func() { n.set(raftnode.Server{ID: id, Address: address, Voter: true}) })
}

func (n *node) RemoveServer(_ context.Context, id string) error {
	return n.change("remove "+id, func() {
		n.servers = slices.DeleteFunc(n.servers, func(s raftnode.Server) bool { return s.ID == id })
	})
}

func (n *node) TransferLeadershipTo(_ context.Context, id string) error {
	if _, leads := n.Term(); !leads {
		return raftnode.ErrNotLeader
	}
	return n.step("transfer "+id, func() error {
		n.w.mu.Lock()
		defer n.w.mu.Unlock()
		if to := n.w.nodes[id]; to == nil || !to.started || !to.follows {
			return raftnode.ErrTimeout
		}
		n.w.leader = id
		n.w.term++
		return nil
	})
}

// pump lets Raft do what it would do by now: elect a leader, have it form the cluster, and replicate.
func (w *world) pump() {
	w.mu.Lock()
	var candidates []*node
	for _, n := range w.nodes {
		if n.started && len(n.servers) > 0 {
			candidates = append(candidates, n)
		}
	}
	slices.SortFunc(candidates, func(a, b *node) int { return strings.Compare(a.id, b.id) })
	w.mu.Unlock()
	for _, n := range candidates {
		w.elect(n)
	}
	w.mu.Lock()
	leader := w.nodes[w.leader]
	w.mu.Unlock()
	if leader == nil {
		return
	}
	w.mu.Lock()
	formed := w.state.Cluster().ClusterID != 0
	w.mu.Unlock()
	if !formed {
		if _, err := (journalOf{leader}).Propose(context.Background(), leader.Form()); err != nil {
			w.t.Errorf("form: %v", err)
		}
	}
	w.replicate(leader)
}

// elect makes a node the leader if a quorum of its own list listens to it.
func (w *world) elect(n *node) {
	voters, votes := 0, []*node{}
	self := false
	for _, s := range n.Servers() {
		if !s.Voter {
			continue
		}
		voters++
		if s.ID == n.id {
			self = true
		} else if to := w.link(n, s.ID); to != nil {
			votes = append(votes, to)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.leader != "" || !self || (len(votes)+1)*2 <= voters {
		return
	}
	w.term++
	w.leader = n.id
	n.follows = true
	for _, v := range votes {
		v.voted = w.term
	}
}

func (w *world) replicate(leader *node) {
	for _, s := range leader.Servers() {
		if s.ID == leader.id {
			continue
		}
		if to := w.link(leader, s.ID); to != nil {
			w.mu.Lock()
			to.servers, to.voted, to.follows = slices.Clone(leader.servers), w.term, true
			w.mu.Unlock()
		}
	}
}

// link returns the node that a Raft connection from n to id reaches, if both sides allow it.
func (w *world) link(n *node, id string) *node {
	address, ok := n.MemberAddress(id)
	if !ok {
		return nil
	}
	to := w.reach(n, address)
	if to == nil || to.id != id {
		return nil
	}
	w.mu.Lock()
	started := to.started
	w.mu.Unlock()
	if !started {
		return nil
	}
	if n.endpoint != nil {
		conn, err := n.endpoint.RaftStream().Dial(raft.ServerAddress(id+"@"+address), 5*time.Second)
		if err != nil {
			return nil
		}
		_ = conn.Close()
		return to
	}
	if member, err := n.Judge(peer.KindRaft, to.Identity()); err != nil || !member {
		return nil
	}
	if member, err := to.Judge(peer.KindRaft, n.Identity()); err != nil || !member {
		return nil
	}
	return to
}

// reach returns the machine at an address, if it is up.
func (w *world) reach(from *node, address string) *node {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range w.nodes {
		if n.address == address && n.up && !w.cut[[2]string{from.id, n.id}] && !w.cut[[2]string{n.id, from.id}] {
			return n
		}
	}
	return nil
}

// The network.

func (n *node) caller() Caller {
	if n.endpoint != nil {
		return n.endpoint
	}
	return network{n}
}

// network carries calls as internal/peer does, without connections.
type network struct{ n *node }

func (c network) Recheck() {
	c.n.w.mu.Lock()
	defer c.n.w.mu.Unlock()
	c.n.rechecks++
}

func (c network) Call(ctx context.Context, id, address, method string, payload []byte) (reply []byte, other peer.Identity, err error) {
	if _, ok := ctx.Deadline(); !ok {
		c.n.w.t.Errorf("a call of %s without a bound", method)
	}
	to := c.n.w.reach(c.n, address)
	if to == nil {
		return nil, other, &peer.CallError{Err: fmt.Errorf("dial %s: connection refused", address)}
	}
	c.n.w.mu.Lock()
	hangs := to.hangs
	c.n.w.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return nil, other, &peer.CallError{Sent: true, Err: context.Cause(ctx)}
	}
	other, self := to.Identity(), c.n.Identity()
	if id != "" && to.id != id {
		return nil, other, &peer.Refusal{Code: peer.CodeWrongNode, Message: fmt.Sprintf("the address %s leads to node %s, not to node %s", address, to.id, id), ByOther: true}
	}
	handler := Handlers(func() *Cluster { return to.Cluster })[method]
	for _, side := range []struct {
		judge func(peer.Kind, peer.Identity) (bool, error)
		other peer.Identity
		by    bool
	}{{c.n.Judge, other, false}, {to.Judge, self, true}} {
		member, err := side.judge(peer.KindCall, side.other)
		if refusal, ok := errors.AsType[*peer.Refusal](err); ok {
			return nil, other, &peer.Refusal{Code: refusal.Code, Message: refusal.Message, ByOther: side.by}
		}
		if !member && !handler.Strangers {
			return nil, other, &peer.Refusal{Code: peer.CodeMembersOnly, Message: "for members only", ByOther: side.by}
		}
	}
	err = c.n.step("call "+method+" "+to.id, func() error {
		var err error
		reply, err = handler.Do(ctx, self, payload)
		return err
	})
	if refusal, ok := errors.AsType[*peer.Refusal](err); ok {
		return nil, other, refusal
	}
	if lost, ok := errors.AsType[*peer.CallError](err); ok {
		return nil, other, lost
	}
	if err != nil {
		return nil, other, &peer.RemoteError{Message: err.Error()}
	}
	return reply, to.Identity(), nil
}

// until pumps until something holds, for at most a minute of the bubble's time.
func (w *world) until(what string, holds func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); {
		if time.Now().After(deadline) {
			w.t.Fatalf("waited a minute in vain: %s\n%s", what, w.describe())
		}
		w.pump()
		time.Sleep(50 * time.Millisecond) //sleep: the interval of a poll with a deadline, mostly in a bubble
	}
}

// pass lets time pass.
func (w *world) pass(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		w.pump()
		time.Sleep(50 * time.Millisecond) //sleep: in a bubble, where it takes no time
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

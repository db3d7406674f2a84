package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/peer"
	"github.com/lancemaster/lancemaster/internal/raftnode"
)

// Member is a master and where its Raft service is reached.
type Member struct {
	ID      string `json:"id"`
	Address string `json:"address"`
}

// Standing is what a node remembers of its place in the cluster until its state tells it, and what
// the state alone cannot tell. It is stored beside the node's identity.
type Standing struct {
	ClusterID   int32 `json:"cluster_id,omitempty"`
	Incarnation int64 `json:"incarnation,omitempty"`
	// RegisteredAt is the journal index at which this disk was registered; 0 for a founder.
	RegisteredAt uint64 `json:"registered_at,omitempty"`
	// Instances are the members' disks, by node id, as of the formation or of joining.
	Instances map[string]string `json:"instances,omitempty"`
}

// Disk keeps the standing.
type Disk interface {
	Standing() Standing
	// SetStanding returns when the standing is durable.
	SetStanding(Standing) error
}

// Raft is what the package needs of the Raft node.
type Raft interface {
	HasState() (bool, error)
	Bootstrap(members []raftnode.Server) error
	Start() error
	Servers() []raftnode.Server
	Stats() raftnode.Stats
	Leader() (id, address string)
	Term() (term uint64, leads bool)
	AddNonvoter(ctx context.Context, id, address string) error
	AddVoter(ctx context.Context, id, address string) error
	RemoveServer(ctx context.Context, id string) error
	TransferLeadershipTo(ctx context.Context, id string) error
}

// State is the replicated state as applied here.
type State interface {
	Read(f func(*job.Live))
	Applied() job.Position
}

// Journal proposes commands; see rpc.Journal for its errors.
type Journal interface {
	Propose(ctx context.Context, c job.Command) (job.Answer, error)
}

// Caller carries calls to other masters.
type Caller interface {
	Call(ctx context.Context, nodeID, address, method string, payload []byte) ([]byte, peer.Identity, error)
	// Recheck closes the connections of those who do not belong any more.
	Recheck()
}

// Report is what the node says of itself beyond what this package knows.
type Report struct {
	AdminAddress  string `json:"admin_address"`
	ReportAddress string `json:"report_address"`
	HTTPAddress   string `json:"http_address"`
	Ready         bool   `json:"ready"`
	NotReady      string `json:"not_ready,omitempty"`
	Stopping      bool   `json:"stopping,omitempty"`
}

// Config is what a Cluster stands on. Logger and Registerer may be nil, Founders empty.
type Config struct {
	NodeID, InstanceID string
	Address            string   // this node's Raft address as others reach it
	Founders           []Member // sorted by id; this node among them; empty: a cluster of one
	Join               bool     // wait to be added
	ClusterID          int32    // 0: chosen at formation, or whatever the cluster has
	Version            string
	MaxLevel           int32
	// LevelDefaults are the first values of the settings that levels above from, up to to, bring.
	LevelDefaults func(from, to int32) []job.SettingValue
	// AddressOf gives a member's configured address, which wins over the one on record.
	AddressOf func(id string) (string, bool)

	Raft    Raft
	State   State
	Journal Journal
	Disk    Disk
	Report  func() Report
	Now     func() time.Time // the wall clock

	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Cluster is this node's view of its cluster.
type Cluster struct {
	cfg    Config
	log    *slog.Logger
	peers  *peers
	caller Caller

	// verbs serializes changes of the membership that this node makes. A channel, so that waiting
	// for it has a bound.
	verbs chan struct{}

	mu sync.Mutex
	// disk is what the node knows of its own log before Raft runs.
	hasState bool
	started  bool // Raft runs
	waiting  string
	accepted chan struct{} // closed when a plan or an invitation was stored

	cancel context.CancelFunc
	done   sync.WaitGroup
}

// New returns a Cluster that does nothing yet but answer who this node is.
func New(cfg Config) (*Cluster, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	c := &Cluster{cfg: cfg, log: cfg.Logger, verbs: make(chan struct{}, 1), accepted: make(chan struct{})}
	c.peers = newPeers(c)
	if cfg.Registerer != nil {
		if err := cfg.Registerer.Register(collector{c}); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Start brings this node into the cluster in the background, and begins to ask the other masters
// how they are. A node that cannot take part yet says so in Waiting. fatal is told when it never
// will.
func (c *Cluster) Start(caller Caller, fatal func(error)) error {
	has, err := c.cfg.Raft.HasState()
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.hasState = has
	c.mu.Unlock()
	c.caller = caller
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	c.done.Go(func() { c.peers.run(ctx) })
	if c.alone(has) { // nobody to wait for: a fault of the start is the start's
		return c.begin()
	}
	c.done.Go(func() {
		if err := c.takePart(ctx); err != nil && ctx.Err() == nil {
			fatal(err)
		}
	})
	return nil
}

// Stop ends what Start began. It does not stop Raft.
func (c *Cluster) Stop(context.Context) error {
	if c.cancel != nil {
		c.cancel()
	}
	c.done.Wait()
	return nil
}

// alone says whether this node needs nobody's word to start Raft.
func (c *Cluster) alone(hasState bool) bool {
	return hasState || !c.cfg.Join && len(c.cfg.Founders) <= 1 && c.cfg.Disk.Standing().ClusterID == 0
}

// begin starts Raft, after the first member list where this node founds a cluster of one.
func (c *Cluster) begin() error {
	c.mu.Lock()
	has := c.hasState
	c.mu.Unlock()
	if !has {
		if _, err := c.bootstrap([]Member{{ID: c.cfg.NodeID, Address: c.cfg.Address}}); err != nil {
			return err
		}
	}
	return c.startRaft()
}

// bootstrap writes the first member list, unless another cluster has taken this node in meanwhile.
// From here on this disk is the cluster's, and a plan of anybody else is refused.
func (c *Cluster) bootstrap(members []Member) (bool, error) {
	var servers []raftnode.Server
	for _, m := range members {
		servers = append(servers, raftnode.Server{ID: m.ID, Address: m.Address, Voter: true})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.accepted:
		return false, nil
	default:
	}
	if err := c.cfg.Raft.Bootstrap(servers); err != nil {
		return false, err
	}
	c.hasState = true
	return true, nil
}

func (c *Cluster) startRaft() error {
	c.setWaiting("")
	if err := c.cfg.Raft.Start(); err != nil {
		return err
	}
	c.mu.Lock()
	c.started = true
	c.mu.Unlock()
	return nil
}

// empty says whether this node's disk holds nothing of any cluster: no log and no vote.
func (c *Cluster) empty() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.emptyLocked()
}

// Waiting says what this node waits for before it can take part; empty when it takes part.
func (c *Cluster) Waiting() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waiting
}

func (c *Cluster) setWaiting(why string) {
	c.mu.Lock()
	changed := c.waiting != why
	c.waiting = why
	c.mu.Unlock()
	if changed && why != "" {
		c.log.Info("waiting", "for", why)
	}
}

// Identity is what this node says of itself on every connection.
func (c *Cluster) Identity() peer.Identity {
	s := c.cfg.Disk.Standing()
	id := peer.Identity{
		ClusterID: s.ClusterID, Incarnation: s.Incarnation, NodeID: c.cfg.NodeID, InstanceID: c.cfg.InstanceID,
		RegisteredAt: s.RegisteredAt, MaxLevel: c.cfg.MaxLevel, Version: c.cfg.Version,
	}
	c.cfg.State.Read(func(l *job.Live) {
		formed := l.Cluster()
		if formed.ClusterID == 0 {
			return
		}
		id.ClusterID, id.Level = formed.ClusterID, formed.Level
		id.Incarnation = max(id.Incarnation, formed.Incarnation)
		if m := l.Member(c.cfg.NodeID); m != nil && m.InstanceID == c.cfg.InstanceID {
			id.RegisteredAt = m.RegisteredAt
		}
	})
	return id
}

// Judge says whether the other end of a connection belongs to this cluster; see peer.Config.
func (c *Cluster) Judge(kind peer.Kind, other peer.Identity) (member bool, err error) {
	applied := c.cfg.State.Applied().Index
	return peer.Decide(kind, peer.Check(c.Identity(), c.registered, applied, other))
}

// registered looks a member's disk up: in the state once it knows the members, before that in what
// the formation or the invitation said.
func (c *Cluster) registered(nodeID string) (instanceID string, registeredAt uint64, ok bool) {
	known := false
	c.cfg.State.Read(func(l *job.Live) {
		known = len(l.Members()) > 0
		if m := l.Member(nodeID); m != nil {
			instanceID, registeredAt, ok = m.InstanceID, m.RegisteredAt, true
		}
	})
	if !known {
		instanceID, ok = c.cfg.Disk.Standing().Instances[nodeID]
	}
	return instanceID, registeredAt, ok
}

// address returns where a member is reached: as configured, else as registered, else as in the Raft
// configuration.
func (c *Cluster) address(id string) string {
	if c.cfg.AddressOf != nil {
		if address, ok := c.cfg.AddressOf(id); ok {
			return address
		}
	}
	address := ""
	c.cfg.State.Read(func(l *job.Live) {
		if m := l.Member(id); m != nil {
			address = m.Address
		}
	})
	if address == "" {
		for _, s := range c.cfg.Raft.Servers() {
			if s.ID == id {
				return s.Address
			}
		}
	}
	return address
}

// MemberAddress is address for Raft's transport, which falls back to its own configuration.
func (c *Cluster) MemberAddress(id string) (string, bool) {
	address := c.address(id)
	return address, address != ""
}

// others are the masters to ask: the founders until Raft runs, then Raft's members.
func (c *Cluster) others() []Member {
	var out []Member
	add := func(id, address string) {
		if id != c.cfg.NodeID {
			out = append(out, Member{ID: id, Address: address})
		}
	}
	if servers := c.cfg.Raft.Servers(); len(servers) > 0 {
		for _, s := range servers {
			add(s.ID, c.address(s.ID))
		}
		return out
	}
	for _, f := range c.cfg.Founders {
		add(f.ID, f.Address)
	}
	return out
}

// Form is the first command of the journal, as the founders agreed.
func (c *Cluster) Form() job.Form {
	s := c.cfg.Disk.Standing()
	form := job.Form{Header: c.header(job.ActorSystem), ClusterID: s.ClusterID, Level: c.cfg.MaxLevel}
	for _, f := range c.cfg.Founders {
		instance, ok := s.Instances[f.ID]
		if !ok {
			continue
		}
		form.Members = append(form.Members, job.Member{NodeID: f.ID, InstanceID: instance, Address: f.Address})
		if f.ID == c.cfg.NodeID {
			continue
		}
		if seen := c.peers.get(f.ID); seen.at.IsZero() {
			form.Level = 1 // nobody knows what it can read; the level is raised later
		} else {
			form.Level = min(form.Level, seen.identity.MaxLevel)
		}
	}
	if len(form.Members) == 0 {
		form.Members = []job.Member{c.self()}
	}
	if form.ClusterID == 0 {
		form.ClusterID = c.cfg.ClusterID
	}
	if form.ClusterID == 0 {
		form.ClusterID = RandomID()
	}
	form.Settings = c.cfg.LevelDefaults(0, form.Level)
	return form
}

// Survivor is this node as the only member, after its data directory was restored or recovered.
func (c *Cluster) Survivor() []job.Member { return []job.Member{c.self()} }

func (c *Cluster) self() job.Member {
	return job.Member{NodeID: c.cfg.NodeID, InstanceID: c.cfg.InstanceID, Address: c.cfg.Address}
}

// header is what this node's own commands carry.
func (c *Cluster) header(actor string) job.Header {
	return job.Header{At: job.Millis(c.cfg.Now().UnixMilli()), Actor: actor}
}

// EnsureRegistered registers this node where the state does not know its disk or address. The
// leader calls it at the start of its term.
func (c *Cluster) EnsureRegistered(ctx context.Context) error {
	self := c.self()
	var known *job.Member
	c.cfg.State.Read(func(l *job.Live) { known = l.Member(self.NodeID) })
	if known != nil && known.InstanceID == self.InstanceID && known.Address == self.Address {
		return nil
	}
	if known != nil && known.InstanceID != self.InstanceID {
		return fmt.Errorf("this node's disk (instance %s) is not the one registered for %s (instance %s); it must not lead",
			self.InstanceID, self.NodeID, known.InstanceID)
	}
	_, err := c.cfg.Journal.Propose(ctx, job.PutMember{
		Header: c.header(job.ActorSystem), NodeID: self.NodeID, InstanceID: self.InstanceID, Address: self.Address,
	})
	if err != nil {
		return fmt.Errorf("cannot register this node: %w", err)
	}
	return nil
}



package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
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
	// RegisteredAt is the journal index at which this disk was registered; 0 for a founder, whose
	// standing is no more than a plan until its disk holds a log or a vote.
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
	Address            string // this node's Raft address as others reach it
	// Founders are the configured masters, sorted by id, this node among them. They count only on an
	// empty disk; none is a cluster of one.
	Founders  []Member
	Join      bool  // wait to be added; Founders do not count
	ClusterID int32 // 0: chosen at formation, or whatever the cluster has
	Version   string
	MaxLevel  int32
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

// Cluster is this node's view of its cluster. Its methods may be called from several goroutines.
type Cluster struct {
	cfg   Config
	log   *slog.Logger
	peers *peers
	// lookup resolves a host's name.
	lookup func(ctx context.Context, host string) ([]net.IPAddr, error)

	// verbs serializes changes of the membership that this node makes. A channel, so that waiting
	// for it has a bound.
	verbs chan struct{}

	// written says that the disk holds a log, a snapshot or a vote. It never becomes false again.
	written atomic.Bool

	mu      sync.Mutex
	caller  Caller    // nil until Start
	raft    raftPhase // whether Raft may have written
	waiting string    // what formation or joining waits for
	// objection is why this founder does not agree to form the cluster.
	objection string
	accepted  chan struct{} // closed when a plan or an invitation was stored

	cancel context.CancelFunc
	done   sync.WaitGroup
}

// New returns a Cluster that does nothing yet but answer who this node is. The Raft node has not been
// started.
func New(cfg Config) (*Cluster, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	c := &Cluster{
		cfg: cfg, log: cfg.Logger, lookup: net.DefaultResolver.LookupIPAddr,
		verbs: make(chan struct{}, 1), accepted: make(chan struct{}),
	}
	c.peers = newPeers(c)
	// Before anybody can ask: a disk taken for empty could be given to another cluster.
	has, err := cfg.Raft.HasState()
	if err != nil {
		return nil, err
	}
	c.written.Store(has)
	if !cfg.Join && len(cfg.Founders) > 1 && c.standing().ClusterID == 0 {
		c.objection = "it has not heard the others yet"
	}
	if cfg.Registerer != nil {
		if err := cfg.Registerer.Register(collector{c}); err != nil {
			return nil, fmt.Errorf("register the metrics of the cluster: %w", err)
		}
	}
	return c, nil
}

// validate checks what would otherwise show only when the first member list is on disk for good.
func (cfg Config) validate() error {
	if len(cfg.Founders) == 0 {
		return nil
	}
	if len(cfg.Founders) > job.MaxMembers {
		return fmt.Errorf("cluster.members lists %d members; a cluster has at most %d", len(cfg.Founders), job.MaxMembers)
	}
	for i, m := range cfg.Founders[1:] {
		if m.ID <= cfg.Founders[i].ID {
			return errors.New("the founding members must be sorted by id, each once")
		}
	}
	own := slices.IndexFunc(cfg.Founders, func(m Member) bool { return m.ID == cfg.NodeID })
	if own < 0 {
		return fmt.Errorf("cluster.members does not list this node, %s", cfg.NodeID)
	}
	if cfg.Founders[own].Address != cfg.Address {
		return fmt.Errorf("this node advertises %s, but cluster.members lists it at %s", cfg.Address, cfg.Founders[own].Address)
	}
	return nil
}

// Start brings this node into the cluster in the background, and begins to ask the other masters
// how they are. A node that cannot take part yet says so in Waiting. fatal is told when it never
// will.
func (c *Cluster) Start(caller Caller, fatal func(error)) error {
	if err := c.checkStanding(); err != nil {
		return err
	}
	c.mu.Lock()
	if c.caller != nil {
		c.mu.Unlock()
		return errors.New("the membership was started already")
	}
	c.caller = caller
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	c.mu.Unlock()
	c.done.Go(func() { c.peers.run(ctx) })
	if c.alone() { // nobody to wait for: a fault of the start is the start's
		return c.begin()
	}
	c.done.Go(func() {
		if err := c.takePart(ctx); err != nil && ctx.Err() == nil {
			fatal(err)
		}
	})
	return nil
}

// Stop ends what Start began and waits for it until ctx ends. It does not stop Raft.
func (c *Cluster) Stop(ctx context.Context) error {
	c.mu.Lock()
	cancel := c.cancel
	c.mu.Unlock()
	if cancel == nil {
		return nil
	}
	cancel()
	ended := make(chan struct{})
	go func() {
		c.done.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("what the membership had begun has not ended: %w", context.Cause(ctx))
	}
}

// call asks another master.
func (c *Cluster) call(ctx context.Context, id, address, method string, payload []byte) ([]byte, peer.Identity, error) {
	c.mu.Lock()
	caller := c.caller
	c.mu.Unlock()
	if caller == nil {
		return nil, peer.Identity{}, errStarting
	}
	return caller.Call(ctx, id, address, method, payload)
}

// recheck closes the connections of those who do not belong any more.
func (c *Cluster) recheck() {
	c.mu.Lock()
	caller := c.caller
	c.mu.Unlock()
	if caller != nil {
		caller.Recheck()
	}
}

var errStarting = &peer.Refusal{Code: peer.CodeStarting, Message: "this node is starting; try again shortly"}

// header is what this node's own commands carry.
func (c *Cluster) header(actor string) job.Header {
	return job.Header{At: job.Millis(c.cfg.Now().UnixMilli()), Actor: actor}
}

package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lancemaster/lancemaster/internal/auth"
	"github.com/lancemaster/lancemaster/internal/backend"
	"github.com/lancemaster/lancemaster/internal/cluster"
	"github.com/lancemaster/lancemaster/internal/config"
	"github.com/lancemaster/lancemaster/internal/dispatch"
	"github.com/lancemaster/lancemaster/internal/explain"
	"github.com/lancemaster/lancemaster/internal/fsm"
	"github.com/lancemaster/lancemaster/internal/httpserver"
	"github.com/lancemaster/lancemaster/internal/lance"
	"github.com/lancemaster/lancemaster/internal/leader"
	"github.com/lancemaster/lancemaster/internal/metrics"
	"github.com/lancemaster/lancemaster/internal/peer"
	"github.com/lancemaster/lancemaster/internal/raftnode"
	"github.com/lancemaster/lancemaster/internal/refresh"
	"github.com/lancemaster/lancemaster/internal/release"
	"github.com/lancemaster/lancemaster/internal/retention"
	"github.com/lancemaster/lancemaster/internal/rpc"
	"github.com/lancemaster/lancemaster/internal/thriftnet"
)

// Options are what an App takes from its process.
type Options struct {
	Logger *slog.Logger // default: discard
	// LogLevel is the logger's level, which a reload changes; may be nil.
	LogLevel *slog.LevelVar
	// WallOffset is how far the wall clock is to be taken for ahead of the system's, SinceBoot a clock
	// that counts suspend (default the system's). Dial and Listen replace the network. All are for tests.
	WallOffset func() time.Duration
	SinceBoot  func() (time.Duration, error)
	Dial       func(ctx context.Context, network, address string) (net.Conn, error)
	Listen     func(ctx context.Context, network, address string) (net.Listener, error)
}

// Addresses are where a node listens, with the ports that were bound.
type Addresses struct{ Report, Admin, HTTP, Raft string }

// App is one node.
type App struct {
	cfg      config.Config // as of the start; see current
	current  atomic.Pointer[config.Config]
	log      *slog.Logger
	registry *prometheus.Registry
	fatal    chan error
	started  time.Time
	reloads  reloads
	reload   sync.Mutex     // held while the configuration is reloaded
	owed     *config.Config // one that waits for the files that it names; guarded by reload
	owedFor  string         // the fault of theirs that was told last

	opts         Options
	identity     *identityStore
	certs        certificates
	auth         *auth.Authenticator
	authFailures *auth.Failures
	tokens       *auth.TokenFile // nil: none
	catchUps     *together
	endpoint     *peer.Endpoint
	members      *cluster.Cluster
	known        atomic.Pointer[cluster.Cluster] // members, for connections that come while it is made
	forwarded    atomic.Pointer[rpc.Forwarded]   // nil until the handlers are there
	disk         *raftnode.DiskWatch
	machine      *fsm.Machine
	node         *raftnode.Node
	journal      *journal
	manager      *leader.Manager
	dispatcher   *dispatch.Dispatcher
	monitor      *backend.Monitor
	retention    *retention.Service
	releaser     *release.Service
	report       *thriftnet.Server
	admin        *thriftnet.Server
	http         *httpserver.Server

	// settingUp: dev still journals what a first job needs.
	settingUp atomic.Bool

	watchEnds sync.WaitGroup // of the watches of files

	mu       sync.Mutex
	stopped  bool
	stopping chan struct{} // closed when the listeners are about to close
	// cleanups undo what was started, the newest first.
	cleanups []cleanup
}

type cleanup struct {
	name string
	undo func(context.Context) error
}

func (a *App) onStop(name string, undo func(context.Context) error) {
	a.cleanups = append(a.cleanups, cleanup{name, undo})
}

// New opens the node's data directory. Nothing is served until Start. The caller
// ends the node with Stop, started or not.
func New(cfg config.Config, opts Options) (*App, error) {
	a := &App{cfg: cfg, opts: opts, log: opts.Logger, registry: metrics.New(config.BuildInfo()), fatal: make(chan error, 1), stopping: make(chan struct{}), started: time.Now(), catchUps: newTogether()}
	a.current.Store(&cfg)
	a.reloads = newReloads(a.registry, a.started)
	if a.log == nil {
		a.log = slog.New(slog.DiscardHandler)
	}
	if err := a.open(); err != nil {
		return nil, errors.Join(err, a.Stop(context.Background()))
	}
	return a, nil
}

func (a *App) open() (err error) {
	a.awaitWatches()
	if err := a.takeDataDir(); err != nil {
		return err
	}
	fatal := func(err error) { _ = a.fail(err) }
	a.disk = raftnode.NewDiskWatch(a.cfg.DiskStallLimit, fatal)
	a.onStop("disk watch", func(context.Context) error { a.disk.Close(); return nil })
	a.machine, err = fsm.Open(fsm.Config{Path: filepath.Join(a.cfg.DataDir, stateFile), Logger: a.log.With("part", "fsm"), Fatal: fatal})
	if err != nil {
		return err
	}
	a.onStop("state machine", func(context.Context) error { return a.machine.Close() })
	if err := a.checkClusterID(); err != nil {
		return err
	}
	if err := a.openCertificates(); err != nil {
		return err
	}
	if err := a.openAuth(); err != nil {
		return err
	}
	if err := a.listenToPeers(); err != nil {
		return err
	}
	a.node, err = raftnode.New(raftnode.Config{
		ID: a.cfg.NodeID, Dir: filepath.Join(a.cfg.DataDir, raftDir),
		Stream: a.endpoint.RaftStream(), MemberAddress: a.memberAddress,
		FSM:     newTimedFSM(watchedFSM{a.machine, a.disk}, a.registry),
		Prepare: func(l raft.LogStore, s raft.SnapshotStore) error { return a.machine.Prepare(l, s) },
		Disk:    a.disk, DiskStallLimit: a.cfg.DiskStallLimit, Fatal: fatal, Logger: a.log.With("part", "raft"),
		HeartbeatTimeout: a.cfg.HeartbeatTimeout, ElectionTimeout: a.cfg.ElectionTimeout, LeaderLease: a.cfg.LeaderLease,
		SnapshotInterval: a.cfg.SnapshotInterval, SnapshotThreshold: a.cfg.SnapshotThreshold, TrailingLogs: a.cfg.TrailingLogs,
	})
	if err != nil {
		return err
	}
	a.onStop("raft", a.node.Shutdown)
	a.journal = newJournal(a.node, a.log, a.registry, a.applied)
	a.journal.level = func() int32 { return a.formed().Level }
	if err := a.knowMembers(); err != nil {
		return err
	}
	a.registerNode()
	return nil
}

// Start joins the cluster and serves. It returns when the services listen, which
// may be before this node leads: see Ready.
func (a *App) Start(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stopped {
		return errStopped
	}
	for _, step := range []func(context.Context) error{a.startServers, a.startLeading, a.startMembers} {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := step(ctx); err != nil {
			return err
		}
	}
	a.warnOfOpenServices()
	a.startRetries()
	return nil
}

// newServices makes what the leader runs; the manager starts it.
func (a *App) newServices(ctx context.Context, client *rpc.BackendClient, sends *dispatch.Sends) error {
	references := dispatch.NewReferences()
	token, err := backendToken(ctx, references, a.cfg)
	if err != nil {
		return err
	}
	host, port, err := splitAddress(a.reportAddress())
	if err != nil {
		return err
	}
	a.monitor, err = backend.NewMonitor(backend.Config{
		Pinger: client, Reader: a.machine, ReportHost: host, ReportPort: port, Token: token,
		Changed: func() { a.dispatcher.Wake() }, Logger: a.log.With("part", "backend"), Registerer: a.registry,
	})
	if err != nil {
		return err
	}
	registry := refreshers(references, a.certs.towardsRefreshers())
	a.releaser = release.New(release.Config{
		State: a.machine, Journal: servingJournal{leading{a}, a.journal}, Open: lance.Open, Refresh: refreshOnce(registry),
		Sending: sends.Active, Now: time.Now, WallOffset: a.opts.WallOffset, ClockAgrees: a.members.AgreesWithMajority, Logger: a.log.With("part", "release"),
	})
	a.dispatcher, err = dispatch.New(dispatch.Config{
		Proposer: a.journal, Reader: a.machine, Sender: sender{client}, Liveness: a.monitor, Term: a.node, Barrier: barrier{a},
		Membership: a.members, ClockAgreement: a.members, Resolver: references,
		Refreshers: registry, Sends: sends, Logger: a.log.With("part", "dispatch"), Registerer: a.registry,
		Clock: a.bootClock(), WallOffset: a.opts.WallOffset,
	})
	if err != nil {
		return err
	}
	a.retention, err = retention.New(retention.Config{
		Proposer: a.journal, Reader: a.machine, Clock: a.members, Now: a.now,
		Logger: a.log.With("part", "retention"), Registerer: a.registry,
	})
	return err
}

func (a *App) explainer() rpc.Explainer {
	return explainer{explain.New(explain.Config{
		State: a.machine, Dispatcher: a.dispatcher, Liveness: a.monitor, Members: a.members.Members,
		ReleasableIn: a.releaser.ReleasableIn, Now: a.now,
	})}
}

// refreshers are what a catalog may name.
func refreshers(references *dispatch.References, own refresh.Certificate) *refresh.Registry {
	return refresh.NewRegistry(map[string]refresh.Refresher{
		refresh.KindHTTP:  refresh.HTTP{Resolver: references, Certificate: own},
		refresh.KindDoris: refresh.NewDoris(references, own),
	})
}

func splitAddress(address string) (host string, port int32, err error) {
	host, p, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, err
	}
	n, err := strconv.ParseUint(p, 10, 16)
	return host, int32(n), err
}

func (a *App) startLeading(context.Context) error {
	manager, err := leader.New(leader.Config{
		Node: a.node, Services: []leader.Service{a.monitor, a.dispatcher, a.retention, a.members.Tender()}, OnTermStart: a.startTerm, StepDown: a.node.TransferLeadership,
		Logger: a.log.With("part", "leader"), Fatal: func(err error) { _ = a.fail(err) },
	})
	if err != nil {
		return err
	}
	a.manager = manager
	a.registerLeading(manager)
	manager.Start()
	a.onStop("waiting requests", func(context.Context) error { close(a.stopping); return nil })
	a.onStop("leadership", a.handOver)
	// The newest cleanup runs first: the services settle while everything else,
	// the journal above all, still works. Then the leadership goes to a live peer,
	// and what clients and backends still ask is forwarded to it.
	a.onStop("leader's services", manager.Stop)
	return nil
}

// applied is told of each command this leader has journaled.
func (a *App) applied(r *fsm.Result) {
	if a.dispatcher == nil {
		return
	}
	if r.Changes.Backend != nil || len(r.Changes.Settings) > 0 {
		a.monitor.Wake()
	}
	if b := r.Changes.Backend; b != nil && b.Old == nil && b.New != nil {
		a.warnOfReports(b.New)
	}
	a.releaser.Applied(r.Changes)
	a.dispatcher.Wake()
}

// Done tells of a fault that the node must not survive. The process should end at
// once, without waiting for Stop.
func (a *App) Done() <-chan error { return a.fatal }

// Ready says whether this node leads and serves, and why not.
func (a *App) Ready() (ok bool, reason string) {
	a.mu.Lock()
	manager, stopped := a.manager, a.stopped
	a.mu.Unlock()
	if stopped {
		return false, "the node is stopping"
	}
	if manager == nil {
		return false, "the node is starting"
	}
	if _, ok := manager.Ready(); ok {
		if a.settingUp.Load() {
			return false, "the development node is being set up"
		}
		return true, ""
	}
	if waits := a.members.Waiting(); waits != "" {
		return false, "this node is waiting: " + waits
	}
	if removed := a.members.RemovedText(); removed != "" {
		return false, removed
	}
	if id, _ := a.node.Leader(); id != "" && id != a.cfg.NodeID {
		return false, "this node does not lead; the leader is " + id
	}
	reason = "no leader: the cluster has not elected one, or the new one has not passed its barrier"
	if refused := a.members.RefusedText(); refused != "" {
		reason += "; " + refused
	}
	return false, reason
}

// WaitReady returns once the node leads and serves.
func (a *App) WaitReady(ctx context.Context) error {
	a.mu.Lock() // Start holds it: a request that comes while the node starts waits here
	manager := a.manager
	a.mu.Unlock()
	if manager == nil {
		return errStopped
	}
	_, err := manager.Wait(ctx)
	return err
}

// Addrs returns where the node listens.
func (a *App) Addrs() Addresses {
	return Addresses{
		Report: a.report.Addr().String(), Admin: a.admin.Addr().String(), HTTP: a.http.Addr(), Raft: a.endpoint.Addr(),
	}
}

func (a *App) reportAddress() string {
	if a.cfg.ReportAdvertise != "" {
		return a.cfg.ReportAdvertise
	}
	return a.report.Addr().String()
}

// ShutdownTimeout is how long Stop may take. A reload changes it.
func (a *App) ShutdownTimeout() time.Duration { return a.current.Load().ShutdownTimeout }

// Stop ends the node in the reverse order of its start, within
// ShutdownTimeout, less when ctx ends before. It may be called more than
// once; only the first call does anything.
func (a *App) Stop(ctx context.Context) error {
	a.mu.Lock()
	cleanups := a.cleanups
	a.cleanups, a.stopped = nil, true
	a.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, a.ShutdownTimeout())
	defer cancel()
	var faults []error
	for i := len(cleanups) - 1; i >= 0; i-- {
		if err := cleanups[i].undo(ctx); err != nil {
			faults = append(faults, fmt.Errorf("stopping the %s: %w", cleanups[i].name, err))
		}
	}
	return errors.Join(faults...)
}

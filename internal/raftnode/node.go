package raftnode

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// Node is one member of the cluster. Its methods may be called from several goroutines; New,
// Bootstrap and Start in this order, and not at once.
type Node struct {
	config    Config
	log       *slog.Logger
	raftLog   *raftLogger
	disk      *DiskWatch
	ownDisk   bool
	guard     *guard
	storage   *storage
	logs      raft.LogStore // under the guard, with a cache
	stable    raft.StableStore
	snapshots raft.SnapshotStore
	newest    newestSnapshot
	stream    raft.StreamLayer // nil when the transport is the owner's

	leadership *leadership
	events     *events
	proposals  *gate
	queue      chan *proposal
	barriers   *barriers
	changing   chan struct{} // holds a token while the member list is being changed

	// queueClosed is closed when no proposal is handed to Raft any more.
	queueClosed chan struct{}
	// raftEnded is closed when all of Raft's goroutines have ended: what it has not answered by
	// then it never will.
	raftEnded chan struct{}
	// background holds the node's own goroutines.
	background sync.WaitGroup

	stopOnce sync.Once
	stopped  chan struct{}
	stopErr  error // set before stopped is closed

	mu        sync.Mutex
	raft      *raft.Raft       // nil until started
	transport closingTransport // nil until started
	stopping  bool
}

// New opens the node's disk and listens on its address. Nothing runs until Start. The caller ends the
// node with Shutdown, started or not.
func New(config Config) (*Node, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	storage, err := openStorage(config, newRaftLogger(config.Logger))
	if err != nil {
		return nil, err
	}
	var n *Node
	if err = storage.checkRecovered(); err == nil {
		n, err = newNode(config, storage)
	}
	if err != nil {
		return nil, errors.Join(err, storage.close())
	}
	return n, nil
}

// newNode builds a node on an open storage.
func newNode(config Config, storage *storage) (*Node, error) {
	n := &Node{
		config: config, log: config.Logger, raftLog: newRaftLogger(config.Logger),
		disk: config.Disk, storage: storage,
		leadership: newLeadership(), events: newEvents(), proposals: newGate(), queue: make(chan *proposal), barriers: newBarriers(),
		changing:    make(chan struct{}, 1),
		queueClosed: make(chan struct{}), raftEnded: make(chan struct{}), stopped: make(chan struct{}),
	}
	switch {
	case config.NewTransport != nil:
	case config.Stream != nil:
		n.stream = config.Stream
	default:
		stream, err := listen(config.BindAddress, config.AdvertiseAddress)
		if err != nil {
			return nil, err
		}
		n.stream = stream
	}
	if n.disk == nil {
		n.disk, n.ownDisk = NewDiskWatch(config.DiskStallLimit, config.Fatal), true
	}
	n.guard = &guard{watch: n.disk, events: n.events, halted: func() { n.leadership.note(0) }}
	cached, err := raft.NewLogCache(logCacheEntries, &guardedLog{inner: storage.logs, guard: n.guard})
	if err != nil {
		return nil, fmt.Errorf("make the log's cache: %w", err) // only for a cache without a size
	}
	n.logs = cached
	n.stable = &voteOrder{StableStore: &guardedStable{inner: storage.stable, guard: n.guard}}
	n.snapshots = &guardedSnapshots{SnapshotStore: storage.snapshots, guard: n.guard, dir: storage.snapshotPath}
	return n, nil
}

// Addr returns the address under which other members reach this one; empty when Config.NewTransport
// makes the transport and the node has not been started.
func (n *Node) Addr() string {
	if n.stream != nil {
		return n.stream.Addr().String()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.transport == nil {
		return ""
	}
	return string(n.transport.LocalAddr())
}

// Stall puts a write of the owner's to the same disk under the node's watch: it returns the function
// to call when the write has returned. See DiskWatch.Begin.
func (n *Node) Stall(name string) (end func()) { return n.disk.Begin(name) }

// Start lets the owner prepare its state machine and joins the cluster. A node without a member list
// (see Bootstrap) waits to be added to one. After an error the node can only be shut down.
func (n *Node) Start() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.stopping:
		return fmt.Errorf("start raft: %w", ErrStopped)
	case n.raft != nil:
		return errors.New("start raft: it has been started already")
	}
	if err := n.finishBootstrap(); err != nil {
		return err
	}
	if n.config.Prepare != nil {
		if err := n.config.Prepare(n.logs, n.snapshots); err != nil {
			return fmt.Errorf("prepare the state machine: %w", err)
		}
	}
	transport, err := n.newTransport()
	if err != nil {
		return err
	}
	n.transport = transport
	r, err := n.newRaft(transport)
	if err != nil {
		return err
	}
	n.guard.running.Store(true)
	n.raft = r
	n.watchLeadership(r)
	r.RegisterObserver(raft.NewObserver(nil, false, n.events.observe))
	n.background.Go(func() { n.handOver(r) })
	n.background.Go(func() { n.runBarriers(func() error { return n.barrier(r) }) })
	return nil
}

// newTransport makes the transport, without the shortcuts that are not safe.
func (n *Node) newTransport() (closingTransport, error) {
	if n.config.NewTransport != nil {
		below, err := n.config.NewTransport()
		if err != nil {
			return nil, fmt.Errorf("make the transport between members: %w", err)
		}
		return quiet(below), nil
	}
	config := &raft.NetworkTransportConfig{
		Logger:          n.raftLog,
		Stream:          n.stream,
		MaxPool:         3,
		MaxRPCsInFlight: 1,
		Timeout:         n.config.RPCTimeout,
	}
	return quiet(namedTransport{raft.NewNetworkTransportWithConfig(config), n.config.MemberAddress}), nil
}

// newRaft starts Raft. The library panics when it cannot read what its start needs; that is an error
// like any other here.
func (n *Node) newRaft(transport raft.Transport) (r *raft.Raft, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			r, err = nil, fmt.Errorf("start raft: the log does not reach back to the newest snapshot, or cannot be read: %v", fault)
		}
	}()
	r, err = raft.NewRaft(n.config.raft(n.raftLog), n.config.FSM, n.logs, n.stable, n.snapshots, transport)
	if err != nil {
		return nil, fmt.Errorf("start raft: %w", err)
	}
	return r, nil
}

// running returns Raft, or nil before Start and once Shutdown has begun.
func (n *Node) running() *raft.Raft {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.stopping {
		return nil
	}
	return n.raft
}

// Shutdown takes the node out of the cluster and closes everything it has opened. Commands under way
// are given a moment to be answered, and no new ones are taken. Shutdown waits until ctx ends; the
// work goes on after that, and may be waited for by calling it again.
func (n *Node) Shutdown(ctx context.Context) error {
	n.stopOnce.Do(func() { go n.shutDown() })
	select {
	case <-n.stopped:
		return n.stopErr
	default:
	}
	select {
	case <-n.stopped:
		return n.stopErr
	case <-ctx.Done():
		return waitError(ctx, "the raft node to stop")
	}
}

// shutDown does the work of Shutdown, in the order that each step needs.
func (n *Node) shutDown() {
	defer close(n.stopped)
	n.mu.Lock() // waits for a Start under way, and bars a later one
	n.stopping = true
	r, transport := n.raft, n.transport
	n.mu.Unlock()
	n.leadership.end()
	n.barriers.close()
	answered := n.proposals.close()
	n.drain(answered)

	close(n.queueClosed)
	n.guard.closing.Store(true)
	var ended raft.Future
	if r != nil {
		ended = r.Shutdown()
	}
	// The transport goes before Raft has ended: its goroutines may be waiting for other members.
	var faults []error
	switch {
	case transport != nil:
		faults = append(faults, transport.Close())
	case n.stream != nil:
		faults = append(faults, n.stream.Close())
	}
	if ended != nil {
		faults = append(faults, ended.Error())
	}
	n.guard.running.Store(false)
	close(n.raftEnded)
	<-answered
	n.background.Wait()

	n.guard.closed.Store(true)
	faults = append(faults, n.storage.close())
	if n.ownDisk {
		n.disk.Close()
	}
	if err := errors.Join(faults...); err != nil {
		n.stopErr = fmt.Errorf("stop the raft node: %w", err)
	}
}

// drain lets the commands under way be answered, for a while, unless a failed disk answers none.
func (n *Node) drain(answered <-chan struct{}) {
	limit := time.NewTimer(n.config.DrainTimeout)
	defer limit.Stop()
	select {
	case <-answered:
	case <-n.disk.troubled:
	case <-limit.C:
		n.log.Warn("stopping raft with commands unanswered; their outcome stays open", "waited", n.config.DrainTimeout)
	}
}

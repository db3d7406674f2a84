package testcluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/lancemaster/lancemaster/internal/app"
	"github.com/lancemaster/lancemaster/internal/await"
	"github.com/lancemaster/lancemaster/internal/config"
)

// Ports of every master.
const (
	raftPort   = 9010
	reportPort = 9020
	adminPort  = 9021
	httpPort   = 8030
)

// Master is one member. Its process may end and another begin with the same directory.
type Master struct {
	Name string
	Addr netip.Addr

	cluster *Cluster
	offset  atomic.Int64 // of its wall clock
	slept   atomic.Int64 // how long its machine was suspended

	mu      sync.Mutex
	busy    bool // a process is being stopped
	dir     string
	life    int // how many processes there were
	host    *Host
	app     *app.App
	log     *slog.Logger
	endings sync.WaitGroup // processes that were killed and have not ended
}

// at is an address of the master.
func (m *Master) at(port uint16) string { return netip.AddrPortFrom(m.Addr, port).String() }

// AdminAddr is where the admin service is.
func (m *Master) AdminAddr() string { return m.at(adminPort) }

// SetClock sets the wall clock this far ahead of the true time.
func (m *Master) SetClock(ahead time.Duration) { m.offset.Store(int64(ahead)) }

// Suspend has the machine have slept for a while: only the clock that counts suspend has gone on meanwhile.
func (m *Master) Suspend(d time.Duration) { m.slept.Add(int64(d)) }

// Down says whether the master has no process, and its directory is free for another.
func (m *Master) Down() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.app == nil && !m.busy
}

// App is the present process, or nil.
func (m *Master) App() *app.App {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.app
}

// Start starts a process on the directory.
func (m *Master) Start(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.app != nil || m.busy {
		return fmt.Errorf("%s runs already", m.Name)
	}
	overrides := map[string]string{
		"node_id": m.Name, "data_dir": m.dir, "cluster.members": m.cluster.members(),
		"raft.listen": m.at(raftPort), "report.listen": m.at(reportPort), "admin.listen": m.at(adminPort), "http.listen": m.at(httpPort),
	}
	maps.Copy(overrides, m.cluster.cfg.Overrides)
	maps.Copy(overrides, m.cluster.cfg.Own[m.Name])
	cfg, err := config.Load("", nil, overrides)
	if err != nil {
		return err
	}
	host := m.cluster.Net.Host(m.Addr)
	a, err := app.New(cfg, app.Options{
		Logger: m.log.With("node", m.Name, "life", m.life), Dial: host.Dial, Listen: host.Listen,
		WallOffset: func() time.Duration { return time.Duration(m.offset.Load()) },
		SinceBoot:  m.sinceBoot,
	})
	if err != nil {
		host.Kill()
		return fmt.Errorf("opening %s: %w", m.Name, err)
	}
	m.app, m.host, m.life = a, host, m.life+1
	m.endings.Go(func() { m.watch(a) })
	if err := a.Start(ctx); err != nil {
		m.app = nil
		host.Kill()
		return errors.Join(fmt.Errorf("starting %s: %w", m.Name, err), m.end(a))
	}
	return nil
}

// watch takes a process that reports a fault for what it would be: ended, and a failure of the test.
func (m *Master) watch(a *app.App) {
	select {
	case err := <-a.Done():
		m.cluster.failed(fmt.Errorf("%s ended by itself: %w", m.Name, err))
	case <-m.cluster.ended:
	}
}

// endPatience bounds the end of a process that nobody hears any more.
const endPatience = 15 * time.Second

func (m *Master) end(a *app.App) error {
	ctx, cancel := context.WithTimeout(context.Background(), endPatience)
	defer cancel()
	return a.Stop(ctx)
}

// Stop ends the process as SIGTERM does.
func (m *Master) Stop() error {
	m.mu.Lock()
	a, host := m.app, m.host
	if a == nil { // it is down, or being stopped already
		m.mu.Unlock()
		return nil
	}
	m.app, m.busy = nil, true
	m.mu.Unlock()
	err := m.end(a)
	host.Kill()
	m.mu.Lock()
	m.busy = false
	m.mu.Unlock()
	if err != nil {
		return fmt.Errorf("stopping %s: %w", m.Name, err)
	}
	return nil
}

// Crash ends the process at once. The next one finds what was on the disk. It must be called from one
// goroutine of the bubble at a time.
func (m *Master) Crash() error {
	synctest.Wait() // nobody writes now
	m.mu.Lock()
	a, host, old := m.app, m.host, m.dir
	if a == nil {
		m.mu.Unlock()
		return nil
	}
	host.Kill()
	m.app, m.dir = nil, filepath.Join(m.cluster.cfg.Dir, fmt.Sprintf("%s-%d", m.Name, m.life))
	next := m.dir
	m.mu.Unlock()
	if err := copyDir(old, next); err != nil {
		return fmt.Errorf("copying the disk of %s: %w", m.Name, err)
	}
	m.endings.Go(func() {
		// What is cut off from everything may well fail to end in order. That it ends is what counts,
		// and the bubble sees to it.
		_ = m.end(a)
		_ = os.RemoveAll(old)
	})
	return nil
}

// StateFile is the state of a master that is stopped.
func (m *Master) StateFile() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return filepath.Join(m.dir, "state.db")
}

// Config says how a cluster is made.
type Config struct {
	Dir       string // of all the data
	Masters   int
	Seed      uint64                       // of the network
	Overrides map[string]string            // of the masters' configuration
	Own       map[string]map[string]string // of one master's, by its name
	Logger    *slog.Logger                 // default: none
}

// Cluster is masters and the network between them.
type Cluster struct {
	Net     *Network
	Masters []*Master

	cfg   Config
	began time.Time
	ended chan struct{}

	mu     sync.Mutex
	faults []error
}

// MasterAddr is the address of the nth master.
func MasterAddr(n int) netip.Addr { return nth("127.0.0.", n) }

// nth is an address of this machine's own, which a node takes for one that nobody else reaches: so it
// asks for no certificates.
func nth(prefix string, n int) netip.Addr { return netip.MustParseAddr(prefix + strconv.Itoa(n+1)) }

// masterName names the nth master.
func masterName(n int) string { return "abcdefgh"[n : n+1] }

// New makes a cluster; Start starts it.
func New(cfg Config) *Cluster {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	c := &Cluster{Net: NewNetwork(cfg.Seed), cfg: cfg, began: time.Now(), ended: make(chan struct{})}
	for i := range cfg.Masters {
		m := &Master{Name: masterName(i), Addr: MasterAddr(i), cluster: c, log: cfg.Logger}
		m.dir = filepath.Join(cfg.Dir, m.Name)
		c.Masters = append(c.Masters, m)
	}
	return c
}

func (c *Cluster) members() string {
	list := make([]string, len(c.Masters))
	for i, m := range c.Masters {
		list[i] = m.Name + "=" + m.at(raftPort)
	}
	return strings.Join(list, ",")
}

// sinceBoot is a clock that counts suspend.
func (m *Master) sinceBoot() (time.Duration, error) {
	return time.Hour + time.Since(m.cluster.began) + time.Duration(m.slept.Load()), nil
}

// Believer is configuration with which a master that leads goes on believing so for long after the
// others have left it: the timeouts of Raft keep an old leader short, and nothing may rest on them.
func Believer() map[string]string {
	const long = "12s"
	return map[string]string{"raft.heartbeat_timeout": long, "raft.election_timeout": long, "raft.leader_lease": long}
}

// Start starts all masters.
func (c *Cluster) Start(ctx context.Context) error {
	for _, m := range c.Masters {
		if err := m.Start(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Stop ends all masters, and waits for those that were killed.
func (c *Cluster) Stop() error {
	var faults []error
	for _, m := range c.Masters {
		faults = append(faults, m.Stop())
	}
	close(c.ended)
	for _, m := range c.Masters {
		m.endings.Wait()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return errors.Join(append(faults, c.faults...)...)
}

func (c *Cluster) failed(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = append(c.faults, err)
}

// Leader is the master that leads and serves, or nil.
func (c *Cluster) Leader() *Master {
	for _, m := range c.Masters {
		if a := m.App(); a != nil {
			if ok, _ := a.Ready(); ok {
				return m
			}
		}
	}
	return nil
}

// poll is how often WaitLeader and the like look.
const poll = 20 * time.Millisecond

// Until waits until something is so, at most for a time.
func Until(patience time.Duration, what func() bool) bool {
	return await.Poll(poll, patience, what)
}

// WaitLeader waits until a master leads and serves.
func (c *Cluster) WaitLeader(patience time.Duration) (*Master, error) {
	var m *Master
	if !Until(patience, func() bool { m = c.Leader(); return m != nil }) {
		return nil, fmt.Errorf("nobody leads after %s", patience)
	}
	return m, nil
}

package fsm

import (
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/store"
)

// ErrClosed is what is answered after Close.
var ErrClosed = errors.New("the state machine is closed")

// Config says where the state lives.
type Config struct {
	// Path is the state file; its directory must exist.
	Path   string
	Logger *slog.Logger
	// Fatal is told, once, why this node can apply nothing more. It is called without
	// any lock held and should end the process.
	Fatal func(error)
}

// SettingEntry is one line of the settings' history.
type SettingEntry = store.SettingEntry

// Machine is the state machine. Its methods may be called concurrently.
type Machine struct {
	path   string
	logger *slog.Logger
	fatal  func(error)

	// applying is held by whatever moves the state. It guards ahead.
	applying sync.Mutex
	ahead    *job.Live

	// mu guards what readers see, below. It is never held across disk work.
	mu      sync.RWMutex
	live    *job.Live
	applied job.Position
	state   *handle
	changed chan struct{}
	stopped error // why nothing is applied any more, or nil
}

var (
	_ raft.BatchingFSM = (*Machine)(nil)
	_ job.View         = view{}
)

// Open opens or creates the state and loads its open jobs into memory.
func Open(cfg Config) (*Machine, error) {
	s, err := store.Open(cfg.Path)
	if err != nil {
		return nil, err
	}
	loaded, err := load(s)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	m := &Machine{path: cfg.Path, logger: cfg.Logger, fatal: cfg.Fatal, changed: make(chan struct{})}
	if m.logger == nil {
		m.logger = slog.New(slog.DiscardHandler)
	}
	m.show(loaded, newHandle(s, m.logger))
	return m, nil
}

// Close ends the use of the state file. A snapshot that is being written, and a
// read under way, keep the file open until they end.
func (m *Machine) Close() error {
	m.applying.Lock()
	defer m.applying.Unlock()
	m.mu.Lock()
	state := m.state
	m.state = nil
	if m.stopped == nil {
		m.stopped = ErrClosed
	}
	m.mu.Unlock()
	if state == nil {
		return nil
	}
	return state.release()
}

// handle counts the users of a state file, so that a restore can replace it while
// a snapshot of it is still being written.
type handle struct {
	store  *store.Store
	users  atomic.Int64
	logger *slog.Logger
}

func newHandle(s *store.Store, logger *slog.Logger) *handle {
	h := &handle{store: s, logger: logger}
	h.users.Store(1) // the machine
	return h
}

func (h *handle) release() error {
	if h.users.Add(-1) > 0 {
		return nil
	}
	return h.store.Close()
}

// drop is release for those who have nobody to tell.
func (h *handle) drop() {
	if err := h.release(); err != nil {
		h.logger.Error("cannot close the state file", "error", err)
	}
}

// acquire returns the state file for reading; the caller drops it. After a failure
// there is none: what the file holds then is not certain.
func (m *Machine) acquire() (*handle, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.stopped != nil {
		return nil, m.stopped
	}
	m.state.users.Add(1)
	return m.state, nil
}

func (m *Machine) read(f func(*store.Reader) error) error {
	h, err := m.acquire()
	if err != nil {
		return err
	}
	defer h.drop()
	return h.store.Read(f)
}

// memory is what is loaded from a state file.
type memory struct {
	ahead, live *job.Live
	applied     job.Position
	cluster     job.Cluster
}

// load reads a state file into memory, twice.
func load(s *store.Store) (memory, error) {
	mem := memory{ahead: job.NewLive(), live: job.NewLive()}
	err := s.Read(func(r *store.Reader) (err error) {
		if mem.applied, err = r.Applied(); err != nil {
			return err
		}
		if mem.cluster, err = r.Cluster(); err != nil {
			return err
		}
		return fill(r, mem.cluster, mem.ahead, mem.live)
	})
	if err != nil {
		return memory{}, fmt.Errorf("cannot load the state: %w", err)
	}
	return mem, nil
}

func fill(r *store.Reader, cluster job.Cluster, copies ...*job.Live) error {
	settings, err := r.Settings()
	if err != nil {
		return err
	}
	catalogs, err := r.Catalogs()
	if err != nil {
		return err
	}
	backends, err := r.Backends()
	if err != nil {
		return err
	}
	members, err := r.Members()
	if err != nil {
		return err
	}
	tokens, err := r.Tokens()
	if err != nil {
		return err
	}
	jobs, err := r.LiveJobs()
	if err != nil {
		return err
	}
	for _, l := range copies {
		l.LoadCluster(cluster)
		for _, s := range settings {
			if err := l.LoadSetting(job.SettingValue{Name: s.Name, Value: s.New}); err != nil {
				return fmt.Errorf("setting %s: %w", s.Name, err)
			}
		}
		for _, c := range catalogs {
			l.LoadCatalog(c)
		}
		for _, b := range backends {
			l.LoadBackend(b)
		}
		for _, m := range members {
			l.LoadMember(m)
		}
		for _, t := range tokens {
			l.LoadToken(t)
		}
		for _, j := range jobs {
			l.LoadJob(j)
		}
	}
	return nil
}

// show makes a loaded state the one that is read and applied to. The caller holds
// applying, or is alone.
func (m *Machine) show(mem memory, state *handle) {
	m.ahead = mem.ahead
	m.mu.Lock()
	old := m.state
	m.live, m.applied, m.state = mem.live, mem.applied, state
	m.broadcast()
	m.mu.Unlock()
	if old != nil {
		old.drop()
	}
}

// broadcast wakes those who wait for AppliedChanged. The caller holds mu.
func (m *Machine) broadcast() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// stop makes err the reason why nothing is applied any more, and reports whether
// it is the first.
func (m *Machine) stop(err error) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopped != nil {
		return false
	}
	m.stopped = err
	return true
}

// tell tells the log and Fatal why the machine stopped. The caller holds no lock.
func (m *Machine) tell(err error) {
	m.logger.Error("nothing more is applied on this node", "error", err)
	if m.fatal != nil {
		m.fatal(err)
	}
}

// Err returns why nothing is applied any more, or nil.
func (m *Machine) Err() error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.stopped
}

// Applied returns the position of the newest entry that readers see.
func (m *Machine) Applied() job.Position {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.applied
}

// AppliedChanged returns a channel that is closed at the next applied change. To
// wait for something, take the channel first and look afterwards.
func (m *Machine) AppliedChanged() <-chan struct{} {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.changed
}

// Read shows f what is in memory. Records and other values behind pointers are
// immutable and may be kept; the Live itself may not. f must be quick, since it
// holds up applying, and must not call the Machine.
func (m *Machine) Read(f func(*job.Live)) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	f(m.live)
}

// Job returns a job, open or not, or nil where there is none.
func (m *Machine) Job(id job.ID) (*job.Record, error) {
	m.mu.RLock()
	rec, stopped := m.live.Job(id), m.stopped
	m.mu.RUnlock()
	if stopped != nil {
		return nil, stopped
	}
	if rec != nil {
		return rec, nil
	}
	err := m.read(func(r *store.Reader) (err error) {
		rec, err = r.Job(id)
		return err
	})
	return rec, err
}

// Request returns the job that a creator admitted under a request id.
func (m *Machine) Request(creator, requestID string) (id job.ID, found bool, err error) {
	err = m.read(func(r *store.Reader) (err error) {
		id, found, err = r.Request(creator, requestID)
		return err
	})
	return id, found, err
}

// History returns what is kept of a job's events, oldest first, and how many were
// dropped between its first and its last.
func (m *Machine) History(id job.ID) (events []job.Event, dropped int64, err error) {
	err = m.read(func(r *store.Reader) (err error) {
		events, dropped, err = r.History(id)
		return err
	})
	return events, dropped, err
}

// EventsAfter returns events whose Raft index is above after, in the order of the
// log; see store.Reader.
func (m *Machine) EventsAfter(after uint64, limit int) (events []job.Event, err error) {
	err = m.read(func(r *store.Reader) (err error) {
		events, err = r.EventsAfter(after, limit)
		return err
	})
	return events, err
}

// Closed lists up to limit jobs that are not open and were closed before a time,
// the one closed longest ago first.
func (m *Machine) Closed(before job.Millis, limit int) (ids []job.ID, err error) {
	err = m.read(func(r *store.Reader) (err error) {
		ids, err = r.Closed(before, limit)
		return err
	})
	return ids, err
}

// List returns one page of the jobs that q selects. A query that makes no sense is
// a *job.Refusal.
func (m *Machine) List(q job.Query) (page job.Page, err error) {
	err = m.read(func(r *store.Reader) (err error) {
		page, err = r.List(q)
		return err
	})
	return page, err
}

// Settings returns for each setting, by name, the change that set it.
func (m *Machine) Settings() (settings []job.SettingChange, err error) {
	err = m.read(func(r *store.Reader) (err error) {
		settings, err = r.Settings()
		return err
	})
	return settings, err
}

// SettingsHistory returns up to limit changes, newest first, of one setting or, if
// name is empty, of all.
func (m *Machine) SettingsHistory(name string, limit int) (entries []SettingEntry, err error) {
	err = m.read(func(r *store.Reader) (err error) {
		entries, err = r.SettingsHistory(name, limit)
		return err
	})
	return entries, err
}

// Hash sums what must be equal on every node that has applied the same commands.
func (m *Machine) Hash() (sum job.Hash, err error) {
	err = m.read(func(r *store.Reader) (err error) {
		sum, err = r.Hash()
		return err
	})
	return sum, err
}

// Check holds the indexes of the state file to its records, and memory to the
// file. Applying waits meanwhile; it is for tests and for an operator in doubt.
func (m *Machine) Check() error {
	m.applying.Lock()
	defer m.applying.Unlock()
	h, err := m.acquire()
	if err != nil {
		return err
	}
	defer h.drop()
	if err := h.store.Read((*store.Reader).Check); err != nil {
		return err
	}
	mem, err := load(h.store)
	if err != nil {
		return err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	switch {
	case mem.applied != m.applied:
		return fmt.Errorf("the state file is at %+v, memory at %+v", mem.applied, m.applied)
	case !reflect.DeepEqual(mem.live, m.live):
		return errors.New("what readers see is not what the state file holds")
	case !reflect.DeepEqual(mem.live, m.ahead):
		return errors.New("what commands see is not what the state file holds")
	}
	return nil
}

// StateCounts counts the jobs on record, open or not, by mutation and refresh state.
func (m *Machine) StateCounts() (counts []store.StateCount, err error) {
	err = m.read(func(r *store.Reader) (err error) {
		counts, err = r.StateCounts()
		return err
	})
	return counts, err
}

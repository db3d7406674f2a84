package fsm

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/hashicorp/raft"

	"github.com/lancemaster/lancemaster/internal/command"
	"github.com/lancemaster/lancemaster/internal/store"
)

// snapshot is the state at one position, held by a read transaction.
type snapshot struct {
	state  *handle
	reader *store.Reader
	once   sync.Once
}

// Snapshot holds the state as it is now. It is quick; Persist does the work.
func (m *Machine) Snapshot() (raft.FSMSnapshot, error) {
	s, err := m.hold()
	if err != nil {
		return nil, err // not a nil *snapshot, which would be an FSMSnapshot
	}
	return s, nil
}

func (m *Machine) hold() (*snapshot, error) {
	// No batch is under way, so the transaction sees what Raft thinks is applied.
	m.applying.Lock()
	defer m.applying.Unlock()
	h, err := m.acquire()
	if err != nil {
		return nil, err
	}
	r, err := h.store.BeginRead()
	if err != nil {
		h.drop()
		return nil, err
	}
	return &snapshot{state: h, reader: r}, nil
}

// Persist streams the snapshot.
func (s *snapshot) Persist(sink raft.SnapshotSink) error {
	if err := s.reader.WriteSnapshot(sink); err != nil {
		return errors.Join(err, sink.Cancel())
	}
	return sink.Close()
}

// Release lets the state go on without the snapshot.
func (s *snapshot) Release() {
	s.once.Do(func() {
		if err := s.reader.Close(); err != nil {
			s.state.logger.Error("cannot end the read transaction of a snapshot", "error", err)
		}
		s.state.drop()
	})
}

// Restore replaces the state with a snapshot's. A snapshot that is damaged, or of
// another cluster, is refused and leaves the state as it was; one that this build
// cannot read ends in Fatal as well, since the node can go no further.
func (m *Machine) Restore(snapshot io.ReadCloser) error {
	first, err := m.restore(snapshot)
	// All has been read and checked, or the restore has failed: closing adds nothing.
	_ = snapshot.Close()
	if first {
		m.tell(err)
	}
	return err
}

// restore does the work. first says that its error stopped the machine.
func (m *Machine) restore(snapshot io.Reader) (first bool, err error) {
	m.applying.Lock()
	defer m.applying.Unlock()
	if err := m.Err(); err != nil {
		return false, err
	}
	received, mem, err := m.receive(snapshot)
	if err != nil {
		unsupported := (*command.UnsupportedError)(nil)
		return errors.As(err, &unsupported) && m.stop(err), err
	}
	if err := received.Install(); err != nil {
		// Which of the two files has the name now is not certain. Both are whole.
		err = errors.Join(err, received.Discard())
		return m.stop(err), err
	}
	m.show(mem, newHandle(received.Store, m.logger))
	return false, nil
}

// receive receives a snapshot beside the state and loads it.
func (m *Machine) receive(snapshot io.Reader) (*store.Received, memory, error) {
	received, err := store.Receive(m.path, snapshot)
	if err != nil {
		return nil, memory{}, err
	}
	mem, err := load(received.Store)
	if ours := m.ahead.Cluster().ClusterID; err == nil && ours != 0 && ours != mem.cluster.ClusterID {
		err = fmt.Errorf("the snapshot is of cluster %d, this node belongs to cluster %d;"+
			" look for a wrong address in the list of members", mem.cluster.ClusterID, ours)
	}
	if err != nil {
		return nil, memory{}, errors.Join(err, received.Discard())
	}
	return received, mem, nil
}

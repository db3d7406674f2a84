package fsm

import (
	"io"

	"github.com/lancemaster/lancemaster/internal/store"
)

// Export is the state at one position, to be written outside of Raft. Like a snapshot
// of Raft's it is held by a read transaction: while it is held, the state file grows
// by what is written meanwhile, so it is written to a disk and released, never to
// whoever reads slowly.
type Export struct {
	Header store.Header
	// Jobs on record, open or not.
	Jobs     int64
	snapshot *snapshot
}

// Export holds the state as it is now. It is quick; Write does the work. The caller
// must Release it.
func (m *Machine) Export() (*Export, error) {
	s, err := m.hold()
	if err != nil {
		return nil, err
	}
	e := &Export{snapshot: s}
	if err := e.describe(); err != nil {
		e.Release()
		return nil, err
	}
	return e, nil
}

func (e *Export) describe() (err error) {
	if e.Header, err = e.snapshot.reader.Header(); err != nil {
		return err
	}
	counts, err := e.snapshot.reader.StateCounts()
	for _, n := range counts {
		e.Jobs += n.Jobs
	}
	return err
}

// Write streams the snapshot, Header.SnapshotSize bytes.
func (e *Export) Write(w io.Writer) error { return e.snapshot.reader.WriteSnapshot(w) }

// Release lets the state go on without it. It may be called again.
func (e *Export) Release() { e.snapshot.Release() }

package raftnode

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft"
)

// Seed is what a cluster of restored data begins with: a snapshot that another log once led to, and
// who belongs to the cluster now.
type Seed struct {
	// Index and Term are those of the last entry in the snapshot. The log goes on behind them.
	Index, Term uint64
	Servers     []Server
	// Write writes the snapshot as the state machine's own Persist does.
	Write func(io.Writer) error
}

// Plant writes a seed to an empty disk, for a node to be started on it later. It refuses a disk that
// belongs to a cluster with ErrHasState. After any other error the disk is of no use.
func (c Config) Plant(s Seed) (err error) {
	c = c.withDefaults()
	// The checks are those of a first member list; nothing else of the node is used.
	members, err := (&Node{config: c}).firstMembers(s.Servers)
	if err != nil {
		return fmt.Errorf("begin with a snapshot: %w", err)
	}
	if s.Index == 0 || s.Term == 0 {
		return fmt.Errorf("begin with a snapshot: it ends at entry %d of term %d, which cannot be", s.Index, s.Term)
	}
	disk, err := openStorage(c, newRaftLogger(c.Logger))
	if err != nil {
		return err
	}
	defer func() {
		if closing := disk.close(); err == nil && closing != nil {
			err = fmt.Errorf("begin with a snapshot: %w", closing)
		}
	}()
	has, err := raft.HasExistingState(disk.logs, disk.stable, disk.snapshots)
	if err == nil && has {
		err = fmt.Errorf("%w: %s", ErrHasState, c.Dir)
	}
	if err == nil {
		err = disk.plant(s, members)
	}
	if err != nil {
		return fmt.Errorf("begin with a snapshot: %w", err)
	}
	return nil
}

func (s *storage) plant(seed Seed, members raft.Configuration) error {
	// The library asks a transport how to write an address down, though nobody reads that any more.
	_, unused := raft.NewInmemTransport("")
	sink, err := s.snapshots.Create(raft.SnapshotVersionMax, seed.Index, seed.Term, members, firstIndex, unused)
	if err != nil {
		return err
	}
	if err := seed.Write(sink); err != nil {
		return errors.Join(err, sink.Cancel())
	}
	if err := sink.Close(); err != nil {
		return err
	}
	if err := syncDir(filepath.Join(s.snapshotPath, sink.ID())); err != nil {
		return err
	}
	// No term before this one can be this node's: in some of them others may have led.
	return s.stable.SetUint64(keyCurrentTerm, seed.Term)
}

// End returns the index and term of the newest entry on a disk, in its log or in a snapshot: of the
// disks of several members the one with the higher term, and at the same term with the higher index,
// has all that the other can have committed. The node must not run.
func (c Config) End() (index, term uint64, err error) {
	err = c.look("the newest entry", func(s *storage) error {
		index, term, err = s.end()
		return err
	})
	return index, term, err
}

// Members returns the newest member list on a disk, in its log or in a snapshot. The node must not run.
func (c Config) Members() (members []Server, err error) {
	err = c.look("the member list", func(s *storage) error {
		members, err = s.members()
		return err
	})
	return members, err
}

// look opens the disk of a node that does not run, to read what is on it.
func (c Config) look(what string, read func(*storage) error) error {
	c = c.withDefaults()
	if _, err := os.Stat(filepath.Join(c.Dir, logFile)); err != nil {
		return fmt.Errorf("look for %s: %w: %w", what, ErrNoState, err)
	}
	disk, err := openStorage(c, newRaftLogger(c.Logger))
	if err == nil {
		err = errors.Join(read(disk), disk.close())
	}
	if err != nil {
		return fmt.Errorf("look for %s: %w", what, err)
	}
	return nil
}

func (s *storage) end() (index, term uint64, err error) {
	snapshots, err := s.snapshots.List()
	if err != nil {
		return 0, 0, err
	}
	if len(snapshots) > 0 {
		index, term = snapshots[0].Index, snapshots[0].Term
	}
	last, err := s.logs.LastIndex()
	if err != nil || last <= index {
		return index, term, err
	}
	var entry raft.Log
	err = s.logs.GetLog(last, &entry)
	return last, entry.Term, err
}

func (s *storage) members() ([]Server, error) {
	snapshots, err := s.snapshots.List()
	if err != nil {
		return nil, err
	}
	var list raft.Configuration
	var begin uint64
	if len(snapshots) > 0 {
		list, begin = snapshots[0].Configuration, snapshots[0].Index
	}
	last, err := s.logs.LastIndex()
	if err != nil {
		return nil, err
	}
	for index := last; index > begin; index-- {
		var entry raft.Log
		if err := s.logs.GetLog(index, &entry); err != nil {
			return nil, fmt.Errorf("entry %d of the log: %w", index, err)
		}
		if entry.Type == raft.LogConfiguration {
			list = raft.DecodeConfiguration(entry.Data)
			break
		}
	}
	if len(list.Servers) == 0 {
		return nil, ErrNoState
	}
	return serversOf(list), nil
}

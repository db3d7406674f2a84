package raftnode

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
	bbolterrors "go.etcd.io/bbolt/errors"
)

const (
	logFile = "raft.db"
	// snapshotDir and unfinished are what raft.FileSnapshotStore calls them.
	snapshotDir = "snapshots"
	unfinished  = ".tmp"
)

// storage is where a node keeps its log, its term and vote, and its snapshots, without any guard.
type storage struct {
	logs      raft.LogStore
	stable    raft.StableStore
	snapshots raft.SnapshotStore
	// logPath and snapshotPath are empty when the storage is not on disk.
	logPath, snapshotPath string
	close                 func() error
}

// openStorage opens the node's disk, and makes what is missing.
func openStorage(c Config, logger hclog.Logger) (*storage, error) {
	if err := makeDir(c.Dir); err != nil {
		return nil, err
	}
	logPath := filepath.Join(c.Dir, logFile)
	// The file is made with mode 0600 by the library.
	bolt, err := raftboltdb.New(raftboltdb.Options{
		Path: logPath,
		BoltOptions: &bbolt.Options{
			Timeout: c.LockTimeout,
			// The list of free pages is rebuilt at the start instead of written at every commit.
			NoFreelistSync: true,
			FreelistType:   bbolt.FreelistMapType,
		},
	})
	if errors.Is(err, bbolterrors.ErrTimeout) {
		return nil, fmt.Errorf("raft log %s is in use by another process; stop that one, or use another data directory", logPath)
	}
	if err != nil {
		if errors.Is(err, os.ErrPermission) {
			return nil, fmt.Errorf("open raft log %s: %w; give it to the user that runs this process", logPath, err)
		}
		return nil, fmt.Errorf("open raft log %s: %w; if the file is damaged, restore the data directory from a backup of this very node,"+
			" or remove the node from the cluster and let it join with an empty data directory", logPath, err)
	}
	s := &storage{
		logs: bolt, stable: bolt, logPath: logPath, close: bolt.Close,
		snapshotPath: filepath.Join(c.Dir, snapshotDir),
	}
	if s.snapshots, err = raft.NewFileSnapshotStoreWithLogger(c.Dir, c.SnapshotRetain, logger); err == nil {
		err = removeUnfinished(s.snapshotPath)
	}
	if err == nil {
		// A vote must not vanish with the file it is in.
		err = syncDir(c.Dir)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open snapshots in %s: %w", c.Dir, err), s.close())
	}
	return s, nil
}

// makeDir makes the data directory, readable by its owner only, and makes its entry durable.
func makeDir(path string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return fmt.Errorf("make data directory: %w", err)
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("make data directory: %w", err)
	}
	if err := syncDir(filepath.Dir(absolute)); err != nil && !errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("make data directory durable: %w", err)
	}
	return nil
}

// removeUnfinished removes snapshots that a crash left half written; nothing else ever would.
func removeUnfinished(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.IsDir() && strings.HasSuffix(entry.Name(), unfinished) {
			if err := os.RemoveAll(filepath.Join(dir, entry.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

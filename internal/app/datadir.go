package app

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/lancemaster/lancemaster/internal/job"
)

// The layout of a data directory.
const (
	stateFile    = "state.db" // what the journal has made so far
	raftDir      = "raft"     // the journal itself, and snapshots
	identityFile = "node.json"
)

// identity says whose data directory this is. A directory belongs to one member
// for ever: its log holds the votes that this member gave.
type identity struct {
	NodeID string `json:"node_id"`
	// InstanceID tells this disk from another one under the same node id.
	InstanceID string `json:"instance_id"`
	// Incarnation and ClusterID are what this node knows of its cluster beside the state: an identity
	// to show before the state has caught up. 0 means not known yet.
	Incarnation int64 `json:"incarnation,omitempty"`
	ClusterID   int32 `json:"cluster_id,omitempty"`
	// RegisteredAt is the journal index at which this disk was registered by the cluster that it
	// joined; 0 for a founder. Instances are the members' disks as of the formation or of joining.
	RegisteredAt uint64            `json:"registered_at,omitempty"`
	Instances    map[string]string `json:"instances,omitempty"`
	// Pending is owed by a node whose directory was restored or recovered: its first leadership
	// journals this before anything else, and clears it afterwards.
	Pending *pendingQuarantine `json:"pending_quarantine,omitempty"`
}

// pendingQuarantine is a Quarantine that is not known to be journaled. It is owed until the state's
// incarnation is at least this one: an incarnation that is further away than the next is reached by
// one Quarantine for each in between, so that the job ids jump past those of all of them.
type pendingQuarantine struct {
	Incarnation int64      `json:"incarnation"`
	Cause       string     `json:"cause"`
	At          job.Millis `json:"at"` // when the directory was restored or recovered
}

// takeDataDir makes the data directory this process's own, until the node has stopped.
func (a *App) takeDataDir() error {
	if err := makeDataDir(a.cfg.DataDir); err != nil {
		return err
	}
	lock, err := lockDataDir(a.cfg.DataDir)
	if err != nil {
		return err
	}
	a.onStop("lock of the data directory", func(context.Context) error { return lock.release() })
	if err := settleDataDir(a.cfg.DataDir, func(string) {}); err != nil {
		return err
	}
	id, err := openDataDir(a.cfg.DataDir, a.cfg.NodeID)
	if err != nil {
		return err
	}
	a.identity = &identityStore{dir: a.cfg.DataDir, id: id, write: func(dir string, id identity) error {
		defer a.disk.Begin("writing the node's identity")()
		return writeIdentity(dir, id)
	}}
	return nil
}

// makeDataDir makes the directory when missing and closes it to others.
func makeDataDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("cannot make the data directory: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("cannot use the data directory: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		if err := os.Chmod(dir, 0o700); err != nil { //nolint:gosec // a directory needs its execute bit
			return fmt.Errorf("others can read the data directory %s, and its mode cannot be changed to 0700: %w", dir, err)
		}
	}
	return nil
}

// openDataDir returns the identity of a directory, which is made and written once when missing. A
// directory of another member is refused.
func openDataDir(dir, nodeID string) (identity, error) {
	if err := makeDataDir(dir); err != nil {
		return identity{}, err
	}
	id, err := readIdentity(dir)
	if errors.Is(err, fs.ErrNotExist) {
		// A node that has data and is started one folder too deep would found a cluster of its own there.
		parent := filepath.Dir(dir)
		if above, err := readIdentity(parent); err == nil && filepath.Clean(dir) != parent {
			return identity{}, fmt.Errorf("the data directory %s is new and lies inside %s, which is the data directory of node %q; "+
				"set data_dir to that one, or to a directory elsewhere for a new node", dir, parent, above.NodeID)
		}
		return newIdentity(dir, nodeID)
	}
	if err != nil {
		return identity{}, err
	}
	return id, ownDataDir(dir, id, nodeID)
}

func ownDataDir(dir string, id identity, nodeID string) error {
	if id.NodeID != nodeID {
		return fmt.Errorf("the data directory %s belongs to node %q, not to %q; correct node_id or data_dir", dir, id.NodeID, nodeID)
	}
	return nil
}

// checkDataDir tells whether a start as this node would be refused the directory, and changes nothing. One that
// is not there, or that the caller may not read, is left to the start.
func checkDataDir(dir, nodeID string) error {
	if id, err := readIdentity(dir); err == nil {
		return ownDataDir(dir, id, nodeID)
	}
	return nil
}

// readIdentity returns a directory's identity; fs.ErrNotExist where it has none.
func readIdentity(dir string) (identity, error) {
	path := filepath.Join(dir, identityFile)
	raw, err := os.ReadFile(path)
	if err != nil {
		return identity{}, fmt.Errorf("cannot read the node's identity: %w", err)
	}
	var id identity
	if err := json.Unmarshal(raw, &id); err != nil || id.NodeID == "" || id.InstanceID == "" {
		return identity{}, fmt.Errorf("%s is damaged; restore it from a backup of this very node, or give the node an empty data directory", path)
	}
	return id, nil
}

func newIdentity(dir, nodeID string) (identity, error) {
	for _, name := range []string{stateFile, raftDir} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return identity{}, fmt.Errorf("the data directory %s has %s but no %s; restore that file from a backup of this very node", dir, name, identityFile)
		}
	}
	id := identity{NodeID: nodeID, InstanceID: newInstanceID()}
	return id, writeIdentity(dir, id)
}

func newInstanceID() string {
	instance := make([]byte, 16)
	_, _ = rand.Read(instance) // never fails, see crypto/rand
	return hex.EncodeToString(instance)
}

// writeIdentity replaces a directory's identity, durably.
func writeIdentity(dir string, id identity) error {
	raw, err := json.Marshal(id)
	if err == nil {
		err = writeDurably(filepath.Join(dir, identityFile), append(raw, '\n'))
	}
	if err != nil {
		return fmt.Errorf("cannot write the node's identity: %w", err)
	}
	return nil
}

// writeDurably replaces a file so that after a crash it is whole: the old one
// or the new one.
func writeDurably(path string, data []byte) (err error) {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, filepath.Base(path)+".tmp-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}()
	if _, err = f.Write(data); err != nil {
		return err
	}
	if err = f.Sync(); err != nil {
		return err
	}
	if err = f.Close(); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), path); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	return d.Sync()
}

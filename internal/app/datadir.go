package app

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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
}

// openDataDir makes the directory when missing and returns its identity, which
// is written once. A directory of another member is refused.
func openDataDir(dir, nodeID string) (identity, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return identity{}, fmt.Errorf("cannot make the data directory: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return identity{}, fmt.Errorf("cannot use the data directory: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		if err := os.Chmod(dir, 0o700); err != nil { //nolint:gosec // a directory needs its execute bit
			return identity{}, fmt.Errorf("others can read the data directory %s, and its mode cannot be changed to 0700: %w", dir, err)
		}
	}
	path := filepath.Join(dir, identityFile)
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return newIdentity(dir, nodeID)
	}
	if err != nil {
		return identity{}, fmt.Errorf("cannot read the node's identity: %w", err)
	}
	var id identity
	if err := json.Unmarshal(raw, &id); err != nil || id.NodeID == "" || id.InstanceID == "" {
		return identity{}, fmt.Errorf("%s is damaged; restore it from a backup of this very node, or give the node an empty data directory", path)
	}
	if id.NodeID != nodeID {
		return identity{}, fmt.Errorf("the data directory %s belongs to node %q, not to %q; correct node_id or data_dir", dir, id.NodeID, nodeID)
	}
	return id, nil
}

func newIdentity(dir, nodeID string) (identity, error) {
	for _, name := range []string{stateFile, raftDir} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return identity{}, fmt.Errorf("the data directory %s has %s but no %s; restore that file from a backup of this very node", dir, name, identityFile)
		}
	}
	instance := make([]byte, 16)
	_, _ = rand.Read(instance) // never fails, see crypto/rand
	id := identity{NodeID: nodeID, InstanceID: hex.EncodeToString(instance)}
	raw, err := json.Marshal(id)
	if err != nil {
		return identity{}, fmt.Errorf("cannot write the node's identity: %w", err)
	}
	if err := writeDurably(filepath.Join(dir, identityFile), append(raw, '\n')); err != nil {
		return identity{}, fmt.Errorf("cannot write the node's identity: %w", err)
	}
	return id, nil
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

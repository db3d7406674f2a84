package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft"

	"github.com/lancemaster/lancemaster/internal/fsm"
	"github.com/lancemaster/lancemaster/internal/raftnode"
)

// RecoverOptions say whose directory becomes the only one of its cluster.
type RecoverOptions struct {
	Offline
	// ExpectCluster is the id of the cluster that the directory must be of; 0 for any.
	ExpectCluster int32
}

// Recover makes a cluster that has lost its quorum for good one of this node alone, as a disk that
// nobody has known before, and that owes a Quarantine. All that this node has counts, also what was
// never committed; what only others have is lost. The work is done on a copy: whenever it ends, the
// directory's former content counts, or the new one with the former kept beside it. It may be run
// again.
func Recover(ctx context.Context, o RecoverOptions) (result *OfflineResult, err error) {
	if err := o.prepare(); err != nil {
		return nil, err
	}
	if info, err := os.Stat(o.DataDir); err == nil && !info.IsDir() {
		return nil, fmt.Errorf("%s is a file; name a member's data directory", o.DataDir)
	} else if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no data directory %s; name a member's own, or restore a snapshot", o.DataDir)
	}
	lock, err := o.lock()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lock.release()) }()
	id, err := o.member()
	if err != nil {
		return nil, err
	}
	plan := OfflinePlan{DataDir: o.DataDir, NodeID: o.NodeID, Address: o.Address, Replaces: true}
	if err := readState(o.DataDir, plan.describeState); err != nil {
		return nil, fmt.Errorf("%w; recover another member's directory, or restore a snapshot", err)
	}
	if o.ExpectCluster != 0 && plan.ClusterID != o.ExpectCluster {
		return nil, fmt.Errorf("the data directory %s is of cluster %d, expected is cluster %d; nothing was changed", o.DataDir, plan.ClusterID, o.ExpectCluster)
	}
	if id.Pending != nil {
		done, err := o.found(id)
		if err != nil {
			return nil, fmt.Errorf("the data directory %s was restored or recovered already, but what is there now cannot be read: %w; recover another member's directory, or restore a snapshot", o.DataDir, err)
		}
		other := o.differs(done)
		if other == "" {
			return &OfflineResult{OfflinePlan: done, InstanceID: id.InstanceID, Already: true}, nil
		}
		if o.Incarnation <= done.NewIncarnation {
			return nil, fmt.Errorf("the data directory %s was restored or recovered already, in incarnation %d at %s, not %s; nothing was changed; name a higher incarnation, %d, to recover it once more",
				o.DataDir, done.NewIncarnation, done.Address, other, done.NewIncarnation+1)
		}
		plan.Again = done.NewIncarnation
	}
	if plan.ClusterID == 0 {
		return nil, fmt.Errorf("the data directory %s has never learned of its cluster's formation: there is nothing to recover", o.DataDir)
	}
	if plan.NewIncarnation, err = o.incarnation(plan.Incarnation, id.known()); err != nil {
		return nil, err
	}
	// The log may tell of more than the state has; that counts too.
	if plan.Index, plan.Term, err = o.raftConfig(o.DataDir).End(); err != nil {
		return nil, err
	}
	if err := o.Confirm(plan); err != nil {
		return nil, err
	}
	cause := func(p OfflinePlan) string {
		if id.Pending != nil {
			return id.Pending.Cause // where the data came from has not changed
		}
		return oneLine(fmt.Sprintf("recovered from the disk of node %s alone, which ends at entry %d, after the quorum was lost", p.NodeID, p.Index))
	}
	return o.replace(cause, func(dir string) (OfflinePlan, error) { return o.build(ctx, dir, plan, id) })
}

// member reads the identity of the member whose directory it is.
func (o *Offline) member() (identity, error) {
	id, err := readIdentity(o.DataDir)
	if err != nil {
		return identity{}, fmt.Errorf("%s is not the data directory of a member: %w", o.DataDir, err)
	}
	if id.NodeID != o.NodeID {
		return identity{}, fmt.Errorf("the data directory %s belongs to node %q, not to %q; correct the node id or the directory", o.DataDir, id.NodeID, o.NodeID)
	}
	for _, name := range dataFiles {
		if _, err := os.Lstat(filepath.Join(o.DataDir, name)); err != nil {
			return identity{}, fmt.Errorf("the data directory lacks %s: %w; recover another member's directory, or restore a snapshot", name, err)
		}
	}
	return id, nil
}

// build makes the new content in dir from a copy of the old.
func (o *RecoverOptions) build(ctx context.Context, dir string, plan OfflinePlan, id identity) (OfflinePlan, error) {
	if err := o.copy(ctx, dir); err != nil {
		return plan, fmt.Errorf("cannot copy the data, which needs as much free space again: %w", err)
	}
	if err := o.recoverCopy(ctx, dir); err != nil {
		return plan, err
	}
	o.step("copy recovered")
	index, term := plan.Index, plan.Term
	err := readState(dir, plan.describeState) // with what the log told besides
	plan.Index, plan.Term = index, term
	if err == nil {
		plan.NewIncarnation, err = o.incarnation(plan.Incarnation, id.known())
	}
	return plan, err
}

func (o *RecoverOptions) copy(ctx context.Context, dir string) error {
	state, err := os.Open(filepath.Join(o.DataDir, stateFile)) //nolint:gosec // the operator names the directory
	if err != nil {
		return err
	}
	if err := errors.Join(copyFile(ctx, state, filepath.Join(dir, stateFile)), state.Close()); err != nil {
		return err
	}
	o.step("state copied")
	if err := copyTree(ctx, filepath.Join(o.DataDir, raftDir), filepath.Join(dir, raftDir)); err != nil {
		return err
	}
	o.step("log copied")
	return nil
}

func (o *RecoverOptions) recoverCopy(ctx context.Context, dir string) error {
	var failed error
	m, err := fsm.Open(fsm.Config{Path: filepath.Join(dir, stateFile), Logger: o.Logger, Fatal: func(err error) { failed = err }})
	if err != nil {
		return err
	}
	c := o.raftConfig(dir)
	c.FSM = m
	c.Prepare = func(l raft.LogStore, s raft.SnapshotStore) error { return m.Prepare(l, s) }
	err = raftnode.Recover(ctx, c, o.alone())
	if err == nil {
		err = m.Err()
	}
	if failed != nil {
		err = errors.Join(failed, err)
	}
	return errors.Join(err, m.Close())
}

// copyTree copies a directory with all in it.
func copyTree(ctx context.Context, from, to string) error {
	source := os.DirFS(from)
	return fs.WalkDir(source, ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(to, filepath.FromSlash(path))
		switch {
		case e.IsDir():
			return os.Mkdir(target, 0o700)
		case !e.Type().IsRegular():
			return fmt.Errorf("%s in %s is no regular file", path, from)
		}
		in, err := source.Open(path)
		if err != nil {
			return err
		}
		return errors.Join(copyFile(ctx, in, target), in.Close())
	})
}

// copyFile copies what a file holds to one that must not be there.
func copyFile(ctx context.Context, from io.Reader, to string) error {
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, endingReader{ctx, from})
	return errors.Join(err, out.Close())
}

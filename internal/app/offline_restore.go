package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/lancemaster/lancemaster/internal/raftnode"
	"github.com/lancemaster/lancemaster/internal/store"
)

// RestoreOptions say what is restored to where.
type RestoreOptions struct {
	Offline
	// File is a snapshot file.
	File string
	// ExpectCluster is the id of the cluster that the file must be of; 0 for any.
	ExpectCluster int32
	// Replace allows a directory with content of the very same node and cluster. The content is kept
	// in a directory inside it.
	Replace bool
}

// Restore makes a data directory of a snapshot file: a cluster of this node alone that goes on where
// the snapshot ends, as a disk that nobody has known before, and that owes a Quarantine. Whenever it
// ends, the directory's former content counts or the new one. It may be run again: that changes nothing,
// and is refused where it asks for another incarnation or address, unless what is there may be replaced.
func Restore(ctx context.Context, o RestoreOptions) (*OfflineResult, error) {
	if err := o.prepare(); err != nil {
		return nil, err
	}
	f, err := os.Open(o.File)
	if err != nil {
		return nil, fmt.Errorf("cannot read the snapshot file: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	saved, sum, err := verified(fileWith(ctx, f))
	if err != nil {
		return nil, fmt.Errorf("%s is refused: %w", o.File, err)
	}
	if have := saved.header.ClusterID; o.ExpectCluster != 0 && o.ExpectCluster != have {
		return nil, fmt.Errorf("%s is refused: it is of cluster %d, expected is cluster %d; nothing was changed", o.File, have, o.ExpectCluster)
	}
	r := &restoring{RestoreOptions: o, saved: saved, cause: oneLine(fmt.Sprintf("restored from a snapshot that ends at entry %d, made at %s by node %s, sha256 %s",
		saved.header.Applied.Index, time.UnixMilli(int64(saved.CreatedAt)).UTC().Format(time.RFC3339), saved.NodeID, hex.EncodeToString(sum[:8])))}
	return r.run()
}

// verified reads all of a snapshot file and returns the sum that it ends with.
func verified(file io.ReadSeeker) (*savedSnapshot, []byte, error) {
	saved, err := openSaved(file)
	if err != nil {
		return nil, nil, err
	}
	if err := saved.verify(); err != nil {
		return nil, nil, err
	}
	sum := make([]byte, sha256.Size)
	if _, err := file.Seek(-int64(len(sum)), io.SeekEnd); err != nil {
		return nil, nil, err
	}
	_, err = io.ReadFull(file, sum)
	return saved, sum, err
}

// restoring is a restore under way.
type restoring struct {
	RestoreOptions
	saved *savedSnapshot
	cause string
}

func (r *restoring) run() (result *OfflineResult, err error) {
	_, err = os.Stat(r.DataDir)
	fresh := errors.Is(err, fs.ErrNotExist)
	if err != nil && !fresh {
		return nil, fmt.Errorf("cannot use the data directory: %w", err)
	}
	if fresh {
		// A refusal, or an operator's no, leaves no directory behind.
		plan, err := r.plan(place{})
		if err == nil {
			err = r.Confirm(plan)
		}
		if err == nil {
			err = makeDataDir(r.DataDir)
		}
		if err == nil {
			err = syncParent(r.DataDir)
		}
		if err != nil {
			return nil, err
		}
	}
	lock, err := r.lock()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lock.release()) }()
	at, err := r.look()
	if err != nil {
		return nil, err
	}
	plan, err := r.plan(at)
	if err != nil {
		return nil, err
	}
	if at.done != nil {
		return &OfflineResult{OfflinePlan: plan, InstanceID: at.id.InstanceID, Already: true}, nil
	}
	if !fresh {
		if err := r.Confirm(plan); err != nil {
			return nil, err
		}
	}
	return r.replace(func(OfflinePlan) string { return r.cause }, func(dir string) (OfflinePlan, error) { return r.build(dir, plan) })
}

func (r *restoring) plan(at place) (OfflinePlan, error) {
	h := r.saved.header
	if at.done != nil {
		p := *at.done
		p.CreatedAt, p.CreatedBy = int64(r.saved.CreatedAt), r.saved.NodeID
		return p, nil
	}
	p := OfflinePlan{
		DataDir: r.DataDir, NodeID: r.NodeID, Address: r.Address, ClusterID: h.ClusterID, Incarnation: h.Incarnation,
		Index: h.Applied.Index, Term: h.Applied.Term, CreatedAt: int64(r.saved.CreatedAt), CreatedBy: r.saved.NodeID, Replaces: at.used,
		Uncertain: !at.used && r.Incarnation == 0,
	}
	if at.id.Pending != nil {
		p.Again = at.id.Pending.Incarnation
	}
	var err error
	p.NewIncarnation, err = r.incarnation(h.Incarnation, at.incarnation)
	return p, err
}

// place is what is where the data goes.
type place struct {
	used        bool
	id          identity
	incarnation int64        // the highest that is known there
	done        *OfflinePlan // what is there where it is all that is asked for
}

// look refuses a directory whose content is somebody else's, or not to be replaced.
func (r *restoring) look() (place, error) {
	foreign, err := foreignNames(r.DataDir)
	if err != nil {
		return place{}, fmt.Errorf("cannot use the data directory: %w", err)
	}
	var have []string
	for _, name := range dataFiles {
		if _, err := os.Lstat(filepath.Join(r.DataDir, name)); err == nil {
			have = append(have, name)
		}
	}
	if len(have) == 0 {
		if len(foreign) > 0 {
			return place{}, fmt.Errorf("the data directory %s is not empty: it holds %s; name an empty one", r.DataDir, strings.Join(foreign, ", "))
		}
		return place{}, nil
	}
	if !slices.Contains(have, identityFile) {
		return place{}, fmt.Errorf("the data directory %s has %s but no %s, so that nobody can tell whose it is; move its content away, or name an empty directory",
			r.DataDir, strings.Join(have, " and "), identityFile)
	}
	id, err := readIdentity(r.DataDir)
	if err != nil {
		return place{}, fmt.Errorf("%w; or move the directory's content away", err)
	}
	if id.NodeID != r.NodeID {
		return place{}, fmt.Errorf("the data directory %s belongs to node %q, not to %q; correct the node id or the directory", r.DataDir, id.NodeID, r.NodeID)
	}
	at := place{used: true, id: id, incarnation: id.known()}
	if id.Pending != nil && id.Pending.Cause == r.cause && len(have) == len(dataFiles) {
		if err := r.lookAtDone(&at); err != nil || at.done != nil {
			return at, err
		}
	}
	return at, r.lookAtState(&at)
}

// lookAtDone looks at what an earlier run has made of this very file. It is replaced as any other
// content where it is not what is asked for.
func (r *restoring) lookAtDone(at *place) error {
	done, err := r.found(at.id)
	other := r.differs(done)
	switch {
	case err == nil && other == "":
		at.done = &done
	case r.Replace:
	case err != nil:
		return fmt.Errorf("this snapshot was restored to %s already, but what is there now cannot be read: %w; with --replace it is restored once more, and that is kept in a directory inside it",
			r.DataDir, err)
	default:
		return fmt.Errorf("this snapshot was restored to %s already, in incarnation %d at %s, not %s; nothing was changed; "+
			"with --replace, and an incarnation above %d or none, it is restored once more and what is there is kept in a directory inside it; or name an empty directory",
			r.DataDir, done.NewIncarnation, done.Address, other, done.NewIncarnation)
	}
	return nil
}

func (r *restoring) lookAtState(at *place) error {
	if !r.Replace {
		return fmt.Errorf("the data directory %s belongs to node %q; with --replace its content is kept in a directory inside it and the snapshot takes its place",
			r.DataDir, r.NodeID)
	}
	cluster := at.id.ClusterID
	if _, err := os.Stat(filepath.Join(r.DataDir, stateFile)); err == nil {
		var h store.Header
		err := readState(r.DataDir, func(s *store.Reader) (err error) { h, err = s.Header(); return err })
		switch {
		case err == nil && h.ClusterID != 0:
			cluster, at.incarnation = h.ClusterID, max(at.incarnation, h.Incarnation)
		case err != nil && cluster == 0:
			return fmt.Errorf("of which cluster the data directory is cannot be told: %w; move its content away, or name an empty directory", err)
		case err != nil:
			// A damaged state is what backups are for; the identity knows what matters.
			r.Logger.Warn("the state that is replaced cannot be read", "error", err)
		}
	}
	if cluster != r.saved.header.ClusterID {
		return fmt.Errorf("the data directory %s belongs to cluster %d, the snapshot to cluster %d; correct the directory or the file, or move the directory's content away",
			r.DataDir, cluster, r.saved.header.ClusterID)
	}
	return nil
}

// build makes the new content in dir.
func (r *restoring) build(dir string, plan OfflinePlan) (OfflinePlan, error) {
	pages, err := r.saved.state()
	if err != nil {
		return plan, err
	}
	received, err := store.Receive(filepath.Join(dir, stateFile), pages)
	if err != nil {
		return plan, err
	}
	r.step("state received")
	// What the checksums cannot tell: whether this build can read all of it.
	err = received.Store.Read((*store.Reader).Check)
	if err == nil {
		err = received.Store.Read(plan.describeState)
	}
	if err != nil {
		return plan, errors.Join(fmt.Errorf("the snapshot does not hold together: %w", err), received.Discard())
	}
	if err := received.Install(); err != nil {
		return plan, errors.Join(err, received.Discard())
	}
	if err := received.Store.Close(); err != nil {
		return plan, err
	}
	r.step("state in place")
	return plan, r.raftConfig(dir).Plant(raftnode.Seed{
		Index: plan.Index, Term: plan.Term, Servers: r.alone(),
		Write: func(w io.Writer) error {
			pages, err := r.saved.state()
			if err != nil {
				return err
			}
			_, err = io.Copy(w, pages)
			return err
		},
	})
}

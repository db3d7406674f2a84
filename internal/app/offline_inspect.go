package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/store"
)

// SnapshotContent is what a snapshot file holds. Times are in milliseconds since 1970.
type SnapshotContent struct {
	CreatedAt int64
	CreatedBy string // the node
	Version   string // of the program that wrote it
	Size      int64  // of the file, in bytes
	SHA256    string // of the snapshot in it, as its last bytes say it

	FileSHA256 string // of the whole file

	ClusterID   int32
	FormedAt    int64
	Incarnation int64
	Level       int32
	Index, Term uint64 // of the newest entry
	Quarantined bool

	Jobs     []StateCount // by state, in the order of the states
	OpenJobs int
	Members  []SnapshotMember
	Catalogs []SnapshotCatalog
	Backends []SnapshotBackend
	Settings []SnapshotSetting // that differ from their defaults
	Tokens   int               // access tokens; their texts are in no snapshot
}

// StateCount counts jobs by mutation and refresh state.
type StateCount struct {
	State, Refresh string
	Jobs           int64
}

// SnapshotMember is a registered master.
type SnapshotMember struct{ NodeID, InstanceID, Address string }

// SnapshotCatalog is a catalog, without its options.
type SnapshotCatalog struct{ Name, Store, Refresher string }

// SnapshotBackend is a registered backend.
type SnapshotBackend struct {
	ID      int64
	Address string
	State   string
}

// SnapshotSetting is a setting in force and what this build has for a default.
type SnapshotSetting struct{ Name, Value, Default string }

// InspectSnapshot reads all of a snapshot file, holds it to its checksums and says what it holds. It
// needs room for its content in the directory for temporary files.
func InspectSnapshot(ctx context.Context, path string) (*SnapshotContent, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the snapshot file: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("cannot read the snapshot file: %w", err)
	}
	saved, sum, err := verified(fileWith(ctx, f))
	if err != nil {
		return nil, fmt.Errorf("%s is refused: %w", path, err)
	}
	c := &SnapshotContent{
		CreatedAt: int64(saved.CreatedAt), CreatedBy: saved.NodeID, Version: saved.Version, Size: info.Size(), SHA256: hex.EncodeToString(sum),
		ClusterID: saved.header.ClusterID, Incarnation: saved.header.Incarnation, Level: saved.header.Level,
		Index: saved.header.Applied.Index, Term: saved.header.Applied.Term,
	}
	if err := c.open(saved); err != nil {
		return c, err
	}
	if c.FileSHA256, err = sumOf(ctx, f); err != nil {
		return nil, fmt.Errorf("cannot read the snapshot file: %w", err)
	}
	return c, nil
}

// sumOf is the sum over all of a file, as sha256sum has it.
func sumOf(ctx context.Context, f *os.File) (string, error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, endingReader{ctx, f}); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// open looks into the pages.
func (c *SnapshotContent) open(saved *savedSnapshot) (err error) {
	dir, err := os.MkdirTemp("", "lancemaster-inspect-")
	if err != nil {
		return fmt.Errorf("cannot unpack the snapshot: %w; TMPDIR names another directory for it", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	pages, err := saved.state()
	if err != nil {
		return err
	}
	received, err := store.Receive(filepath.Join(dir, stateFile), pages)
	if err != nil {
		return fmt.Errorf("cannot unpack the snapshot to %s: %w", dir, err)
	}
	err = received.Store.Read((*store.Reader).Check)
	if err != nil {
		err = fmt.Errorf("the snapshot does not hold together: %w", err)
	} else {
		err = received.Store.Read(c.read)
	}
	return errors.Join(err, received.Discard())
}

func (c *SnapshotContent) read(r *store.Reader) error {
	for _, part := range []func(*store.Reader) error{c.readCluster, c.readJobs, c.readRegistries, c.readSettings} {
		if err := part(r); err != nil {
			return err
		}
	}
	return nil
}

func (c *SnapshotContent) readCluster(r *store.Reader) error {
	cluster, err := r.Cluster()
	if err != nil {
		return err
	}
	c.FormedAt, c.Quarantined = int64(cluster.FormedAt), cluster.Quarantined
	members, err := r.Members()
	for _, m := range members {
		c.Members = append(c.Members, SnapshotMember{m.NodeID, m.InstanceID, m.Address})
	}
	if err != nil {
		return err
	}
	tokens, err := r.Tokens()
	c.Tokens = len(tokens)
	return err
}

func (c *SnapshotContent) readJobs(r *store.Reader) error {
	counts, err := r.StateCounts()
	if err != nil {
		return err
	}
	for _, n := range counts {
		c.Jobs = append(c.Jobs, StateCount{n.State.String(), n.Refresh.String(), n.Jobs})
	}
	jobs, err := r.LiveJobs()
	for _, j := range jobs {
		if j.Open() {
			c.OpenJobs++
		}
	}
	return err
}

func (c *SnapshotContent) readRegistries(r *store.Reader) error {
	catalogs, err := r.Catalogs()
	if err != nil {
		return err
	}
	for _, v := range catalogs {
		c.Catalogs = append(c.Catalogs, SnapshotCatalog{v.Name, v.Store, string(v.Refresher.Kind)})
	}
	backends, err := r.Backends()
	for _, v := range backends {
		c.Backends = append(c.Backends, SnapshotBackend{
			ID: int64(v.ID), Address: v.Address.Host + ":" + strconv.Itoa(int(v.Address.BePort)), State: v.State.String(),
		})
	}
	return err
}

func (c *SnapshotContent) readSettings(r *store.Reader) error {
	settings, err := r.Settings()
	if err != nil {
		return err
	}
	defaults := map[string]string{}
	for _, d := range job.DefaultSettings() {
		defaults[d.Name] = d.Value
	}
	for _, s := range settings {
		if s.New != defaults[s.Name] {
			c.Settings = append(c.Settings, SnapshotSetting{s.Name, s.New, defaults[s.Name]})
		}
	}
	return nil
}

package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/raftnode"
	"github.com/lancemaster/lancemaster/internal/store"
)

// What follows works on the data directory of a node that does not run.

// Offline says which node's directory is worked on.
type Offline struct {
	DataDir string
	NodeID  string
	// Address is the host:port under which other members will reach the node's Raft port.
	Address string
	// Incarnation is the one that begins; 0 means the next after the highest that is found.
	Incarnation int64
	// Confirm is shown what will happen before anything is changed. Its error is the operation's.
	Confirm func(OfflinePlan) error
	// Logger gets the lines of Raft and of the state machine (default: none).
	Logger *slog.Logger

	now  func() time.Time
	step func(name string) // tests end the process in it
}

// OfflinePlan is what will happen to a data directory.
type OfflinePlan struct {
	DataDir string
	NodeID  string
	Address string
	// ClusterID and Incarnation are the data's; NewIncarnation will begin.
	ClusterID      int32
	Incarnation    int64
	NewIncarnation int64
	Index, Term    uint64 // of the newest entry in the data
	OpenJobs       int
	// Unsettled are the open jobs that are PENDING or RUNNING: they will be UNKNOWN.
	Unsettled int
	Members   []string // the node ids that the data knows
	// CreatedAt and CreatedBy are a snapshot file's: when, in milliseconds, and by which node.
	CreatedAt int64
	CreatedBy string
	// Replaces says that the directory has content, which is kept in a directory inside it.
	Replaces bool
	// Again is the incarnation that an earlier restore or recovery of the directory owes still, and
	// that is passed over; 0 where none is.
	Again int64
	// Uncertain says that NewIncarnation is counted from a snapshot file alone: neither the directory nor
	// the caller tells of later ones.
	Uncertain bool
}

// OfflineResult is what has happened.
type OfflineResult struct {
	OfflinePlan
	InstanceID string
	// KeptIn is the directory with the former content; empty where there was none.
	KeptIn string
	// Already says that an earlier run had done all of it, and nothing was changed now, but for
	// finishing what that run had begun. The plan is what is there then.
	Already bool
}

func (o *Offline) prepare() error {
	if o.now == nil {
		o.now = time.Now
	}
	if o.step == nil {
		o.step = func(string) {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Confirm == nil {
		o.Confirm = func(OfflinePlan) error { return nil }
	}
	switch {
	case o.DataDir == "":
		return errors.New("the data directory is not named")
	case o.NodeID == "":
		return errors.New("the node is not named")
	case o.Address == "":
		return errors.New("the node's Raft address is not known")
	case o.Incarnation < 0:
		return fmt.Errorf("incarnation %d is negative", o.Incarnation)
	}
	return nil
}

// lock takes the directory for this process and settles what a crash has left in it.
func (o *Offline) lock() (*dataLock, error) {
	lock, err := lockDataDir(o.DataDir)
	if err != nil {
		return nil, err
	}
	err = unusedFiles(o.DataDir)
	if err == nil {
		err = settleDataDir(o.DataDir, o.step)
	}
	if err != nil {
		return nil, errors.Join(err, lock.release())
	}
	return lock, nil
}

// unusedFiles refuses files that somebody uses without holding the directory's lock.
func unusedFiles(dir string) error {
	for _, name := range []string{stateFile, filepath.Join(raftDir, "raft.db")} {
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("cannot use the data directory: %w", err)
		}
		err = takeLock(f)
		_ = f.Close() // nothing was written
		if errors.Is(err, errLocked) {
			return fmt.Errorf("another process uses the data directory %s: it holds the lock of %s; stop that process", dir, name)
		}
		if err != nil {
			return fmt.Errorf("cannot use the data directory: %s: %w", name, err)
		}
	}
	return nil
}

// incarnation is the one that is to begin after those that are known.
func (o *Offline) incarnation(known ...int64) (int64, error) {
	var highest int64
	for _, n := range known {
		highest = max(highest, n)
	}
	if o.Incarnation == 0 {
		return highest + 1, nil
	}
	if o.Incarnation <= highest {
		return 0, fmt.Errorf("incarnation %d has been: the data knows of %d; leave it out or name a higher one", o.Incarnation, highest)
	}
	if o.Incarnation > highest+maxIncarnationJump {
		return 0, fmt.Errorf("incarnation %d is too far from %d, which the data knows of; at most %d are skipped", o.Incarnation, highest, maxIncarnationJump)
	}
	return o.Incarnation, nil
}

// maxIncarnationJump keeps a mistyped incarnation from using up the job ids.
const maxIncarnationJump = 1000

// known is what a directory's identity tells of incarnations.
func (id identity) known() int64 {
	if id.Pending != nil {
		return max(id.Incarnation, id.Pending.Incarnation)
	}
	return id.Incarnation
}

// describeState fills in what a state says.
func (p *OfflinePlan) describeState(r *store.Reader) error {
	h, err := r.Header()
	if err != nil {
		return err
	}
	p.ClusterID, p.Incarnation, p.Index, p.Term = h.ClusterID, h.Incarnation, h.Applied.Index, h.Applied.Term
	members, err := r.Members()
	if err != nil {
		return err
	}
	p.Members = nil
	for _, m := range members {
		p.Members = append(p.Members, m.NodeID)
	}
	jobs, err := r.LiveJobs()
	if err != nil {
		return err
	}
	p.OpenJobs, p.Unsettled = 0, 0
	for _, j := range jobs {
		if j.Open() {
			p.OpenJobs++
		}
		if !j.State.Terminal() {
			p.Unsettled++
		}
	}
	return nil
}

// readState shows f the state file of a directory.
func readState(dir string, f func(*store.Reader) error) error {
	s, err := store.Open(filepath.Join(dir, stateFile))
	if err != nil {
		return err
	}
	return errors.Join(s.Read(f), s.Close())
}

// replace puts new content in a data directory's place. build makes all of it but the identity, in
// the directory that it is given, and says of which cluster it is and which incarnation begins.
func (o *Offline) replace(cause func(OfflinePlan) string, build func(dir string) (OfflinePlan, error)) (*OfflineResult, error) {
	result, err := o.buildAndMove(cause, build)
	if err != nil {
		// Before the move has begun this takes the room back; after it, it finishes the move.
		if settling := settleDataDir(o.DataDir, o.step); settling != nil {
			err = errors.Join(err, settling)
		}
		return nil, err
	}
	return result, nil
}

func (o *Offline) buildAndMove(cause func(OfflinePlan) string, build func(dir string) (OfflinePlan, error)) (*OfflineResult, error) {
	dir := filepath.Join(o.DataDir, unfinishedDir)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	o.step("directory made")
	plan, err := build(dir)
	if err != nil {
		return nil, err
	}
	o.step("content built")
	id := identity{
		NodeID: o.NodeID, InstanceID: newInstanceID(), ClusterID: plan.ClusterID, Incarnation: plan.NewIncarnation,
		Pending: &pendingQuarantine{Incarnation: plan.NewIncarnation, Cause: cause(plan), At: job.Millis(o.now().UnixMilli())},
	}
	id.Instances = map[string]string{id.NodeID: id.InstanceID}
	if err := writeIdentity(dir, id); err != nil {
		return nil, err
	}
	if err := syncTree(dir); err != nil {
		return nil, err
	}
	o.step("identity written")
	m := move{}
	if m.Aside, err = asideName(o.DataDir, o.now()); err != nil {
		return nil, err
	}
	if err := commitMove(o.DataDir, m, o.step); err != nil {
		return nil, err
	}
	o.step("move durable")
	if err := settleDataDir(o.DataDir, o.step); err != nil {
		return nil, err
	}
	result := &OfflineResult{OfflinePlan: plan, InstanceID: id.InstanceID}
	if plan.Replaces {
		result.KeptIn = filepath.Join(o.DataDir, m.Aside)
	}
	return result, nil
}

// raftConfig is enough of a node's configuration to work on its disk.
func (o *Offline) raftConfig(dir string) raftnode.Config {
	return raftnode.Config{ID: o.NodeID, Dir: filepath.Join(dir, raftDir), Logger: o.Logger}
}

func (o *Offline) alone() []raftnode.Server {
	return []raftnode.Server{{ID: o.NodeID, Address: o.Address, Voter: true}}
}

// endingReader makes reading end with a context.
type endingReader struct {
	ctx context.Context // io.Reader has no argument for it
	io.Reader
}

func (r endingReader) Read(p []byte) (int, error) {
	if err := context.Cause(r.ctx); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}

// endingFile is a file whose reading ends with a context.
type endingFile struct {
	endingReader
	io.Seeker
}

func fileWith(ctx context.Context, f *os.File) endingFile { return endingFile{endingReader{ctx, f}, f} }

// maxCause bounds what is journaled of where data came from, in bytes.
const maxCause = 1024

// oneLine makes a cause of a text that may hold anything.
func oneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text)
	return strings.ToValidUTF8(text[:min(len(text), maxCause)], "")
}

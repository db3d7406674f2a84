package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/lancemaster/lancemaster/internal/client"
)

const (
	// saveAttempts bounds how often a snapshot is begun anew when the master that had it is gone.
	saveAttempts = 3
	// saveEnd bounds how long a master is told that its snapshot has been read.
	saveEnd = 5 * time.Second
	// codeNotFound is a master's answer to a snapshot that it does not have (any more).
	codeNotFound = "NOT_FOUND"
)

const saveLong = `Save a snapshot of all that the masters know to a file. It is the leader's state behind a barrier, so that
all that was acknowledged before is in it; with --stale it is one master's own, which spares the leader.
Jobs are admitted and sent meanwhile.

The file is written beside its place under the name FILE.tmp, checked by size and SHA-256, made durable and
only then given its name, with mode 0600: it holds no secrets, but names, places and the hashes of access
tokens. The master needs as much free space in its data directory as its state has.

`

func (a *cli) snapshotSaveCmd() *cobra.Command {
	var force bool
	cmd := a.staleRead(a.leaf(&cobra.Command{
		Use:   "save FILE",
		Short: "Save a snapshot of all that the masters know to a file",
		Long:  saveLong + exitPlain,
		Example: `  lancemaster snapshot save backup.lms
  lancemaster snapshot save --force --stale --addr 10.0.0.2:9021 /backup/latest.lms`,
	}, func(ctx context.Context, _ *cobra.Command, args []string) error {
		return a.withClient(func(c *client.Client) error {
			info, err := saveSnapshot(ctx, c, args[0], force)
			if err != nil {
				return err
			}
			return a.print(savedFile{args[0], info}, func(out *page) {
				fmt.Fprintf(out, "saved %s\n", clean(args[0]))
				k := newCard(out)
				k.addf("cluster", "%d, incarnation %d, feature level %d", info.ClusterID, info.Incarnation, info.FeatureLevel)
				k.addf("ends at", "entry %d of term %d", info.RaftIndex, info.RaftTerm)
				k.addf("jobs", "%d", info.Jobs)
				k.addf("made", "%s by %s", moment(info.CreatedAt), info.NodeID)
				k.addf("size", "%d bytes", info.Size)
				k.add("sha256", info.SHA256)
				k.end()
			})
		})
	}))
	cmd.Flags().BoolVar(&force, "force", false, "replace FILE if it is there")
	return cmd
}

// savedFile is what save prints.
type savedFile struct {
	File string `json:"file"`
	*client.SnapshotInfo
}

// snapshotSource is what save needs of a client.
type snapshotSource interface {
	SnapshotBegin(ctx context.Context) (*client.SnapshotInfo, error)
	SnapshotRead(ctx context.Context, s *client.SnapshotInfo, offset int64, limit int) ([]byte, error)
	SnapshotEnd(ctx context.Context, s *client.SnapshotInfo) error
}

// saveSnapshot saves a snapshot as a file, whole or not at all.
func saveSnapshot(ctx context.Context, c snapshotSource, path string, force bool) (info *client.SnapshotInfo, err error) {
	if err := free(path, force); err != nil {
		return nil, err
	}
	unfinished := path + ".tmp"
	if err := os.Remove(unfinished); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot remove what an interrupted save left: %w", err)
	}
	f, err := os.OpenFile(unfinished, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot write the snapshot: %w", err)
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(unfinished)
		}
	}()
	if info, err = download(ctx, c, f); err != nil {
		return nil, err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return nil, fmt.Errorf("cannot write the snapshot: %w", err)
	}
	if err := free(path, force); err != nil {
		return nil, err
	}
	if err := os.Rename(unfinished, path); err != nil {
		return nil, fmt.Errorf("cannot write the snapshot: %w", err)
	}
	return info, syncParent(path)
}

// free refuses a file that is there.
func free(path string, force bool) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("cannot write the snapshot: %w", err)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file; name a file", path)
	case !force:
		return fmt.Errorf("%s is there already and was left as it is; name another file or give --force", path)
	}
	return nil
}

// download reads a snapshot from the masters. One that is gone in the middle, with the master that
// made it, is begun anew.
func download(ctx context.Context, c snapshotSource, f *os.File) (*client.SnapshotInfo, error) {
	for attempt := 1; ; attempt++ {
		info, err := downloadOnce(ctx, c, f)
		failed := (*client.Error)(nil)
		if err == nil || attempt == saveAttempts || !errors.As(err, &failed) || failed.Code != codeNotFound {
			return info, err
		}
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return nil, fmt.Errorf("cannot write the snapshot: %w", err)
		}
		if err := f.Truncate(0); err != nil {
			return nil, fmt.Errorf("cannot write the snapshot: %w", err)
		}
	}
}

func downloadOnce(ctx context.Context, c snapshotSource, w io.Writer) (*client.SnapshotInfo, error) {
	info, err := c.SnapshotBegin(ctx)
	if err != nil {
		return nil, err
	}
	defer func() {
		// It would be given up by itself; that it is done is told as a courtesy.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveEnd)
		defer cancel()
		_ = c.SnapshotEnd(ctx, info)
	}()
	sum := sha256.New()
	for done := int64(0); done < info.Size; {
		part, err := c.SnapshotRead(ctx, info, done, client.MaxSnapshotChunk)
		if err != nil {
			return nil, err
		}
		if len(part) == 0 || int64(len(part)) > info.Size-done {
			return nil, badSnapshot("it has another size than was announced", info)
		}
		if _, err := io.MultiWriter(w, sum).Write(part); err != nil {
			return nil, fmt.Errorf("cannot write the snapshot: %w", err)
		}
		done += int64(len(part))
	}
	return info, checkSum(sum, info)
}

func checkSum(sum hash.Hash, info *client.SnapshotInfo) error {
	if got := hex.EncodeToString(sum.Sum(nil)); got != info.SHA256 {
		return badSnapshot("its SHA-256 sum is not the one that was announced", info)
	}
	return nil
}

func badSnapshot(why string, info *client.SnapshotInfo) error {
	return &client.Error{
		Code: client.CodeBadReply, Message: fmt.Sprintf("the snapshot that %s gave is refused: %s; nothing was saved", info.NodeID, why), Next: "save it again",
	}
}

// syncParent makes a file's name durable.
func syncParent(path string) error {
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("cannot make the file's name durable: %w", err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("cannot make the file's name durable: %w", err)
	}
	return nil
}

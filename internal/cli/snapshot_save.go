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

	"github.com/lancemaster/lancemaster/internal/app"
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

The file is written beside its place under a name of its own, FILE.tmp-NUMBER, checked by size and SHA-256,
made durable and only then given its name, with mode 0600: it holds no secrets, but names, places and the
hashes of access tokens. A save that is killed leaves FILE.tmp-NUMBER, which is no backup; nothing else ever
uses it or removes it. The master needs as much free space in its data directory as its state has.

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
	cmd.Flags().BoolVar(&force, "force", false, "replace FILE if it is there and is a snapshot or empty; another file is never replaced")
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

// saveSnapshot saves a snapshot as a file, whole or not at all. The unfinished file's name is this
// save's alone, so that another save to the same path, at the same time or before, can neither take it
// away nor put something else under it.
func saveSnapshot(ctx context.Context, c snapshotSource, path string, force bool) (info *client.SnapshotInfo, err error) {
	if err := free(path, force); err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".tmp-*") // mode 0600
	if err != nil {
		return nil, cannotWrite(path, err)
	}
	defer func() {
		if err != nil && stands(f) {
			_ = os.Remove(f.Name())
		}
		_ = f.Close()
	}()
	if info, err = download(ctx, c, f); err != nil {
		return nil, err
	}
	if err := f.Sync(); err != nil {
		return nil, cannotWrite(path, err)
	}
	if err := free(path, force); err != nil {
		return nil, err
	}
	if err := nameFile(f, path, force); err != nil {
		return nil, err
	}
	return info, syncParent(path)
}

// nameFile gives a finished file its name: the very file that was written, whatever its unfinished name
// stands for by now. Without force nothing is replaced, not even what came a moment ago.
func nameFile(f *os.File, path string, force bool) error {
	if !stands(f) {
		return fmt.Errorf("cannot write the snapshot: another program took %s away; save it again", f.Name())
	}
	if !force {
		switch err := os.Link(f.Name(), path); {
		case err == nil:
			return os.Remove(f.Name())
		case errors.Is(err, fs.ErrExist):
			return isThere(path)
		} // a file system without hard links: free has looked
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return cannotWrite(path, err)
	}
	return nil
}

// stands reports whether a file's name still stands for it.
func stands(f *os.File) bool {
	written, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(f.Name())
	return err == nil && os.SameFile(written, there)
}

func isThere(path string) error {
	return fmt.Errorf("%s is there already and was left as it is; name another file or give --force", path)
}

// cannotWrite leaves the unfinished file's name, which says nothing to anybody, out of an error.
func cannotWrite(path string, err error) error {
	if inner := (*fs.PathError)(nil); errors.As(err, &inner) {
		err = inner.Err
	} else if inner := (*os.LinkError)(nil); errors.As(err, &inner) {
		err = inner.Err
	}
	return fmt.Errorf("cannot write the snapshot as %s: %w", path, err)
}

// free refuses a path whose file is not to be replaced. With force a snapshot or an empty file is.
func free(path string, force bool) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return cannotWrite(path, err)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file; name a file", path)
	case !force:
		return isThere(path)
	case info.Size() == 0:
		return nil
	}
	saved, err := app.IsSnapshotFile(path)
	if err == nil && !saved {
		err = errors.New("it is not a file that lancemaster snapshot save has written")
	}
	if err != nil {
		return fmt.Errorf("%s was left as it is: %w; name another file", path, err)
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

package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/lancemaster/lancemaster/internal/command"
)

// format is the layout described in doc.go. Another layout gets another number.
const format byte = 1

// initialMapSize is address space, not memory or disk. bbolt must map the file
// anew when it outgrows its map, and for that waits until every read transaction
// has ended; while a snapshot streams for minutes, applying would stand still. A
// map larger than the file will ever be never needs that. On 32-bit systems, where
// address space is scarce, 1 GiB has to do.
const initialMapSize = int(1<<30) << (4 * (^uint(0) >> 63))

// lockTimeout bounds the wait for the file's lock. It is above 0 because a process
// that has just been killed may not be gone entirely.
const lockTimeout = time.Second

// restoreSuffix marks a snapshot that is being received beside the state file.
const restoreSuffix = ".restore"

// Store is an open state file.
type Store struct {
	db *bbolt.DB
}

// Open opens or creates the state file, and removes what an interrupted restore
// left beside it. Its directory must exist.
func Open(path string) (*Store, error) {
	if err := os.Remove(path + restoreSuffix); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("cannot remove what an interrupted restore left: %w", err)
	}
	s, err := openFile(path)
	if err != nil {
		return nil, err
	}
	if err := syncDir(filepath.Dir(path)); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func openFile(path string) (s *Store, err error) {
	// bbolt panics on some damaged files instead of returning an error, and reading
	// where a file has been cut off faults, which would end the process without a word.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	// What it has mapped and locked by then is let go only when the process ends, as it
	// does without its state.
	defer func() {
		if fault := recover(); fault != nil {
			s, err = nil, damaged(path, fmt.Errorf("%v", fault))
		}
	}()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{
		Timeout:         lockTimeout,
		InitialMmapSize: initialMapSize,
		// The list of free pages is kept as a map: with an array, a commit takes longer the
		// more retention has freed. And it is not written with each commit, which a
		// large list would make slow for ever. Close writes it once; opening after a
		// crash walks the pages instead.
		FreelistType:   bbolt.FreelistMapType,
		NoFreelistSync: true,
		NoStatistics:   true,
	})
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, fmt.Errorf("another process uses this data directory: it holds the lock of %s;"+
			" stop that process, or give this one a directory of its own", path)
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrChecksum),
		errors.Is(err, bolterrors.ErrVersionMismatch):
		return nil, damaged(path, err)
	case err != nil:
		return nil, fmt.Errorf("cannot open the state file: %w", err)
	}
	s = &Store{db: db}
	if err := s.prepare(); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

func damaged(path string, cause error) error {
	return fmt.Errorf("the state file %s is damaged: %w; move it away and start again:"+
		" the node rebuilds it from its Raft log and snapshots", path, cause)
}

// prepare makes a new file's buckets, or checks the format of an old one, which it
// does not touch where it is another version's, or another program's. A file of our
// format that an older build wrote, or whose snapshot did, gets the buckets that
// have come since.
func (s *Store) prepare() error {
	empty, lacks := false, false
	err := s.db.View(func(tx *bbolt.Tx) error {
		if info, err := os.Stat(s.db.Path()); err != nil {
			return fmt.Errorf("cannot open the state file: %w", err)
		} else if info.Size() < tx.Size() {
			return damaged(s.db.Path(), fmt.Errorf("it is cut off after %d of %d bytes", info.Size(), tx.Size()))
		}
		meta := tx.Bucket(bucketNames[bucketMeta])
		if meta == nil {
			first, _ := tx.Cursor().First()
			if empty = first == nil; !empty {
				return fmt.Errorf("%s is not a state file of lancemaster; look at the configured data directory", s.db.Path())
			}
			return nil
		}
		if have := meta.Get(metaFormat); !bytes.Equal(have, []byte{format}) {
			return fmt.Errorf("the state file %s has format %v, this build knows format %d;"+
				" start the version that wrote it", s.db.Path(), have, format)
		}
		for _, name := range bucketNames {
			lacks = lacks || tx.Bucket(name) == nil
		}
		return checkForeign(tx)
	})
	if err != nil || !empty && !lacks {
		return err
	}
	return s.db.Update(func(tx *bbolt.Tx) error {
		for _, name := range bucketNames {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return fmt.Errorf("cannot prepare the state file: %w", err)
			}
		}
		return tx.Bucket(bucketNames[bucketMeta]).Put(metaFormat, []byte{format})
	})
}

// checkForeign refuses what a newer build has put where this one does not look. A
// newer build may have its buckets in the file from the start; it puts something
// there only once its feature level is in force.
func checkForeign(tx *bbolt.Tx) error {
	return tx.ForEach(func(name []byte, b *bbolt.Bucket) error {
		known := slices.ContainsFunc(bucketNames[:], func(n []byte) bool { return bytes.Equal(n, name) })
		if known {
			return nil
		}
		if first, _ := b.Cursor().First(); first == nil {
			return nil
		}
		return &command.UnsupportedError{
			What: fmt.Sprintf("the state file %s", tx.DB().Path()), Why: fmt.Sprintf("what bucket %q holds is not known here", name),
		}
	})
}

// Close ends the use of the file. There must be no transaction under way. It leaves
// the list of free pages behind, so that the next Open need not look for them in the
// whole file.
func (s *Store) Close() error {
	s.db.NoFreelistSync = false
	err := s.db.Update(func(*bbolt.Tx) error { return nil })
	return errors.Join(err, s.db.Close())
}

// syncDir makes a directory's entries durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("cannot open the data directory: %w", err)
	}
	err = d.Sync()
	if closing := d.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return fmt.Errorf("cannot make the data directory durable: %w", err)
	}
	return nil
}

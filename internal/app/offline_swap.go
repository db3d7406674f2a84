package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A restore or a recovery makes the new content of a data directory in a directory inside it, and
// takes that into use by giving it another name:
//
//	DIR/new-data.unfinished/  node.json state.db raft/    of no meaning, and removed by whoever finds it
//	   │ rename: from here on the new content counts
//	   ▼
//	DIR/new-data/             node.json state.db raft/    put in place by whoever finds it
//	   │ the old content into DIR/replaced-TIME/, the new one into DIR, file by file
//	   ▼
//	DIR/                      node.json state.db raft/
//
// So a crash at any moment leaves the old content or the new one, and whatever comes next, the node's
// start or the command again, finishes the move first. The directory itself is never renamed: it
// may be a file system of its own.
const (
	unfinishedDir  = "new-data.unfinished"
	newDataDir     = "new-data"
	moveFile       = "move.json"
	replacedPrefix = "replaced-"
)

// dataFiles are the content of a data directory that belongs to a member, as restored and recovered.
var dataFiles = []string{identityFile, stateFile, raftDir}

// move is what is to be done with new content.
type move struct {
	// Aside is the directory, inside the data directory, that takes the old content.
	Aside string `json:"aside"`
}

// asideName is a name for old content that is not in use.
func asideName(dir string, now time.Time) (string, error) {
	name := replacedPrefix + now.UTC().Format("20060102T150405Z")
	for n := 1; n < 100; n++ {
		candidate := name
		if n > 1 {
			candidate = fmt.Sprintf("%s-%d", name, n)
		}
		if _, err := os.Lstat(filepath.Join(dir, candidate)); errors.Is(err, fs.ErrNotExist) {
			return candidate, nil
		} else if err != nil {
			return "", err
		}
	}
	return "", fmt.Errorf("%s holds too many directories like %s; remove some", dir, name)
}

// commitMove makes the unfinished content, which must be on the disk as a whole, the one that counts.
func commitMove(dir string, m move, step func(string)) error {
	unfinished := filepath.Join(dir, unfinishedDir)
	raw, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if err := writeDurably(filepath.Join(unfinished, moveFile), append(raw, '\n')); err != nil {
		return err
	}
	step("move described")
	if err := os.Rename(unfinished, filepath.Join(dir, newDataDir)); err != nil {
		return err
	}
	step("move begun")
	return syncDir(dir)
}

// settleDataDir brings a directory that a crash may have left in the middle of a move to one side of
// it. The caller holds the directory's lock.
func settleDataDir(dir string, step func(string)) error {
	_, err := os.Lstat(filepath.Join(dir, newDataDir))
	switch {
	case err == nil:
		if err := finishMove(dir, step); err != nil {
			return fmt.Errorf("cannot finish the restore or recovery of %s that was interrupted: %w", dir, err)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("cannot use the data directory: %w", err)
	}
	if err := os.RemoveAll(filepath.Join(dir, unfinishedDir)); err != nil {
		return fmt.Errorf("cannot remove what an interrupted restore or recovery left: %w", err)
	}
	return nil
}

// finishMove puts new content in place. What of it is still in its own directory has not been moved,
// so that whatever has its name in the data directory is old: however often this is begun, it ends
// the same.
func finishMove(dir string, step func(string)) error {
	from := filepath.Join(dir, newDataDir)
	raw, err := os.ReadFile(filepath.Join(from, moveFile))
	if errors.Is(err, fs.ErrNotExist) {
		// All has been moved, and the description, which goes last, as well.
		return removeMoved(dir, from)
	}
	if err != nil {
		return err
	}
	var m move
	if err := json.Unmarshal(raw, &m); err != nil || !strings.HasPrefix(m.Aside, replacedPrefix) || m.Aside != filepath.Base(m.Aside) {
		return fmt.Errorf("%s is damaged", filepath.Join(from, moveFile))
	}
	var names []string
	for _, name := range dataFiles {
		if _, err := os.Lstat(filepath.Join(from, name)); err == nil {
			names = append(names, name)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := moveAside(dir, filepath.Join(dir, m.Aside), names, step); err != nil {
		return err
	}
	for _, name := range names {
		if err := os.Rename(filepath.Join(from, name), filepath.Join(dir, name)); err != nil {
			return err
		}
		step("new " + name + " in place")
	}
	if err := errors.Join(syncDir(dir), syncDir(from)); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(from, moveFile)); err != nil {
		return err
	}
	step("description removed")
	return removeMoved(dir, from)
}

// moveAside takes old content out of the way of new content of the same names, durably.
func moveAside(dir, aside string, names []string, step func(string)) error {
	moved := false
	for _, name := range names {
		old := filepath.Join(dir, name)
		if _, err := os.Lstat(old); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return err
		}
		if err := os.MkdirAll(aside, 0o700); err != nil {
			return err
		}
		if err := os.Rename(old, filepath.Join(aside, name)); err != nil {
			return err
		}
		moved = true
		step("old " + name + " aside")
	}
	if !moved {
		return nil
	}
	return errors.Join(syncDir(aside), syncDir(dir))
}

func removeMoved(dir, from string) error {
	if err := os.Remove(from); err != nil {
		return err
	}
	return syncDir(dir)
}

// foreignNames are what a data directory holds beside what restore and recovery know of.
func foreignNames(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		switch name := e.Name(); {
		case name == lockFile, name == "lost+found", slices.Contains(dataFiles, name):
		case e.IsDir() && strings.HasPrefix(name, replacedPrefix):
		case strings.HasPrefix(name, savingPrefix):
		default:
			names = append(names, name)
		}
	}
	return names, nil
}

// syncDir makes the entries of a directory durable.
func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// syncParent makes a directory's own entry durable, where this user may.
func syncParent(dir string) error {
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if err := syncDir(filepath.Dir(absolute)); err != nil && !errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("cannot make the data directory durable: %w", err)
	}
	return nil
}

// syncTree makes a directory with all in it durable.
func syncTree(root string) error {
	return filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !e.IsDir() && !e.Type().IsRegular() {
			return fmt.Errorf("%s is no regular file", path)
		}
		return syncDir(path) // files are opened and synced alike
	})
}

package app

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// lockFile is held by whatever process uses the data directory: a node, or a command that restores or
// recovers it. It stays behind, empty of meaning: only the lock on it counts.
const lockFile = "lock"

const (
	// lockPatience bounds the wait for the lock, since a process that was just killed may not be gone
	// entirely.
	lockPatience = 2 * time.Second
	lockPause    = 50 * time.Millisecond
)

// errLocked is what takeLock answers when another process holds the lock.
var errLocked = errors.New("the lock is held")

// dataLock is a held lock.
type dataLock struct{ file *os.File }

// lockDataDir takes the directory, which must exist, for this process until release.
func lockDataDir(dir string) (*dataLock, error) {
	path := filepath.Join(dir, lockFile)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot lock the data directory: %w", err)
	}
	deadline := time.Now().Add(lockPatience)
	for err = takeLock(f); errors.Is(err, errLocked) && time.Now().Before(deadline); err = takeLock(f) {
		time.Sleep(lockPause) //sleep: at most lockPatience in all
	}
	switch {
	case errors.Is(err, errLocked):
		err = fmt.Errorf("another process%s uses the data directory %s; stop that process, or use a directory of its own", holder(f), dir)
	case err != nil:
		err = fmt.Errorf("cannot lock the data directory: %s: %w", path, err)
	}
	if err != nil {
		_ = f.Close() // nothing was written
		return nil, err
	}
	// Whom to name when somebody else comes; the lock holds without it.
	if err := f.Truncate(0); err == nil {
		_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	return &dataLock{file: f}, nil
}

// holder names the process that holds the lock, if it is told.
func holder(f *os.File) string {
	text := make([]byte, 20)
	n, err := f.ReadAt(text, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return ""
	}
	pid, err := strconv.ParseUint(strings.TrimSpace(string(text[:n])), 10, 32)
	if err != nil {
		return ""
	}
	return fmt.Sprintf(" (pid %d)", pid)
}

// release lets the directory go. It may be called again.
func (l *dataLock) release() error {
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file = nil
	return err
}

// Package smallfile reads the small files that a node is configured with: the configuration itself,
// certificates, keys, tokens.
//
// Such a file is named by a person, and read again while the node runs. Read refuses what a mistake may
// have put there and what would never end, or never begin: a pipe, a device, a directory, a file of a
// gigabyte. What it cannot refuse is a file system that does not answer; whoever reads in a running node
// does it where nobody waits for it.
package smallfile

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// Read returns the content of a regular file of at most so many bytes, and its permissions.
func Read(path string, most int64) (content []byte, mode fs.FileMode, err error) {
	// What is opened is what is looked at, and opening a pipe does not wait for its other end.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = f.Close() }() // nothing was written
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	switch {
	case !info.Mode().IsRegular():
		return nil, 0, fmt.Errorf("%s is not a regular file", path)
	case info.Size() > most:
		return nil, 0, tooLarge(path, most)
	}
	content, err = io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, 0, err
	}
	if int64(len(content)) > most { // it grew, or its size is not known beforehand
		return nil, 0, tooLarge(path, most)
	}
	return content, info.Mode().Perm(), nil
}

func tooLarge(path string, most int64) error {
	return fmt.Errorf("%s is larger than %d bytes", path, most)
}

package testcluster

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// copyDir copies a directory that nobody writes to. Most of a database's file is a hole, which is not
// read.
func copyDir(from, to string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rest, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return os.MkdirAll(filepath.Join(to, rest), 0o700)
		}
		return copyFile(path, filepath.Join(to, rest))
	})
}

// copyFile copies what of a file is data, to the same places.
func copyFile(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // it was only read
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, info.Mode().Perm())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if err := out.Truncate(info.Size()); err != nil {
		return err
	}
	for at := int64(0); at < info.Size(); {
		begin, end, err := nextData(in, at, info.Size())
		if err != nil {
			return err
		}
		if _, err := io.Copy(io.NewOffsetWriter(out, begin), io.NewSectionReader(in, begin, end-begin)); err != nil {
			return err
		}
		at = end
	}
	return nil
}

// nextData is the next part of a file that is no hole.
func nextData(f *os.File, at, size int64) (begin, end int64, err error) {
	const seekData, seekHole = 3, 4 // as Linux has them
	if runtime.GOOS != "linux" {
		return at, size, nil
	}
	if begin, err = f.Seek(at, seekData); errors.Is(err, syscall.ENXIO) {
		return size, size, nil // nothing but a hole is left
	} else if err != nil {
		return 0, 0, err
	}
	end, err = f.Seek(begin, seekHole)
	return begin, end, err
}

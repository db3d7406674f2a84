package lance

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// listChunk is how many names are asked of a folder at once.
const listChunk = 1024

// Dir is the dataset in the local folder root. Symbolic links are followed.
func Dir(root string) Source { return dir(root) }

type dir string

// Versions lists the folder a chunk at a time.
func (d dir) Versions(ctx context.Context, visit func(string) error) error {
	if err := d.mustBeFolder(string(d), "there is no such folder"); err != nil {
		return err
	}
	path := filepath.Join(string(d), versionsDir)
	if err := d.mustBeFolder(path, "the folder has no "+versionsDir+"/ and so is not a Lance dataset"); err != nil {
		return err
	}
	// A pipe that took the folder's place since must not block the open.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		names, err := f.Readdirnames(listChunk)
		for _, name := range names {
			if err := visit(name); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// mustBeFolder tells "there is nothing" from "could not look": only the first
// is an answer about the dataset.
func (d dir) mustBeFolder(path, missing string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return &Error{Code: DatasetMissing, Reason: missing}
	case err != nil:
		return err
	case !info.IsDir():
		return &Error{Code: DatasetMissing, Reason: missing + " (a file of that name is in its place)"}
	}
	return nil
}

// Open opens a regular file and nothing else.
func (d dir) Open(ctx context.Context, name string) (Object, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	path := filepath.Join(string(d), versionsDir, name)
	// Looking before opening leaves devices untouched; O_NONBLOCK and the second
	// look cover a file that is swapped in between.
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if err := mustBeRegular(info); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err = f.Stat()
	if err == nil {
		err = mustBeRegular(info)
	}
	if err != nil {
		_ = f.Close() // the first error is the one to tell
		return nil, err
	}
	return &localFile{f: f, size: info.Size()}, nil
}

func mustBeRegular(info fs.FileInfo) error {
	if info.Mode().IsRegular() {
		return nil
	}
	return &Error{Code: ManifestDamaged, Reason: "not a regular file (" + info.Mode().Type().String() + ")"}
}

type localFile struct {
	f    *os.File
	size int64
}

// Size is the length when the file was opened.
func (l *localFile) Size() int64 { return l.size }

// Close closes the file.
func (l *localFile) Close() error { return l.f.Close() }

// ReadRange fills p from offset off.
func (l *localFile) ReadRange(ctx context.Context, p []byte, off int64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	n, err := l.f.ReadAt(p, off)
	if n == len(p) {
		return nil
	}
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

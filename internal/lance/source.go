package lance

import "context"

// Source is where the version files of one dataset come from. A local folder is
// one ([Dir]); an object store can be another.
//
// Errors: a file or dataset that verifiably does not exist matches
// fs.ErrNotExist; refusals with more to say are an [*Error]; anything else is
// taken for a failure to read.
type Source interface {
	// Versions calls visit with the base name of every file in _versions/, in
	// any order, and stops at the first error visit returns, returning it. It
	// holds only a bounded part of the listing in memory.
	Versions(ctx context.Context, visit func(name string) error) error

	// Open opens one of the listed files. What is read through the result is
	// one and the same file, even when the name is taken over meanwhile.
	Open(ctx context.Context, name string) (Object, error)
}

// Object is one open, immutable file.
type Object interface {
	// Size is the file's length in bytes.
	Size() int64
	// ReadRange fills p from offset off. A file too short for it is
	// io.ErrUnexpectedEOF.
	ReadRange(ctx context.Context, p []byte, off int64) error
	Close() error
}

package dispatch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
)

// References resolves file:PATH and env:NAME on this machine. A file's trailing
// newline is not part of its secret. Nothing is cached: a credential that was
// rotated counts from the next send.
type References struct {
	mu    sync.Mutex
	reads map[string]*secretRead
}

// NewReferences returns a resolver.
func NewReferences() *References { return &References{reads: make(map[string]*secretRead)} }

// maxSecret bounds what is read of a file.
const maxSecret = 64 << 10

// secretRead is a read of one file that has not returned yet.
type secretRead struct {
	done  chan struct{}
	value string
	err   error
}

var errReference = errors.New("the reference is neither file:PATH nor env:NAME; correct the catalog")

// Resolve returns the secret that a reference names. Its errors never hold any
// part of the secret.
func (r *References) Resolve(ctx context.Context, reference string) (string, error) {
	kind, name, ok := strings.Cut(reference, ":")
	switch {
	case !ok || name == "":
		return "", errReference
	case kind == "env":
		value := os.Getenv(name)
		if value == "" {
			return "", fmt.Errorf("the environment variable %s is not set on this master; set it and restart the master", name)
		}
		return value, nil
	case kind == "file":
		return r.read(ctx, name)
	default:
		return "", errReference
	}
}

// read reads a file within the context's bound. No call returns a file system
// that hangs from within a read; so that retries cannot pile up, whoever asks for
// a file that is being read waits for that one read.
func (r *References) read(ctx context.Context, path string) (string, error) {
	r.mu.Lock()
	read := r.reads[path]
	if read == nil {
		read = &secretRead{done: make(chan struct{})}
		r.reads[path] = read
		go func() {
			read.value, read.err = readSecret(path)
			r.mu.Lock()
			delete(r.reads, path)
			r.mu.Unlock()
			close(read.done)
		}()
	}
	r.mu.Unlock()
	select {
	case <-read.done:
		return read.value, read.err
	case <-ctx.Done():
		return "", fmt.Errorf("the file %s could not be read in time on this master: %w", path, ctx.Err())
	}
}

func readSecret(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("this master cannot read the secret's file: %w", err)
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("the file %s is not a regular file; name one that holds the secret", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("this master cannot read the secret's file: %w", err)
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, maxSecret+1))
	if err != nil {
		return "", fmt.Errorf("this master cannot read the secret's file: %w", err)
	}
	if len(content) > maxSecret {
		return "", fmt.Errorf("the file %s has more than %d bytes; a secret is shorter", path, maxSecret)
	}
	value := strings.TrimSuffix(strings.TrimSuffix(string(content), "\n"), "\r")
	if value == "" {
		return "", fmt.Errorf("the file %s is empty; write the secret into it", path)
	}
	return value, nil
}

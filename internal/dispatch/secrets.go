package dispatch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// References resolves file:PATH and env:NAME on this machine. A file's trailing
// newline is not part of its secret. Nothing is cached: a credential that was
// rotated counts from the next send.
type References struct{}

// maxSecret bounds what is read of a file.
const maxSecret = 64 << 10

// Resolve returns the secret that a reference names. Its errors never hold any
// part of the secret.
func (References) Resolve(ctx context.Context, reference string) (string, error) {
	kind, name, ok := strings.Cut(reference, ":")
	switch {
	case !ok || name == "":
		return "", errors.New("the reference is neither file:PATH nor env:NAME; correct the catalog")
	case kind == "env":
		value, set := os.LookupEnv(name)
		if !set || value == "" {
			return "", fmt.Errorf("the environment variable %s is not set on this master; set it and restart the master", name)
		}
		return value, nil
	case kind == "file":
		return readBounded(ctx, name)
	default:
		return "", errors.New("the reference is neither file:PATH nor env:NAME; correct the catalog")
	}
}

type secretRead struct {
	value string
	err   error
}

// readBounded reads a file within the context's bound. A file system that hangs
// keeps the reading goroutine, and nothing else, until it answers.
func readBounded(ctx context.Context, path string) (string, error) {
	done := make(chan secretRead, 1)
	go func() {
		value, err := readSecret(path)
		done <- secretRead{value, err}
	}()
	select {
	case read := <-done:
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

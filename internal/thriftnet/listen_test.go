package thriftnet

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// socketDir is short: a socket's path has at most about 100 bytes.
func socketDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "lm") //nolint:usetesting // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func TestAUnixSocketIsForThisUserOnly(t *testing.T) {
	path := filepath.Join(socketDir(t), "s")
	l, err := Listen(t.Context(), "unix:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket is %v, %v", info.Mode(), err)
	}
	accepted := make(chan error, 1)
	go func() {
		conn, err := l.Accept()
		if err == nil {
			err = conn.Close()
		}
		accepted <- err
	}()
	conn, err := ClientConfig{}.connect(t.Context(), "unix:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := <-accepted; err != nil {
		t.Error(err)
	}
	if _, err := Listen(t.Context(), "unix:"+path); err == nil {
		t.Error("a socket in use was taken over")
	}
}

// A process that was killed leaves its socket's file behind.
func TestAStaleSocketIsReplacedAndNothingElse(t *testing.T) {
	dir := socketDir(t)
	path := filepath.Join(dir, "s")
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	left.SetUnlinkOnClose(false)
	if err := left.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := Listen(t.Context(), "unix:"+path)
	if err != nil {
		t.Fatalf("the socket that was left behind is in the way: %v", err)
	}
	_ = l.Close()
	file := filepath.Join(dir, "data")
	if err := os.WriteFile(file, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(t.Context(), "unix:"+file); err == nil {
		t.Error("listened in place of a file")
	}
	if kept, err := os.ReadFile(file); err != nil || !strings.Contains(string(kept), "kept") {
		t.Errorf("the file is %q, %v", kept, err)
	}
}

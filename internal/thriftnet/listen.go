package thriftnet

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"syscall"
)

// Listen listens at host:port, or for unix:PATH at a Unix socket that only this process's user may connect
// to.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	network, at := networkOf(address)
	var lc net.ListenConfig
	if network != "unix" {
		return lc.Listen(ctx, network, at)
	}
	removeStale(ctx, at)
	l, err := lc.Listen(ctx, network, at)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(at, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// removeStale removes a socket that nobody listens at any more: a process that was killed leaves its
// file behind. Anything else at the path stays, and listening then says why it cannot.
func removeStale(ctx context.Context, path string) {
	info, err := os.Lstat(path)
	if err != nil || info.Mode().Type() != fs.ModeSocket {
		return
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", path)
	if err == nil {
		_ = conn.Close()
		return
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		_ = os.Remove(path)
	}
}

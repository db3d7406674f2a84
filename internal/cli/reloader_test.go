package cli

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lancemaster/lancemaster/internal/await"
)

// Whatever a reload does, what ends a node is heard at once; and no signal to reload is lost.
func TestReloads(t *testing.T) {
	const bound = 10 * time.Second
	for _, tt := range []struct {
		name      string
		hangups   []time.Duration
		reloadFor time.Duration // ends early when the node stops, unless it is deaf
		deaf      bool
		fatal     time.Duration // 0: never
		want      string        // part of the error
		reloads   int32
		slow      int32
		took      time.Duration // the node is told to stop after an hour
	}{
		{name: "none", took: time.Hour},
		{name: "one after the other", hangups: []time.Duration{time.Second, time.Minute}, reloadFor: time.Second, reloads: 2, took: time.Hour},
		{name: "another during one", hangups: []time.Duration{time.Second, 2 * time.Second}, reloadFor: 5 * time.Second, reloads: 2, took: time.Hour},
		{name: "many during one", hangups: []time.Duration{1, 2, 3, 4, 5, 6}, reloadFor: 5 * time.Second, reloads: 2, took: time.Hour},
		{name: "a slow one", hangups: []time.Duration{time.Second}, reloadFor: time.Minute, reloads: 1, slow: 1, took: time.Hour},
		{name: "a stop during one", hangups: []time.Duration{time.Hour - time.Second}, reloadFor: time.Hour, reloads: 1, took: time.Hour},
		{name: "a stop during one that hangs", hangups: []time.Duration{time.Second, time.Minute}, reloadFor: 3 * time.Hour, deaf: true, reloads: 1, slow: 1, took: time.Hour + reloadGrace},
		{name: "a fatal fault during one that hangs", hangups: []time.Duration{time.Second}, reloadFor: 3 * time.Hour, deaf: true, fatal: 2 * time.Second, want: "disk stalled", reloads: 1, took: 2 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &fakeNode{done: make(chan error, 1)}
				signals, hangups := make(chan os.Signal, 2), make(chan os.Signal, 1)
				time.AfterFunc(time.Hour, func() { signals <- syscall.SIGTERM })
				for _, at := range tt.hangups {
					time.AfterFunc(at, func() {
						select { // as package signal sends
						case hangups <- syscall.SIGHUP:
						default:
						}
					})
				}
				if tt.fatal > 0 {
					time.AfterFunc(tt.fatal, func() { n.done <- errors.New("disk stalled") })
				}
				var reloads, atOnce, slow atomic.Int32
				begun := time.Now()
				err := tend(t.Context(), tending{
					bound: func() time.Duration { return bound }, signals: signals, reloads: hangups,
					up:    func() error { return nil },
					start: func(context.Context) (node, error) { return n, nil },
					reload: func(ctx context.Context) {
						if atOnce.Add(1) > 1 {
							t.Error("two reloads at once")
						}
						defer atOnce.Add(-1)
						reloads.Add(1)
						stopped := ctx.Done()
						if tt.deaf {
							stopped = nil
						}
						select {
						case <-time.After(tt.reloadFor):
						case <-stopped:
						}
					},
					slow: func() { slow.Add(1) },
				})
				if took := time.Since(begun); took != tt.took {
					t.Errorf("it took %s, want %s", took, tt.took)
				}
				if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
					t.Errorf("the error is %v, want %q", err, tt.want)
				}
				if reloads.Load() != tt.reloads || slow.Load() != tt.slow {
					t.Errorf("%d reloads, %d slow; want %d, %d", reloads.Load(), slow.Load(), tt.reloads, tt.slow)
				}
				await.Pass(5 * time.Hour)
			})
		})
	}
}

// Once the service manager was told that the node stops, a reload that ends says nothing else.
func TestAReloadThatEndsLateIsNotReady(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "notify")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = manager.Close() }()
	hear := func(patience time.Duration) string {
		t.Helper()
		said := make([]byte, 1<<10)
		if err := manager.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		n, err := manager.Read(said)
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
		return string(said[:n])
	}
	t.Setenv("NOTIFY_SOCKET", socket)
	s := newSupervisor(nodeLogger(t.Output(), nil, "text"))
	s.reloading(s.stopping)
	for _, want := range []string{"RELOADING=1", "STOPPING=1"} {
		if got := hear(20 * time.Second); !strings.HasPrefix(got, want) {
			t.Errorf("said %q, want %q", got, want)
		}
	}
	if got := hear(10 * time.Millisecond); got != "" { // a datagram is there when its sender has sent it
		t.Errorf("said %q after that it stops", got)
	}
}

package app

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/internal/fsm"
)

// Raft goes on answering barriers when the state machine has stopped: what is in
// memory then must not pass for the current state in the moment before the process
// ends.
func TestNoBarrierPassesOverAStateMachineThatHasStopped(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	d, err := StartDev(ctx, DevOptions{
		DataDir: filepath.Join(t.TempDir(), "data"), AdminListen: "127.0.0.1:0", ReportListen: "127.0.0.1:0",
		HTTPListen: "127.0.0.1:0", RaftListen: "127.0.0.1:0", StubListen: "127.0.0.1:0", StubHeartbeatListen: "127.0.0.1:0",
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.Stop(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	}()
	reads, sends := leading{d.app}, barrier{d.app}
	if err := errors.Join(reads.ReadBarrier(ctx), sends.Barrier(ctx)); err != nil {
		t.Fatal(err)
	}
	if err := d.app.machine.Close(); err != nil {
		t.Fatal(err)
	}
	if err := reads.ReadBarrier(ctx); !errors.Is(err, fsm.ErrClosed) {
		t.Errorf("for requests: got %v", err)
	}
	if err := sends.Barrier(ctx); !errors.Is(err, fsm.ErrClosed) {
		t.Errorf("for the dispatcher: got %v", err)
	}
}

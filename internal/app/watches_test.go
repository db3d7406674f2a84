package app

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lancemaster/lancemaster/internal/await"
	"github.com/lancemaster/lancemaster/internal/config"
)

// Watches whose file system does not answer end beside each other and beside the rest of the stop: the handing
// over of the leadership, above all, does not wait for them.
func TestWatchesEndBesideTheStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &App{log: slog.New(slog.DiscardHandler)}
		a.current.Store(&config.Config{ShutdownTimeout: 10 * time.Second})
		hangs := a.endWatch(func() error { await.Pass(time.Second); return context.DeadlineExceeded })
		a.awaitWatches()
		var handedOver time.Duration
		began := time.Now()
		for range 2 {
			a.onStop("a watch", hangs)
		}
		a.onStop("the leadership", func(context.Context) error { handedOver = time.Since(began); return nil })
		a.onStop("a watch that was begun last", hangs)
		if err := a.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); handedOver != 0 || took != time.Second {
			t.Errorf("handed over after %s, stopped after %s", handedOver, took)
		}
	})
}

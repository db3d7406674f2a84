package cli

import (
	"context"
	"os"
	"time"
)

const (
	// slowReload is how long a reload may take before something is said.
	slowReload = 10 * time.Second
	// reloadGrace is how long a stopped node waits for a reload. One that hangs in the system ends with
	// the process.
	reloadGrace = time.Second
)

// reloader runs a node's reloads beside the wait for what ends the node, which no file system may hold up.
// Its fields are its owner's, who selects on its channels.
type reloader struct {
	t       tending
	ctx     context.Context // of the reloads; ended when the node is to stop
	cancel  context.CancelFunc
	running chan struct{}    // closed when the reload under way has ended; nil: none is
	late    <-chan time.Time // ready when the reload under way has taken long; nil: told, or none is
}

func newReloader(ctx context.Context, t tending) *reloader {
	ctx, cancel := context.WithCancel(ctx)
	return &reloader{t: t, ctx: ctx, cancel: cancel}
}

// asked is ready when a reload is to begin. While one is under way it is not: the signals' channel keeps one
// that comes meanwhile, which stands for all of them.
func (r *reloader) asked() <-chan os.Signal {
	if r.running != nil {
		return nil
	}
	return r.t.reloads
}

func (r *reloader) begin() {
	r.running, r.late = make(chan struct{}), time.After(slowReload)
	go func(ended chan<- struct{}) {
		defer close(ended)
		r.t.reload(r.ctx)
	}(r.running)
}

func (r *reloader) ended() { r.running, r.late = nil, nil }

// wait gives a reload under way a moment to end.
func (r *reloader) wait() {
	if r.running == nil {
		return
	}
	select {
	case <-r.running:
	case <-time.After(reloadGrace):
	}
}

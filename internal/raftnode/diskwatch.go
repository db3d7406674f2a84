package raftnode

import (
	"fmt"
	"sync"
	"time"
)

// watchParts is into how many parts the watch divides its limit. A hung write is found at most one
// part late.
const watchParts = 8

// DiskWatch finds writes that hang, while they hang, and tells of the first trouble with the disk,
// once. A member whose disk hangs would otherwise keep its place in the cluster: a stuck leader goes
// on sending heartbeats.
//
// Time is counted in ticks seen by the watch, not read from a clock: a process that was itself
// stopped for a while does not blame its disk.
type DiskWatch struct {
	limit time.Duration
	fatal func(error)

	stop     chan struct{}
	stopped  chan struct{}
	stopOnce sync.Once
	troubled chan struct{} // closed when err is set

	mu  sync.Mutex
	ops map[*diskOp]struct{}
	err error
}

// diskOp is one write under way.
type diskOp struct {
	name  string
	ticks int
	limit int
}

// NewDiskWatch starts a watch that lets one write take limit, and tells fatal of the first that takes
// longer or fails. fatal runs on the watch's goroutine and must not wait for Close.
func NewDiskWatch(limit time.Duration, fatal func(error)) *DiskWatch {
	w := &DiskWatch{
		limit:    limit,
		fatal:    fatal,
		stop:     make(chan struct{}),
		stopped:  make(chan struct{}),
		troubled: make(chan struct{}),
		ops:      make(map[*diskOp]struct{}),
	}
	go w.run()
	return w
}

// Begin says that a write starts; the caller calls end when it has returned, however it went. name
// says in a few words what is written.
func (w *DiskWatch) Begin(name string) (end func()) {
	return w.beginWith(name, 0)
}

// beginWith is Begin for a write that may take extra time because it is large.
func (w *DiskWatch) beginWith(name string, extra time.Duration) (end func()) {
	op := &diskOp{name: name, limit: watchParts + int(extra/w.tick())}
	w.mu.Lock()
	w.ops[op] = struct{}{}
	w.mu.Unlock()
	return func() {
		w.mu.Lock()
		delete(w.ops, op)
		w.mu.Unlock()
	}
}

// Fail says that a write has failed. Only the first trouble counts.
func (w *DiskWatch) Fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failLocked(fmt.Errorf("%w: %w", ErrDisk, err))
}

// Err returns the trouble that was found, or nil.
func (w *DiskWatch) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Close ends the watch and waits for its goroutine. It may be called more than once.
func (w *DiskWatch) Close() {
	w.stopOnce.Do(func() { close(w.stop) })
	<-w.stopped
}

func (w *DiskWatch) failLocked(err error) {
	if w.err == nil {
		w.err = err
		close(w.troubled)
	}
}

func (w *DiskWatch) tick() time.Duration {
	return max(w.limit/watchParts, time.Millisecond)
}

func (w *DiskWatch) run() {
	defer close(w.stopped)
	ticker := time.NewTicker(w.tick())
	defer ticker.Stop()
	for {
		select {
		case <-w.troubled:
			w.fatal(w.Err())
			return
		case <-w.stop:
			// What was found before the end is still told.
			if err := w.Err(); err != nil {
				w.fatal(err)
			}
			return
		case <-ticker.C:
			w.count()
		}
	}
}

// count ages the writes under way by one tick.
func (w *DiskWatch) count() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for op := range w.ops {
		op.ticks++
		if op.ticks > op.limit {
			over := time.Duration(op.limit) * w.tick()
			w.failLocked(fmt.Errorf("%w: it has been hanging for more than %s in: %s", ErrDisk, over, op.name))
		}
	}
}

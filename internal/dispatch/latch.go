package dispatch

import "sync/atomic"

// latch is the one-shot permission to write a job's call: OPEN -> SENT or
// OPEN -> CLOSED, and nothing after that. Whoever takes it has decided for good
// whether anything is sent.
type latch struct{ state atomic.Int32 }

const (
	latchOpen   int32 = 0
	latchSent   int32 = 1
	latchClosed int32 = 2
)

// send takes the latch for the one write. The caller writes if and only if it
// returns true.
func (l *latch) send() bool { return l.state.CompareAndSwap(latchOpen, latchSent) }

// close takes the latch so that nothing will ever be written. It is false when
// somebody took it before.
func (l *latch) close() bool { return l.state.CompareAndSwap(latchOpen, latchClosed) }

// sent reports whether the call was, or is being, written.
func (l *latch) sent() bool { return l.state.Load() == latchSent }

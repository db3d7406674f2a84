package dispatch

import (
	"sync"
	"time"

	"github.com/lancemaster/lancemaster/internal/job"
)

// Sends is the process's table of sends: for each the latch, and what is known of
// its end. It belongs to the process and outlives a term, because only the
// process that owns a latch may conclude that nothing was sent; a new leader's
// empty table concludes nothing.
type Sends struct {
	mu    sync.Mutex
	byJob map[job.ID]*send
}

// NewSends returns an empty table.
func NewSends() *Sends { return &Sends{byJob: make(map[job.ID]*send)} }

// send is one attempt at one dispatch. Its latch and identity need no lock; the
// rest is guarded by the table's.
type send struct {
	identity   job.Identity
	backend    job.BackendID
	term       uint64
	proposedAt time.Time
	duration   time.Duration // the job's execute deadline
	latch      latch

	// active: the attempt's goroutine still works on it.
	active bool
	// ambiguous: nobody knows whether MarkRunning was applied. The latch is CLOSED.
	ambiguous bool
	// endedAt is when nothing of this send could reach the network any more; zero
	// before.
	endedAt time.Time
	// host is the resolved address that the connection reached; empty before.
	host string
	// conclusion is what is to be journaled, nil while there is nothing to say: the
	// attempt goes on, or the backend took the job and its report is awaited.
	conclusion *conclusion
	journaled  bool // the conclusion is in the journal, or is moot
	failures   int  // of journaling it
	retryAt    time.Time
}

// conclusion is what the owner of a latch knows of a send that needs no report.
type conclusion struct {
	// notEnqueued: nothing was sent or nothing was accepted. Else: no trusted result.
	notEnqueued bool
	message     string
}

// Close takes the latch of this invocation, if it is still OPEN, so that nothing
// will be sent. It is for a report that arrives before its send, which then ends
// as not sent. It reports whether it closed the latch.
func (s *Sends) Close(id job.ID, invocation string) bool {
	e := s.find(id, invocation)
	return e != nil && e.latch.close()
}

// Active reports whether this process may still be writing a job's call.
func (s *Sends) Active(id job.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.byJob[id]
	return e != nil && e.active
}

// add enters a send with an OPEN latch. It is false when the job has one already.
func (s *Sends) add(e *send) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byJob[e.identity.Job] != nil {
		return false
	}
	e.active = true
	s.byJob[e.identity.Job] = e
	return true
}

// remove forgets a send.
func (s *Sends) remove(e *send) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byJob[e.identity.Job] == e {
		delete(s.byJob, e.identity.Job)
	}
}

// find returns the send of this invocation, or nil.
func (s *Sends) find(id job.ID, invocation string) *send {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.byJob[id]
	if e == nil || e.identity.InvocationID != invocation {
		return nil
	}
	return e
}

// has reports whether the job has a send of any invocation.
func (s *Sends) has(id job.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byJob[id] != nil
}

// all returns the sends, in no order.
func (s *Sends) all() []*send {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*send, 0, len(s.byJob))
	for _, e := range s.byJob {
		list = append(list, e)
	}
	return list
}

// closeAll takes every OPEN latch: the term is over.
func (s *Sends) closeAll() {
	for _, e := range s.all() {
		e.latch.close()
	}
}

// end says that nothing of this send can reach the network any more, and what is
// known of it.
func (s *Sends) end(e *send, ambiguous bool, c *conclusion) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.ambiguous = ambiguous
	e.conclusion = c
	e.journaled = c == nil
	e.endedAt = time.Now()
}

// reached says which address the send's connection leads to.
func (s *Sends) reached(e *send, address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.host = hostOf(address)
}

// leave says that the attempt's goroutine is done with the send: from now on the
// rounds settle it.
func (s *Sends) leave(e *send) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.active = false
}

// sendState is what the rounds read of a send.
type sendState struct {
	active, ambiguous, journaled bool
	conclusion                   *conclusion
	endedAt, retryAt             time.Time
	host                         string
}

func (s *Sends) state(e *send) sendState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return sendState{
		active: e.active, ambiguous: e.ambiguous, journaled: e.journaled,
		conclusion: e.conclusion, endedAt: e.endedAt, retryAt: e.retryAt, host: e.host,
	}
}

// settled says that the conclusion is journaled or moot.
func (s *Sends) settled(e *send) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.journaled = true
	e.ambiguous = false
}

// hurry has every conclusion that waits for its next try tried at once: a new
// term may be able to journal it.
func (s *Sends) hurry() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.byJob {
		e.failures, e.retryAt = 0, time.Time{}
	}
}

// postpone says that the conclusion could not be journaled now.
func (s *Sends) postpone(e *send) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.failures++
	e.retryAt = time.Now().Add(backoff(e.failures, maxSettleBackoff))
}

// Package dispatch sends jobs to backends, ends those whose time is up, and drives
// the refreshes they owe. It works on the leader only, one term at a time.
//
// # The promise
//
// No job is ever sent twice: not by a retry, not by a leader that takes over, not
// by one that does not know yet that it was deposed. It rests on the order in
// which one attempt goes, and on nothing that could be configured away:
//
//	build the request          secrets resolved, every bound checked
//	journal MARK_RUNNING       only a certain yes goes on; a lost answer never sends
//	dial                       a fresh connection; not one byte of the call yet
//	recheck                    same term, same record, inside dispatch.send_window
//	latch  OPEN -> SENT        at most once; a sweep, a report, the end of the term
//	                           or a failed recheck takes OPEN -> CLOSED instead
//	write                      and never again, on any path, by any node
//
// RUNNING is entered at most once in a job's life, by one MARK_RUNNING that names
// one invocation; its latch lives in the process that proposed it and opens once.
//
//	        +---- recheck failed, sweep, report, end of term ----> CLOSED: not sent
//	OPEN ---+
//	        +---- the write ------------------------------------> SENT
//
// # Who may say what
//
// Only the owner of a latch knows that nothing was sent. Its table, Sends, belongs
// to the process and outlives the term: a send that was closed, or refused in so
// many words, is concluded NOT_COMMITTED with the proof NOT_ENQUEUED by this
// process, now or in a later term of it. A new leader that finds a job RUNNING
// concludes nothing from having no latch: it waits for the report or the deadline.
// After SENT, anything but a complete answer leaves the outcome UNKNOWN, with the
// slot, the fence and the quota held.
//
// A job that was sent and whose answer the end of a term cut short stays RUNNING:
// its report is as good to the next leader.
//
// # Rounds
//
// One goroutine runs the rounds: what is known of ended sends, deadlines, possibly
// live slots, refreshes, then PENDING jobs in order of their ids. A round runs at
// once when woken, when something is due, and every dispatch.interval. It looks at
// open jobs only, writes nothing when there is nothing to do, and never waits for
// a backend, a refresher or a source of secrets: those run in goroutines of their
// own, each within a bound. Waiting jobs are skipped, never waited for.
//
// Within a term time runs on the monotonic clock, so that a stepped wall clock
// expires nothing. The send window alone runs on a clock that counts suspend: a
// machine that slept between the journal and the write must not write.
package dispatch

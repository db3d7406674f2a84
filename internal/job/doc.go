// Package job is the core of lancemaster: the durable record of an index
// mutation, the states it moves through, and the rules of every transition.
//
// The package is pure. It does no I/O, reads no clock and no randomness, and
// starts no goroutine: a transition is a function of what a View shows and a
// Command says, and answers with a Change (what to write) or a Refusal (why
// nothing happens). Masters that apply the same commands in the same order
// therefore hold the same state, which is what the replicated journal rests on.
//
// # Mutation state
//
//	           MarkRunning            Complete
//	PENDING ----------------> RUNNING ---------> COMMITTED      the dataset has changed
//	   |                         |-------------> NOT_COMMITTED  the dataset has not changed
//	   |                         '-------------> UNKNOWN        nobody can say
//	   |--- Cancel, RejectBeforeDispatch ------> NOT_COMMITTED
//	   '--- Quarantine (also from RUNNING) ----> UNKNOWN
//
// There is no other edge, no state moves back, and RUNNING is entered at most
// once in a job's life.
//
// # Refresh state
//
//	NOT_REQUIRED
//	REQUIRED -> RUNNING -> DONE
//	               '-----> FAILED -> RUNNING (a retry)
//	RUNNING -> REQUIRED at the start of a leader's term
//
// # What a job holds
//
// A job holds the fence on its index name and one unit of each unresolved quota
// from admission until it is resolved (Record.HoldsFence), and a possible-live
// slot on its backend from MarkRunning until a termination proof or an operator
// releases it (Dispatch.SlotHeld). Fence and quota are derived from the same
// predicate and so cannot come apart. A job that holds either is open.
//
// Live keeps in memory what is open, with the indexes that the rules ask for; it
// follows each Change and can be rebuilt at any time from what is stored.
//
// # Between builds
//
// Masters of two builds apply the same journal during an upgrade, so a transition
// decides by bytes, ASCII letters and stored values only. What depends on tables
// that a build brings along (the lower case of an index name, the form of a
// locator, the JSON of properties) is worked out before a command is proposed, and
// travels in it.
package job

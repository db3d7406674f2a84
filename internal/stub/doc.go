// Package stub is a backend that does no work. It serves BackendService and HeartbeatService on two
// ports, makes the checks that every backend owes its master, and by default answers each dispatch
// that passes them with NOT_IMPLEMENTED_ERROR, so that a job ends NOT_COMMITTED.
//
// It behaves as existing backends are known to, where that matters to a master: it refuses work
// before the first heartbeat, for another process and after the deadline; it keeps the first cluster
// id and the first token it hears and refuses others; it wants a higher epoch when the master's
// address changes; it runs a repeated invocation once. It persists nothing: what it keeps, it keeps
// until the process ends.
//
// A Behaviour replaces the answer for tests and demonstrations: any status, an accepted dispatch with
// any report later, silence, a closed connection, garbage. ParseRules makes one of text, for the
// program's --simulate; what it says is labelled as simulated. Reports are sent as real backends send
// them: a call that failed is tried again, three times in all, one second apart; any answer ends it.
package stub

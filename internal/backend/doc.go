// Package backend watches the registered backends for the leader.
//
// The Monitor is a service of one leader's term. It asks each registered backend
// for a heartbeat, at once and then every backend.heartbeat_interval, each from a
// goroutine of its own: a backend that hangs delays nobody else's heartbeat.
//
// What it learns is of its own term only and goes with the term:
//
//   - alive: a backend whose newest OK answer of this term is at most three
//     intervals old. An answer is OK when its status is OK and it names the start
//     of its process; an answer after the request's time is up does not count.
//   - observations: which process (its epoch) answered at which resolved address,
//     and when the newest of its answers was asked for. Two observations of one
//     address with different epochs, both asked for after a send had ended, are
//     what proves that the process which took the job is gone; deciding that is
//     the dispatcher's.
//
// Observations keep their number bounded and lose nothing that the proof needs:
// of each address the two epochs asked for last are kept, since the proof asks
// only whether two were asked for after some time.
package backend

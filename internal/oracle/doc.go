// Package oracle judges a run of a cluster under faults, whatever drove it: real processes on one
// machine, or masters inside one process. It knows nothing of how the faults came about. It is given
// facts, and says what in them breaks the promise of docs/design.md:
//
//   - a job, and an invocation, was sent at most once, ever, and as its record says;
//   - every acknowledged submission is there afterwards, once, as it was asked for;
//   - no two jobs held one fence at once, by the order of the journal, and by what clients saw;
//   - a fence was let go only by COMMITTED or NOT_COMMITTED with no refresh owed, or by an operator;
//   - a report that was answered OK has had its effect;
//   - what clients read of a job never went back;
//   - nodes that applied the same entries hold the same state, and each state is sound in itself;
//   - every job ended, or is UNKNOWN, or is PENDING for a reason that can be told.
//
// Facts are collected while the cluster runs, in a Recorder: what clients asked and were answered, and
// what backends were sent. When faults have ended, Read takes jobs, histories and reasons from the
// admin service, and OpenState the state of each node that was stopped. Check compares them.
//
// What is recorded carries the time at which it began and ended by one clock of the test's. Order in
// time is concluded only where one thing ended before the other began. The fences as clients saw them
// are checked for linearizability with porcupine.
package oracle

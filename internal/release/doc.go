// Package release carries out an operator's force release of an UNKNOWN job.
//
// # What it promises
//
// The name of an UNKNOWN job is the one thing that nothing frees by itself: its
// worker may still commit. An operator who knows better may free it, and gets these
// steps, in this order; the first failure ends it with nothing released:
//
//	load              the job as it is now; its revision is the one that counts
//	released already  a success: the record is returned, whatever else was asked
//	not UNKNOWN       refused
//	the note          1 to 1024 bytes, or refused
//	too early         refused: the master that sent the job may still be writing
//	the dataset       read once, where the catalog exists and this master can read
//	                  it; verified absence is an answer, anything else a failure
//	the refresher     run once, where the catalog exists, so that no reader goes on
//	                  with what it knew before the job
//	the journal       FORCE_RELEASE at the revision read first: whoever changed the
//	                  job in between wins, and the operator is told what it is now
//
// A catalog that is gone leaves nobody to ask and nothing to tell; the release goes
// on. The refresher also runs where the dataset is out of this master's reach:
// readers are to be told of what may have changed, whoever can look at it.
//
// # Too early
//
// A leader that lost its term may write the call for as long as the longest send
// window and the call's own timeout after it journaled RUNNING. Until then a worker
// may begin after the release. The time runs on this process's monotonic clock where
// it journaled RUNNING itself, so that a stepped wall clock releases nothing too
// early. What another master journaled as RUNNING was so before this term began, and
// the time runs from there: the time in the record is that of the other's clock, which
// may have been wrong when it wrote it. After a change of the leader a release thus
// waits for as long once more. Where there is no other master, the wall clock counts
// after a restart, and where that claims that RUNNING lies in the future, the time
// since the operator first asked here.
package release

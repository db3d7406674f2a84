// Package raftnode runs one member of the Raft cluster that replicates the journal. It knows nothing
// of jobs: it moves bytes. Around github.com/hashicorp/raft it puts what that library leaves to its
// user, or gets wrong.
//
// # Life of a node
//
//	New -> (HasState, Bootstrap) -> Start -> Propose, ReadBarrier, ... -> Shutdown
//
// Recover, instead, gives a cluster whose quorum is lost for good another member list, on the disk of
// one node that does not run.
//
// New opens the disk and the listener. Start lets the owner of the state machine check its state
// against the log and the snapshots (Config.Prepare), and joins the cluster. A cluster of one member
// takes the same path as one of several.
//
// # What it promises
//
//   - Propose says that a command was certainly not appended (ErrNotAppended), or that it was applied,
//     or that nobody can tell. It never calls an unknown outcome a failure.
//   - ReadBarrier returns nil only when everything acknowledged before the call has been applied here.
//   - Commands of one caller are appended in the order of its calls, even when it gives one up.
//   - Every wait ends with the caller's context, and at the latest with the node. Shutdown leaves no
//     goroutine and no connection behind.
//   - A disk that hangs or fails is fatal and said to be so once, through Config.Fatal. The package
//     never ends the process itself.
//
// # What it guards against
//
// The heartbeat fast path. A transport may answer heartbeats outside Raft's own goroutine. A
// heartbeat of a newer term then deposes the leader in the middle of its loop, and the next command
// is written in that newer term, which this node never won: replicas differ. The transport here
// never installs the fast path, and heartbeats queue with everything else.
//
// Pipelining. One request at a time is in flight to a member, whatever transport is used.
//
// The two halves of a vote. Raft stores the term of its vote and then the candidate. Ended between
// the two, a node would believe that it gave, in the new term, the vote of the old one, and would
// repeat it without looking at the candidate's log. voteOrder stores the candidate first.
//
// The two halves of formation. Raft stores the term and then the member list; ended between the two,
// the node can neither form a cluster nor start. Bootstrap stores the member list first.
//
// Futures that never answer. Commands handed to the state machine's queue when Raft stops are
// answered by nobody. await gives every future an end.
//
// VerifyLeader. It counts answers to older requests and those of members without a vote, so it
// proves nothing about now. ReadBarrier commits and applies an entry instead.
//
// Notices of leadership. Raft's channel keeps only the newest value, and the term read after it may
// be a later one. Here the term is noted on Raft's own goroutine at the moment it is won or lost. A
// node wins a term at most once, so a reader that sees another term knows that the former was lost.
//
// A failed write. Raft goes on after one to its log, and panics after one to its term. Here the
// goroutine that made it goes no further, which takes the node out of the cluster until its owner
// has ended the process. A write that hangs is seen while it hangs.
//
// A vote kept by address. Raft stores for whom it voted as an address. Addresses change by
// configuration, and may change hands: after a restart another member could collect, in the same
// term, the vote given to the former holder. What members tell of themselves, and store of a vote, is
// "ID@host:port" here.
//
// Members that have been removed. One that gets the list without it asks for no votes any more. One
// that was down keeps its old list and asks for pre-votes when it comes back; the others, in whose
// list it is not, answer no, and since a pre-vote raises no term the leader is not disturbed.
//
// Members of another time. Raft takes entries of a newer term from anybody who connects. The members
// that a recovered cluster has lost, and a node whose disk was restored from an image, may have won
// such a term among themselves. The stream must keep them out, by asking who is at the other end:
// see Config.Stream.
//
// A snapshot left half written by a crash. It is removed at the next start.
package raftnode

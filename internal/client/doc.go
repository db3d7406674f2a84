// Package client calls the admin service of a lancemaster cluster. It is given the
// addresses of some masters, finds the leader among them and follows it.
//
// # What it promises
//
//   - Every call ends: each connection attempt, each reply and each round of
//     attempts has a bound, whatever the peer does, and a reply's size is bounded
//     before anything is allocated for it.
//   - A call is repeated only where that cannot do a thing twice: reads, submissions
//     with a request id, and any call that certainly never left this process or that
//     a master answered with NOT_LEADER. For any other call that may have been
//     served although no answer came, the error's code is OUTCOME_UNKNOWN and its
//     next step says how to find out.
//   - Every error of a call is an *Error: a code for programs, what happened, and
//     what to do next.
//   - With Config.Stale every read is answered from the own state of the master that
//     is asked, which says first how new that is. Such a client makes no changes.
//   - A Client is safe for concurrent use. A Thrift connection is not, so each call
//     has one to itself; a few idle ones are kept for reads. A call that must not be
//     repeated always gets a fresh one, because a connection that the peer closed
//     while it was idle takes a request and loses it.
//
// The types here are plain: times are UTC, and their JSON is what the command line
// prints.
package client

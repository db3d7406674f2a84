// Package app puts a node together: the state machine, Raft, the leader's
// services, the Thrift and HTTP servers, and the adapters between packages that
// do not know each other.
//
// # Start and stop
//
// New opens the data directory. Start joins the cluster and serves. A node that
// is not (yet) the leader serves health and metrics and says so to everybody
// else. Stop goes the other way round: the leader's services settle what they
// have under way while the journal still takes commands, then the servers finish
// the requests they have, and Raft and the state file close last.
//
// A fault that the node must not survive, such as a failed disk, is told through
// Done; the process must then end at once. Nothing here ends the process itself.
package app

// Package peer carries everything that masters say to each other: one listener, on the Raft port, for
// the connections of Raft and for calls. Each connection begins with a handshake in which both sides
// say who they are and decide whether they want to talk.
//
// # What it promises
//
//   - No byte reaches Raft or a handler over a connection on which not both sides have accepted the
//     other's identity. Raft's connections are between members only.
//   - A dialler that means a node reaches that node or nobody: addresses may have changed hands.
//   - A refusal is told to both sides, in words that say what to do, and logged once by each, not at
//     every attempt.
//   - A TLS connection does not outlive the certificate at its other end: Config.Recheck is asked at each call
//     and each request of Raft, by both sides.
//   - Call sends a request at most once. Its error says whether the other side may have acted.
//   - Every wait has a bound: the dial and the handshake, the frames of a call, its handler, the
//     middle of a request of Raft's, Close. No goroutine or connection outlives Close.
//   - Silent, foreign or malformed connections take no room from members: each sort has its own, and
//     within it the one that has been idle longest gives way.
//
// # Why
//
// Raft trusts whoever connects: a request of a newer term, from any process that speaks its protocol,
// deposes a leader. A node that was removed while it was down, one that was restored from an old disk
// image, the remains of a cluster that was recovered elsewhere, or simply a mistyped address would
// each disturb or, at worst, fork the journal. Check keeps them out, on both sides.
//
// A node that lags must not be too clever: the leader may be a member that it has not heard of yet.
// Each node says at which Raft index it was registered, and one that has not applied up to there
// believes it.
//
// # Life of a connection
//
//	dial -> (TLS) -> hello -> answer -> verdict -> Raft's bytes, or calls -> closed
//
// Judge is asked at the hello and the answer, again at each call, and at Recheck for all connections
// that stand.
//
// The identity is what a node says of itself. Without TLS nothing proves it: the handshake guards
// against mistakes, TLS against others.
package peer

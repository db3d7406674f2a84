// Package auth finds out who calls, from an access token or a client certificate.
//
// What an Authenticator promises:
//
//   - A token that is given must be valid, and then it says who calls, also where a certificate was given
//     with it: whoever sends a token means to act under its name. Without a token the certificate says
//     it. Without either, only a listener that nobody else can reach lets a caller in, and nothing
//     vouches for that caller's name.
//   - A certificate names an admin caller only by one of the roles read, submit, operate and admin. A
//     master's and a backend's are refused: their keys lie on more machines than an operator's should.
//     It is held against the clock and the CAs at each call, since a connection may outlive both.
//   - Tokens are kept as SHA-256 hashes. A token is 256 random bits, so that nothing slower is needed: there
//     is no dictionary to try. Every kept hash is compared at each call, each in constant time.
//   - A text that is no token is refused by its form, before anything is computed from it.
//   - Failures are counted, and from an address that fails often nothing unknown is looked into for some
//     seconds. A token that is known is let in all the same, so that one mistyped script does not lock out the
//     others of its machine or its network. A success is never counted against anybody.
//   - A token that this node does not know is unknown only when the node has caught up with the cluster, or
//     could not within two seconds: one that another master made a moment ago is no guess. From an address that
//     fails often it is not waited for.
//   - No token, and no part of one, is in an error, a log line or a metric.
//
// Tokens come from the cluster's registry, and from a file of the node (NAME ROLE SHA256HEX) for the first
// token, before there is a cluster that could keep one, and for the day the cluster is without a leader.
//
// Where there are certificates alone, of backends that report and of those who read metrics, a
// Certificates judges each request in the same way.
//
// What a caller may do is not decided here: package rpc knows what each method needs.
package auth

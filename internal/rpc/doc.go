// Package rpc is the master's Thrift boundary: the report service that backends call, the admin
// service that people and programs call, and the client that calls backends. It turns wire structs
// into the domain's types and back, and decides nothing that the state machine decides.
//
// # Reports
//
// A backend retries a failed call and nothing else. So an answer means: applied, or dropped for good;
// and whatever could not be journaled, or could not be decided on a state that is new enough, fails
// the call. A report is believed only after the secret it echoes hashes to what the journal holds for
// its job; then its identity must match the one dispatch; then the proof it carries is recorded, be
// the rest malformed or not; then the result. What is dropped is counted by reason and logged without
// anything that came in the report but the job's number.
//
// # Forwarding
//
// Only the leader decides. Any other master holds a report until it knows a leader, and hands a
// report or an admin call to it once, over a connection that the masters have among each other. What
// certainly did not leave may go to the next leader; of what may have arrived nobody knows, so a
// report's call fails, a read is UNAVAILABLE, and a change is OUTCOME_UNKNOWN with what to look at.
// The receiving side serves from the same handlers, within the same bounds, and never forwards again.
// A stale read stays where it was asked.
//
// # Who calls
//
// A call is made by a principal: found out once, by the master that was asked, carried along when the
// call is forwarded, and named in the history as NAME where something vouches for it and as
// unverified:NAME where nothing does. One table says which role each method needs, and one place
// looks; a method that is not in the table can be called by nobody.
//
// # Secrets
//
// The generated structs print every field. They are passed on by this package and never logged,
// formatted or kept.
package rpc

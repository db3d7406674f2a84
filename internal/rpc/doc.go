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
// # Secrets
//
// The generated structs print every field. They are passed on by this package and never logged,
// formatted or kept.
package rpc

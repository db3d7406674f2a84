// Package scripted plays a backend over the wire, by the contract or against it as a test's script
// says, and counts what it is sent. What an oracle.Recorder is given of it is how at most one send of a
// job is checked, whatever happened to the masters in between.
package scripted

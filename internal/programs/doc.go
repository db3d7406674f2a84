// Package programs starts the programs of this repository for tests that run them as an operator's
// machine would: as processes that are called, stopped, killed and started again.
//
// No process outlives its test. When the test ends each that still runs is told to stop, and must, in
// time and with exit code 0; none may have printed a panic. When a test fails, what its processes
// printed is shown. Main fails the run if a process is left in spite of that. Only processes that were
// started here are ever signalled, by their handle.
//
// LANCEMASTER_BIN names the directory of the programs.
package programs

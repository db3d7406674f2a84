// Package e2e tests the real programs from end to end: processes that are started, called, killed and
// restarted as an operator's would be. Its files carry the build tag e2e; `make e2e` builds the
// programs and runs them.
//
// A test has a data directory and loopback ports of its own, and a backend: the program
// lanceworker-stub, or one that the test scripts and that plays by the wire's contract or against it.
// The scripted backend counts what is sent to it. At most one send of a job, ever, is what every test
// that uses it holds the master to, whatever is killed in between.
//
// No process outlives its test. Each must end by itself when it is told to, without a panic in its
// output; when a test fails, what its processes printed is shown.
//
// LANCEMASTER_BIN names the directory of the programs. LANCEMASTER_E2E_KILLS raises how many times
// the masters of the crash test are killed, LANCEMASTER_E2E_SEED repeats the random choices of a run.
package e2e

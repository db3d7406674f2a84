// Package archtest holds the tests that keep this repository's shape: who may import whom, which
// packages must be deterministic, and a few habits of the house. It has no code of its own.
//
// The state machine is replicated by running the same commands on every master. One clock read, one
// random number or one map iterated in its own order there, and the masters disagree for ever, in a
// way that no test of a single master sees. So packages job, command, store and fsm are read here,
// with their types, for everything of that kind. The import directions keep it so: what a
// deterministic package does not import it cannot call.
//
// The table of packages is in table_test.go. An exception is made where it applies, by a comment that
// gives its reason:
//
//	//order: ...  on or above a range over a map whose order cannot reach a result
//	//sleep: ...  on or above a time.Sleep that is the interval of a bounded poll; in tests nothing excuses one
//	// long: ...  above the package clause of a file of more than 600 lines
package archtest

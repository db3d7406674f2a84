// Package cli is the command line: lancemaster serve and dev run masters, the other
// commands call one through package client. Each command has its own file.
//
// What scripts may count on:
//
//   - Output is on stdout, in the form that -o names. json and yaml show the same
//     fields, in the same order; tables are for people and may change.
//   - Everything else (progress, hints, failures) is on stderr. A failure is one line,
//     "lancemaster: CODE: message", where the code is a master's or the client's own
//     and is left out where there is none, and then where something can be done about
//     it a line "next: what to do".
//   - The exit status: 0 done, 1 failed, 2 wrong usage. Commands that wait for a job
//     also exit with 3 not committed, 4 unknown, 5 timed out.
//
// Text that came from elsewhere is shown with its control characters escaped, so that
// a stored name cannot steer a terminal.
package cli

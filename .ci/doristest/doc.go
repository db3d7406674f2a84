// Package doris tests the refresher doris against a real listener of the MySQL
// protocol, which hands over each statement as it came.
//
// It is a module of its own because that listener needs many others, which are no
// business of who depends on lancemaster. `make doris-test` runs it.
package doris

// Package refresh holds the refreshers: what makes the readers of a catalog see
// that a dataset has changed.
//
// A refresher is told of one attempt and answers with evidence or with an error.
// Evidence is one line that says what DONE rests on; it is stored with the job.
// Nothing else ends a refresh: no evidence, no DONE, and without DONE the job
// keeps its fence. The driver that decides when an attempt is due, bounds it and
// journals its end is in package dispatch.
//
// A refresh may be run more than once for one job: a leader that is gone may
// have run it without saying so. Refreshers must be safe to repeat.
package refresh

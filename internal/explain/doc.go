// Package explain says why a job is where it is: what it waits for, what it holds,
// and what would free that. It decides nothing: it reads the replicated state, what
// the dispatcher remembers of the job, and the heartbeats, and puts them into words.
//
// Text is for people and may change; the codes are for programs and do not. What is
// said is true of the moment: the next round may have done it by the time it is read.
package explain

// Package refresh holds the refreshers: what makes the readers of a catalog see
// that a dataset has changed.
//
// A refresher is told of one attempt and answers with evidence or with an error.
// Evidence is one line that says what DONE rests on; it is stored with the job.
// Nothing else ends a refresh: no evidence, no DONE, and without DONE the job
// keeps its fence. The driver that decides when an attempt is due, bounds it and
// journals its end is in package dispatch.
//
//   - none has nothing to refresh and says so.
//   - http posts the change to a URL. A whole answer of 2xx is evidence; a
//     redirect is not followed.
//   - doris sends REFRESH TABLE to the first of a list of frontends that takes it.
//     Its OK is evidence; whatever else a frontend does sends the attempt on to
//     the next one, and no message text is read to decide that.
//
// A refresh may be run more than once for one job: a leader that is gone may
// have run it without saying so. Refreshers must be safe to repeat.
//
// An attempt leaves nothing behind. It dials its own connections, reads its
// password and CA bundle anew, so that a rotated one counts from the next attempt,
// and closes everything when it returns. All of it happens within the context's
// deadline, or DefaultTimeout where there is none.
//
// The password of a login by the MySQL protocol leaves the process over TLS only;
// without it the login is a proof that does not carry the password, or fails.
//
// Errors and evidence carry text of other machines, cut short and made one line.
// The secret of the attempt is taken out of it, also in the usual encodings; where
// the secret is too short for that to hide it, the other side's text is left out
// whole. What cannot be trusted to be well-formed, an answer's length, a packet, a
// header, is bounded before it is kept.
package refresh

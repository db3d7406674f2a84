// Package store keeps the replicated state in one bbolt file, state.db.
//
// # What it promises
//
// One write transaction per applied batch, with the Raft index and term it
// reaches inside: after a crash the file is the state at exactly that position,
// whole. What is read is decoded anew each time and belongs to the reader.
//
// # Buckets
//
//	meta              applied position, the cluster's record, format, counters
//	jobs              id                                   -> record
//	history           id, revision                         -> event
//	dropped           id                                   -> events dropped from its history
//	watch             raft index, id, revision             -> nothing
//	requests          len, creator, request id             -> id
//	closed            closed at, id                        -> nothing; jobs that are not open
//	postings          kind, len, value, created at, id     -> nothing
//	states            state, refresh state                 -> how many jobs
//	catalogs          name                                 -> catalog
//	backends          id                                   -> backend
//	members           node id                              -> member
//	tokens            name                                 -> access token
//	settings          name                                 -> the change that set it
//	settings_history  raft index, n                        -> change; the newest 1000
//
// Numbers in keys are big-endian, signed ones with the sign bit flipped, so that
// bytes sort as the numbers do. A text that is not a key's last part stands
// behind its length: no key's prefix can be mistaken for another's.
//
// # Lists
//
// Each posting says "this job has this value", and all postings of one value are
// ordered by (created at, id). A list is the intersection of a few such
// sequences, walked downwards: each cursor leaps to the greatest position that
// none of the others has passed. The cost follows the rarest value and the size
// of the page, never the size of the history, and a page's end is a position, so
// paging is stable while jobs come and go. A transition touches only the postings
// that it changes.
//
// # bbolt
//
// Keys are collected before they are deleted: deleting through a cursor after a
// Put in the same transaction can skip or repeat keys. See open.go for the
// options and their reasons.
package store

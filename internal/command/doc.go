// Package command turns the journal's commands and the state file's records into
// bytes and back.
//
// # Layout
//
//	offset 0  1 byte   family and format: 0xC1 a command, 0xD1 a record
//	offset 1  2 bytes  feature level, big-endian
//	offset 3  2 bytes  kind number, big-endian
//	offset 5           the kind's struct of idl/journal.thrift, compact protocol
//
// # What it promises
//
// Bytes are canonical: a value has exactly one encoding, at the lowest level that
// can carry it, and Decode accepts nothing else. It decodes, encodes the result
// again and compares. That one comparison refuses trailing bytes, repeated
// fields, padded numbers, fields set to their default and lists of a foreign
// element type, without a rule for each; and it means that a value which passed
// Decode loses nothing by being stored again.
//
// A field this build does not know is refused before that: generated Thrift code
// skips unknown fields in silence, so the reader's Skip is an error (see strict).
// Doing this in the walk, rather than leaving it to the comparison, lets the error
// name the field and say that the node must be upgraded.
//
// Both directions hold a value to the same bounds (check.go). Encode therefore
// refuses on the proposer what would stop every node on the way back, and the
// proposer learns that nothing was appended.
//
// # Errors
//
// UnsupportedError: written by a newer build; upgrade this node. CorruptError:
// damage, or bytes that no build wrote. InvalidError: Encode was given a value
// that must not be journaled. None of the three is ever answered by guessing.
//
// # Numbers
//
// Levels and kind numbers are append-only, and the bytes of every kind are pinned
// by the files under testdata. A kind or field of a higher level is written only
// after a journaled RaiseLevel; until then every value must fit a lower one. A
// proposer therefore uses EncodeAt, with the level in force.
//
// What a level adds stands in a file of its own. level2.go is in no release: the
// build tag nextlevel makes a build that is one level ahead, to test upgrades with.
package command

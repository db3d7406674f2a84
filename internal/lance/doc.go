// Package lance reads what the master must know of a Lance dataset before it
// admits an index job: the latest version, the fields and the indexes. All of
// it stands in one file, the newest manifest under _versions/; data, deletion
// and index files are never opened, and nothing is ever written.
//
// # What it promises
//
//   - One snapshot. A [Dataset] comes from exactly one manifest. The file is
//     opened once; a newer version committed meanwhile is simply not seen, and
//     a chosen version that is cleaned up before it could be opened makes the
//     reader list again, a bounded number of times.
//   - No guess. A file that is not wholly understood is refused with an
//     [*Error] whose [Code] says which kind of no it is, and whose text names
//     the file and what is wrong with it. An absent dataset is told apart from
//     one that could not be read.
//   - Bounded work on hostile input. Manifests are walked through a small
//     window, so memory follows the schema and the index list, which have
//     limits of their own, and not the file; every length is held against what
//     is left of the file before anything is allocated for it. A path that is
//     a pipe or a device is refused, not waited for.
//
// # The format in short
//
// A manifest ends in sixteen bytes: the position of the manifest message
// (i64), the format's major and minor version (u16 each) and "LANC", all
// little-endian. At the position stand a u32 length and the protobuf message,
// which fills the file up to the footer. The index list is a second message,
// framed the same way, at the offset that the first one names.
//
// Versions are named in one of two schemes: V1 is the version in decimal, V2
// is 2^64-1 minus the version in twenty digits, so that an object store lists
// the newest first. See [NamingScheme].
//
// Where the bytes come from is behind [Source]; [Dir] is a local folder.
package lance

// Package tlsconf makes the TLS of every connection: from files that may change at any time, and with
// what a certificate says of who holds it.
//
// A Source is one certificate, its key and one bundle of CAs, read from files and read again when they
// change. What it promises:
//
//   - A new connection is made with what was loaded last, on both sides of it: a server's certificate,
//     a client's certificate, and the CAs that the other side is held against. No connection that
//     stands is closed for it.
//   - Whoever serves a connection that stands asks Recheck at each of its requests, and so refuses a
//     certificate that has expired since the handshake, or whose CA is trusted no longer.
//   - What cannot be loaded changes nothing: files that do not fit each other, an expired certificate,
//     a certificate of another node. The error says so, and so do a metric and one line in the log.
//   - Sessions are never resumed. A ticket would let a client in by what was true when the ticket was
//     made: under a CA that is trusted no longer, with a role that it has no longer. A whole handshake
//     with P-256 costs less than a millisecond, and connections here are few and long.
//   - TLS 1.2 is the least, and of 1.2 only the suites with ECDHE and an AEAD.
//   - A private key is read, used, and never shown.
//
// Files are compared by content and not by their times: a copy that keeps times, a symbolic link that is
// turned and a mounted secret are all noticed, and a file touched without change is not.
//
// # Who holds a certificate
//
// Roles are URIs among the certificate's subject alternative names, since those are what a CA signs for
// programs:
//
//	lancemaster://role/ROLE   exactly one: read, submit, operate, admin, backend or master
//	lancemaster://node/ID     of a master: its node id
//
// The holder's name is the subject's common name. A certificate without a role, with two, or with one
// that is not known names nobody; it does not fall back to some least role, because a mistake in issuing
// certificates should be seen and not guessed around. PeerOf and NodeOf read only certificates that the
// handshake has verified.
package tlsconf

// Package thriftnet serves and calls Thrift over TCP so that nothing a peer sends, or fails to send,
// can hurt the process.
//
// The library's protocols and the generated processors do the encoding; the library's own server and
// sockets are not used, because one failed accept ends TSimpleServer's loop without a word, a panic
// in a handler ends the process, its Stop waits for idle clients, and nothing bounds connections,
// the time a request may take to arrive, or the bytes of a whole message.
//
// What Server promises:
//
//   - Accepting goes on after every failed accept, with a growing pause and one line in the log.
//   - At most Config.MaxConns connections. When one more arrives, the one that has been idle longest
//     goes, else the one that has been sending its request longest; a request being worked on never
//     does.
//   - A request must arrive whole within Config.ReadTimeout of its first byte, and be answered within
//     Config.RequestTimeout; a silent connection is closed after Config.IdleTimeout.
//   - A message takes at most Config.MaxMessage bytes in all, a container at most
//     Config.MaxContainer elements, and all messages being read at most Config.MaxInFlight bytes.
//     A length alone allocates next to nothing.
//   - A panic in a handler closes its connection and nothing else.
//   - Text must be UTF-8. An unknown method is answered as such. Bytes of another protocol (HTTP, TLS
//     on a plain port) close the connection.
//   - What a peer is told carries no Go type, path or cause: only what handlers say.
//   - Stop is bounded, and when it returns nil no goroutine of the server is left.
//
// A Client is one connection for one caller at a time, with the same bounds on what it reads, and a
// deadline on every dial, read and write.
package thriftnet

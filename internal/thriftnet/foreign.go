package thriftnet

import "bytes"

// ForeignError is in the chain of the error that ends a call which something else than a Thrift service
// has answered: nothing was served there.
type ForeignError struct {
	// Speaks is what was answered in: HTTP or TLS.
	Speaks string
	err    error
}

func (e *ForeignError) Error() string {
	return "this is " + e.Speaks + ", not Thrift: " + e.err.Error()
}

// Unwrap returns how the answer failed as Thrift.
func (e *ForeignError) Unwrap() error { return e.err }

// firstBytes are enough to know what is spoken, and fewer than any answer has.
const firstBytes = 5

// first looks at what the other end begins to say, where that says anything about what it speaks; a frame
// begins with its length.
func (t *transport) first() []byte {
	if t.framed {
		return nil
	}
	b, _ := t.reader.Peek(firstBytes) // what fails here fails again when it is read
	return b
}

// spokenIn guesses what is spoken from the first bytes of an answer; empty where nobody can tell.
func spokenIn(first []byte) string {
	const alert, version = 0x15, 3 // of a TLS record: its type, and the first byte of its version
	switch {
	case bytes.HasPrefix(first, []byte("HTTP/")):
		return "HTTP"
	case len(first) >= 2 && first[0] == alert && first[1] == version:
		return "TLS"
	}
	return ""
}

package stub

import (
	"fmt"
	"strconv"

	"github.com/lancemaster/lancemaster/gen-go/shared"
)

// parseStatusNumber reads a status, by its name in TStatusCode or as any number: the wire has more numbers
// than names, and a test may want one that nobody knows.
func parseStatusNumber(text string) (int32, error) {
	return number(text, "status", "TStatusCode", func(name string) (int64, error) {
		code, err := shared.TStatusCodeFromString(name)
		return int64(code), err
	})
}

// parseCode reads a result code, by its name in TLanceIndexResultCode or as any number.
func parseCode(text string) (int32, error) {
	return number(text, "result code", "TLanceIndexResultCode", func(name string) (int64, error) {
		code, err := shared.TLanceIndexResultCodeFromString(name)
		return int64(code), err
	})
}

// parseProof reads a termination proof, by its name in TLanceIndexTerminationProof or as any number
// but 0, which stands for none sent.
func parseProof(text string) (int32, error) {
	proof, err := number(text, "termination proof", "TLanceIndexTerminationProof", func(name string) (int64, error) {
		proof, err := shared.TLanceIndexTerminationProofFromString(name)
		return int64(proof), err
	})
	if err == nil && proof == 0 {
		return 0, fmt.Errorf("termination proof %q: leave the proof out to send none", text)
	}
	return proof, err
}

func number(text, what, enum string, named func(string) (int64, error)) (int32, error) {
	if n, err := strconv.ParseInt(text, 10, 32); err == nil {
		return int32(n), nil
	}
	n, err := named(text)
	if err != nil {
		return 0, fmt.Errorf("%s %q is neither a name of %s nor a number of 32 bits", what, text, enum)
	}
	return int32(n), nil //nolint:gosec // the generated enums have small numbers
}

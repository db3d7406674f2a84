package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"strings"

	"github.com/lancemaster/lancemaster/internal/job"
)

// TokenPrefix begins every token, so that people and scanners for leaked secrets know one when they see it.
const TokenPrefix = "lm_"

const (
	tokenBytes  = 32
	tokenLength = len(TokenPrefix) + (tokenBytes*8+5)/6
)

// NewToken makes the text of a token.
func NewToken() string {
	var b [tokenBytes]byte
	_, _ = rand.Read(b[:]) // never fails
	return TokenPrefix + base64.RawURLEncoding.EncodeToString(b[:])
}

// errTokenForm does not repeat what was given: it may be a secret in another place.
var errTokenForm = errors.New("this is no access token: those begin with " + TokenPrefix + " and go on with 43 letters, digits, - and _")

// errTokenTyped: the last of the 43 says less than the others, so some of those that look like a token are none.
var errTokenTyped = errors.New("this access token is mistyped or was changed: no token ends with its last character")

// HashToken returns what is kept of a token. Only the text's length and letters decide whether it is
// looked at further, and no text is long.
func HashToken(text string) (job.Hash, error) {
	if len(text) != tokenLength || !strings.HasPrefix(text, TokenPrefix) {
		return job.Hash{}, errTokenForm
	}
	// The decoder passes over line ends, which the length of what it returns gives away.
	given := text[len(TokenPrefix):]
	if b, err := base64.RawURLEncoding.DecodeString(given); err != nil || len(b) != tokenBytes {
		return job.Hash{}, errTokenForm
	}
	if _, err := base64.RawURLEncoding.Strict().DecodeString(given); err != nil {
		return job.Hash{}, errTokenTyped
	}
	return sha256.Sum256([]byte(text)), nil
}

// find returns the token with a hash; nil when there is none. It compares with every token, whether or
// not one was found, so that the time taken says nothing of which.
func find(given job.Hash, list []*job.Token) *job.Token {
	var found *job.Token
	for _, t := range list {
		if sameHash(given, t.Hash) && found == nil {
			found = t
		}
	}
	return found
}

// sameHash compares in constant time.
var sameHash = func(a, b job.Hash) bool { return subtle.ConstantTimeCompare(a[:], b[:]) == 1 }

package job

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxSchemaContract bounds a schema contract, in bytes: it describes one column,
// and the whole invocation has to fit its frame beside it.
const MaxSchemaContract = 64 << 10

func refuse(code Code, message, next string) *Refusal {
	return &Refusal{Code: code, Message: message, Next: next}
}

func invalid(format string, args ...any) *Refusal {
	return refuse(CodeInvalid, fmt.Sprintf(format, args...), "correct it and ask again")
}

// checkText refuses text that is too long or not UTF-8. It never repeats the
// text, which may be large, hostile or secret.
func checkText(what, s string, limit int) *Refusal {
	if len(s) > limit {
		return invalid("%s must have at most %d bytes; %d were given", what, limit, len(s))
	}
	if !utf8.ValidString(s) {
		return invalid("%s must be valid UTF-8", what)
	}
	return nil
}

// checkLine is checkText for text that names something: no control characters.
func checkLine(what, s string, limit int) *Refusal {
	if r := checkText(what, s, limit); r != nil {
		return r
	}
	if strings.ContainsFunc(s, unicode.IsControl) {
		return invalid("%s must not hold a control character", what)
	}
	return nil
}

// checkName is checkLine for what must be there.
func checkName(what, s string) *Refusal {
	if s == "" {
		return invalid("%s must not be empty", what)
	}
	return checkLine(what, s, MaxName)
}

// checkNote is for what an operator must say in words.
func checkNote(what, s string) *Refusal {
	if strings.TrimSpace(s) == "" {
		return refuse(CodeInvalid, what+" must not be empty", "give it in words; it is kept")
	}
	return checkText(what, s, MaxNote)
}

// lower lower-cases ASCII letters only. Where a comparison decides what is
// journaled it must not depend on the Unicode tables a build happens to have.
func lower(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

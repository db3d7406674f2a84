package job

import (
	"strings"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
)

// reservedPrefix begins the names of the indexes that Lance keeps for itself.
const reservedPrefix = "__lance_"

// NormalizeIndexName returns the spelling under which an index name is fenced:
// its lower case by Unicode's full mapping, whatever the language. It equals
// Java's toLowerCase(Locale.ROOT), by which the datasets' other writers compare
// names; the tests name the letters where that takes care. It is computed once,
// at admission, and the result travels in the journal: no state machine computes
// it again, since another build may have other Unicode tables.
func NormalizeIndexName(s string) string {
	// A Caser keeps state between calls, so each call has its own.
	return cases.Lower(language.Und).String(s)
}

// CheckIndexName refuses an index name that no caller may ask for. The error is a
// *Refusal.
func CheckIndexName(s string) error {
	if r := checkIndexName(s); r != nil {
		return r
	}
	return nil
}

func checkIndexName(s string) *Refusal {
	if s == "" {
		return invalid("the index name is empty")
	}
	if r := checkLine("the index name", s, MaxIndexName); r != nil {
		return r
	}
	key := NormalizeIndexName(s)
	if strings.HasPrefix(key, reservedPrefix) {
		return reservedName()
	}
	return checkName("the normalized index name", key)
}

func reservedName() *Refusal {
	return refuse(CodeInvalid, "index names beginning "+reservedPrefix+" in any case belong to Lance itself",
		"choose another name")
}

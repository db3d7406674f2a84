package job

import (
	"strings"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
)

// reservedPrefix begins the names of the indexes that Lance keeps for itself.
const reservedPrefix = "__lance_"

// NormalizeIndexName returns the spelling under which an index name is fenced:
// its lower case by Unicode's full mapping, whatever the language. Letter by
// letter it equals Java's toLowerCase(Locale.ROOT), by which the datasets' other
// writers compare names, but for letters younger than the older of the two
// builds' Unicode tables. They differ over which capital sigma ends a word, where
// digits, '_', '-' or ':' stand between it and another letter: Java writes the
// final form in "a_\u03A3", this the other one. Either way a name has one key.
//
// The key is computed once, before admission, and travels in the journal. No state
// machine computes it again, since another build may have other tables.
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
	if r := checkName("the index name", s); r != nil {
		return r
	}
	if r := checkText("the index name", s, MaxIndexName); r != nil {
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

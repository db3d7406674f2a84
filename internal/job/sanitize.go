package job

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// sanitizeInput bounds what SanitizeMessage looks at, and so what it costs. It is
// far more than what it returns, so that a credential cut in two here is not in the
// result.
const sanitizeInput = 8 << 10

const mask = "***"

// secretKeyPattern matches the end of a key that names a secret, from the telling
// word on; it follows secretWords.
const secretKeyPattern = `(?:secret|passw(?:or)?d|passphrase|token|credential|account[_-]?key|private[_-]?key|api[_-]?key|` +
	`storage[_-]?key|master[_-]?key|encryption[_-]?key|session|signature|\bsas|\bsig|\bpwd|_sas|_sig|_pwd|\bpass|` +
	`access[_-]?key)[\w.\-]*`

// masks are what looks like a credential, and what is left of it.
var masks = []struct {
	pattern *regexp.Regexp
	left    string
}{
	// A PEM block, whole or cut off.
	{regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*-----|\z)`), mask},
	// The userinfo of a URL; a password may hold an @ of its own.
	{regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.\-]*://)[^/?#\s"'<>]*@`), "${1}" + mask + "@"},
	// An Authorization header and bearer tokens anywhere.
	{regexp.MustCompile(`(?i)(authorization["'\\]*\s*[=:]\s*)[^\r\n,;]+`), "${1}" + mask},
	{regexp.MustCompile(`(?i)\b(bearer\s+)[A-Za-z0-9._~+/=\-]{16,}`), "${1}" + mask},
	// key=value, key: value and "key": "value" with a key that names a secret.
	{regexp.MustCompile(`(?i)(` + secretKeyPattern + `["'\\]*\s*(?:=>|[=:])\s*)(?:\\"[^"]*"?|"(?:[^"\\]|\\.)*"?|'[^']*'?|[^\s,;&]+)`), "${1}" + mask},
	// An invocation secret, or a key of the same shape.
	{regexp.MustCompile(`\b[0-9A-Fa-f]{32}\b`), mask},
}

// SanitizeMessage makes text from outside fit to be stored, logged and shown:
// valid UTF-8 without control characters, what looks like a credential masked, at
// most MaxMessage bytes. Whoever brings such text into a command calls it; the
// transitions only check the bounds.
func SanitizeMessage(s string) string {
	s = strings.ToValidUTF8(cut(s, sanitizeInput), "\uFFFD")
	for _, m := range masks {
		s = m.pattern.ReplaceAllString(s, m.left)
	}
	s = strings.Map(func(r rune) rune {
		// Line and paragraph separators and the marks that turn the direction of
		// writing are controls in all but name.
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || unicode.Is(unicode.Bidi_Control, r) {
			return ' '
		}
		return r
	}, s)
	return cut(strings.TrimSpace(s), MaxMessage)
}

// cut shortens s to at most limit bytes, between two runes.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}

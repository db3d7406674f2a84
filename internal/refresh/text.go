package refresh

import (
	"cmp"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	mask = "***"
	// minMaskable is the shortest secret whose places in a text are masked. To mask a
	// shorter one would say what it is: every "a" that is missing.
	minMaskable = 8
	// maxSecret bounds a token or password, in bytes.
	maxSecret = 4096
	withheld  = "(its text is left out: the secret is too short to be found in it)"
)

// scrubber makes text fit to be stored and shown: one line, bounded, without the
// attempt's secret.
type scrubber struct {
	secret string
	forms  []string // how the secret may be written, longest first
}

func newScrubber(secret string) scrubber {
	s := scrubber{secret: secret}
	if len(secret) < minMaskable {
		return s
	}
	s.forms = append(jsonForms(secret), htmlForms(secret)...)
	s.forms = append(s.forms, secret, url.QueryEscape(secret), url.PathEscape(secret),
		strings.ReplaceAll(secret, "'", "''"), strings.ReplaceAll(secret, "'", `\'`),
		base64.RawStdEncoding.EncodeToString([]byte(secret)), base64.RawURLEncoding.EncodeToString([]byte(secret)))
	slices.SortFunc(s.forms, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	s.forms = slices.Compact(s.forms)
	return s
}

// jsonForms are how a secret stands in JSON. All escape quotes and backslashes; some
// also slashes, and some what means something in HTML.
func jsonForms(secret string) []string {
	escaped := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(secret)
	forms := []string{escaped, strings.ReplaceAll(escaped, "/", `\/`)}
	if quoted, err := json.Marshal(secret); err == nil {
		forms = append(forms, string(quoted[1:len(quoted)-1]))
	}
	return forms
}

// htmlForms are how a secret stands in a page, which may spell a quote in several ways
// or leave it as it is.
func htmlForms(secret string) []string {
	escaped := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(secret)
	var forms []string
	for _, double := range []string{`"`, "&quot;", "&#34;"} {
		for _, single := range []string{"'", "&#39;", "&#039;", "&#x27;", "&apos;"} {
			forms = append(forms, strings.NewReplacer(`"`, double, "'", single).Replace(escaped))
		}
	}
	return forms
}

// longest returns the length of the longest form of the secret.
func (s scrubber) longest() int {
	if len(s.forms) == 0 {
		return len(s.secret)
	}
	return len(s.forms[0])
}

// theirs is a text that the other side wrote, which may have seen the secret.
func (s scrubber) theirs(text string, limit int) string {
	if s.secret != "" && len(s.secret) < minMaskable && strings.TrimSpace(text) != "" {
		return withheld
	}
	return s.ours(text, limit)
}

// ours is a text of this process, which at most quotes names.
func (s scrubber) ours(text string, limit int) string {
	for _, form := range s.forms {
		text = strings.ReplaceAll(text, form, mask)
	}
	return oneLine(text, limit)
}

// localError is an error whose text quotes nothing of what the other side sent.
type localError struct{ text string }

func (e *localError) Error() string { return e.text }

// failure is the text of a failed dial, handshake or exchange. Only an error that
// is known to quote nothing of what the other side sent counts as ours.
func (s scrubber) failure(err error, limit int) string {
	var network *net.OpError
	var certificate *tls.CertificateVerificationError
	var local *localError
	if errors.As(err, &network) || errors.As(err, &certificate) || errors.As(err, &local) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return s.ours(err.Error(), limit)
	}
	return s.theirs(err.Error(), limit)
}

// oneLine returns text as valid UTF-8 without control characters, at most limit
// bytes long.
func oneLine(text string, limit int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || unicode.Is(unicode.Bidi_Control, r) {
			return ' '
		}
		return r
	}, text)
	const ellipsis = "..."
	text = strings.TrimSpace(text)
	if len(text) <= limit {
		return text
	}
	end := max(limit-len(ellipsis), 0)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + ellipsis
}

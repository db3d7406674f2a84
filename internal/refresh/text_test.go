package refresh

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"log"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"
)

const canary = `canary/7f3a"b%c'd`

// secrets resolves references from a map, as the resolver of dispatch does from
// files and the environment.
type secrets map[string]string

func (s secrets) Resolve(_ context.Context, reference string) (string, error) {
	value, ok := s[reference]
	if !ok {
		return "", errors.New("the environment variable is not set on this master")
	}
	return value, nil
}

// Programs differ in what they escape in JSON and in HTML.
func TestScrubberDialects(t *testing.T) {
	const secret = `canary&7f3a"b/c'<d`
	scrub := newScrubber(secret)
	for name, text := range map[string]string{
		"JSON of Go":     `canary\u00267f3a\"b/c'\u003cd`,
		"JSON of Python": `canary&7f3a\"b/c'<d`,
		"JSON of PHP":    `canary&7f3a\"b\/c'<d`,
		"HTML of Go":     `canary&amp;7f3a&#34;b/c&#39;&lt;d`,
		"HTML of Python": `canary&amp;7f3a&quot;b/c&#x27;&lt;d`,
		"HTML of PHP":    `canary&amp;7f3a&quot;b/c&#039;&lt;d`,
	} {
		t.Run(name, func(t *testing.T) {
			if got := scrub.theirs("no "+text+" please", 200); got != "no "+mask+" please" {
				t.Errorf("%q became %q", text, got)
			}
		})
	}
}

func TestScrubber(t *testing.T) {
	scrub := newScrubber(canary)
	for name, text := range map[string]string{
		"plain":     "bad token " + canary + " sent",
		"twice":     canary + canary,
		"JSON":      `{"token":"canary/7f3a\"b%c'd"}`,
		"query":     "?token=" + url.QueryEscape(canary),
		"path":      "/login/" + url.PathEscape(canary),
		"SQL":       `near 'canary/7f3a"b%c''d'`,
		"backslash": `near 'canary/7f3a"b%c\'d'`,
		"base64":    "Basic " + base64.StdEncoding.EncodeToString([]byte(canary)),
	} {
		t.Run(name, func(t *testing.T) {
			got := scrub.theirs(text, 200)
			if !strings.Contains(got, mask) {
				t.Errorf("%q is not masked: %q", text, got)
			}
			if strings.Contains(got, "7f3a") || strings.Contains(got, "Y2FuYXJ5") {
				t.Errorf("the secret is seen in %q", got)
			}
		})
	}
}

// A secret of a few letters cannot be masked without saying what it is.
func TestShortSecret(t *testing.T) {
	scrub := newScrubber("root")
	if got := scrub.theirs("Unknown catalog 'root'", 200); got != withheld {
		t.Errorf("got %q, want the text withheld", got)
	}
	if got := scrub.theirs("", 200); got != "" {
		t.Errorf("nothing became %q", got)
	}
	if got := scrub.ours("connection refused", 200); got != "connection refused" {
		t.Errorf("got %q", got)
	}
	if got := newScrubber("").theirs("Unknown catalog", 200); got != "Unknown catalog" {
		t.Errorf("without a secret got %q", got)
	}
}

func TestOneLine(t *testing.T) {
	tests := []struct{ text, want string }{
		{"plain", "plain"},
		{" a\nb\tc\x00d\r\n", "a b c d"},
		{"\xffa\u202eb\u2028c", "\uFFFDa b c"},
		{"0123456789", "0123456789"},
		{"0123456789a", "0123456..."},
		{"012345ü789a", "012345..."},
		{"", ""},
	}
	for _, tt := range tests {
		if got := oneLine(tt.text, 10); got != tt.want {
			t.Errorf("oneLine(%q) = %q, want %q", tt.text, got, tt.want)
		}
	}
}

func FuzzScrubber(f *testing.F) {
	f.Add("secret-secret", "the secret-secret\n")
	f.Add("päßwörter", "\xff")
	f.Fuzz(func(t *testing.T, secret, text string) {
		const limit = 60
		scrub := newScrubber(secret)
		got := scrub.theirs("a "+secret+" b "+text, limit)
		if len(got) > max(limit, len(withheld)) || !utf8.ValidString(got) || strings.ContainsAny(got, "\n\r\x00") {
			t.Errorf("not a bounded line: %q", got)
		}
		// A secret that the mask or the dots of a cut can spell proves nothing, nor one that
		// a control character made a space completes.
		plain := !strings.ContainsFunc(secret, func(r rune) bool { return r <= ' ' || r > '~' || r == '*' || r == '.' })
		if plain && len(secret) >= minMaskable && strings.Contains(got, secret) {
			t.Errorf("the secret %q is seen in %q", secret, got)
		}
	})
}

// quietLog takes what a test server says of the failures that a test causes.
func quietLog() *log.Logger { return log.New(io.Discard, "", 0) }

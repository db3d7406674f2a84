package job_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/lancemaster/lancemaster/internal/job"
)

// TestNormalizeIndexName: the expected values are what Java's
// toLowerCase(Locale.ROOT) answers (OpenJDK 17), but for those marked.
func TestNormalizeIndexName(t *testing.T) {
	for _, tt := range []struct{ name, want string }{
		{"vec_idx", "vec_idx"},
		{"Vec_IDX", "vec_idx"},
		{"", ""},
		{"\u0130", "i\u0307"},        // LATIN CAPITAL LETTER I WITH DOT ABOVE grows by a combining dot
		{"I", "i"},                   // in no language a dotless i
		{"\u212A", "k"},              // KELVIN SIGN
		{"\u212B", "\u00E5"},         // ANGSTROM SIGN
		{"\u1E9E", "\u00DF"},         // CAPITAL SHARP S
		{"\u01C5", "\u01C6"},         // title case
		{"\u023A", "\u2C65"},         // two bytes become three
		{"\U00010400", "\U00010428"}, // beyond the first plane
		{"\u03A3", "\u03C3"},         // a sigma alone ends no word
		{"\u0391\u03A3", "\u03B1\u03C2"},
		{"\u03A3\u0391", "\u03C3\u03B1"},
		{"\u0391\u03A3\u0391", "\u03B1\u03C3\u03B1"},
		{"\u0391\u03A3 \u0391", "\u03B1\u03C2 \u03B1"},
		{"\u0391\u03A3\u03A3", "\u03B1\u03C3\u03C2"},
		{"\u0391\u03A3_x", "\u03B1\u03C2_x"}, // Java: the sigma that ends no word, since x follows
		{"a_\u03A3", "a_\u03C3"},             // Java: the final one, since a precedes
		{"1\u03A3", "1\u03C3"},
	} {
		if got := job.NormalizeIndexName(tt.name); got != tt.want {
			t.Errorf("%+q: %+q, want %+q", tt.name, got, tt.want)
		}
	}
}

// TestCaserIsFresh: a Caser keeps state, so a name before must not tell on the next.
func TestCaserIsFresh(t *testing.T) {
	for range 3 {
		if got := job.NormalizeIndexName("\u0391"); got != "\u03B1" {
			t.Fatalf("%+q", got)
		}
		if got := job.NormalizeIndexName("\u03A3"); got != "\u03C3" {
			t.Fatalf("after another name: %+q", got)
		}
	}
}

func TestCheckIndexName(t *testing.T) {
	for _, tt := range []struct{ name, want string }{
		{"vec_idx", ""},
		{"a", ""},
		{strings.Repeat("a", 64), ""},
		{strings.Repeat("\u00E9", 32), ""},
		{"with space and / and .", ""},
		{"_lance_x", ""},
		{"x__lance_", ""},
		{"", "must not be empty"},
		{strings.Repeat("a", 65), "at most 64 bytes"},
		{strings.Repeat("\u00E9", 33), "at most 64 bytes"},
		{"a\x00b", "control character"},
		{"\x00", "control character"},
		{"a\nb", "control character"},
		{"a\x7f", "control character"},
		{"a\u0085b", "control character"},
		{"a\xffb", "valid UTF-8"},
		{"\xed\xa0\x80", "valid UTF-8"},
		{"__lance_frag_reuse", "belong to Lance"},
		{"__LANCE_FRAG_REUSE", "belong to Lance"},
		{"__Lance_", "belong to Lance"},
	} {
		err := job.CheckIndexName(tt.name)
		wantRefusal(t, "name "+tt.name, err, tt.want)
	}
}

// wantRefusal wants an error that is a refusal of CodeInvalid with want in its text,
// or none.
func wantRefusal(t *testing.T, what string, err error, want string) {
	t.Helper()
	if want == "" {
		if err != nil {
			t.Errorf("%q: %v", what, err)
		}
		return
	}
	if !job.IsCode(err, job.CodeInvalid) || !strings.Contains(err.Error(), want) {
		t.Errorf("%q: %v, want a refusal with %q", what, err, want)
	}
}

func FuzzIndexName(f *testing.F) {
	for _, seed := range []string{"vec_idx", "__LANCE_x", "\u0391\u03A3", "\u0130", "\xff", "", strings.Repeat("\u023A", 32)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		key := job.NormalizeIndexName(name)
		if again := job.NormalizeIndexName(key); again != key {
			t.Errorf("%+q becomes %+q and then %+q", name, key, again)
		}
		if job.CheckIndexName(name) != nil {
			return
		}
		// What may be asked for can be fenced.
		switch {
		case name == "" || len(name) > 64 || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
			t.Errorf("%q is accepted", name)
		case key == "" || len(key) > job.MaxName || !utf8.ValidString(key) || strings.HasPrefix(key, "__lance_"):
			t.Errorf("%q is accepted, and its key is %q", name, key)
		}
	})
}

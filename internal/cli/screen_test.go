package cli

import (
	"bytes"
	"io"
	"strings"
	"testing"
)

func TestShortened(t *testing.T) {
	for _, tt := range []struct {
		in   string
		most int
		want string
	}{
		{"plain", 5, "plain"}, {"plain!", 5, "plai…"}, {"日本語", 6, "日本語"}, {"日本語x", 6, "日本…"}, {"日本語", 5, "日本…"}, {"日本語", 4, "日…"},
		{"e\u0301e\u0301e\u0301", 3, "e\u0301e\u0301e\u0301"}, {"e\u0301e\u0301e\u0301", 2, "e\u0301…"}, {"", 1, ""},
	} {
		got := shortened(tt.in, tt.most)
		if got != tt.want || cellsOf(got) > tt.most {
			t.Errorf("shortened(%q, %d) = %q, want %q", tt.in, tt.most, got, tt.want)
		}
	}
}

// What is cut is the widest text, and never what is no text.
func TestTableFits(t *testing.T) {
	columns := []column{{name: "ID"}, {name: "A", kind: textCell}, {name: "STATE", kind: stateCell}, {name: "B", kind: textCell}}
	lines := func(width int) []string {
		p := &page{width: width}
		tab := newTable(p, columns)
		tab.row("1234567890123456", strings.Repeat("a", 30), "NOT_COMMITTED", strings.Repeat("b", 20))
		tab.row("1", "日本語", "", "")
		tab.end()
		return strings.Split(strings.TrimSuffix(p.String(), "\n"), "\n")
	}
	for _, width := range []int{0, 200, 86, 85, 70, 52, 51, 10} {
		got := lines(width)
		for _, l := range got {
			if width >= 51 && cellsOf(l) > width {
				t.Errorf("in %d columns a line takes %d: %s", width, cellsOf(l), l)
			}
		}
		whole := strings.Contains(got[1], strings.Repeat("a", 30)) && strings.Contains(got[1], strings.Repeat("b", 20))
		if whole != (width == 0 || width >= 85) || !strings.Contains(got[1], "1234567890123456  a") || !strings.Contains(got[1], "NOT_COMMITTED") {
			t.Errorf("in %d columns: %s", width, got[1])
		}
	}
	if got := lines(80)[1]; !strings.HasSuffix(got, strings.Repeat("b", 20)) {
		t.Errorf("the narrower text was cut: %s", got)
	}
}

func TestColours(t *testing.T) {
	dark, lit := &bytes.Buffer{}, &screen{columns: 80}
	for _, tt := range []struct {
		flag string
		env  string
		to   io.Writer
		want bool
	}{
		{"auto", "TERM=xterm", lit, true}, {"auto", "", lit, true}, {"auto", "TERM=xterm", dark, false},
		{"auto", "TERM=dumb", lit, false}, {"auto", "NO_COLOR=1", lit, false}, {"auto", "NO_COLOR=", lit, true},
		{"never", "TERM=xterm", lit, false}, {"always", "TERM=dumb", dark, true}, {"always", "NO_COLOR=1", dark, true},
	} {
		a := &cli{color: tt.flag, env: []string{tt.env}}
		if got := a.colours(tt.to); got != tt.want {
			t.Errorf("--color %s, %s, terminal %v: %v", tt.flag, tt.env, tt.to == lit, got)
		}
	}
}

package cli

import (
	"os"
	"strings"
	"unicode"

	"golang.org/x/term"
	"golang.org/x/text/width"
)

// isTerminal reports whether somebody reads or types at the other end of a stream.
func isTerminal(stream any) bool {
	switch s := stream.(type) {
	case interface{ IsTerminal() bool }: // what tests use
		return s.IsTerminal()
	case *os.File:
		return term.IsTerminal(int(s.Fd()))
	}
	return false
}

// widthOf is the number of columns that a terminal has; 0 where it is no terminal, or
// does not say.
func widthOf(stream any) int {
	if !isTerminal(stream) {
		return 0
	}
	switch s := stream.(type) {
	case interface{ Width() int }:
		return s.Width()
	case *os.File:
		if columns, _, err := term.GetSize(int(s.Fd())); err == nil {
			return columns
		}
	}
	return 0
}

// colours reports whether to colour what is written to a stream. A flag that was given
// counts more than the environment, as https://no-color.org has it.
func (a *cli) colours(stream any) bool {
	switch a.color {
	case "always":
		return true
	case "auto":
		return isTerminal(stream) && a.getenv("NO_COLOR", "") == "" && a.getenv("TERM", "") != "dumb"
	}
	return false
}

// The colours of states: what is well, what is under way, what wants somebody to look.
const (
	red     = "31"
	green   = "32"
	yellow  = "33"
	magenta = "35"
	cyan    = "36"
)

var stateColours = map[string]string{
	"COMMITTED": green, "DONE": green, "yes": green, "leader": green, "active": green, "ok": green,
	"RUNNING": yellow, "REQUIRED": yellow, "joining": yellow, "draining": yellow, "standby": yellow, "warn": yellow,
	"UNKNOWN": red, "FAILED": red, "no": red, "unreachable": red, "other-disk": red, "FAIL": red,
	"NOT_COMMITTED": magenta, "PENDING": cyan,
}

// painted colours a state; of a change, what it is changed to.
func painted(state string, colours bool) string {
	before, now := "", state
	if i := strings.LastIndex(state, " "); i >= 0 {
		before, now = state[:i+1], state[i+1:]
	}
	if c := stateColours[now]; colours && c != "" {
		return before + "\x1b[" + c + "m" + now + "\x1b[0m"
	}
	return state
}

// cellsOf is how many columns of a terminal a text takes.
func cellsOf(s string) int {
	n := 0
	for _, r := range s {
		n += cellsOfRune(r)
	}
	return n
}

func cellsOfRune(r rune) int {
	if r < 0x300 {
		return 1
	}
	if unicode.In(r, unicode.Mn, unicode.Me) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	default:
		return 1
	}
}

// shortened cuts a text to so many columns, the last of which then says so.
func shortened(s string, most int) string {
	if cellsOf(s) <= most {
		return s
	}
	n := 0
	for i, r := range s {
		if n += cellsOfRune(r); n > most-1 {
			return s[:i] + "…"
		}
	}
	return s
}

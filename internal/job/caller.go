package job

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxCaller bounds, in bytes, the name of a caller that a token or a certificate vouches for. An actor in the
// history is cut there, and two callers must not become one by it.
const MaxCaller = 128

// Unverified begins the actor of a caller that nothing vouches for.
const Unverified = "unverified:"

// CheckCaller refuses a name that a token or a certificate may not give: one that looks like another in a
// history, like the master itself, or like a caller that nothing vouches for. It holds for what is made and
// for whom is let in, not for the journal.
func CheckCaller(name string) error {
	unprintable := func(r rune) bool { return !unicode.IsPrint(r) } // also what changes direction or has no width
	switch {
	case name == "" || len(name) > MaxCaller || !utf8.ValidString(name) || strings.ContainsFunc(name, unprintable):
		return fmt.Errorf("the name is not 1 to %d bytes of printable text", MaxCaller)
	case strings.TrimSpace(name) != name:
		return errors.New("the name begins or ends with a space")
	case strings.EqualFold(name, ActorSystem):
		return fmt.Errorf("nobody can be called %q: the master acts under that name itself", ActorSystem)
	case len(name) >= len(Unverified) && strings.EqualFold(name[:len(Unverified)], Unverified):
		return fmt.Errorf("the name begins with %q, as those do that nothing vouches for", Unverified)
	}
	return nil
}

package command

import "fmt"

// UnsupportedError says that bytes need a newer build than this one. Nothing was
// decoded; the node must stop before applying them.
type UnsupportedError struct {
	Level int32  // the level the bytes ask for; 0 where they do not tell
	What  string // the command or record, by name or number
	Why   string
}

// Error says what is unsupported and what to do.
func (e *UnsupportedError) Error() string {
	what := e.What
	if e.Level > 0 {
		what = fmt.Sprintf("%s at feature level %d", what, e.Level)
	}
	return fmt.Sprintf("%s cannot be read by this build, which supports level %d: %s;"+
		" upgrade this node to the version of the other masters and start it again", what, MaxLevel, e.Why)
}

// CorruptError says that bytes are damaged, or were never written by any build.
type CorruptError struct {
	What string
	Err  error
}

// Error says what is damaged and how.
func (e *CorruptError) Error() string { return fmt.Sprintf("%s is damaged: %v", e.What, e.Err) }

// Unwrap returns the cause.
func (e *CorruptError) Unwrap() error { return e.Err }

// InvalidError says that Encode was given a value that must not be stored.
type InvalidError struct {
	What string
	Err  error
}

// Error says what is refused and why.
func (e *InvalidError) Error() string { return fmt.Sprintf("%s cannot be encoded: %v", e.What, e.Err) }

// Unwrap returns the cause.
func (e *InvalidError) Unwrap() error { return e.Err }

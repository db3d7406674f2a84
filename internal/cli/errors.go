package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lancemaster/lancemaster/internal/client"
)

// The exit statuses.
const (
	exitOK           = 0
	exitFailed       = 1
	exitUsage        = 2
	exitNotCommitted = 3
	exitUnknown      = 4
	exitTimedOut     = 5
)

// What help says of them.
const (
	exitPlain = "Exit status: 0 done, 1 failed, 2 wrong usage."
	exitWait  = `Exit status: 0 committed or nothing to do, 1 failed, 2 wrong usage, 3 not committed,
4 unknown, 5 timed out.`
	exitUntil = `Exit status: 0 ended by Ctrl-C, 1 failed, 2 wrong usage. With --until: 0 committed or nothing to do,
1 failed or ended by Ctrl-C, 2 wrong usage, 3 not committed, 4 unknown.`
)

// usageError says that the command line is wrong.
type usageError struct {
	message string
	command string // whose help to read
}

func (e *usageError) Error() string { return e.message }

func usagef(format string, args ...any) *usageError {
	return &usageError{message: fmt.Sprintf(format, args...)}
}

func (e *usageError) of(cmd *cobra.Command) *usageError {
	e.command = cmd.CommandPath()
	return e
}

// statusError ends the program with a status of its own.
type statusError struct {
	status  int
	message string // empty: all has been said
	next    string
}

func (e *statusError) Error() string { return e.message }

// report tells a failure of a command and returns the exit status.
func (a *cli) report(cmd *cobra.Command, err error) int {
	var (
		usage  *usageError
		status *statusError
		failed *client.Error
	)
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &usage):
		a.say(usage.message, "")
		fmt.Fprintf(a.Err, "next: see %s --help\n", usage.command)
		return exitUsage
	case errors.As(err, &status):
		if status.message != "" {
			a.say(status.message, status.next)
		}
		return status.status
	case errors.As(err, &failed):
		next := nextStep(failed)
		if s := cmd.Flags().Lookup("stale"); s != nil && !a.stale && leaderless(failed) {
			if next != "" {
				next += "; "
			}
			next += "to see what one master knows by itself, add --stale"
		}
		a.say(failed.Code+": "+failed.Message, next)
		return exitFailed
	}
	for _, e := range parts(err) {
		a.say(e.Error(), "")
	}
	return exitFailed
}

// leaderless reports whether masters were there that could not serve, as without a leader they cannot.
func leaderless(e *client.Error) bool {
	return e.Code == client.CodeNotLeader || e.Code == client.CodeUnavailable || e.Code == client.CodeTimeout
}

// nextStep is the error's own, with the command that shows the job it is about.
func nextStep(e *client.Error) string {
	id := e.Holder
	if e.Present != nil {
		id = e.Present.ID
	}
	switch {
	case id == 0 || strings.Contains(e.Next, "lancemaster "):
		return e.Next
	case e.Next == "":
		return fmt.Sprintf("look at the job: lancemaster job show %d", id)
	}
	return fmt.Sprintf("%s (lancemaster job show %d)", e.Next, id)
}

// parts are the errors that were joined into one, such as every fault of a
// configuration.
func parts(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var out []error
	for _, e := range joined.Unwrap() {
		out = append(out, parts(e)...)
	}
	return out
}

func (a *cli) say(message, next string) {
	fmt.Fprintf(a.Err, "lancemaster: %s\n", clean(message))
	if next != "" {
		fmt.Fprintf(a.Err, "next: %s\n", clean(next))
	}
}

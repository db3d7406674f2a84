package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lancemaster/lancemaster/internal/client"
)

// maxReply bounds an answer that is typed in.
const maxReply = 1 << 10

// interactive reports whether somebody can be asked.
func (a *cli) interactive() bool {
	return isTerminal(a.In)
}

// confirmation is something to agree to before a command goes on.
type confirmation struct {
	flag   string // confirms it where nobody can be asked
	given  bool   // it has
	states []string
}

// confirm has the caller agree to each, unless that was done by a flag. It is refused where nobody
// can be asked.
func (a *cli) confirm(ctx context.Context, list ...confirmation) error {
	list = slices.DeleteFunc(list, func(c confirmation) bool { return c.given })
	if len(list) == 0 {
		return nil
	}
	if !a.interactive() {
		var states, flags []string
		for _, c := range list {
			states, flags = append(states, c.states...), append(flags, "--"+c.flag)
		}
		return usagef("not done. %s. There is no terminal to ask at; to confirm it, give %s", strings.Join(states, ". "), strings.Join(flags, " and "))
	}
	for _, c := range list {
		if err := a.ask(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

func (a *cli) ask(ctx context.Context, c confirmation) error {
	for _, s := range c.states {
		fmt.Fprintf(a.Err, "%s.\n", clean(s))
	}
	fmt.Fprint(a.Err, "Type yes to go on: ")
	reply, err := a.reply(ctx)
	switch {
	case err != nil:
		fmt.Fprintln(a.Err)
		return &statusError{status: exitFailed, message: "not done: no answer was given", next: "run it again and type yes, or give --" + c.flag}
	case reply != "yes":
		return &statusError{status: exitFailed, message: "not done: the answer was not yes"}
	}
	return nil
}

// reply reads a line. A read from a terminal cannot be taken back: when ctx ends first it is left to
// end with the process.
func (a *cli) reply(ctx context.Context) (string, error) {
	if a.typed == nil {
		a.typed = bufio.NewReader(io.LimitReader(a.In, maxReply))
	}
	type line struct {
		text string
		err  error
	}
	read := make(chan line, 1)
	go func() {
		text, err := a.typed.ReadString('\n')
		read <- line{text, err}
	}()
	select {
	case l := <-read:
		return strings.TrimSpace(l.text), l.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// confirmVerb has the caller agree to a verb that rests on its word, unless yes says so. At a terminal
// the job is read first: the caller agrees to what it was shown, so the verb is then of that revision.
// Where settled says that there is nothing to agree to, the master is left to answer.
func (a *cli) confirmVerb(ctx context.Context, c *client.Client, v *client.JobVerb, yes bool, settled func(*client.Job) bool, consequences func(*client.Job) []string) error {
	j := &client.Job{ID: v.JobID}
	if !yes && a.interactive() {
		var err error
		if j, err = c.Job(ctx, v.JobID); err != nil {
			return err
		}
		if settled(j) {
			return nil
		}
		if v.ExpectedRevision == nil {
			v.ExpectedRevision = &j.Revision
		}
	}
	return a.confirm(ctx, confirmation{"yes", yes, consequences(j)})
}

func yesFlag(cmd *cobra.Command, yes *bool) {
	cmd.Flags().BoolVar(yes, "yes", false, "do it without asking")
}

package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// pseudoTerminal opens a terminal of so many columns, and the end at which it is seen.
func pseudoTerminal(t *testing.T, columns uint16) (seen, terminal *os.File) {
	t.Helper()
	seen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = seen.Close() })
	fd := int(seen.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = terminal.Close() })
	if err := unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns}); err != nil {
		t.Fatal(err)
	}
	return seen, terminal
}

// At a real terminal a table is coloured and fits, and a wait shows how things stand until it ends.
func TestAtATerminal(t *testing.T) {
	seen, terminal := pseudoTerminal(t, 60)
	if !isTerminal(terminal) || widthOf(terminal) != 60 {
		t.Fatalf("terminal: %v, %d columns", isTerminal(terminal), widthOf(terminal))
	}
	if null, err := os.Open(os.DevNull); err != nil || isTerminal(null) {
		t.Errorf("%s is taken for a terminal (%v)", os.DevNull, err)
	} else {
		_ = null.Close() // nothing was written
	}
	s := newSession(t)
	env := []string{"LANCEMASTER_ADDR=" + s.addr, "TERM=xterm"}
	run := func(ctx context.Context, args ...string) (int, string) {
		status := Run(ctx, args, env, Streams{In: terminal, Out: terminal, Err: terminal})
		fmt.Fprint(terminal, "\x04") // marks the end of what the command wrote
		var out bytes.Buffer
		b := make([]byte, 4096)
		for !strings.HasSuffix(out.String(), "\x04") {
			n, err := seen.Read(b)
			if err != nil {
				t.Fatal(err)
			}
			out.Write(b[:n])
		}
		return status, strings.ReplaceAll(strings.TrimSuffix(out.String(), "\x04"), "\r\n", "\n")
	}
	status, out := run(t.Context(), "settings", "list", "--columns", "setting,value,help")
	if status != exitOK || !strings.Contains(out, "…") {
		t.Errorf("exit %d\n%s", status, out)
	}
	for line := range strings.Lines(out) {
		if cellsOf(strings.TrimSuffix(line, "\n")) > 60 {
			t.Errorf("too wide: %s", line)
		}
	}
	status, out = run(t.Context(), "job", "list", "--columns", "job,state")
	if status != exitOK || !strings.Contains(out, "\x1b[32mCOMMITTED\x1b[0m") {
		t.Errorf("exit %d\n%s", status, out)
	}
	status, out = run(t.Context(), "job", "wait", "4", "--timeout", "1500ms", "-o", "name")
	if status != exitTimedOut || !strings.Contains(out, eraseLine+"job 4: RUNNING on backend 1, 0s") || !strings.Contains(out, eraseLine+"4\n") {
		t.Errorf("exit %d\n%q", status, out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	status, out = run(ctx, "job", "watch")
	if status == exitUsage || !strings.Contains(out, eraseLine+"watching, ") || !strings.Contains(out, eraseLine) {
		t.Errorf("exit %d\n%q", status, out)
	}
}

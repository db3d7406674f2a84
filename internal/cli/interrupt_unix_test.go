//go:build unix

package cli

import (
	"bytes"
	"os"
	"strings"
	"syscall"
	"testing"
)

// Ctrl-C ends a wait, which says how to go on; the job is shown as it is.
func TestWaitIsInterrupted(t *testing.T) {
	s := newSession(t)
	var out bytes.Buffer
	errs := &onLine{do: func() {
		// The wait has begun: it tells the job's first step.
		if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
			t.Error(err)
		}
	}}
	status := Run(t.Context(), []string{"job", "wait", "4", "-o", "name"}, []string{"LANCEMASTER_ADDR=" + s.addr}, Streams{In: strings.NewReader(""), Out: &out, Err: errs})
	if status != exitFailed || out.String() != "4\n" || !strings.Contains(errs.String(), "the wait was ended; job 4 is not terminal yet and goes on") ||
		!strings.Contains(errs.String(), "next: wait on with: lancemaster job wait 4") {
		t.Errorf("exit %d\n%s%s", status, out.String(), errs.String())
	}
}

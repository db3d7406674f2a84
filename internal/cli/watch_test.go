package cli

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/lancemaster/lancemaster/internal/client"
)

// onLine is a stream that calls do at its first line.
type onLine struct {
	once sync.Once
	do   func()
	bytes.Buffer
}

func (w *onLine) Write(p []byte) (int, error) {
	w.once.Do(w.do)
	return w.Buffer.Write(p)
}

func watchUntilCut(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	s := newSession(t)
	s.server.Next(5, "RUNNING")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, errs := &onLine{do: cancel}, &bytes.Buffer{}
	status = Run(ctx, args, []string{"LANCEMASTER_ADDR=" + s.addr}, Streams{In: strings.NewReader(""), Out: out, Err: errs})
	return status, out.String(), errs.String()
}

// A watch that is ended from outside says where to go on, and is a success unless it
// was to wait for something.
func TestWatchIsCut(t *testing.T) {
	status, out, errs := watchUntilCut(t, "job", "watch")
	if status != exitOK || !strings.HasPrefix(out, "41 ") || errs != "watch on with: lancemaster job watch --from-index 41\n" {
		t.Errorf("exit %d\n%s%s", status, out, errs)
	}
	status, out, errs = watchUntilCut(t, "job", "watch", "5", "--until", "terminal")
	if status != exitFailed || !strings.HasPrefix(out, "41 ") ||
		!strings.Contains(errs, "next: watch on with: lancemaster job watch 5 --until terminal --from-index 41\n") {
		t.Errorf("exit %d\n%s%s", status, out, errs)
	}
}

// A gap in a job's revisions is what is not kept any more.
func TestWatchTellsOfGaps(t *testing.T) {
	var out, errs bytes.Buffer
	w := watching{a: &cli{Streams: Streams{Out: &out, Err: &errs}, output: "table", color: "auto"}, id: 7, last: -1}
	events := func(revisions ...int64) *client.Events {
		e := &client.Events{}
		for _, r := range revisions {
			e.Events = append(e.Events, client.Event{JobID: 7, Revision: r, RaftIndex: 40 + r, Kind: "K", ToState: "S", ToRefresh: "NOT_REQUIRED", Actor: "a\x1bb"})
		}
		return e
	}
	for _, e := range []*client.Events{events(14, 15, 30), events(), events(31), events(33)} {
		if err := w.show(e); err != nil {
			t.Fatal(err)
		}
	}
	want := "job 7: no longer kept: 14 steps before revision 30\njob 7: no longer kept: 1 step before revision 33\n"
	if errs.String() != want {
		t.Errorf("told %q, want %q", errs.String(), want)
	}
	if n := strings.Count(out.String(), "\n"); n != 5 || strings.Contains(out.String(), "\x1b") {
		t.Errorf("printed %q", out.String())
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestWatchOutputThatCannotBeWritten(t *testing.T) {
	s := newSession(t)
	var errs bytes.Buffer
	status := Run(t.Context(), []string{"job", "watch", "5"}, []string{"LANCEMASTER_ADDR=" + s.addr},
		Streams{In: strings.NewReader(""), Out: brokenPipe{}, Err: &errs})
	if status != exitFailed || !strings.Contains(errs.String(), "broken pipe") {
		t.Errorf("exit %d, %s", status, errs.String())
	}
}

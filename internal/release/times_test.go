package release_test

import (
	"strings"
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/job/jobtest"
)

func (b *bench) tooEarly(t *testing.T, id job.ID) *job.Refusal {
	t.Helper()
	_, err := b.ask(id, "n")
	return wantCode(t, err, job.CodeTooEarly)
}

func TestTooEarly(t *testing.T) {
	b := newBench(t)
	b.now = b.now.Add(28*time.Second + time.Millisecond)
	if r := b.tooEarly(t, 1); !strings.Contains(r.Message, "42s") || r.Next != "ask again in 42s" {
		t.Errorf("told %q", r.Error())
	}
	if in := b.ReleasableIn(b.state.Job(1)); in != 42*time.Second-time.Millisecond {
		t.Errorf("releasable in %s", in)
	}
	b.now = b.now.Add(42*time.Second - 2*time.Millisecond)
	_ = b.tooEarly(t, 1)
	b.now = b.now.Add(time.Millisecond)
	if _, err := b.ask(1, "n"); err != nil {
		t.Error(err)
	}
}

// The setting counts as it is when the release is asked for.
func TestTooEarlyBySetting(t *testing.T) {
	b := newBench(t)
	b.now = b.now.Add(11 * time.Second)
	_ = b.tooEarly(t, 1)
	b.must(t, job.ChangeSettings{Header: b.head(), Values: []job.SettingValue{{Name: "backend.rpc_timeout", Value: "1s"}}})
	if _, err := b.ask(1, "n"); err != nil {
		t.Error(err)
	}
}

// A quarantined job may have been sent in what was lost; the wait begins with the
// quarantine, for one that was RUNNING too.
func TestTooEarlyAfterQuarantine(t *testing.T) {
	b := newBench(t)
	b.admit(t, "file:///data/t", "pending")
	run := b.admit(t, "file:///data/t", "running")
	change, refusal := b.apply(b.markRunning(run))
	if refusal != nil {
		t.Fatal(refusal)
	}
	b.Applied(change)
	b.now = b.now.Add(time.Hour)
	b.must(t, job.Quarantine{Header: b.head(), Incarnation: 2, Cause: "restored", Members: jobtest.Members("master-1")})
	for _, id := range []job.ID{2, 3} {
		_ = b.tooEarly(t, id)
	}
	b.now = b.now.Add(wait)
	for _, id := range []job.ID{2, 3} {
		if _, err := b.ask(id, "n"); err != nil {
			t.Errorf("job %d: %v", id, err)
		}
	}
}

// Where this process journaled RUNNING itself, a clock that is stepped forward
// releases nothing too early. The test reads the real monotonic clock, in which no
// time to speak of passes; the wall clock in the record says an hour.
func TestSteppedClock(t *testing.T) {
	b := newBench(t)
	b.now = time.Now()
	old := b.now.Add(-time.Hour)
	r := b.admit(t, "file:///data/t", "stepped")
	command := b.markRunning(r)
	command.At, command.DeadlineAt = job.Millis(old.UnixMilli()), job.Millis(b.now.UnixMilli())
	change, refusal := b.apply(command)
	if refusal != nil {
		t.Fatal(refusal)
	}
	b.Applied(change)
	b.must(t, job.Complete{Header: b.head(), Identity: identity(change.Answer.Job), Code: job.CodeNoTrustedResult, Proof: job.ProofNone})
	_ = b.tooEarly(t, r.ID)
	b.now = b.now.Add(wait)
	if _, err := b.ask(r.ID, "n"); err != nil {
		t.Errorf("after the wait on the monotonic clock: %v", err)
	}
}

// What another master wrote of times is not believed while the clocks disagree: this
// one's may have been stepped hours ahead. The wait then begins when somebody asks.
func TestAClockThatDisagreesReleasesNothingEarly(t *testing.T) {
	b := newBench(t)
	b.clockDisagrees = true
	b.now = b.now.Add(3 * time.Hour)
	if r := b.tooEarly(t, 1); r.Next != "ask again in 1m11s" {
		t.Errorf("told %q", r.Next)
	}
	b.now = b.now.Add(wait - time.Second)
	_ = b.tooEarly(t, 1)
	b.now = b.now.Add(time.Second)
	if _, err := b.ask(1, "n"); err != nil {
		t.Error(err)
	}
}

// A job that another leader's wall clock puts into the future can be released once
// the wait has passed since it was first asked for here.
func TestClockBehind(t *testing.T) {
	b := newBench(t)
	b.now = b.now.Add(-24 * time.Hour)
	_ = b.tooEarly(t, 1)
	b.now = b.now.Add(wait - time.Millisecond)
	_ = b.tooEarly(t, 1)
	b.now = b.now.Add(time.Millisecond)
	if _, err := b.ask(1, "n"); err != nil {
		t.Error(err)
	}
}

// However long ago the job became RUNNING, and whatever the setting says by now:
// while this process may be writing its call, it is too early.
func TestTooEarlyWhileTheCallIsBeingWritten(t *testing.T) {
	b := newBench(t)
	b.now = b.now.Add(time.Hour)
	b.sending = true
	if r := b.tooEarly(t, 1); r.Next == "" {
		t.Errorf("no next step: %v", r)
	}
	b.sending = false
	if _, err := b.ForceRelease(t.Context(), "ann", 1, nil, "checked"); err != nil {
		t.Error(err)
	}
}

// The master that led before may have had a clock that was hours behind. Whatever it
// wrote, RUNNING was before this term began, and that is all that is known.
func TestTheClockOfTheLeaderBeforeReleasesNothingEarly(t *testing.T) {
	b := newBench(t)
	b.now = b.now.Add(3 * time.Hour) // as the record has it; by the right clock it was just now
	b.TermBegan(true)
	if r := b.tooEarly(t, 1); r.Next != "ask again in 1m11s" {
		t.Errorf("told %q", r.Next)
	}
	b.now = b.now.Add(wait - time.Millisecond)
	_ = b.tooEarly(t, 1)
	b.TermBegan(false) // a master without others believes its own clock
	if in := b.ReleasableIn(b.state.Job(1)); in != 0 {
		t.Errorf("of a cluster of one it is releasable in %s", in)
	}
	b.now = b.now.Add(-wait)
	b.TermBegan(true)
	b.now = b.now.Add(wait)
	if _, err := b.ask(1, "n"); err != nil {
		t.Error(err)
	}
}

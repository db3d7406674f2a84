package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/lancemaster/lancemaster/internal/client"
)

// TestStaleIsOffered: where there is no leader, a command that can do without is told how; a change, and a
// read that did without already, are not.
func TestStaleIsOffered(t *testing.T) {
	for _, tt := range []struct {
		command, code string
		stale, want   bool
	}{
		{"job list", client.CodeNotLeader, false, true},
		{"cluster status", client.CodeUnavailable, false, true},
		{"job list", client.CodeTimeout, false, true},
		{"job list", client.CodeNotLeader, true, false},
		{"job list", client.CodeUnreachable, false, false},
		{"job cancel", client.CodeNotLeader, false, false},
	} {
		var errs bytes.Buffer
		a := &cli{Streams: Streams{In: strings.NewReader(""), Out: &bytes.Buffer{}, Err: &errs}}
		cmd, _, err := a.root().Find(strings.Fields(tt.command))
		if err != nil {
			t.Fatal(err)
		}
		a.stale = tt.stale
		if status := a.report(cmd, &client.Error{Code: tt.code, Message: "it is so", Next: "try again"}); status != exitFailed {
			t.Errorf("%s exits with %d", tt.command, status)
		}
		if got := strings.Contains(errs.String(), "--stale"); got != tt.want || !strings.Contains(errs.String(), "next: try again") {
			t.Errorf("%s after %s says %q", tt.command, tt.code, errs.String())
		}
	}
}

// TestResultOfAJobThatWasNotSent: it has no code, but a reason.
func TestResultOfAJobThatWasNotSent(t *testing.T) {
	for want, r := range map[string]*client.Result{
		"":                          nil,
		"NATIVE_OK":                 {Code: "NATIVE_OK", Reason: "NONE"},
		"CANCELLED_BEFORE_DISPATCH": {Reason: "CANCELLED_BEFORE_DISPATCH"},
	} {
		if got := resultCode(&client.Job{Result: r}); got != want {
			t.Errorf("%+v is shown as %q", r, got)
		}
	}
}

func TestCounted(t *testing.T) {
	for n, want := range map[int]string{0: "0 voters", 1: "1 voter", 2: "2 voters"} {
		if got := counted(n, "voter"); got != want {
			t.Errorf("%d is %q", n, got)
		}
	}
	if one, two := entries(1), entries(2); one != "1 entry" || two != "2 entries" {
		t.Errorf("%s, %s", one, two)
	}
	line := clusterLine(&client.Cluster{Node: &client.Status{LeaderID: "m1"}, Voters: 1, Quorum: 1})
	if !strings.Contains(line, "1 voter, 1 needed") {
		t.Errorf("one voter is told of as %q", line)
	}
}

// TestAWaitingMaster: it is said once, and not called a Raft that was shut down.
func TestAWaitingMaster(t *testing.T) {
	s := &client.Status{NodeID: "m3", RaftState: "Shutdown", WaitingFor: "for member m1 to form the cluster"}
	if got := raftState(s); got != "waiting" {
		t.Errorf("its Raft is %q", got)
	}
	k := &client.Cluster{Node: s, Warnings: []string{"this master is waiting: for member m1 to form the cluster", "another"}}
	out := (&cli{Streams: Streams{Out: &bytes.Buffer{}}}).page()
	clusterTable(out, k)
	if want := "m3 has no cluster yet; it is waiting: for member m1 to form the cluster\nwarning: another\n"; out.String() != want {
		t.Errorf("it is told of as %q, want %q", out.String(), want)
	}
}

// TestAnotherDisk: what is heard at this moment is not called unreachable.
func TestAnotherDisk(t *testing.T) {
	now := client.Duration(0)
	k := &client.Cluster{
		Node: &client.Status{NodeID: "m1", LeaderID: "m1"}, Voters: 3, Quorum: 2,
		Members: []client.Member{
			{NodeID: "m2", Voter: true, LastContact: &now, State: "another disk answers"},
			{NodeID: "m3", Voter: true, LastContact: &now, State: "Follower"}, // killed before it had applied anything
			{NodeID: "m4", Voter: true}, // never heard
		},
	}
	out := (&cli{Streams: Streams{Out: &bytes.Buffer{}}}).page()
	clusterTable(out, k)
	for _, want := range []string{
		"m2    other-disk   yes    -        -         ", "m3    unreachable  yes    -        0 (last)  ", "m4    unreachable  yes    -        -         ",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not among\n%s", want, out.String())
		}
	}
}

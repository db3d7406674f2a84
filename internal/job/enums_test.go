package job_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/job/jobtest"
)

// TestEnumNumbers: the numbers are stored and travel; they never change.
func TestEnumNumbers(t *testing.T) {
	got := ""
	add := func(valid bool, n any, name fmt.Stringer) {
		if valid {
			got += fmt.Sprintf("%d %s\n", n, name)
		}
	}
	for n := range uint8(255) {
		add(job.State(n).Valid(), n, job.State(n))
	}
	for n := range uint8(255) {
		add(job.RefreshState(n).Valid(), n, job.RefreshState(n))
	}
	for n := range uint8(255) {
		add(job.Mutation(n).Valid(), n, job.Mutation(n))
	}
	for n := range uint8(255) {
		add(job.Reason(n).Valid(), n, job.Reason(n))
	}
	for n := range uint8(255) {
		add(job.Proof(n).Valid(), n, job.Proof(n))
	}
	for n := range uint8(255) {
		add(job.SnapshotSource(n).Valid(), n, job.SnapshotSource(n))
	}
	for n := range uint8(255) {
		add(job.BackendState(n).Valid(), n, job.BackendState(n))
	}
	want := strings.Join([]string{
		"1 PENDING", "2 RUNNING", "3 COMMITTED", "4 NOT_COMMITTED", "5 UNKNOWN",
		"1 NOT_REQUIRED", "2 REQUIRED", "3 RUNNING", "4 DONE", "5 FAILED",
		"1 CREATE", "2 REPLACE", "3 DROP",
		"1 NONE", "2 IF_CONDITION_NOOP", "3 CANCELLED_BEFORE_DISPATCH", "4 REFUSED_BEFORE_DISPATCH", "5 QUARANTINED",
		"6 LEADER_CHANGED",
		"1 NONE", "2 CHILD_REAPED", "3 NEVER_LAUNCHED", "100 BE_PROCESS_EPOCH_GONE", "101 NOT_ENQUEUED",
		"1 manifest", "2 caller", "1 active", "2 draining", "",
	}, "\n")
	if got != want {
		t.Errorf("enums are\n%s, want\n%s", got, want)
	}
}

func TestParseEnums(t *testing.T) {
	for s := job.StatePending; s <= job.StateUnknown; s++ {
		if got, ok := job.ParseState(s.String()); !ok || got != s {
			t.Errorf("%s: %s, %v", s, got, ok)
		}
		if want := s != job.StatePending && s != job.StateRunning; s.Terminal() != want {
			t.Errorf("%s: terminal %v", s, s.Terminal())
		}
	}
	for s := job.RefreshNotRequired; s <= job.RefreshFailed; s++ {
		if got, ok := job.ParseRefreshState(s.String()); !ok || got != s {
			t.Errorf("%s: %s, %v", s, got, ok)
		}
	}
	for m := job.MutationCreate; m <= job.MutationDrop; m++ {
		if got, ok := job.ParseMutation(m.String()); !ok || got != m {
			t.Errorf("%s: %s, %v", m, got, ok)
		}
	}
	for _, name := range []string{"", "pending", "unknown(9)", "SLEEPING"} {
		if got, ok := job.ParseState(name); ok {
			t.Errorf("%q is %s", name, got)
		}
	}
}

// TestCommandNames: the journal's names of the commands, each its own.
func TestCommandNames(t *testing.T) {
	names := map[string]bool{}
	for _, c := range []job.Command{
		job.Form{}, job.Admit{}, job.MarkRunning{}, job.Complete{}, job.RecordTermination{}, job.RefreshStart{},
		job.RefreshFinish{}, job.Cancel{}, job.RejectBeforeDispatch{}, job.ForceRelease{}, job.ReleaseSlot{},
		job.RecordLateResult{}, job.Quarantine{}, job.TermStart{}, job.RemoveResolved{}, job.PutCatalog{},
		job.RemoveCatalog{}, job.AddBackend{}, job.SetBackendState{}, job.RemoveBackend{}, job.ChangeSettings{}, job.RaiseLevel{},
	} {
		if name := c.Name(); name == "" || names[name] || name != strings.ToUpper(name) {
			t.Errorf("%T is called %q", c, name)
		}
		names[c.Name()] = true
	}
}

// TestBoundsOnLists: what is given as a list is bounded.
func TestBoundsOnLists(t *testing.T) {
	options := func(n int) (list []job.Option) {
		for i := range n {
			list = append(list, job.Option{Key: fmt.Sprintf("k%03d", i), Value: "v"})
		}
		return list
	}
	for n, want := range map[int]bool{64: true, 65: false} {
		c := &job.Catalog{Name: "c", Options: options(n), Refresher: job.Refresher{Kind: job.RefresherNone}}
		if got := job.CheckCatalog(c) == nil; got != want {
			t.Errorf("%d options accepted: %v", n, got)
		}
	}
	for n, want := range map[int]bool{16: true, 17: false} {
		c := &job.Catalog{Name: "c", Refresher: job.Refresher{
			Kind: job.RefresherDoris, User: "u", Frontends: strings.Split(strings.Repeat("h:1,", n)[:4*n-1], ","),
		}}
		if got := job.CheckCatalog(c) == nil; got != want {
			t.Errorf("%d frontends accepted: %v", n, got)
		}
	}
	for n, want := range map[int]bool{32: true, 33: false} {
		var labels []job.Label
		for _, o := range options(n) {
			labels = append(labels, job.Label{Key: o.Key})
		}
		_, refusal := job.Apply(jobtest.Formed(), job.Position{}, job.AddBackend{
			Header: job.Header{At: 1, Actor: "ann"}, Address: job.Address{Host: "h", BePort: 1, HeartbeatPort: 2}, Labels: labels,
		})
		if got := refusal == nil; got != want {
			t.Errorf("%d labels accepted: %v", n, got)
		}
	}
}

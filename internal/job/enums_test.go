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
		job.Reopen{}, job.PutMember{}, job.RemoveMember{}, job.PutToken{}, job.RemoveToken{},
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

// TestRoles: a role may do what those before it may, and no more; a number that is
// no role may do nothing, and nobody may do what it asks for.
func TestRoles(t *testing.T) {
	names := []string{"read", "submit", "operate", "admin"}
	for i, name := range names {
		r, ok := job.ParseRole(name)
		if !ok || r.String() != name || !r.Valid() {
			t.Fatalf("%s is read as %s, %v", name, r, ok)
		}
		for j, other := range names {
			if o, _ := job.ParseRole(other); r.Includes(o) != (i >= j) {
				t.Errorf("%s includes %s: %v", name, other, r.Includes(o))
			}
		}
		for _, none := range []job.Role{0, 5, 255} {
			if r.Includes(none) || none.Includes(r) || none.Includes(none) || none.Valid() {
				t.Errorf("%s and %s include each other", r, none)
			}
		}
	}
	for _, name := range []string{"", "Read", "owner", "unknown(5)"} {
		if r, ok := job.ParseRole(name); ok {
			t.Errorf("%q is %s", name, r)
		}
	}
}

// TestTokensAreBounded: there are at most so many, and one that is removed makes room.
func TestTokensAreBounded(t *testing.T) {
	s := jobtest.Formed()
	put := func(n int) *job.Refusal {
		_, refusal := s.Apply(job.PutToken{
			Header: job.Header{At: 1, Actor: "ann"}, Token: fmt.Sprint("t", n), Role: job.RoleRead,
			Hash: job.Hash{byte(n >> 8), byte(n), 1},
		})
		return refusal
	}
	for n := range job.MaxTokens {
		if refusal := put(n); refusal != nil {
			t.Fatal(refusal)
		}
	}
	if refusal := put(job.MaxTokens); refusal == nil || refusal.Code != job.CodeInvalid {
		t.Fatalf("one more is answered by %v", refusal)
	}
	if _, refusal := s.Apply(job.RemoveToken{Header: job.Header{At: 1, Actor: "ann"}, Token: "t7"}); refusal != nil {
		t.Fatal(refusal)
	}
	if refusal := put(job.MaxTokens); refusal != nil {
		t.Fatal(refusal)
	}
	if got := s.Tokens(); len(got) != job.MaxTokens || got[0].Name != "t0" || s.Token("t7") != nil || s.Token("t8") == nil {
		t.Errorf("%d tokens, the first is %s", len(got), got[0].Name)
	}
}

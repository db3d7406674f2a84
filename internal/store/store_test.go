package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
	"pgregory.net/rapid"

	"github.com/lancemaster/lancemaster/internal/command"
	"github.com/lancemaster/lancemaster/internal/job"
)

func open(t testing.TB) *Store {
	t.Helper()
	s, err := Open(filepath.Join(t.TempDir(), "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// fataler is what *testing.T and *rapid.T have in common here.
type fataler interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

// writer writes changes, each at the next position.
type writer struct {
	s   *Store
	pos job.Position
}

func (w *writer) write(t fataler, changes ...job.Change) {
	t.Helper()
	tx, err := w.s.Begin()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range changes {
		w.pos.Index++
		w.pos.Term = 1
		for n := range c.Jobs {
			if e := c.Jobs[n].Event; e != nil {
				e.Index, e.Term = w.pos.Index, w.pos.Term
			}
		}
		tx.Write(w.pos, c)
	}
	if err := tx.Commit(w.pos); err != nil {
		t.Fatal(err)
	}
}

func read[T any](t fataler, s *Store, f func(*Reader) (T, error)) T {
	t.Helper()
	var v T
	err := s.Read(func(r *Reader) (err error) {
		v, err = f(r)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func check(t fataler, s *Store) {
	t.Helper()
	if err := s.Read((*Reader).Check); err != nil {
		t.Fatal(err)
	}
}

// pending makes the record of a job that was just admitted. The store identity keeps
// its fence its own.
func pending(id job.ID) *job.Record {
	return &job.Record{
		ID: id, Creator: "ann", CreatedAt: 1000, UpdatedAt: 1000,
		Target: job.Target{
			Catalog: "c", Store: fmt.Sprint("s", id), Database: "d", Table: "t", Provider: job.Provider,
			Locator: "file:///x", IndexName: "I", IndexKey: "i",
		},
		Spec:        job.Spec{Mutation: job.MutationDrop, ExecuteDeadline: 1},
		Snapshot:    job.Snapshot{Source: job.SnapshotCaller},
		State:       job.StatePending,
		Refresh:     job.Refresh{State: job.RefreshNotRequired},
		LateRefresh: job.Refresh{State: job.RefreshNotRequired},
	}
}

// admission, step and removal are the changes of one job. Admission and removal take
// the cluster's next id along.
func admission(r *job.Record) job.Change {
	return job.Change{
		Jobs:    []job.JobChange{{New: r, Event: eventOf(nil, r)}},
		Cluster: &job.Cluster{ClusterID: 7, Incarnation: 1, Level: 1, NextJob: r.ID + 1},
	}
}

func step(old *job.Record, edit func(*job.Record)) (job.Change, *job.Record) {
	r := old.Clone()
	r.Revision++
	edit(r)
	return job.Change{Jobs: []job.JobChange{{Old: old, New: r, Event: eventOf(old, r)}}}, r
}

func removal(r *job.Record) job.Change { return job.Change{Jobs: []job.JobChange{{Old: r}}} }

func eventOf(old, r *job.Record) *job.Event {
	e := &job.Event{
		Job: r.ID, Revision: r.Revision, At: r.UpdatedAt, Actor: "ann", Kind: job.EventAdmitted,
		To: r.State, ToRefresh: r.Refresh.State,
	}
	if old != nil {
		e.Kind, e.From, e.FromRefresh = job.EventCompleted, old.State, old.Refresh.State
	}
	return e
}

func notCommitted(r *job.Record) {
	r.State, r.ResolvedAt, r.ClosedAt = job.StateNotCommitted, 2000, 2000
	r.Result = &job.Result{Reason: job.ReasonNone}
}

func TestJobsComeBack(t *testing.T) {
	w := &writer{s: open(t)}
	r := pending(1)
	r.RequestID, r.RequestHash = "req", job.Hash{1}
	w.write(t, admission(r))
	got := read(t, w.s, func(rd *Reader) (*job.Record, error) { return rd.Job(1) })
	if !reflect.DeepEqual(got, r) {
		t.Errorf("%+v came back as %+v", r, got)
	}
	if got := read(t, w.s, func(rd *Reader) (*job.Record, error) { return rd.Job(2) }); got != nil {
		t.Errorf("job 2 is %+v", got)
	}
	if pos := read(t, w.s, (*Reader).Applied); pos != w.pos {
		t.Errorf("applied is %+v, not %+v", pos, w.pos)
	}
	check(t, w.s)
}

// TestRequestsDoNotMix: one creator's name may begin with another's.
func TestRequestsDoNotMix(t *testing.T) {
	w := &writer{s: open(t)}
	pairs := [][2]string{{"a", "bc"}, {"ab", "c"}, {"abc", "c"}, {"a", "b"}, {"a", "bcd"}, {"", "abc"}}
	for n, p := range pairs {
		r := pending(job.ID(n + 1))
		r.Creator, r.RequestID = p[0], p[1]
		w.write(t, admission(r))
	}
	for n, p := range pairs {
		id := read(t, w.s, func(r *Reader) (job.ID, error) {
			id, _, err := r.Request(p[0], p[1])
			return id, err
		})
		if id != job.ID(n+1) {
			t.Errorf("request %q leads to job %d, not %d", p, id, n+1)
		}
	}
	if id := read(t, w.s, func(r *Reader) (job.ID, error) { id, _, err := r.Request("ab", "bc"); return id, err }); id != 0 {
		t.Errorf("a request nobody made leads to job %d", id)
	}
	check(t, w.s)
}

// TestHistoryIsTrimmed: the first 16 and the last 112 stay, the rest is counted.
func TestHistoryIsTrimmed(t *testing.T) {
	w := &writer{s: open(t)}
	r := pending(1)
	other := pending(2)
	changes := []job.Change{admission(r), admission(other)}
	for n := range 300 {
		var c job.Change
		c, r = step(r, func(*job.Record) {})
		changes = append(changes, c)
		if n%50 == 49 || (n > 120 && n < 135) {
			w.write(t, changes...)
			changes = nil
			check(t, w.s)
		}
	}
	events, dropped := history(t, w.s, 1)
	if dropped != 301-128 || len(events) != 128 {
		t.Fatalf("%d events, %d dropped", len(events), dropped)
	}
	for n, e := range events {
		want := job.Revision(n)
		if n >= 16 {
			want = job.Revision(300 - 127 + n)
		}
		if e.Revision != want {
			t.Errorf("event %d is of revision %d, not %d", n, e.Revision, want)
		}
	}
	if events, dropped := history(t, w.s, 2); len(events) != 1 || dropped != 0 {
		t.Errorf("job 2 has %d events, %d dropped", len(events), dropped)
	}
	watched := read(t, w.s, func(rd *Reader) ([]job.Event, error) { return rd.EventsAfter(0, 1000) })
	if len(watched) != 129 {
		t.Errorf("the watch index leads to %d events", len(watched))
	}
	check(t, w.s)
}

func history(t fataler, s *Store, id job.ID) (events []job.Event, dropped int64) {
	err := s.Read(func(r *Reader) (err error) {
		events, dropped, err = r.History(id)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return events, dropped
}

// TestEventsAfter: a limit never splits the events of one index.
func TestEventsAfter(t *testing.T) {
	w := &writer{s: open(t)}
	one, two := pending(1), pending(2)
	both := job.Change{Jobs: append(admission(one).Jobs, admission(two).Jobs...), Cluster: admission(two).Cluster}
	c, _ := step(one, func(*job.Record) {})
	w.write(t, both, c)
	after := func(index uint64, limit int) string {
		var text strings.Builder
		for _, e := range read(t, w.s, func(r *Reader) ([]job.Event, error) { return r.EventsAfter(index, limit) }) {
			fmt.Fprintf(&text, "%d:%d.%d ", e.Index, e.Job, e.Revision)
		}
		return strings.TrimSpace(text.String())
	}
	for _, tt := range []struct {
		index uint64
		limit int
		want  string
	}{
		{0, 1, "1:1.0 1:2.0"}, {0, 2, "1:1.0 1:2.0"}, {0, 3, "1:1.0 1:2.0 2:1.1"},
		{1, 5, "2:1.1"}, {2, 5, ""}, {1<<64 - 1, 5, ""},
	} {
		if got := after(tt.index, tt.limit); got != tt.want {
			t.Errorf("after %d, limit %d: %q, not %q", tt.index, tt.limit, got, tt.want)
		}
	}
}

// TestRemovedJobLeavesNothing: not an index entry, not an event, not a counter.
func TestRemovedJobLeavesNothing(t *testing.T) {
	w := &writer{s: open(t)}
	r := pending(1)
	r.RequestID = "req"
	w.write(t, admission(r))
	empty := func() string {
		var text strings.Builder
		for n := bucketMeta + 1; n < bucketCount; n++ {
			keys := 0
			_ = read(t, w.s, func(rd *Reader) (any, error) {
				return nil, rd.bucket(n).ForEach(func(_, _ []byte) error { keys++; return nil })
			})
			if keys > 0 {
				fmt.Fprintf(&text, "%s %d, ", bucketNames[n], keys)
			}
		}
		return text.String()
	}
	if empty() == "" {
		t.Fatal("nothing was written")
	}
	for range 150 {
		var c job.Change
		c, r = step(r, func(*job.Record) {})
		w.write(t, c)
	}
	c, r := step(r, notCommitted)
	w.write(t, c)
	check(t, w.s)
	if ids := read(t, w.s, func(rd *Reader) ([]job.ID, error) { return rd.Closed(2001, 10) }); len(ids) != 1 {
		t.Errorf("closed before 2001: %v", ids)
	}
	if ids := read(t, w.s, func(rd *Reader) ([]job.ID, error) { return rd.Closed(2000, 10) }); len(ids) != 0 {
		t.Errorf("closed before 2000: %v", ids)
	}
	w.write(t, removal(r))
	if left := empty(); left != "" {
		t.Errorf("left over: %s", left)
	}
	check(t, w.s)
}

func TestClosedIsOldestFirst(t *testing.T) {
	w := &writer{s: open(t)}
	for id, at := range map[job.ID]job.Millis{1: 30, 2: 10, 3: 20, 4: 10} {
		r := pending(id)
		w.write(t, admission(r))
		c, _ := step(r, func(r *job.Record) { notCommitted(r); r.ClosedAt = at })
		w.write(t, c)
	}
	for _, tt := range []struct {
		before job.Millis
		limit  int
		want   []job.ID
	}{{100, 10, []job.ID{2, 4, 3, 1}}, {100, 3, []job.ID{2, 4, 3}}, {20, 10, []job.ID{2, 4}}, {10, 10, nil}} {
		got := read(t, w.s, func(r *Reader) ([]job.ID, error) { return r.Closed(tt.before, tt.limit) })
		if !reflect.DeepEqual(got, tt.want) {
			t.Errorf("before %d, limit %d: %v, not %v", tt.before, tt.limit, got, tt.want)
		}
	}
}

func TestTablesComeBack(t *testing.T) {
	w := &writer{s: open(t)}
	catalog := &job.Catalog{Name: "c", Refresher: job.Refresher{Kind: job.RefresherNone}, Revision: 1}
	backend := &job.Backend{ID: 3, Address: job.Address{Host: "h", BePort: 1, HeartbeatPort: 2}, State: job.BackendActive}
	cluster := &job.Cluster{ClusterID: 7, Incarnation: 1, Level: 1, NextJob: 1, NextBackend: 4, LastTerm: 1<<64 - 1}
	a := &job.Member{NodeID: "a", InstanceID: "ia", Address: "a:1", RegisteredAt: 1<<64 - 1, AddedAt: 5, AddedBy: "ann"}
	b := &job.Member{NodeID: "b", InstanceID: "ib", Address: "b:1"}
	token := &job.Token{Name: "t", Role: job.RoleAdmin, Hash: job.Hash{1, 2}, CreatedAt: 6, CreatedBy: "ann"}
	w.write(t, job.Change{
		Cluster: cluster,
		Catalog: &job.CatalogChange{Name: "c", New: catalog}, Backend: &job.BackendChange{ID: 3, New: backend},
		Members: []job.MemberChange{{NodeID: "a", New: a}, {NodeID: "b", New: b}},
		Token:   &job.TokenChange{Name: "t", New: token},
	})
	if got := read(t, w.s, (*Reader).Members); !reflect.DeepEqual(got, []*job.Member{a, b}) {
		t.Errorf("members are %+v", got)
	}
	if got := read(t, w.s, (*Reader).Tokens); !reflect.DeepEqual(got, []*job.Token{token}) {
		t.Errorf("tokens are %+v", got)
	}
	if got := read(t, w.s, (*Reader).Catalogs); len(got) != 1 || !reflect.DeepEqual(got[0], catalog) {
		t.Errorf("catalogs are %+v", got)
	}
	if got := read(t, w.s, (*Reader).Backends); len(got) != 1 || !reflect.DeepEqual(got[0], backend) {
		t.Errorf("backends are %+v", got)
	}
	if got := read(t, w.s, (*Reader).Cluster); got != *cluster {
		t.Errorf("cluster is %+v", got)
	}
	check(t, w.s)
	w.write(t, job.Change{
		Catalog: &job.CatalogChange{Name: "c", Old: catalog}, Backend: &job.BackendChange{ID: 3, Old: backend},
		Members: []job.MemberChange{{NodeID: "a", Old: a}}, Token: &job.TokenChange{Name: "t", Old: token},
	})
	if got := read(t, w.s, (*Reader).Members); !reflect.DeepEqual(got, []*job.Member{b}) {
		t.Errorf("members are %+v", got)
	}
	if got := read(t, w.s, (*Reader).Tokens); len(got) != 0 {
		t.Errorf("tokens are %+v", got)
	}
	if c, b := read(t, w.s, (*Reader).Catalogs), read(t, w.s, (*Reader).Backends); len(c) != 0 || len(b) != 0 {
		t.Errorf("removed, and still there: %v, %v", c, b)
	}
	check(t, w.s)
}

func TestSettingsHistoryKeepsTheNewest(t *testing.T) {
	w := &writer{s: open(t)}
	const commands, each = 400, 3
	var changes []job.Change
	for n := range commands {
		var c job.Change
		for i := range each {
			c.Settings = append(c.Settings, job.SettingChange{Name: fmt.Sprint("s", i), New: fmt.Sprint(n), At: 1, Actor: "ann"})
		}
		if changes = append(changes, c); len(changes) == 40 {
			w.write(t, changes...)
			changes = nil
		}
	}
	all := read(t, w.s, func(r *Reader) ([]SettingEntry, error) { return r.SettingsHistory("", 5000) })
	if len(all) != MaxSettingsHistory {
		t.Fatalf("%d changes are kept", len(all))
	}
	for n, e := range all {
		number := commands*each - 1 - n
		if e.Index != uint64(number/each+1) || e.Change.Name != fmt.Sprint("s", number%each) || e.Change.New != fmt.Sprint(number/each) {
			t.Fatalf("entry %d is %+v", n, e)
		}
	}
	one := read(t, w.s, func(r *Reader) ([]SettingEntry, error) { return r.SettingsHistory("s1", 2) })
	if len(one) != 2 || one[0].Change.New != "399" || one[1].Change.New != "398" {
		t.Errorf("history of s1 is %+v", one)
	}
	if now := read(t, w.s, (*Reader).Settings); len(now) != each || now[2].New != "399" {
		t.Errorf("settings are %+v", now)
	}
	check(t, w.s)
}

// TestFaultIsKept: after a value that cannot be stored nothing is.
func TestFaultIsKept(t *testing.T) {
	w := &writer{s: open(t)}
	w.write(t, admission(pending(1)))
	before := read(t, w.s, (*Reader).Hash)
	tx, err := w.s.Begin()
	if err != nil {
		t.Fatal(err)
	}
	bad := pending(3)
	bad.State = 77
	tx.Write(job.Position{Index: 2, Term: 1}, admission(pending(2)))
	tx.Write(job.Position{Index: 3, Term: 1}, admission(bad))
	tx.Write(job.Position{Index: 4, Term: 1}, admission(pending(4)))
	if !errors.As(tx.Err(), new(*command.InvalidError)) {
		t.Errorf("the fault kept is %v", tx.Err())
	}
	if err := tx.Commit(job.Position{Index: 4, Term: 1}); !errors.As(err, new(*command.InvalidError)) {
		t.Errorf("Commit answers %v", err)
	}
	if after := read(t, w.s, (*Reader).Hash); after != before {
		t.Error("something was written")
	}
	if pos := read(t, w.s, (*Reader).Applied); pos.Index != 1 {
		t.Errorf("applied is %+v", pos)
	}
}

// TestOnlyChangedPostingsAreTouched: a transition that no list can see moves no
// index entry.
func TestOnlyChangedPostingsAreTouched(t *testing.T) {
	old := pending(1)
	_, same := step(old, func(r *job.Record) { r.UpdatedAt = 5000; r.LateResults = []job.LateResult{{Code: 5}} })
	if gone, come := missing(postings(old), postings(same)), missing(postings(same), postings(old)); gone != nil || come != nil {
		t.Errorf("removed %v, added %v", gone, come)
	}
	_, running := step(old, func(r *job.Record) {
		r.State = job.StateRunning
		r.Dispatch = job.Dispatch{BackendID: 4, Revision: 1, SlotHeld: true}
	})
	gone, come := missing(postings(old), postings(running)), missing(postings(running), postings(old))
	if want := []posting{statePosting(job.StatePending)}; !reflect.DeepEqual(gone, want) {
		t.Errorf("removed %v, not %v", gone, want)
	}
	if want := []posting{statePosting(job.StateRunning), backendPosting(4)}; !reflect.DeepEqual(come, want) {
		t.Errorf("added %v, not %v", come, want)
	}
}

// TestPostingKeys: keys of one posting sort as (created at, id) do, and no posting's
// keys can be taken for another's.
func TestPostingKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[ab\x00\x01]{0,4}`)
		draw := func() posting {
			switch rapid.IntRange(0, 3).Draw(t, "kind") {
			case 0:
				return posting{postCatalog, text.Draw(t, "catalog")}
			case 1:
				return tablePosting(text.Draw(t, "catalog"), text.Draw(t, "db"), text.Draw(t, "table"))
			case 2:
				return posting{postDataset, text.Draw(t, "locator")}
			}
			return boolPosting(postOpen, rapid.Bool().Draw(t, "open"))
		}
		p, q := draw(), draw()
		if p != q && (bytes.HasPrefix(p.prefix(), q.prefix()) || bytes.HasPrefix(q.prefix(), p.prefix())) {
			t.Fatalf("%v and %v have keys in common", p, q)
		}
		millis, id := rapid.Int64(), rapid.Int64Range(1, 1<<62)
		a, b := job.Millis(millis.Draw(t, "a")), job.Millis(millis.Draw(t, "b"))
		x, y := job.ID(id.Draw(t, "x")), job.ID(id.Draw(t, "y"))
		less := a < b || (a == b && x < y)
		if got := bytes.Compare(p.key(makePosition(a, x)), p.key(makePosition(b, y))) < 0; got != less {
			t.Fatalf("(%d, %d) before (%d, %d) is %v by key", a, x, b, y, got)
		}
		at := makePosition(a, x)
		if at.created() != a || at.id() != x {
			t.Fatalf("(%d, %d) comes back as (%d, %d)", a, x, at.created(), at.id())
		}
		if below, ok := at.before(); !ok || below.created() != a || below.id() != x-1 {
			t.Fatalf("before (%d, %d) is (%d, %d), %v", a, x, below.created(), below.id(), ok)
		}
	})
	if _, ok := (position{}).before(); ok {
		t.Error("there is something before the first position")
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state.db")
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file's mode is %v (%v)", info.Mode(), err)
	}
	if _, err := Open(path); err == nil || !strings.Contains(err.Error(), "another process uses this data directory") {
		t.Errorf("a second Open answers %v", err)
	}
	if err := s.db.Update(func(tx *bbolt.Tx) error { return tx.Bucket([]byte("meta")).Put(metaFormat, []byte{9}) }); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	wantUntouched(t, path, "has format [9]")
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error { _, err := tx.CreateBucket([]byte("logs")); return err })
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	wantUntouched(t, path, "is not a state file of lancemaster")
	garbage := filepath.Join(dir, "garbage.db")
	if err := os.WriteFile(garbage, bytes.Repeat([]byte("garbage "), 4096), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(garbage); err == nil || !strings.Contains(err.Error(), "is damaged") {
		t.Errorf("garbage is answered by %v", err)
	}
	if _, err := Open(filepath.Join(dir, "missing", "state.db")); err == nil {
		t.Error("a missing directory is accepted")
	}
}

// TestOpenRefusesACutFile: at no length does a file that lost its end pass for a
// whole one, or end the process.
func TestOpenRefusesACutFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state.db")
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	w := &writer{s: s}
	var changes []job.Change
	for id := job.ID(1); id <= 300; id++ {
		changes = append(changes, admission(pending(id)))
	}
	w.write(t, changes...)
	used := read(t, s, func(r *Reader) (int64, error) { return r.tx.Size(), nil })
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int64{1, 4096, 8192, 3 * 4096, used / 2, used - 4096} {
		cut := fmt.Sprint(path, ".", size)
		if err := os.WriteFile(cut, whole[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(cut); err == nil || !strings.Contains(err.Error(), "damaged") && size > 8192 {
			t.Errorf("%d of %d bytes are answered by %v", size, used, err)
		}
	}
}

// wantUntouched expects Open to refuse a file and to leave it as it is.
func wantUntouched(t *testing.T, path, want string) {
	t.Helper()
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Open answers %v, which does not say %q", err, want)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the file has been changed (%v)", err)
	}
}

func TestOpenRemovesLeftovers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	if err := os.WriteFile(path+restoreSuffix, []byte("half a snapshot"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := os.Stat(path + restoreSuffix); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the leftover is still there (%v)", err)
	}
}

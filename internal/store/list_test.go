package store

import (
	"cmp"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/lancemaster/lancemaster/internal/job"
)

// selects is the naive reading of a query.
func selects(q job.Query, r *job.Record) bool {
	return (len(q.States) == 0 || slices.Contains(q.States, r.State)) &&
		(len(q.RefreshStates) == 0 || slices.Contains(q.RefreshStates, r.Refresh.State)) &&
		(q.Open == nil || *q.Open == r.Open()) &&
		(q.Unresolved == nil || *q.Unresolved == !r.Resolved()) &&
		(q.Catalog == "" || q.Catalog == r.Target.Catalog) &&
		(q.Table == "" || q.Database == r.Target.Database && q.Table == r.Target.Table) &&
		(q.IndexKey == "" || q.IndexKey == r.Target.IndexKey) &&
		(q.Locator == "" || q.Locator == r.Target.Locator) &&
		(q.Backend == 0 || q.Backend == r.Dispatch.BackendID) &&
		r.CreatedAt >= q.Since && (q.Until == 0 || r.CreatedAt < q.Until)
}

func naive(q job.Query, all map[job.ID]*job.Record) []job.ID {
	var found []*job.Record
	for _, r := range all {
		if selects(q, r) {
			found = append(found, r)
		}
	}
	slices.SortFunc(found, func(a, b *job.Record) int {
		return cmp.Or(cmp.Compare(b.CreatedAt, a.CreatedAt), cmp.Compare(b.ID, a.ID))
	})
	return ids(found)
}

func ids(records []*job.Record) []job.ID {
	var out []job.ID
	for _, r := range records {
		out = append(out, r.ID)
	}
	return out
}

// Values from small sets, some of them prefixes of others, so that filters meet.
var (
	someText    = rapid.SampledFrom([]string{"a", "ab", "b"})
	someState   = rapid.SampledFrom([]job.State{1, 2, 3, 4, 5})
	someRefresh = rapid.SampledFrom([]job.RefreshState{1, 2, 3, 4, 5})
	someMillis  = rapid.SampledFrom([]job.Millis{100, 200, 200, 300, 400})
)

func maybe[V any](t *rapid.T, label string, g *rapid.Generator[V]) (v V) {
	if rapid.Bool().Draw(t, label+"?") {
		v = g.Draw(t, label)
	}
	return v
}

func drawQuery(t *rapid.T) job.Query {
	q := job.Query{
		States:        rapid.SliceOfN(someState, 0, 3).Draw(t, "states"),
		RefreshStates: rapid.SliceOfN(someRefresh, 0, 2).Draw(t, "refresh states"),
		Catalog:       maybe(t, "catalog", someText),
		IndexKey:      maybe(t, "index", someText),
		Locator:       maybe(t, "locator", someText),
		Backend:       maybe(t, "backend", rapid.SampledFrom([]job.BackendID{1, 2})),
		Since:         maybe(t, "since", someMillis),
		Until:         maybe(t, "until", someMillis),
		Limit:         rapid.IntRange(1, 5).Draw(t, "limit"),
	}
	if rapid.IntRange(0, 3).Draw(t, "few") > 0 {
		q.States, q.RefreshStates = nil, nil
	}
	if q.Catalog != "" && rapid.Bool().Draw(t, "table?") {
		q.Database, q.Table = someText.Draw(t, "db"), someText.Draw(t, "table")
	}
	yes := true
	no := false
	booleans := rapid.SampledFrom([]*bool{nil, nil, &yes, &no})
	q.Open, q.Unresolved = booleans.Draw(t, "open"), booleans.Draw(t, "unresolved")
	return q
}

func drawJob(t *rapid.T, id job.ID) *job.Record {
	r := pending(id)
	r.CreatedAt = someMillis.Draw(t, "created")
	r.Target.Catalog, r.Target.Database, r.Target.Table = someText.Draw(t, "c"), someText.Draw(t, "d"), someText.Draw(t, "t")
	r.Target.Locator, r.Target.IndexKey = someText.Draw(t, "l"), someText.Draw(t, "i")
	return r
}

func drawStep(t *rapid.T, r *job.Record) {
	r.State = someState.Draw(t, "state")
	r.Refresh.State = someRefresh.Draw(t, "refresh")
	r.ClosedAt = someMillis.Draw(t, "closed")
	r.Dispatch = job.Dispatch{}
	if id := rapid.SampledFrom([]job.BackendID{0, 1, 2}).Draw(t, "backend"); id != 0 {
		r.Dispatch = job.Dispatch{BackendID: id, Revision: 1, SlotHeld: rapid.Bool().Draw(t, "slot")}
	}
}

// TestListAgainstNaive compares every page of random queries over random histories
// with a filter over all records, with budgets of steps that end pages early.
func TestListAgainstNaive(t *testing.T) {
	dir := t.TempDir()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		s, err := Open(filepath.Join(dir, fmt.Sprint(n)))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		w := &writer{s: s}
		all := map[job.ID]*job.Record{}
		var changes []job.Change
		for id := range job.ID(rapid.IntRange(0, 40).Draw(t, "jobs")) {
			all[id+1] = drawJob(t, id+1)
			changes = append(changes, admission(all[id+1]))
			for range rapid.IntRange(0, 2).Draw(t, "steps") {
				c, r := step(all[id+1], func(r *job.Record) { drawStep(t, r) })
				all[id+1] = r
				changes = append(changes, c)
			}
			if !all[id+1].Open() && rapid.IntRange(0, 4).Draw(t, "remove") == 0 {
				changes = append(changes, removal(all[id+1]))
				delete(all, id+1)
			}
		}
		w.write(t, changes...)
		check(t, s)
		for range 10 {
			q := drawQuery(t)
			// A call that may not even look at each filter once gets nowhere.
			steps := rapid.SampledFrom([]int{13, 16, 25, maxSteps}).Draw(t, "budget")
			if got, want := listAll(t, s, q, steps), naive(q, all); !reflect.DeepEqual(got, want) {
				t.Fatalf("query %+v with %d steps: %v, not %v", q, steps, got, want)
			}
		}
	})
}

// listAll follows the tokens to the end.
func listAll(t fataler, s *Store, q job.Query, steps int) []job.ID {
	t.Helper()
	var found []job.ID
	for range 10_000 {
		page := read(t, s, func(r *Reader) (job.Page, error) { return r.list(q, steps) })
		if len(page.Jobs) > q.Limit {
			t.Fatalf("a page of %d jobs for a limit of %d", len(page.Jobs), q.Limit)
		}
		if steps == maxSteps && page.Next != "" && len(page.Jobs) < q.Limit {
			t.Fatalf("a short page of %d jobs has a token", len(page.Jobs))
		}
		found = append(found, ids(page.Jobs)...)
		if page.Next == "" {
			return found
		}
		q.PageToken = page.Next
	}
	t.Fatalf("query %+v with %d steps never ends", q, steps)
	return nil
}

// TestPagingIsStable pages while jobs are admitted, change state and are removed:
// each job that is there all the time is seen exactly once.
func TestPagingIsStable(t *testing.T) {
	w := &writer{s: open(t)}
	records := map[job.ID]*job.Record{}
	next := job.ID(1)
	admit := func(at job.Millis) {
		r := pending(next)
		r.CreatedAt = at
		records[next] = r
		w.write(t, admission(r))
		next++
	}
	for n := range 50 {
		admit(job.Millis(1000 + n/3)) // several in one millisecond
	}
	var seen []job.ID
	q := job.Query{Limit: 7, Catalog: "c"}
	for {
		page := read(t, w.s, func(r *Reader) (job.Page, error) { return r.List(q) })
		seen = append(seen, ids(page.Jobs)...)
		if page.Next == "" {
			break
		}
		q.PageToken = page.Next
		admit(2000)
		admit(1001) // a leader with a slow clock
		c, r := step(records[next-1], notCommitted)
		w.write(t, c, removal(r))
	}
	check(t, w.s)
	count := map[job.ID]int{}
	for _, id := range seen {
		count[id]++
	}
	for id := job.ID(1); id <= 50; id++ {
		if count[id] != 1 {
			t.Errorf("job %d was seen %d times", id, count[id])
		}
	}
}

func TestListRefuses(t *testing.T) {
	s := open(t)
	for name, q := range map[string]job.Query{
		"limit":            {Limit: job.MaxPageLimit + 1},
		"negative limit":   {Limit: -1},
		"state":            {States: []job.State{9}},
		"refresh state":    {RefreshStates: []job.RefreshState{9}},
		"table":            {Table: "t"},
		"table, database":  {Table: "t", Database: "d"},
		"database":         {Catalog: "c", Database: "d"},
		"token":            {PageToken: "%"},
		"short token":      {PageToken: "AQ"},
		"token's version":  {PageToken: encodeToken(position{})[1:] + "A"},
		"token's trailing": {PageToken: encodeToken(position{})[:22] + "B"},
	} {
		err := s.Read(func(r *Reader) error { _, err := r.List(q); return err })
		if !job.IsCode(err, job.CodeInvalid) {
			t.Errorf("%s is answered by %v", name, err)
		}
	}
	page := read(t, s, func(r *Reader) (job.Page, error) { return r.List(job.Query{Until: -1 << 63}) })
	if len(page.Jobs) != 0 || page.Next != "" {
		t.Errorf("nothing comes before the first moment, but %+v does", page)
	}
}

func TestListDefaultLimit(t *testing.T) {
	w := &writer{s: open(t)}
	var changes []job.Change
	for id := job.ID(1); id <= job.DefaultPageLimit+1; id++ {
		changes = append(changes, admission(pending(id)))
	}
	w.write(t, changes...)
	page := read(t, w.s, func(r *Reader) (job.Page, error) { return r.List(job.Query{}) })
	if len(page.Jobs) != job.DefaultPageLimit || page.Next == "" || page.Jobs[0].ID != job.DefaultPageLimit+1 {
		t.Errorf("a page of %d jobs, token %q", len(page.Jobs), page.Next)
	}
}

// TestListCost: looking for a few jobs among many must not look at the many.
func TestListCost(t *testing.T) {
	w := &writer{s: open(t)}
	const many = 2000
	var changes []job.Change
	for id := job.ID(1); id <= many; id++ {
		r := pending(id)
		if id%500 == 0 {
			r.Target.IndexKey = "rare"
		}
		changes = append(changes, admission(r))
	}
	w.write(t, changes...)
	err := w.s.Read(func(r *Reader) error {
		m := r.merge(job.Query{States: []job.State{job.StatePending}, Catalog: "c", IndexKey: "rare"})
		m.steps = maxSteps
		at, found := position{0xFF}, 0
		for i := range at {
			at[i] = 0xFF
		}
		for ok := true; ok; at, ok = at.before() {
			if at, ok = m.next(at); !ok {
				break
			}
			found++
		}
		if used := maxSteps - m.steps; found != 4 || used > 30 {
			return fmt.Errorf("%d jobs were found in %d steps", found, used)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestListFindsDamage: an index entry without its record is an error, not a gap.
func TestListFindsDamage(t *testing.T) {
	w := &writer{s: open(t)}
	w.write(t, admission(pending(1)))
	damage(t, w.s, func(tx *Tx) { tx.delete(bucketJobs, jobKey(1)) })
	err := w.s.Read(func(r *Reader) error { _, err := r.List(job.Query{}); return err })
	if _, refused := job.AsRefusal(err); err == nil || refused {
		t.Errorf("List answers %v", err)
	}
	err = w.s.Read(func(r *Reader) error { _, err := r.LiveJobs(); return err })
	if err == nil {
		t.Error("LiveJobs finds nothing wrong")
	}
}

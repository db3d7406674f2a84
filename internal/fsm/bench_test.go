package fsm

import (
	"fmt"
	"io"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/lancemaster/lancemaster/internal/command"
	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/job/jobtest"
)

func openBench(b testing.TB, jobs int) (m *Machine, next func() written, entry func(job.Command) written) {
	b.Helper()
	m, err := Open(Config{Path: filepath.Join(b.TempDir(), "state.db")})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = m.Close() })
	var pos job.Position
	entry = func(c job.Command) written {
		data, err := command.Encode(c)
		if err != nil {
			b.Fatal(err)
		}
		pos.Index++
		return written{entry: &raft.Log{Index: pos.Index, Term: 1, Data: data}}
	}
	head := job.Header{At: 1000, Actor: "ann"}
	var batch []written
	batch = append(batch, entry(job.Form{Header: head, ClusterID: 7, Level: 1, Settings: job.DefaultSettings(), Members: jobtest.Members("master-1")}))
	for _, name := range []string{"global", "per_catalog", "per_table"} {
		batch = append(batch, entry(job.ChangeSettings{Header: head, Values: []job.SettingValue{
			{Name: "admission.enabled", Value: "true"}, {Name: "admission.max_unresolved_" + name, Value: "100000"},
		}}))
	}
	batch = append(batch, entry(job.PutCatalog{Header: head, Catalog: job.Catalog{Name: "c", Refresher: job.Refresher{Kind: job.RefresherNone}}}))
	// Jobs that are admitted and cancelled, so that the history grows and memory does
	// not: in turn the admission of job n and its cancellation.
	var n int64
	admitted := true
	next = func() written {
		head := job.Header{At: job.Millis(1000 + n), Actor: "ann"}
		if admitted = !admitted; admitted {
			return entry(job.Cancel{Header: head, Job: job.ID(n)})
		}
		n++
		name := fmt.Sprint("i", n%50)
		return entry(job.Admit{
			Header: head, RequestID: fmt.Sprint(n), RequestHash: job.Hash{1},
			Target: job.Target{
				Catalog: "c", Store: "file", Database: "db", Table: fmt.Sprint("t", n%7), Provider: job.Provider,
				Locator: "file:///d", IndexName: name, IndexKey: name,
			},
			Spec:     job.Spec{Mutation: job.MutationDrop, ExecuteDeadline: 1000, MaxNumPartitions: 1, MaxNumSubVectors: 1},
			Snapshot: job.Snapshot{DatasetVersion: 1, Source: job.SnapshotCaller},
		})
	}
	for range 2 * jobs {
		if batch = append(batch, next()); len(batch) >= 1000 {
			wantApplied(b, apply(m, batch...))
			batch = nil
		}
	}
	wantApplied(b, apply(m, batch...))
	return m, next, entry
}

func wantApplied(b testing.TB, results []*Result) {
	b.Helper()
	for _, r := range results {
		if r.Refusal != nil || r.Err != nil || r.Replayed {
			b.Fatalf("entry %d is answered by %+v (%v)", r.Position.Index, r, r.Refusal)
		}
	}
}

// BenchmarkApply applies entries in batches; the time is that of one entry. Most of
// a small batch's time is the disk's sync.
func BenchmarkApply(b *testing.B) {
	for _, size := range []int{1, 16, 64, 256} {
		b.Run(fmt.Sprint("batch=", size), func(b *testing.B) {
			m, next, _ := openBench(b, 1000)
			b.ReportAllocs()
			var batch []written
			for b.Loop() {
				if batch = append(batch, next()); len(batch) == size {
					wantApplied(b, apply(m, batch...))
					batch = batch[:0]
				}
			}
		})
	}
}

func BenchmarkList(b *testing.B) {
	m, _, _ := openBench(b, 50_000)
	no := false
	for name, q := range map[string]job.Query{
		"all":            {},
		"state":          {States: []job.State{job.StateNotCommitted}},
		"three filters":  {States: []job.State{job.StateNotCommitted}, IndexKey: "i3", Catalog: "c", Database: "db", Table: "t5"},
		"nothing found":  {States: []job.State{job.StatePending}},
		"filters at war": {IndexKey: "i3", Open: &no, RefreshStates: []job.RefreshState{job.RefreshFailed}},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := m.List(q); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

type discard struct{ io.Writer }

func (discard) Close() error  { return nil }
func (discard) Cancel() error { return nil }
func (discard) ID() string    { return "" }

func BenchmarkSnapshot(b *testing.B) {
	m, _, _ := openBench(b, 50_000)
	for b.Loop() {
		s, err := m.Snapshot()
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Persist(discard{io.Discard}); err != nil {
			b.Fatal(err)
		}
		s.Release()
	}
}

func BenchmarkOpen(b *testing.B) {
	m, _, _ := openBench(b, 50_000)
	if err := m.Close(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		m, err := Open(Config{Path: m.path})
		if err != nil {
			b.Fatal(err)
		}
		if err := m.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

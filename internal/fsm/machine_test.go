package fsm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/raft"
	"go.etcd.io/bbolt"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/lancemaster/lancemaster/internal/command"
	"github.com/lancemaster/lancemaster/internal/job"
)

func TestMain(m *testing.M) {
	if isVictim() {
		victim()
		return
	}
	goleak.VerifyTestMain(m)
}

// fataler is what *testing.T and *rapid.T have in common here.
type fataler interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

func openAt(t fataler, path string) *Machine {
	t.Helper()
	m, err := Open(Config{Path: path, Fatal: func(err error) { panic(fmt.Sprintf("fatal: %v", err)) }})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func openTemp(t *testing.T) *Machine {
	t.Helper()
	m := openAt(t, filepath.Join(t.TempDir(), "state.db"))
	t.Cleanup(func() { _ = m.Close() })
	return m
}

func closed(t fataler, m *Machine) {
	t.Helper()
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}

func check(t fataler, m *Machine) {
	t.Helper()
	if err := m.Check(); err != nil {
		t.Fatal(err)
	}
}

func hash(t fataler, m *Machine) job.Hash {
	t.Helper()
	h, err := m.Hash()
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func apply(m *Machine, journal ...written) []*Result {
	entries := make([]*raft.Log, len(journal))
	for i, w := range journal {
		entries[i] = w.entry
	}
	results := make([]*Result, len(journal))
	for i, response := range m.ApplyBatch(entries) {
		r, ok := response.(*Result)
		if !ok {
			panic(fmt.Sprintf("entry %d is answered by a %T", i, response))
		}
		results[i] = r
	}
	return results
}

// write makes a journal of n entries.
func write(c chooser, n int) ([]written, *author) {
	a := newAuthor(c)
	journal := make([]written, n)
	for i := range journal {
		journal[i] = a.next()
	}
	return journal, a
}

// TestBatchesEqualOneByOne is the heart of it. Two machines are given one journal:
// one an entry at a time, the other in random batches, reopened at random points,
// some entries delivered again. Both answer, and end, as the model does, which knows
// neither files nor batches.
func TestBatchesEqualOneByOne(t *testing.T) {
	dir := t.TempDir()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		journal, a := write(rapidly{t}, rapid.IntRange(1, 120).Draw(t, "entries"))
		one := openAt(t, filepath.Join(dir, fmt.Sprint(n, ".one")))
		defer func() { closed(t, one) }()
		path := filepath.Join(dir, fmt.Sprint(n, ".many"))
		many := openAt(t, path)
		defer func() { closed(t, many) }()
		// One at a time means one sync of the disk each, so a long journal goes by tens.
		for part := range slices.Chunk(journal, 1+9*min(1, len(journal)/50)) {
			for i, r := range apply(one, part...) {
				wantResult(t, part[i], r)
			}
		}
		for from := 0; from < len(journal); {
			// Raft replays from somewhere at or before what is applied.
			again := rapid.IntRange(0, min(from, 5)).Draw(t, "replayed")
			size := min(rapid.IntRange(1, 30).Draw(t, "batch"), len(journal)-from)
			for i, r := range apply(many, journal[from-again:from+size]...) {
				if i < again {
					if !r.Replayed || r.Err != nil || r.Refusal != nil || r.Answer.Job != nil {
						t.Fatalf("an entry applied before is answered by %+v", r)
					}
					continue
				}
				wantResult(t, journal[from-again+i], r)
			}
			from += size
			if rapid.IntRange(0, 3).Draw(t, "reopen") == 0 {
				closed(t, many)
				many = openAt(t, path)
				check(t, many)
			}
		}
		check(t, one)
		check(t, many)
		if hash(t, one) != hash(t, many) {
			t.Fatal("where batches end shows in the state")
		}
		if one.Applied() != many.Applied() || one.Applied() != a.model.Position {
			t.Fatalf("applied %+v and %+v, the model %+v", one.Applied(), many.Applied(), a.model.Position)
		}
		wantModel(t, many, a)
	})
}

// wantResult compares a machine's answer with the model's.
func wantResult(t fataler, w written, r *Result) {
	t.Helper()
	if r.Err != nil || r.Replayed {
		t.Fatalf("entry %d is answered by %+v", w.entry.Index, r)
	}
	if r.Position.Index != w.entry.Index || r.Position.Term != w.entry.Term {
		t.Fatalf("entry %d is answered as %+v", w.entry.Index, r.Position)
	}
	if !reflect.DeepEqual(r.Refusal, w.refusal) || !reflect.DeepEqual(r.Changes, w.change) || !reflect.DeepEqual(r.Answer, w.change.Answer) {
		t.Fatalf("%T is answered by %+v, the model says %+v, %+v", w.command, r, w.change, w.refusal)
	}
}

// wantModel compares all that can be read with the model.
func wantModel(t fataler, m *Machine, a *author) {
	t.Helper()
	listed := 0
	for q := (job.Query{Limit: 9}); ; {
		page, err := m.List(q)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page.Jobs {
			if !reflect.DeepEqual(r, a.model.Records[r.ID]) {
				t.Fatalf("job %d is %+v, in the model %+v", r.ID, r, a.model.Records[r.ID])
			}
			listed++
		}
		if q.PageToken = page.Next; q.PageToken == "" {
			break
		}
	}
	if listed != len(a.model.Records) {
		t.Fatalf("%d jobs are listed, the model has %d", listed, len(a.model.Records))
	}
	for id, want := range a.model.Events {
		got, dropped, err := m.History(id)
		if err != nil || !reflect.DeepEqual(got, trimmed(want)) || int(dropped) != len(want)-len(got) {
			t.Fatalf("history of job %d is %+v, %d dropped (%v), in the model %+v", id, got, dropped, err, want)
		}
		if r, err := m.Job(id); err != nil || !reflect.DeepEqual(r, a.model.Records[id]) {
			t.Fatalf("job %d is %+v (%v)", id, r, err)
		}
	}
	m.Read(func(l *job.Live) {
		if !reflect.DeepEqual(l, a.model.Live) {
			t.Fatalf("memory is %+v, in the model %+v", l, a.model.Live)
		}
	})
	entries, err := m.SettingsHistory("", 1000)
	if err != nil || len(entries) != len(a.model.Changes) {
		t.Fatalf("the settings' history has %d entries (%v), in the model %d", len(entries), err, len(a.model.Changes))
	}
	for i, e := range entries {
		if want := a.model.Changes[len(entries)-1-i]; e.Change != want {
			t.Fatalf("the settings' history holds %+v, not %+v", e.Change, want)
		}
	}
}

func trimmed(events []job.Event) []job.Event {
	if over := len(events) - job.HistoryFirst - job.HistoryLast; over > 0 {
		return append(slices.Clone(events[:job.HistoryFirst]), events[job.HistoryFirst+over:]...)
	}
	return events
}

// TestRefusalsDoNotUndoTheirNeighbours: in one batch, what is refused and what is
// applied stay apart.
func TestRefusalsDoNotUndoTheirNeighbours(t *testing.T) {
	m := openTemp(t)
	journal, _ := write(newSeeded(3), 400)
	refused, applied := 0, 0
	for i, r := range apply(m, journal...) {
		wantResult(t, journal[i], r)
		if r.Refusal != nil {
			refused++
		} else {
			applied++
		}
	}
	if refused < 40 || applied < 40 {
		t.Errorf("%d refused, %d applied: the journal does not try what it is for", refused, applied)
	}
	check(t, m)
}

// TestJournalCovers holds the author to writing every kind of command, applied.
func TestJournalCovers(t *testing.T) {
	a := newAuthor(newSeeded(5))
	seen := map[string]bool{}
	for n := range 6000 {
		a.calm = n < 5000
		w := a.next()
		if w.command != nil && w.refusal == nil && (len(w.change.Jobs) > 0 || w.change.Cluster != nil ||
			w.change.Catalog != nil || w.change.Backend != nil || len(w.change.Settings) > 0 ||
			len(w.change.Members) > 0 || w.change.Token != nil) {
			seen[w.command.Name()] = true
		}
	}
	for _, c := range []job.Command{
		job.Form{}, job.Admit{}, job.MarkRunning{}, job.Complete{}, job.RecordTermination{}, job.RefreshStart{},
		job.RefreshFinish{}, job.Cancel{}, job.RejectBeforeDispatch{}, job.ForceRelease{}, job.ReleaseSlot{},
		job.RecordLateResult{}, job.Quarantine{}, job.TermStart{}, job.RemoveResolved{}, job.PutCatalog{},
		job.RemoveCatalog{}, job.AddBackend{}, job.SetBackendState{}, job.RemoveBackend{}, job.ChangeSettings{},
		job.Reopen{}, job.PutMember{}, job.RemoveMember{}, job.PutToken{}, job.RemoveToken{},
	} {
		if !seen[c.Name()] {
			t.Errorf("no %s in the journal changes anything", c.Name())
		}
	}
}

// fatals collects what Fatal is told.
type fatals struct {
	mu     sync.Mutex
	errs   []error
	during func()
}

func (f *fatals) add(err error) {
	f.mu.Lock()
	f.errs = append(f.errs, err)
	f.mu.Unlock()
	if f.during != nil {
		f.during()
	}
}

func (f *fatals) all() []error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.errs)
}

// TestUndecodableEntryStopsTheMachine: what stands before it is applied, it and what
// follows is not, not even later; Fatal is told once and may use the machine.
func TestUndecodableEntryStopsTheMachine(t *testing.T) {
	journal, _ := write(newSeeded(1), 30)
	unsupported, err := command.Encode(job.TermStart{})
	if err != nil {
		t.Fatal(err)
	}
	unsupported[2] = byte(command.MaxLevel) + 1
	for name, data := range map[string][]byte{"newer level": unsupported, "garbage": []byte("garbage"), "empty": nil} {
		t.Run(name, func(t *testing.T) {
			var told fatals
			path := filepath.Join(t.TempDir(), "state.db")
			m, err := Open(Config{Path: path, Fatal: told.add})
			if err != nil {
				t.Fatal(err)
			}
			told.during = func() {
				_ = m.Applied()
				m.Read(func(*job.Live) {})
				if r := apply(m, journal[20]); r[0].Err == nil {
					t.Error("Fatal could apply an entry")
				}
				_ = m.Check()
			}
			batch := slices.Clone(journal[:20])
			entry := *batch[12].entry
			entry.Data, entry.Type = data, raft.LogCommand
			batch[12] = written{entry: &entry}
			for i, r := range apply(m, batch...) {
				switch {
				case i < 12:
					wantResult(t, journal[i], r)
				case r.Err == nil || r.Position.Index != uint64(i+1):
					t.Errorf("entry %d is answered by %+v", i+1, r)
				case name == "newer level" && !errors.As(r.Err, new(*command.UnsupportedError)):
					t.Errorf("entry %d is answered by %v", i+1, r.Err)
				}
			}
			if r := apply(m, journal[12:20]...); r[0].Err == nil || r[7].Err == nil {
				t.Error("the machine goes on")
			}
			if errs := told.all(); len(errs) != 1 || !strings.Contains(errs[0].Error(), "log entry 13") {
				t.Errorf("Fatal was told %v", errs)
			}
			if m.Applied().Index != 12 || m.Err() == nil {
				t.Errorf("applied is %+v, the error %v", m.Applied(), m.Err())
			}
			if _, err := m.Job(1); err == nil {
				t.Error("Job answers from a state that is not certain")
			}
			if _, err := m.Snapshot(); err == nil {
				t.Error("a snapshot is taken of a stopped machine")
			}
			closed(t, m)
			again := openAt(t, path)
			defer func() { closed(t, again) }()
			check(t, again)
			if again.Applied().Index != 12 {
				t.Errorf("reopened at %+v", again.Applied())
			}
		})
	}
}

// TestFaultyStateStopsTheMachine: nothing of the batch that met a fault of the state
// file is kept, and readers see nothing of it.
func TestFaultyStateStopsTheMachine(t *testing.T) {
	var told fatals
	path := filepath.Join(t.TempDir(), "state.db")
	m, err := Open(Config{Path: path, Fatal: told.add})
	if err != nil {
		t.Fatal(err)
	}
	journal, a := write(newSeeded(2), 200)
	var gone job.ID // a job that memory does not hold
	for id, r := range a.model.Records {
		if !r.Live() {
			gone = id
		}
	}
	if gone == 0 {
		t.Fatal("no closed job in the journal")
	}
	apply(m, journal...)
	at := m.Applied()
	closed(t, m)
	damageJob(t, path, gone)
	if m, err = Open(Config{Path: path, Fatal: told.add}); err != nil {
		t.Fatal(err)
	}
	before := hash(t, m)
	more := []written{a.next(), a.next(), a.next()}
	data, err := command.Encode(job.Cancel{Header: a.head(), Job: gone})
	if err != nil {
		t.Fatal(err)
	}
	more[1].entry = &raft.Log{Index: more[1].entry.Index, Term: more[1].entry.Term, Data: data}
	for _, r := range apply(m, more...) {
		if r.Err == nil || r.Changes.Jobs != nil {
			t.Errorf("an entry of a failed batch is answered by %+v", r)
		}
	}
	if errs := told.all(); len(errs) != 1 || !strings.Contains(errs[0].Error(), fmt.Sprint("job ", gone)) {
		t.Errorf("Fatal was told %v", errs)
	}
	if m.Applied() != at {
		t.Errorf("applied has moved to %+v", m.Applied())
	}
	closed(t, m)
	again := openAt(t, path)
	defer func() { closed(t, again) }()
	if again.Applied() != at || hash(t, again) != before {
		t.Error("something of the failed batch is in the state file")
	}
}

func damageJob(t *testing.T, path string, id job.ID) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte("jobs")).Put(binary.BigEndian.AppendUint64(nil, uint64(id)), []byte("junk"))
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestClosedMachine(t *testing.T) {
	m := openTemp(t)
	journal, _ := write(newSeeded(1), 10)
	apply(m, journal[:5]...)
	closed(t, m)
	closed(t, m)
	if r := apply(m, journal[5:]...); !errors.Is(r[0].Err, ErrClosed) {
		t.Errorf("ApplyBatch answers %+v", r[0])
	}
	if _, err := m.List(job.Query{}); !errors.Is(err, ErrClosed) {
		t.Errorf("List answers %v", err)
	}
	if _, err := m.Snapshot(); !errors.Is(err, ErrClosed) {
		t.Errorf("Snapshot answers %v", err)
	}
	if err := m.Restore(io.NopCloser(bytes.NewReader(nil))); !errors.Is(err, ErrClosed) {
		t.Errorf("Restore answers %v", err)
	}
	if m.Applied().Index != 5 {
		t.Errorf("applied is %+v", m.Applied())
	}
}

// TestReadersSeeOnlyWhatIsCommitted reads while batches are applied: what memory
// shows, the state file has at least as new.
func TestReadersSeeOnlyWhatIsCommitted(t *testing.T) {
	m := openTemp(t)
	journal, _ := write(newSeeded(9), 600)
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			var last job.Position
			for {
				select {
				case <-done:
					return
				default:
				}
				var jobs []*job.Record
				m.Read(func(l *job.Live) { jobs = l.Jobs() })
				for _, r := range jobs {
					events, _, err := m.History(r.ID)
					// A job that has been removed since has no history any more.
					if err != nil || (len(events) > 0 && events[len(events)-1].Revision < r.Revision) {
						t.Errorf("memory has job %d at revision %d, the file %+v (%v)", r.ID, r.Revision, events, err)
						return
					}
				}
				if at := m.Applied(); at.Index < last.Index {
					t.Errorf("applied goes back from %+v to %+v", last, at)
				} else {
					last = at
				}
				if _, err := m.List(job.Query{Limit: 20}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for batch := range slices.Chunk(journal, 7) {
		apply(m, batch...)
	}
	close(done)
	readers.Wait()
	check(t, m)
}

func TestAppliedChanged(t *testing.T) {
	m := openTemp(t)
	journal, _ := write(newSeeded(1), 10)
	first := m.AppliedChanged()
	if first != m.AppliedChanged() {
		t.Error("two who wait before a change wait for different ones")
	}
	select {
	case <-first:
		t.Fatal("nothing has been applied yet")
	default:
	}
	apply(m, journal[:3]...)
	select {
	case <-first:
	default:
		t.Fatal("a batch was applied")
	}
	second := m.AppliedChanged()
	apply(m, journal[:3]...)
	select {
	case <-second:
		t.Fatal("entries applied before are no change")
	default:
	}
}

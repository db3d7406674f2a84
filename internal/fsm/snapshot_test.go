package fsm

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/lancemaster/lancemaster/internal/command"
	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/job/jobtest"
)

// sink is a raft.SnapshotSink in memory.
type sink struct {
	bytes.Buffer
	closed, cancelled bool
	limit             int // Write fails beyond it; 0 for no limit
}

var errSinkFull = errors.New("no space left")

func (s *sink) Write(p []byte) (int, error) {
	if s.limit > 0 && s.Len()+len(p) > s.limit {
		return 0, errSinkFull
	}
	return s.Buffer.Write(p)
}
func (s *sink) Close() error  { s.closed = true; return nil }
func (s *sink) Cancel() error { s.cancelled = true; return nil }
func (s *sink) ID() string    { return "snapshot" }

func snap(t fataler, m *Machine) raft.FSMSnapshot {
	t.Helper()
	s, err := m.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func persisted(t fataler, s raft.FSMSnapshot) []byte {
	t.Helper()
	var out sink
	if err := s.Persist(&out); err != nil || !out.closed || out.cancelled {
		t.Fatalf("Persist answers %v, closed %v, cancelled %v", err, out.closed, out.cancelled)
	}
	s.Release()
	return out.Bytes()
}

func restore(m *Machine, snapshot []byte) error {
	return m.Restore(io.NopCloser(bytes.NewReader(snapshot)))
}

// TestSnapshotAndRestore: a snapshot is of the moment it was asked for, and a machine
// that restores it goes on as the one it came from does.
func TestSnapshotAndRestore(t *testing.T) {
	one, two := openTemp(t), openTemp(t)
	journal, a := write(newSeeded(11), 500)
	apply(one, journal[:300]...)
	want := hash(t, one)
	s := snap(t, one)
	apply(one, journal[300:400]...)
	snapshot := persisted(t, s)
	s.Release() // once more does no harm

	apply(two, journal[:50]...)
	changed := two.AppliedChanged()
	if err := restore(two, snapshot); err != nil {
		t.Fatal(err)
	}
	select {
	case <-changed:
	default:
		t.Error("those who wait are not told of a restore")
	}
	if hash(t, two) != want || two.Applied().Index != 300 {
		t.Errorf("restored to %+v", two.Applied())
	}
	check(t, two)
	for i, r := range apply(two, journal[290:]...) {
		if i < 10 {
			if !r.Replayed {
				t.Errorf("entry %d is answered by %+v", 291+i, r)
			}
			continue
		}
		wantResult(t, journal[290+i], r)
	}
	apply(one, journal[400:]...)
	if hash(t, one) != hash(t, two) {
		t.Error("the two go different ways")
	}
	wantModel(t, two, a)
	path := two.path
	closed(t, two)
	again := openAt(t, path)
	defer func() { closed(t, again) }()
	check(t, again)
	if hash(t, again) != hash(t, one) {
		t.Error("reopened, the restored state is another")
	}
}

// TestRestoreWhileASnapshotIsWritten: the snapshot goes on reading the state that it
// is of, though another has its name.
func TestRestoreWhileASnapshotIsWritten(t *testing.T) {
	one, two := openTemp(t), openTemp(t)
	journal, _ := write(newSeeded(12), 300)
	apply(one, journal[:100]...)
	apply(two, journal...)
	before := persisted(t, snap(t, one))
	slow := snap(t, one)
	old := one.state
	if err := restore(one, persisted(t, snap(t, two))); err != nil {
		t.Fatal(err)
	}
	if n := old.users.Load(); n != 1 {
		t.Errorf("%d users of the old state, not the snapshot alone", n)
	}
	if !bytes.Equal(persisted(t, slow), before) {
		t.Error("the snapshot has changed")
	}
	if n := old.users.Load(); n != 0 {
		t.Errorf("%d users of the old state after the snapshot's release", n)
	}
	if hash(t, one) != hash(t, two) {
		t.Error("the restored state is another")
	}
	check(t, one)
}

func TestPersistCancelsWhatItCannotFinish(t *testing.T) {
	m := openTemp(t)
	journal, _ := write(newSeeded(12), 50)
	apply(m, journal...)
	for _, limit := range []int{1, 60, 20_000} {
		s := snap(t, m)
		out := sink{limit: limit}
		if err := s.Persist(&out); err == nil || !strings.Contains(err.Error(), errSinkFull.Error()) || !out.cancelled || out.closed {
			t.Errorf("limit %d: Persist answers %v, cancelled %v, closed %v", limit, err, out.cancelled, out.closed)
		}
		s.Release()
	}
	if n := m.state.users.Load(); n != 1 {
		t.Errorf("%d users of the state file", n)
	}
}

// TestRefusedSnapshotsLeaveTheState: the state before serves on, in memory and on
// disk, and applying goes on.
func TestRefusedSnapshotsLeaveTheState(t *testing.T) {
	journal, _ := write(newSeeded(13), 200)
	other := openTemp(t)
	apply(other, journal...)
	good := persisted(t, snap(t, other))

	foreigner := openTemp(t)
	apply(foreigner, foreignForm(t))
	foreign := persisted(t, snap(t, foreigner))

	m := openTemp(t)
	apply(m, journal[:80]...)
	before := hash(t, m)
	flip := func(n int) []byte {
		b := bytes.Clone(good)
		b[n] ^= 1
		return b
	}
	for name, snapshot := range map[string][]byte{
		"empty": nil, "cut in the header": good[:20], "cut in the pages": good[:len(good)/2], "cut in the sum": good[:len(good)-1],
		"longer": append(bytes.Clone(good), 1), "header flipped": flip(15), "pages flipped": flip(len(good) / 2),
		"sum flipped": flip(len(good) - 5), "another cluster's": foreign,
	} {
		err := restore(m, snapshot)
		if err == nil {
			t.Errorf("%s: restored", name)
		}
		if name == "another cluster's" && !strings.Contains(err.Error(), "the snapshot is of cluster 8, this node belongs to cluster 7") {
			t.Errorf("%s: %v", name, err)
		}
		if hash(t, m) != before || m.Applied().Index != 80 || m.Err() != nil {
			t.Fatalf("%s: the state has changed (%v)", name, m.Err())
		}
		if entries, err := os.ReadDir(filepath.Dir(m.path)); err != nil || len(entries) != 1 {
			t.Errorf("%s: the directory holds %v (%v)", name, entries, err)
		}
	}
	for i, r := range apply(m, journal[80:]...) {
		wantResult(t, journal[80+i], r)
	}
	check(t, m)
	if hash(t, m) != hash(t, other) {
		t.Error("the state after all that is another")
	}
}

func foreignForm(t *testing.T) written {
	t.Helper()
	data, err := command.Encode(job.Form{
		Header: job.Header{At: 1, Actor: "ann"}, ClusterID: 8, Level: 1, Settings: job.DefaultSettings(),
		Members: jobtest.Members("master-1"),
	})
	if err != nil {
		t.Fatal(err)
	}
	return written{entry: &raft.Log{Index: 1, Term: 1, Data: data}}
}

// TestUnsupportedSnapshotIsFatal: a node that cannot read the cluster's state can do
// nothing any more.
func TestUnsupportedSnapshotIsFatal(t *testing.T) {
	m := openTemp(t)
	var told fatals
	m.fatal = told.add
	journal, _ := write(newSeeded(13), 20)
	apply(m, journal...)
	newer := resealed(persisted(t, snap(t, m)), 11, byte(command.MaxLevel)+1)
	if err := restore(m, newer); !errors.As(err, new(*command.UnsupportedError)) {
		t.Fatalf("Restore answers %v", err)
	}
	if errs := told.all(); len(errs) != 1 || !errors.As(errs[0], new(*command.UnsupportedError)) {
		t.Errorf("Fatal was told %v", errs)
	}
	if m.Err() == nil {
		t.Error("the machine goes on")
	}
}

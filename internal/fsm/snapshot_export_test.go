package fsm

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"
)

// An export is a snapshot by another way out, of the moment it was asked for.
func TestExport(t *testing.T) {
	m := openTemp(t)
	journal, _ := write(newSeeded(14), 200)
	apply(m, journal[:120]...)
	want := persisted(t, snap(t, m))
	counts, err := m.StateCounts()
	if err != nil {
		t.Fatal(err)
	}
	var jobs int64
	for _, n := range counts {
		jobs += n.Jobs
	}

	e, err := m.Export()
	if err != nil {
		t.Fatal(err)
	}
	apply(m, journal[120:]...)
	var out bytes.Buffer
	if err := e.Write(&out); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(out.Bytes(), want) || int64(out.Len()) != e.Header.SnapshotSize() {
		t.Errorf("exported are %d bytes, not the snapshot's %d; announced were %d", out.Len(), len(want), e.Header.SnapshotSize())
	}
	if e.Header.Applied.Index != 120 || e.Jobs != jobs || jobs == 0 {
		t.Errorf("it is described as %+v with %d jobs, not %d", e.Header, e.Jobs, jobs)
	}
	e.Release()
	e.Release()
	if n := m.state.users.Load(); n != 1 {
		t.Errorf("%d users of the state file after the release", n)
	}
	closed(t, m)
	if _, err := m.Export(); !errors.Is(err, ErrClosed) {
		t.Errorf("of a closed machine: %v", err)
	}
}

// Commands are applied while an export is read as slowly as may be: neither waits for the other. The
// reader stands still in the middle until every command has been applied.
func TestApplyingGoesOnWhileAnExportIsRead(t *testing.T) {
	m := openTemp(t)
	journal, _ := write(newSeeded(15), 400)
	apply(m, journal[:100]...)
	want := persisted(t, snap(t, m))
	e, err := m.Export()
	if err != nil {
		t.Fatal(err)
	}
	defer e.Release()
	r, w := io.Pipe()
	written := make(chan error, 1)
	go func() { written <- errors.Join(e.Write(w), w.Close()) }()
	half := make([]byte, len(want)/2)
	if _, err := io.ReadFull(r, half); err != nil {
		t.Fatal(err)
	}
	for i, result := range apply(m, journal[100:]...) {
		wantResult(t, journal[100+i], result)
	}
	rest, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(slices.Concat(half, rest), want) {
		t.Error("what was applied meanwhile shows in the export")
	}
	check(t, m)
}

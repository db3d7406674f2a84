package app

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lancemaster/lancemaster/internal/await"
	"github.com/lancemaster/lancemaster/internal/fsm"
	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/rpc"
)

func testDescription() description {
	return description{CreatedAt: 1_772_366_400_000, NodeID: "m1", Version: "v0.1.0"}
}

func snapshotsOf(t *testing.T, dir string, export func() (*fsm.Export, error)) *snapshots {
	t.Helper()
	s, err := newSnapshots(dir, export, testDescription, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	s.free = func(string) (uint64, bool) { return 0, false }
	t.Cleanup(s.close)
	return s
}

func begun(t *testing.T, s *snapshots) rpc.SnapshotInfo {
	t.Helper()
	info, err := s.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// readAll reads a snapshot in parts of a size.
func readAll(t *testing.T, s *snapshots, id string, part int) []byte {
	t.Helper()
	var all []byte
	for {
		data, err := s.Read(t.Context(), id, int64(len(all)), part)
		if err != nil {
			t.Fatal(err)
		}
		if len(data) == 0 {
			return all
		}
		all = append(all, data...)
	}
}

// wantFiles holds a directory to the names in it.
func wantFiles(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, e := range entries {
		have = append(have, e.Name())
	}
	if strings.Join(have, " ") != strings.Join(names, " ") {
		t.Errorf("%s holds %q, not %q", dir, have, names)
	}
}

// What is read is what was announced, of the moment of the beginning, and leaves nothing behind.
func TestASnapshotIsRead(t *testing.T) {
	dir := t.TempDir()
	a := newState(t, stateIn(dir), testCluster, 30)
	s := snapshotsOf(t, dir, a.machine.Export)
	info := begun(t, s)
	at := a.machine.Applied()
	wantFiles(t, dir, stateFile)
	a.admit(20)
	data := readAll(t, s, info.ID, 1000)
	if int64(len(data)) != info.Size || sha256.Sum256(data) != info.SHA256 {
		t.Errorf("read %d bytes, announced were %d", len(data), info.Size)
	}
	want := rpc.SnapshotInfo{
		ID: info.ID, Size: info.Size, SHA256: info.SHA256, RaftIndex: at.Index, RaftTerm: at.Term, ClusterID: testCluster,
		Incarnation: 1, Level: 1, Jobs: 30, CreatedAt: testDescription().CreatedAt,
	}
	if info != want {
		t.Errorf("got %+v\nwant %+v", info, want)
	}
	saved, err := openSaved(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if saved.description != testDescription() || saved.header.Applied != at {
		t.Errorf("it says %+v, %+v", saved.description, saved.header)
	}
	if err := saved.verify(); err != nil {
		t.Error(err)
	}
	// A part that was lost is read again; past the end is nothing.
	if again, err := s.Read(t.Context(), info.ID, 10, 50); err != nil || !bytes.Equal(again, data[10:60]) {
		t.Errorf("read again: %v, %v", again, err)
	}
	for _, offset := range []int64{-1, info.Size, info.Size + 1} {
		if past, err := s.Read(t.Context(), info.ID, offset, 50); err != nil || len(past) != 0 {
			t.Errorf("at %d: %d bytes, %v", offset, len(past), err)
		}
	}
	s.Release(info.ID)
	s.Release(info.ID)
	if _, err := s.Read(t.Context(), info.ID, 0, 50); !job.IsCode(err, job.CodeNotFound) {
		t.Errorf("after the release: %v", err)
	}
	wantFiles(t, dir, stateFile)
}

func TestOpenSnapshotsAreBounded(t *testing.T) {
	dir := t.TempDir()
	a := newState(t, stateIn(dir), testCluster, 1)
	s := snapshotsOf(t, dir, a.machine.Export)
	first, second := begun(t, s), begun(t, s)
	if _, err := s.Begin(t.Context()); !job.IsCode(err, job.CodeInUse) {
		t.Errorf("a third one: %v", err)
	}
	s.Release(first.ID)
	third := begun(t, s)
	if second.ID == third.ID || first.ID == third.ID {
		t.Error("an id was used twice")
	}
	s.close()
	if _, err := s.Begin(t.Context()); !errors.Is(err, errStopped) {
		t.Errorf("after the end: %v", err)
	}
	if _, err := s.Read(t.Context(), second.ID, 0, 1); !job.IsCode(err, job.CodeNotFound) {
		t.Errorf("read after the end: %v", err)
	}
}

// One that is read stays as long as it is read; one that nobody reads goes.
func TestAnIdleSnapshotIsGivenUp(t *testing.T) {
	dir := t.TempDir()
	a := newState(t, stateIn(dir), testCluster, 1)
	synctest.Test(t, func(t *testing.T) {
		s := snapshotsOf(t, dir, a.machine.Export)
		info := begun(t, s)
		for range 5 {
			await.Pass(snapshotIdle - time.Second)
			if _, err := s.Read(t.Context(), info.ID, 0, 1); err != nil {
				t.Fatal(err)
			}
		}
		await.Pass(snapshotIdle + time.Second)
		synctest.Wait()
		if _, err := s.Read(t.Context(), info.ID, 0, 1); !job.IsCode(err, job.CodeNotFound) {
			t.Errorf("read after it was idle: %v", err)
		}
		for range maxOpenSnapshots {
			begun(t, s) // there is room again
		}
		s.close()
	})
}

func TestALittleDiskIsNotUsedUp(t *testing.T) {
	dir := t.TempDir()
	a := newState(t, stateIn(dir), testCluster, 1)
	e, err := a.machine.Export()
	if err != nil {
		t.Fatal(err)
	}
	need := uint64(e.Header.SnapshotSize()) + snapshotReserve
	e.Release()
	s := snapshotsOf(t, dir, a.machine.Export)
	s.free = func(string) (uint64, bool) { return need - 1, true }
	if _, err := s.Begin(t.Context()); !job.IsCode(err, job.CodeInternal) || !strings.Contains(err.Error(), "must stay free for the journal") {
		t.Errorf("one byte less than needed: %v", err)
	}
	s.free = func(string) (uint64, bool) { return need, true }
	begun(t, s)
	if free, known := freeBytes(dir); known && free == 0 {
		t.Error("the disk of the tests has no free space")
	}
}

// Two that are begun at once are both on the disk before long: the room that one takes is not the other's.
func TestTwoSnapshotsAtOnceLeaveTheReserve(t *testing.T) {
	dir := t.TempDir()
	a := newState(t, stateIn(dir), testCluster, 1)
	e, err := a.machine.Export()
	if err != nil {
		t.Fatal(err)
	}
	size := uint64(e.Header.SnapshotSize())
	e.Release()
	s := snapshotsOf(t, dir, a.machine.Export)
	// beside begins another while the one that was begun is checked for room, but not written yet.
	beside := func(room uint64) (another error) {
		s.free = func(string) (uint64, bool) { return room, true }
		s.description = func() description {
			s.description = testDescription
			var info rpc.SnapshotInfo
			if info, another = s.Begin(t.Context()); another == nil {
				s.Release(info.ID)
			}
			return testDescription()
		}
		s.Release(begun(t, s).ID)
		return another
	}
	if err := beside(2*size + snapshotReserve - 1); !job.IsCode(err, job.CodeInternal) || !strings.Contains(err.Error(), "another snapshot takes up to") {
		t.Errorf("one byte less than two need: %v", err)
	}
	if err := beside(2*size + snapshotReserve); err != nil {
		t.Errorf("with room for two: %v", err)
	}
	// What one has taken shows in what is free; what one that failed would have taken is free again.
	s.free = func(string) (uint64, bool) { return size + snapshotReserve, true }
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Begin(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	begun(t, s)
	begun(t, s)
}

// A full disk, a caller that goes away and a state that cannot be read end a snapshot; nothing of it
// stays, the next one has room, and the state file is let go.
func TestASnapshotThatFailsLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	a := newState(t, stateIn(dir), testCluster, 1)
	failing := errors.New("cannot read the state")
	fail := true
	s := snapshotsOf(t, dir, func() (*fsm.Export, error) {
		if fail {
			return nil, failing
		}
		return a.machine.Export()
	})
	for range maxOpenSnapshots + 1 {
		if _, err := s.Begin(t.Context()); !errors.Is(err, failing) {
			t.Errorf("got %v", err)
		}
	}
	fail = false
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range maxOpenSnapshots + 1 {
		if _, err := s.Begin(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	}
	s.dir = filepath.Join(dir, "absent")
	if _, err := s.Begin(t.Context()); err == nil {
		t.Error("a snapshot was made nowhere")
	}
	s.dir = dir
	wantFiles(t, dir, stateFile)
	for range maxOpenSnapshots {
		begun(t, s)
	}
}

// fullDisk takes so many bytes.
type fullDisk struct{ left int }

func (d *fullDisk) Write(p []byte) (int, error) {
	n := min(len(p), d.left)
	if d.left -= n; n < len(p) {
		return n, &os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}
	}
	return n, nil
}

func TestAFullDiskIsToldClearly(t *testing.T) {
	dir := t.TempDir()
	a := newState(t, stateIn(dir), testCluster, 1)
	s := snapshotsOf(t, dir, a.machine.Export)
	e, err := a.machine.Export()
	if err != nil {
		t.Fatal(err)
	}
	defer e.Release()
	for _, room := range []int{0, 50, 5000} {
		_, err := s.copy(t.Context(), &fullDisk{left: room}, e)
		if err = diskError(err); !job.IsCode(err, job.CodeInternal) || !strings.Contains(err.Error(), "the disk of the data directory is full") {
			t.Errorf("with room for %d bytes: %v", room, err)
		}
	}
	other := errors.New("other")
	if err := diskError(other); !errors.Is(err, other) {
		t.Errorf("got %v", err)
	}
}

// What a killed process left is removed when the next one starts; nothing else is.
func TestLeftoverSnapshotsAreRemoved(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{savingPrefix + "123", "something-else", stateFile} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	snapshotsOf(t, dir, nil)
	wantFiles(t, dir, "something-else", stateFile)
}

// A snapshot reaches the disk in small portions, so that the journal's writes beside it do not wait
// for all of it.
func TestASnapshotIsWrittenSteadily(t *testing.T) {
	f := &countedFile{}
	w := &steadyWriter{ctx: t.Context(), file: f, sum: sha256.New()}
	data := bytes.Repeat([]byte("x"), 3*unsynced/2)
	for range 4 {
		if n, err := w.Write(data); n != len(data) || err != nil {
			t.Fatal(n, err)
		}
	}
	if f.largest > unsynced || f.syncs < 3 || f.backlog > 2*unsynced || w.size != int64(4*len(data)) {
		t.Errorf("got %+v", f)
	}
	if want := sha256.Sum256(bytes.Repeat(data, 4)); !bytes.Equal(w.sum.Sum(nil), want[:]) {
		t.Error("the sum is another")
	}
}

type countedFile struct{ largest, syncs, unsynced, backlog int }

func (f *countedFile) Write(p []byte) (int, error) {
	f.largest = max(f.largest, len(p))
	f.unsynced += len(p)
	f.backlog = max(f.backlog, f.unsynced)
	return len(p), nil
}
func (f *countedFile) Sync() error { f.syncs, f.unsynced = f.syncs+1, 0; return nil }

// Jobs are admitted while a snapshot is read as slowly as may be: the reader has not come further
// than the first part when all have been.
func TestAdmissionGoesOnWhileASnapshotIsRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := newState(t, stateIn(dir), testCluster, 200)
	s := snapshotsOf(t, dir, a.machine.Export)
	info := begun(t, s)
	first, err := s.Read(t.Context(), info.ID, 0, 4096)
	if err != nil {
		t.Fatal(err)
	}
	before, size := a.machine.Applied(), fileSize(t, stateIn(dir))
	for range 100 {
		a.admit(1)
		a.apply(job.Cancel{Header: job.Header{At: 9000, Actor: "ann"}, Job: job.ID(a.jobs)})
	}
	if got := a.machine.Applied().Index - before.Index; got != 200 {
		t.Errorf("%d commands were applied, not 200", got)
	}
	// No read transaction is left: pages that were freed meanwhile are used again, so that the file
	// has grown by what was admitted and not by each page that was ever written.
	if grown := fileSize(t, stateIn(dir)) - size; grown > 4<<20 {
		t.Errorf("the state file has grown by %d bytes", grown)
	}
	rest := readAll(t, s, info.ID, 1<<20)
	if !bytes.Equal(rest[:len(first)], first) || sha256.Sum256(rest) != info.SHA256 {
		t.Error("what was admitted meanwhile shows in the snapshot")
	}
}

func fileSize(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// Whatever is done to a file, it is refused in words, and never believed.
func TestADamagedSnapshotFileIsRefused(t *testing.T) {
	dir := t.TempDir()
	a := newState(t, stateIn(dir), testCluster, 3)
	s := snapshotsOf(t, dir, a.machine.Export)
	good := readAll(t, s, begun(t, s).ID, 1<<20)
	try := func(data []byte) error {
		saved, err := openSaved(bytes.NewReader(data))
		if err != nil {
			return err
		}
		return saved.verify()
	}
	if err := try(good); err != nil {
		t.Fatal(err)
	}
	flip := func(n int) []byte {
		b := bytes.Clone(good)
		b[n] ^= 0x40
		return b
	}
	for name, tc := range map[string]struct {
		data []byte
		says string
	}{
		"empty":                  {nil, "it is cut off, or is not a file"},
		"another file":           {bytes.Repeat([]byte("no"), 100), "not a file that lancemaster snapshot save has written"},
		"another format":         {flip(len(savedMagic)), "it has format 65"},
		"an endless description": {flip(8), "would have"},
		"cut in the description": {good[:20], "it is cut off"},
		"another description":    {flip(savedFixed + 3), "its description does not match its checksum"},
		"cut in the header":      {good[:savedFixed+120], "its header"},
		"cut in the pages":       {good[:len(good)/2], "it is cut off: "},
		"cut in the sum":         {good[:len(good)-1], "it is cut off: its checksum cannot be read"},
		"other pages":            {flip(len(good) / 2), "its content does not match its checksum"},
		"another sum":            {flip(len(good) - 1), "its content does not match its checksum"},
		"longer":                 {append(bytes.Clone(good), 0), "something follows its checksum"},
	} {
		if err := try(tc.data); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v; want %q", name, err, tc.says)
		}
	}
	// Every byte counts.
	for n := range 300 {
		if try(flip(n)) == nil {
			t.Errorf("with byte %d flipped it is taken", n)
		}
	}
	if _, err := (description{NodeID: strings.Repeat("n", maxDescription)}).encode(); err == nil {
		t.Error("a description too long was written")
	}
	if err := writeSnapshotFile(io.Discard, description{NodeID: strings.Repeat("n", maxDescription)}, nil); err == nil {
		t.Error("a file with a description too long was written")
	}
}

// A state that belongs to nobody yet is no backup.
func TestAStateBeforeFormationIsNoBackup(t *testing.T) {
	dir := t.TempDir()
	a := openState(t, stateIn(dir))
	s := snapshotsOf(t, dir, a.machine.Export)
	if _, err := s.Begin(t.Context()); !job.IsCode(err, job.CodeNotFormed) {
		t.Errorf("got %v", err)
	}
	path, _, _ := saveState(t, a)
	if _, err := InspectSnapshot(t.Context(), path); err == nil || !strings.Contains(err.Error(), "before any cluster was formed") {
		t.Errorf("a file of it: %v", err)
	}
}

// What a file holds is shown as it is, and without what is nobody's business.
func TestInspect(t *testing.T) {
	a := newState(t, filepath.Join(t.TempDir(), stateFile), testCluster, 3)
	a.apply(job.Cancel{Header: job.Header{At: 9000, Actor: "ann"}, Job: 2})
	path, _, at := saveState(t, a)
	t.Setenv("TMPDIR", t.TempDir())
	c, err := InspectSnapshot(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	wantFiles(t, os.Getenv("TMPDIR"))
	if len(c.SHA256) != 64 || c.Size != fileSize(t, path) || c.CreatedAt != int64(testDescription().CreatedAt) || c.CreatedBy != "m1" || c.Version != "v0.1.0" {
		t.Errorf("the file is %+v", c)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("%x", sha256.Sum256(data)); c.FileSHA256 != want {
		t.Errorf("the file's sum is %s, want %s, which sha256sum and save print", c.FileSHA256, want)
	}
	if c.ClusterID != testCluster || c.FormedAt != 1000 || c.Incarnation != testBefore || c.Level != 1 || c.Index != at.Index || c.Term != testTerm || c.Quarantined {
		t.Errorf("the cluster is %+v", c)
	}
	if want := []StateCount{{"PENDING", "NOT_REQUIRED", 2}, {"NOT_COMMITTED", "NOT_REQUIRED", 1}}; !slices.Equal(c.Jobs, want) || c.OpenJobs != 2 {
		t.Errorf("the jobs are %+v, open are %d", c.Jobs, c.OpenJobs)
	}
	if want := []SnapshotCatalog{{"lake", "s3", "none"}}; !slices.Equal(c.Catalogs, want) {
		t.Errorf("the catalogs are %+v", c.Catalogs)
	}
	if want := []SnapshotBackend{{1, "10.0.0.7:9060", "active"}}; !slices.Equal(c.Backends, want) {
		t.Errorf("the backends are %+v", c.Backends)
	}
	if want := []SnapshotSetting{
		{"admission.enabled", "true", "false"}, {"admission.max_unresolved_global", "50000", "256"},
		{"admission.max_unresolved_per_catalog", "50000", "64"}, {"admission.max_unresolved_per_table", "50000", "8"},
	}; !slices.Equal(c.Settings, want) {
		t.Errorf("the settings are %+v", c.Settings)
	}
	if len(c.Members) != 3 || c.Members[0].NodeID != "m1" || c.Members[0].Address == "" || c.Tokens != 0 {
		t.Errorf("the members are %+v, the tokens %d", c.Members, c.Tokens)
	}
}

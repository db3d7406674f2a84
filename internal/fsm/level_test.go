package fsm

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/lancemaster/lancemaster/internal/command"
	"github.com/lancemaster/lancemaster/internal/job"
)

var rewrite = flag.Bool("rewrite", false, "write the journals and states in testdata instead of checking them")

// The files of testdata are a journal, the sum of the state it leads to, and snapshots
// of the state at its first two thirds: at level 1, one written by each of the two
// builds; at level 2 by the only one that can. Both builds' tests read them all.
//
//	go test ./internal/fsm -run TestBuilds -rewrite
//	go test -tags nextlevel ./internal/fsm -run TestBuilds -rewrite
const (
	levelOneJournal  = "testdata/level1/journal.gz"
	levelOneSum      = "testdata/level1/sum"
	snapshotOfOld    = "testdata/level1/snapshot-old.gz"
	snapshotOfNew    = "testdata/level1/snapshot-new.gz"
	levelTwoJournal  = "testdata/level2/journal.gz"
	levelTwoSum      = "testdata/level2/sum"
	levelTwoSnapshot = "testdata/level2/snapshot.gz"
)

func readPinned(t *testing.T, path string) []byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var r io.Reader = f
	if strings.HasSuffix(path, ".gz") {
		if r, err = gzip.NewReader(f); err != nil {
			t.Fatal(err)
		}
	}
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func writePinned(t *testing.T, path string, data []byte) {
	t.Helper()
	if strings.HasSuffix(path, ".gz") {
		var b bytes.Buffer
		w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		data = b.Bytes()
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// journalText has a line for each entry: index, term, type and bytes.
func journalText(journal []written) []byte {
	var b bytes.Buffer
	for _, w := range journal {
		fmt.Fprintf(&b, "%d %d %d %s\n", w.entry.Index, w.entry.Term, w.entry.Type, hex.EncodeToString(w.entry.Data))
	}
	return b.Bytes()
}

func readJournal(t *testing.T, path string) []written {
	t.Helper()
	var journal []written
	for line := range strings.Lines(string(readPinned(t, path))) {
		var entry raft.Log
		var digits string
		if _, err := fmt.Sscan(line, &entry.Index, &entry.Term, &entry.Type, &digits); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		var err error
		if entry.Data, err = hex.DecodeString(digits); err != nil {
			t.Fatal(err)
		}
		journal = append(journal, written{entry: &entry})
	}
	return journal
}

// replayed applies a journal whose every entry must be applied or refused.
func replayed(t *testing.T, m *Machine, journal []written) {
	t.Helper()
	for _, r := range apply(m, journal...) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
}

// snapshotAt is a snapshot of the state at the first two thirds of a journal.
func snapshotAt(t *testing.T, journal []written) []byte {
	t.Helper()
	m := openTemp(t)
	replayed(t, m, journal[:len(journal)*2/3])
	return persisted(t, snap(t, m))
}

// rewriteLevelOne writes what this build has to write of the files of level 1.
func rewriteLevelOne(t *testing.T, snapshotFile string) {
	if !*rewrite {
		return
	}
	if command.MaxLevel == 1 {
		journal, _ := write(newSeeded(17), 240)
		writePinned(t, levelOneJournal, journalText(journal))
		m := openTemp(t)
		replayed(t, m, journal)
		writePinned(t, levelOneSum, fmt.Appendf(nil, "%x\n", hash(t, m)))
	}
	writePinned(t, snapshotFile, snapshotAt(t, readJournal(t, levelOneJournal)))
}

// wantSharedState replays a journal in batches of several sizes, and from snapshots
// that other builds wrote, and holds the states to a pinned sum.
func wantSharedState(t *testing.T, journalFile, sumFile string, snapshotFiles ...string) {
	t.Helper()
	journal, sum := readJournal(t, journalFile), strings.TrimSpace(string(readPinned(t, sumFile)))
	want := func(m *Machine) {
		t.Helper()
		check(t, m)
		if got := fmt.Sprintf("%x", hash(t, m)); got != sum {
			t.Errorf("the state's sum is %s, not %s: masters of two builds would differ", got, sum)
		}
	}
	for _, size := range []int{len(journal), 50} {
		m := openTemp(t)
		for from := 0; from < len(journal); from += size {
			replayed(t, m, journal[from:min(from+size, len(journal))])
		}
		want(m)
	}
	for _, file := range snapshotFiles {
		m := openTemp(t)
		if err := restore(m, readPinned(t, file)); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		check(t, m)
		replayed(t, m, journal) // what the snapshot holds is skipped
		want(m)
	}
}

// raises finds the entry that puts level 2 in force.
func raises(t *testing.T, journal []written) int {
	t.Helper()
	level1 := openTemp(t)
	level1.fatal = func(error) {}
	for i, w := range journal {
		if apply(level1, w)[0].Err != nil {
			return i
		}
		level := int32(0)
		level1.Read(func(l *job.Live) { level = l.Cluster().Level })
		if level > 1 {
			return i
		}
	}
	t.Fatal("the journal never raises the level")
	return 0
}

package fsm

import (
	"crypto/sha256"
	"encoding/binary"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/lancemaster/lancemaster/internal/job"
)

// resealed changes one byte of a snapshot and makes both its checksums right.
func resealed(b []byte, offset int, value byte) []byte {
	const head, sum = 52, sha256.Size
	b[offset] = value
	binary.BigEndian.PutUint32(b[head-4:], crc32.Checksum(b[:head-4], crc32.MakeTable(crc32.Castagnoli)))
	s := sha256.Sum256(b[:len(b)-sum])
	return append(b[:len(b)-sum], s[:]...)
}

func TestCheckLog(t *testing.T) {
	m := openTemp(t)
	journal, _ := write(newSeeded(1), 10)
	logOf := func(first, last, term uint64) *raft.InmemStore {
		s := raft.NewInmemStore()
		for i := first; i <= last && last > 0; i++ {
			if err := s.StoreLog(&raft.Log{Index: i, Term: term}); err != nil {
				t.Fatal(err)
			}
		}
		return s
	}
	at := func(index, term uint64) *job.Position { return &job.Position{Index: index, Term: term} }
	type test struct {
		name   string
		log    *raft.InmemStore
		newest *job.Position
		want   Action
		err    string
	}
	try := func(tests []test) {
		t.Helper()
		for _, tt := range tests {
			var newest job.Position
			if tt.newest != nil {
				newest = *tt.newest
			}
			got, err := m.CheckLog(tt.log, newest, tt.newest != nil)
			if got != tt.want || (err == nil) != (tt.err == "") || (err != nil && !strings.Contains(err.Error(), tt.err)) {
				t.Errorf("%s: %v, %v", tt.name, got, err)
			}
		}
	}
	try([]test{ // the state is empty
		{"all new", logOf(1, 0, 1), nil, Continue, ""},
		{"log alone", logOf(1, 5, 1), nil, Continue, ""},
		{"snapshot alone", logOf(1, 0, 1), at(5, 1), RestoreSnapshot, ""},
		{"snapshot and log", logOf(4, 9, 1), at(5, 1), RestoreSnapshot, ""},
		{"log begins late", logOf(2, 5, 1), nil, 0, "the Raft log begins at entry 2 but the newest snapshot ends at 0"},
	})
	apply(m, journal...) // the state is at 10, term 1
	try([]test{
		{"log ends there", logOf(1, 10, 1), nil, Continue, ""},
		{"log goes on", logOf(1, 30, 1), nil, Continue, ""},
		{"older snapshot", logOf(4, 30, 1), at(7, 1), Continue, ""},
		{"equal snapshot", logOf(8, 30, 1), at(10, 1), Continue, ""},
		{"equal snapshot, no log", logOf(1, 0, 1), at(10, 1), Continue, ""},
		{"newer snapshot", logOf(8, 30, 1), at(12, 2), RestoreSnapshot, ""},
		{"newer snapshot, log after it", logOf(13, 30, 1), at(12, 2), RestoreSnapshot, ""},
		{"newer snapshot, old log before it", logOf(1, 5, 1), at(12, 2), RestoreSnapshot, ""},
		{"ahead of the log", logOf(1, 9, 1), nil, 0, "but the Raft log ends at entry 9 and the newest snapshot at 0"},
		{"ahead of all", logOf(5, 9, 1), at(8, 1), 0, "the Raft log ends at entry 9 and the newest snapshot at 8"},
		{"nothing else there", logOf(1, 0, 1), nil, 0, "the Raft log ends at entry 0"},
		{"other term in the log", logOf(1, 30, 2), nil, 0, "the Raft log has that entry in term 2"},
		{"other term in the snapshot", logOf(8, 30, 1), at(10, 2), 0, "the newest snapshot has that entry in term 2"},
		{"gap after the snapshot", logOf(14, 30, 1), at(12, 1), 0, "entries between are lost"},
		{"gap before the state", logOf(9, 30, 1), at(7, 1), 0, "entries between are lost"},
	})
	if _, err := m.CheckLog(logOf(1, 9, 1), job.Position{}, false); err == nil || !strings.Contains(err.Error(), "move the state file away") {
		t.Errorf("%v does not say what to do", err)
	}
}

// TestWithRaft runs the machine under Raft itself, restarts it with the state file
// newer than, older than and as old as the newest snapshot, and lost altogether.
func TestWithRaft(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state.db")
	log, stable := raft.NewInmemStore(), raft.NewInmemStore()
	snapshots, err := raft.NewFileSnapshotStoreWithLogger(dir, 2, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	a := newAuthor(newSeeded(21))
	n := &node{t: t, path: path, log: log, stable: stable, snapshots: snapshots}
	n.start()
	n.propose(a, 60)
	n.same(a)
	n.stop()
	early, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}

	n.start() // newer than any snapshot: there is none
	n.propose(a, 40)
	n.snapshot()
	n.propose(a, 20)
	n.same(a)
	n.stop()

	n.start() // newer than the snapshot
	n.propose(a, 5)
	n.same(a)
	n.snapshot()
	n.stop()

	n.start() // as old as the snapshot, or a few entries older that are no commands
	n.propose(a, 5)
	n.same(a)
	n.snapshot()
	n.stop()

	if err := os.WriteFile(path, early, 0o600); err != nil {
		t.Fatal(err)
	}
	n.start() // older than the snapshot
	n.propose(a, 5)
	n.same(a)
	n.stop()

	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	n.start() // lost
	n.propose(a, 5)
	n.same(a)
	n.stop()
}

// node is a Raft cluster of one.
type node struct {
	t         *testing.T
	path      string
	log       *raft.InmemStore
	stable    *raft.InmemStore
	snapshots raft.SnapshotStore

	m         *Machine
	raft      *raft.Raft
	transport raft.Transport
}

func (n *node) start() {
	n.t.Helper()
	n.m = openAt(n.t, n.path)
	if err := n.m.Prepare(n.log, n.snapshots); err != nil {
		n.t.Fatal(err)
	}
	conf := raft.DefaultConfig()
	conf.LocalID = "a"
	conf.Logger = hclog.NewNullLogger()
	conf.NoSnapshotRestoreOnStart = true
	conf.HeartbeatTimeout, conf.ElectionTimeout = 50*time.Millisecond, 50*time.Millisecond
	conf.LeaderLeaseTimeout, conf.CommitTimeout = 50*time.Millisecond, 5*time.Millisecond
	conf.TrailingLogs = 3
	address, transport := raft.NewInmemTransport("")
	n.transport = transport
	servers := raft.Configuration{Servers: []raft.Server{{ID: "a", Address: address}}}
	if last, err := n.log.LastIndex(); err != nil {
		n.t.Fatal(err)
	} else if last == 0 {
		if err := raft.BootstrapCluster(conf, n.log, n.stable, n.snapshots, transport, servers); err != nil {
			n.t.Fatal(err)
		}
	}
	var err error
	if n.raft, err = raft.NewRaft(conf, n.m, n.log, n.stable, n.snapshots, transport); err != nil {
		n.t.Fatal(err)
	}
	select {
	case <-n.raft.LeaderCh():
	case <-time.After(30 * time.Second):
		n.t.Fatal("no leader")
	}
	if err := n.raft.Barrier(30 * time.Second).Error(); err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) propose(a *author, count int) {
	n.t.Helper()
	for range count {
		w := a.next()
		if w.command == nil {
			continue
		}
		f := n.raft.Apply(w.entry.Data, 30*time.Second)
		if err := f.Error(); err != nil {
			n.t.Fatal(err)
		}
		r, ok := f.Response().(*Result)
		if !ok || r.Err != nil || r.Replayed || (r.Refusal == nil) != (w.refusal == nil) {
			n.t.Fatalf("%s is answered by %+v, the model says %+v", w.command.Name(), r, w.refusal)
		}
	}
}

func (n *node) snapshot() {
	n.t.Helper()
	if err := n.raft.Snapshot().Error(); err != nil {
		n.t.Fatal(err)
	}
}

// same compares the records with the model's. Indexes and terms are Raft's own here.
func (n *node) same(a *author) {
	n.t.Helper()
	check(n.t, n.m)
	for id, want := range a.model.Records {
		got, err := n.m.Job(id)
		if err != nil || got == nil || got.Revision != want.Revision || got.State != want.State || got.Refresh.State != want.Refresh.State {
			n.t.Fatalf("job %d is %+v (%v), in the model %+v", id, got, err, want)
		}
	}
}

func (n *node) stop() {
	n.t.Helper()
	if err := n.raft.Shutdown().Error(); err != nil {
		n.t.Fatal(err)
	}
	if c, ok := n.transport.(io.Closer); ok {
		if err := c.Close(); err != nil {
			n.t.Fatal(err)
		}
	}
	closed(n.t, n.m)
}

// TestPrepareRefuses: a snapshot that is damaged, or says it is older than what it
// holds, is an error that names it.
func TestPrepareRefuses(t *testing.T) {
	source := openTemp(t)
	journal, _ := write(newSeeded(4), 20)
	apply(source, journal...)
	good := persisted(t, snap(t, source))
	for _, tt := range []struct {
		name     string
		index    uint64
		snapshot []byte
		want     string
	}{
		{"damaged", 20, good[:len(good)-9], "checksum cannot be read"},
		{"older than its content", 19, good, "ends at entry 19 but holds the state of entry 20"},
		{"sound", 21, good, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			store := raft.NewInmemSnapshotStore()
			_, transport := raft.NewInmemTransport("")
			sink, err := store.Create(raft.SnapshotVersionMax, tt.index, 1, raft.Configuration{}, 1, transport)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := sink.Write(tt.snapshot); err != nil {
				t.Fatal(err)
			}
			if err := sink.Close(); err != nil {
				t.Fatal(err)
			}
			m := openTemp(t)
			err = m.Prepare(raft.NewInmemStore(), store)
			if (err == nil) != (tt.want == "") || (err != nil && !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("Prepare answers %v", err)
			}
			if tt.want == "" && (m.Applied().Index != 20 || hash(t, m) != hash(t, source)) {
				t.Errorf("prepared to %+v", m.Applied())
			}
		})
	}
}

// TestEventsAfter follows the log's events by their index, as a watch does.
func TestEventsAfter(t *testing.T) {
	m := openTemp(t)
	journal, _ := write(newSeeded(6), 600)
	apply(m, journal...)
	var want, got []job.Event
	for _, w := range journal {
		for _, j := range w.change.Jobs {
			if j.Event == nil {
				continue
			}
			// Events go with their job.
			if r, err := m.Job(j.Event.Job); err != nil {
				t.Fatal(err)
			} else if r != nil {
				want = append(want, *j.Event)
			}
		}
	}
	for after := uint64(0); ; {
		events, err := m.EventsAfter(after, 3)
		if err != nil {
			t.Fatal(err)
		}
		if len(events) == 0 {
			break
		}
		got = append(got, events...)
		after = events[len(events)-1].Index
	}
	if len(want) < 30 || !reflect.DeepEqual(got, want) {
		t.Errorf("%d events, not the %d of the journal", len(got), len(want))
	}
}

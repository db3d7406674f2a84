package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lancemaster/lancemaster/internal/command"
	"github.com/lancemaster/lancemaster/internal/job"
)

// sample writes a state worth a snapshot and returns the snapshot.
func sample(t *testing.T) (*writer, []byte) {
	t.Helper()
	w := &writer{s: open(t)}
	for id := job.ID(1); id <= 20; id++ {
		r := pending(id)
		w.write(t, admission(r))
		if id%3 == 0 {
			c, _ := step(r, notCommitted)
			w.write(t, c)
		}
	}
	return w, snapshotOf(t, w.s)
}

func snapshotOf(t *testing.T, s *Store) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := s.Read(func(r *Reader) error { return r.WriteSnapshot(&b) }); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestSnapshotRestores(t *testing.T) {
	w, snapshot := sample(t)
	path := filepath.Join(t.TempDir(), "state.db")
	received, err := Receive(path, bytes.NewReader(snapshot))
	if err != nil {
		t.Fatal(err)
	}
	want := Header{Level: 1, Applied: w.pos, ClusterID: 7, Incarnation: 1, Size: int64(len(snapshot)) - snapshotHeader - sha256.Size}
	if received.Header != want {
		t.Errorf("the header is %+v, not %+v", received.Header, want)
	}
	if err := received.Install(); err != nil {
		t.Fatal(err)
	}
	check(t, received.Store)
	if got, want := read(t, received.Store, (*Reader).Hash), read(t, w.s, (*Reader).Hash); got != want {
		t.Error("the restored state is another")
	}
	if err := received.Store.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	check(t, again)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the restored file's mode is %v (%v)", info.Mode(), err)
	}
}

// TestSnapshotIsOfItsMoment: what is written meanwhile is not in it, and writing goes
// on while it is read.
func TestSnapshotIsOfItsMoment(t *testing.T) {
	w, before := sample(t)
	r, err := w.s.BeginRead()
	if err != nil {
		t.Fatal(err)
	}
	var changes []job.Change
	for id := job.ID(100); id < 1000; id++ {
		changes = append(changes, admission(pending(id)))
	}
	w.write(t, changes...)
	var b bytes.Buffer
	if err := errors.Join(r.WriteSnapshot(&b), r.Close()); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b.Bytes(), before) {
		t.Error("the snapshot has changed since it was begun")
	}
}

// TestDamagedSnapshots: whatever is wrong, Receive says so, leaves nothing behind and
// does not touch the state file.
func TestDamagedSnapshots(t *testing.T) {
	_, good := sample(t)
	_, other := sample(t)
	path := filepath.Join(t.TempDir(), "state.db")
	if err := os.WriteFile(path, []byte("the state before"), 0o600); err != nil {
		t.Fatal(err)
	}
	refuse := func(name string, data []byte) (unsupported bool) {
		t.Helper()
		received, err := Receive(path, bytes.NewReader(data))
		if err == nil {
			t.Fatalf("%s: accepted as %+v", name, received.Header)
		}
		if !strings.Contains(err.Error(), "the state before it is kept") {
			t.Errorf("%s: %v does not say what becomes of the state", name, err)
		}
		entries, dirErr := os.ReadDir(filepath.Dir(path))
		if kept, readErr := os.ReadFile(path); dirErr != nil || readErr != nil || len(entries) != 1 || string(kept) != "the state before" {
			t.Fatalf("%s: the directory holds %v (%v, %v)", name, entries, dirErr, readErr)
		}
		return errors.As(err, new(*command.UnsupportedError))
	}
	for n := 0; n < len(good); n += 1 + n/40 {
		refuse(fmt.Sprintf("the first %d bytes", n), good[:n])
		flipped := bytes.Clone(good)
		flipped[n] ^= 0x20
		if refuse(fmt.Sprintf("byte %d flipped", n), flipped) {
			t.Errorf("byte %d flipped: damage is taken for a newer build", n)
		}
	}
	refuse("the last byte missing", good[:len(good)-1])
	refuse("a byte more", append(bytes.Clone(good), 0))
	refuse("two snapshots", append(bytes.Clone(good), other...))
	refuse("a state file", bytes.Repeat([]byte{0}, 64<<10))
}

// reseal makes a changed snapshot pass both checksums.
func reseal(b []byte) []byte {
	b = bytes.Clone(b)
	binary.BigEndian.PutUint32(b[snapshotHeader-4:], crc32.Checksum(b[:snapshotHeader-4], castagnoli))
	sum := sha256.Sum256(b[:len(b)-sha256.Size])
	return append(b[:len(b)-sha256.Size], sum[:]...)
}

func TestForeignSnapshots(t *testing.T) {
	_, good := sample(t)
	path := filepath.Join(t.TempDir(), "state.db")
	change := func(offset int, value byte) []byte {
		b := bytes.Clone(good)
		b[offset] = value
		return reseal(b)
	}
	if _, err := Receive(path, bytes.NewReader(change(11, byte(command.MaxLevel)+1))); !errors.As(err, new(*command.UnsupportedError)) {
		t.Errorf("a higher level is answered by %v", err)
	}
	if _, err := Receive(path, bytes.NewReader(change(7, snapshotFormat+1))); !errors.As(err, new(*command.UnsupportedError)) {
		t.Errorf("another format is answered by %v", err)
	}
	for name, data := range map[string][]byte{
		"applied index": change(19, 99), "cluster id": change(31, 9), "incarnation": change(39, 9), "level": change(11, 0),
	} {
		if _, err := Receive(path, bytes.NewReader(data)); err == nil || !strings.Contains(err.Error(), "its content") {
			t.Errorf("a header with another %s than the content is answered by %v", name, err)
		}
	}
	garbage := reseal(append(append(bytes.Clone(good[:snapshotHeader]), bytes.Repeat([]byte("x"), len(good)-snapshotHeader-32)...), make([]byte, 32)...))
	if _, err := Receive(path, bytes.NewReader(garbage)); err == nil || !strings.Contains(err.Error(), "is damaged") {
		t.Errorf("pages of garbage are answered by %v", err)
	}
}

// TestHash: equal for equal content however it came to be, different for different.
func TestHash(t *testing.T) {
	one, two := &writer{s: open(t)}, &writer{s: open(t)}
	a, b := admission(pending(1)), admission(pending(2))
	one.write(t, a, b)
	two.write(t, a)
	if read(t, one.s, (*Reader).Hash) == read(t, two.s, (*Reader).Hash) {
		t.Error("different states have one sum")
	}
	two.write(t, b)
	before := read(t, one.s, (*Reader).Hash)
	if before != read(t, two.s, (*Reader).Hash) {
		t.Error("equal states have two sums")
	}
	one.write(t, job.Change{})
	if before != read(t, one.s, (*Reader).Hash) {
		t.Error("an entry that changes nothing changes the sum")
	}
}

// A snapshot can be told and verified without room for its pages.
func TestVerifySnapshot(t *testing.T) {
	w, snapshot := sample(t)
	want := Header{Level: 1, Applied: w.pos, ClusterID: 7, Incarnation: 1, Size: int64(len(snapshot)) - snapshotHeader - sha256.Size}
	if got, err := ReadHeader(bytes.NewReader(snapshot)); err != nil || got != want || got.SnapshotSize() != int64(len(snapshot)) {
		t.Errorf("the header is %+v, %v, not %+v", got, err, want)
	}
	if got, err := VerifySnapshot(bytes.NewReader(snapshot)); err != nil || got != want {
		t.Errorf("verified: %+v, %v", got, err)
	}
	for name, damage := range map[string]func([]byte) []byte{
		"empty": func([]byte) []byte { return nil }, "cut": func(b []byte) []byte { return b[:len(b)/2] },
		"without its end": func(b []byte) []byte { return b[:len(b)-1] }, "longer": func(b []byte) []byte { return append(b, 0) },
		"flipped": func(b []byte) []byte { b[len(b)/2] ^= 1; return b }, "header flipped": func(b []byte) []byte { b[20] ^= 1; return b },
	} {
		if _, err := VerifySnapshot(bytes.NewReader(damage(bytes.Clone(snapshot)))); err == nil {
			t.Errorf("%s: verified", name)
		}
	}
}

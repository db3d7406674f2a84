package store

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/lancemaster/lancemaster/internal/command"
	"github.com/lancemaster/lancemaster/internal/job"
)

// change changes the buckets of a state file behind the store's back, as another
// build would.
func change(t *testing.T, s *Store, f func(*bbolt.Tx) error) {
	t.Helper()
	if err := s.db.Update(f); err != nil {
		t.Fatal(err)
	}
}

// installed makes a state file of its own of a snapshot.
func installed(t *testing.T, snapshot []byte) (*Store, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "state.db")
	received, err := Receive(path, bytes.NewReader(snapshot))
	if err != nil {
		t.Fatal(err)
	}
	if err := received.Install(); err != nil {
		t.Fatal(err)
	}
	return received.Store, path
}

func reopened(t *testing.T, s *Store, path string) (*Store, error) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Open(path)
	if err == nil {
		t.Cleanup(func() { _ = again.Close() })
	}
	return again, err
}

var newBucket = []byte("of a newer build")

// TestBucketsOfOtherBuilds: during an upgrade the state of one build is read by
// another, which may know more buckets or fewer. While those hold nothing, no build
// sees a difference, and the sums of all are equal.
func TestBucketsOfOtherBuilds(t *testing.T) {
	w, _ := sample(t)
	want := read(t, w.s, (*Reader).Hash)
	lacking := string(bucketNames[bucketTokens])
	for name, f := range map[string]func(*bbolt.Tx) error{
		"as it is": func(*bbolt.Tx) error { return nil },
		"an older build's, without a bucket that has come since": func(tx *bbolt.Tx) error {
			return tx.DeleteBucket([]byte(lacking))
		},
		"a newer build's, with a bucket that is not known here": func(tx *bbolt.Tx) error {
			_, err := tx.CreateBucket(newBucket)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			other, path := installed(t, snapshotOf(t, w.s))
			change(t, other, f)
			snapshot := snapshotOf(t, other)
			opened, err := reopened(t, other, path)
			if err != nil {
				t.Fatal(err)
			}
			wantSame(t, opened, want)
			received, _ := installed(t, snapshot)
			wantSame(t, received, want)
			if err := received.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// wantSame holds a state to a sum, and to being whole and writable.
func wantSame(t *testing.T, s *Store, want job.Hash) {
	t.Helper()
	check(t, s)
	if got := read(t, s, (*Reader).Hash); got != want {
		t.Errorf("its sum is %x, not %x", got, want)
	}
	token := &job.Token{Name: "t", Role: job.RoleRead}
	tx, err := s.Begin()
	if err != nil {
		t.Fatal(err)
	}
	tx.Write(job.Position{}, job.Change{Token: &job.TokenChange{Name: "t", New: token}})
	if err := tx.Err(); err != nil {
		t.Error(err)
	}
	if err := tx.Rollback(); err != nil {
		t.Error(err)
	}
}

// TestForeignBucketIsUnsupported: what a newer build has put in a bucket of its own is
// part of the state. A build that does not know it must not go on without.
func TestForeignBucketIsUnsupported(t *testing.T) {
	_, snapshot := sample(t)
	other, path := installed(t, snapshot)
	change(t, other, func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucket(newBucket)
		if err != nil {
			return err
		}
		return b.Put([]byte("k"), []byte("v"))
	})
	snapshot = snapshotOf(t, other)
	elsewhere := filepath.Join(t.TempDir(), "state.db")
	if _, err := Receive(elsewhere, bytes.NewReader(snapshot)); !errors.As(err, new(*command.UnsupportedError)) {
		t.Errorf("Receive answers %v", err)
	}
	_, err := reopened(t, other, path)
	if !errors.As(err, new(*command.UnsupportedError)) || !strings.Contains(err.Error(), "upgrade this node") {
		t.Errorf("Open answers %v", err)
	}
}

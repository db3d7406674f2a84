package cli

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lancemaster/lancemaster/internal/client"
)

// source is a master whose snapshot may be anything.
type source struct {
	info  client.SnapshotInfo
	data  []byte
	gone  int // how many of the reads find it gone
	begun int
	ended int
}

func (s *source) SnapshotBegin(ctx context.Context) (*client.SnapshotInfo, error) {
	s.begun++
	return &s.info, ctx.Err()
}

func (s *source) SnapshotRead(ctx context.Context, _ *client.SnapshotInfo, offset int64, limit int) ([]byte, error) {
	if offset > 0 && s.gone > 0 { // in the middle
		s.gone--
		return nil, &client.Error{Code: codeNotFound, Message: "gone"}
	}
	rest := s.data[min(offset, int64(len(s.data))):]
	return rest[:min(len(rest), limit)], ctx.Err()
}

func (s *source) SnapshotEnd(ctx context.Context, _ *client.SnapshotInfo) error {
	s.ended++
	return ctx.Err()
}

func sourceOf(data []byte) *source {
	sum := sha256.Sum256(data)
	return &source{data: data, info: client.SnapshotInfo{ID: "s", NodeID: "m1", Size: int64(len(data)), SHA256: hex.EncodeToString(sum[:])}}
}

// olderSave is what a file that save may replace begins with.
const olderSave = "LMSAVED, an older one"

// Under the file's name there is the snapshot as it was announced, or what was there before, and
// beside it nothing of this save. What an interrupted one left is let alone: it may be another's.
func TestASnapshotIsSavedWholeOrNotAtAll(t *testing.T) {
	data := bytes.Repeat([]byte("state"), 500_000)
	for name, tc := range map[string]struct {
		change func(*source)
		says   string // empty: it is saved
		begun  int
	}{
		"whole":             {begun: 1},
		"gone once":         {change: func(s *source) { s.gone = 1 }, begun: 2},
		"gone twice":        {change: func(s *source) { s.gone = 2 }, begun: 3},
		"gone again":        {change: func(s *source) { s.gone = 3 }, begun: 3, says: "gone"},
		"shorter":           {change: func(s *source) { s.data = s.data[:1<<20] }, begun: 1, says: "another size than was announced"},
		"longer":            {change: func(s *source) { s.info.Size = 5 }, begun: 1, says: "another size than was announced"},
		"with another sum":  {change: func(s *source) { s.info.SHA256 = strings.Repeat("0", 64) }, begun: 1, says: "SHA-256 sum is not the one"},
		"with another byte": {change: func(s *source) { s.data = bytes.Clone(s.data); s.data[1_200_000] ^= 1 }, begun: 1, says: "SHA-256 sum is not the one"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "backup.lms")
			for name, text := range map[string]string{path: olderSave, path + ".tmp": "another's", path + ".tmp-1": "another's"} {
				if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			s := sourceOf(data)
			if tc.change != nil {
				tc.change(s)
			}
			want := []byte(olderSave)
			_, err := saveSnapshot(t.Context(), s, path, true)
			if tc.says == "" {
				want = data
			}
			if tc.says == "" && err != nil || tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)) {
				t.Errorf("got %v, want %q", err, tc.says)
			}
			if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
				t.Errorf("the file has %d bytes, %v", len(got), err)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) != 3 {
				t.Errorf("left are %v, %v", left, err)
			}
			if s.begun != tc.begun || s.ended != s.begun {
				t.Errorf("it was begun %d times, not %d, and ended %d times", s.begun, tc.begun, s.ended)
			}
			if info, err := os.Stat(path); tc.says == "" && (err != nil || info.Mode().Perm() != 0o600) {
				t.Errorf("the file's mode is %v, %v", info.Mode(), err)
			}
		})
	}
}

// meanwhile is a source on whose first read something happens.
type meanwhile struct {
	*source
	happens func()
}

func (m *meanwhile) SnapshotRead(ctx context.Context, s *client.SnapshotInfo, offset int64, limit int) ([]byte, error) {
	if m.happens != nil {
		happens := m.happens
		m.happens = nil
		happens()
	}
	return m.source.SnapshotRead(ctx, s, offset, limit)
}

// The one that ends in the middle of the other, and the other: what each has checked is what gets the
// name, and never the unfinished file of the other one.
func TestSavesToOneFileDoNotMix(t *testing.T) {
	first, second := bytes.Repeat([]byte("first"), 500_000), bytes.Repeat([]byte("second"), 500_000)
	for name, force := range map[string]bool{"with --force": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "backup.lms")
			if force {
				if err := os.WriteFile(path, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			holds := func(want []byte) {
				t.Helper()
				if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
					t.Errorf("the file has %d bytes, want %d; %v", len(got), len(want), err)
				}
			}
			outer := &meanwhile{source: sourceOf(append([]byte("LMSAVED"), first...))}
			outer.happens = func() {
				inner := &meanwhile{source: sourceOf(append([]byte("LMSAVED"), second...))}
				inner.happens = func() {
					if left, err := filepath.Glob(path + ".tmp-*"); err != nil || len(left) != 2 {
						t.Errorf("two saves write to %v, %v", left, err)
					}
				}
				if _, err := saveSnapshot(t.Context(), inner, path, force); err != nil {
					t.Error(err)
				}
				holds(inner.data)
			}
			_, err := saveSnapshot(t.Context(), outer, path, force)
			if force {
				if err != nil {
					t.Error(err)
				}
				holds(outer.data)
			} else {
				if err == nil || !strings.Contains(err.Error(), "is there already") {
					t.Errorf("got %v", err)
				}
				holds(append([]byte("LMSAVED"), second...))
			}
			if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
				t.Errorf("left are %v, %v", left, err)
			}
		})
	}
}

// A file that came after save last looked is not replaced either.
func TestANameIsNotTakenFromAnother(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "backup.lms")
	f, err := os.CreateTemp(dir, "backup.lms.tmp-*")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := nameFile(f, path, false); err == nil || !strings.Contains(err.Error(), "is there already") {
		t.Errorf("got %v", err)
	}
	if err := os.Remove(f.Name()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(f.Name(), []byte("another's"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := nameFile(f, path, true); err == nil || !strings.Contains(err.Error(), "another program took") {
		t.Errorf("got %v", err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "precious" {
		t.Errorf("the file is %q, %v", got, err)
	}
}

// With --force a snapshot and an empty file are replaced, and nothing else.
func TestOnlyASnapshotIsReplaced(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	if err := os.Symlink(write(t, dir, "linked", []byte(olderSave)), link); err != nil {
		t.Fatal(err)
	}
	for path, says := range map[string]string{
		write(t, dir, "saved", []byte(olderSave)):           "",
		write(t, dir, "empty", []byte("")):                  "",
		write(t, dir, "text", []byte("root:x:0:0:root:")):   "not a file that lancemaster snapshot save has written",
		write(t, dir, "short", []byte("LMSAVE")):            "not a file that lancemaster snapshot save has written",
		write(t, dir, "state", []byte("LMSTATE\x01 other")): "not a file that lancemaster snapshot save has written",
		link: "not a regular file",
		dir:  "not a regular file",
	} {
		before, _ := os.ReadFile(path)
		_, err := saveSnapshot(t.Context(), sourceOf([]byte("LMSAVED anew")), path, true)
		want := string(before)
		if says == "" {
			want = "LMSAVED anew"
		}
		if says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%s: got %v", filepath.Base(path), err)
		}
		if got, _ := os.ReadFile(path); string(got) != want {
			t.Errorf("%s: is %q now", filepath.Base(path), got)
		}
	}
}

func TestASaveEndsWithItsContext(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := saveSnapshot(ctx, sourceOf([]byte("state")), filepath.Join(dir, "b"), false); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}

func TestQuoted(t *testing.T) {
	for word, want := range map[string]string{
		"/etc/lancemaster.yaml": "/etc/lancemaster.yaml", "[::1]:9010": "'[::1]:9010'",
		"a b": "'a b'", "it's": `'it'\''s'`, "$HOME": "'$HOME'", "": "''",
	} {
		if got := quoted(word); got != want {
			t.Errorf("%q is written as %s", word, got)
		}
	}
}

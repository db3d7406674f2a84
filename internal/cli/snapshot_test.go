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

// Under the file's name there is the snapshot as it was announced, or what was there before, and
// beside it nothing.
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
			for name, text := range map[string]string{path: "before", path + ".tmp": "left by an interrupted save"} {
				if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			s := sourceOf(data)
			if tc.change != nil {
				tc.change(s)
			}
			want := []byte("before")
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
			if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
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

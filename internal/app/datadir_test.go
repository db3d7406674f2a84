package app

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestDataDirBelongsToOneNode(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "data")
	first, err := openDataDir(dir, "m1")
	if err != nil {
		t.Fatal(err)
	}
	if len(first.InstanceID) != 32 {
		t.Errorf("the instance id is %q", first.InstanceID)
	}
	again, err := openDataDir(dir, "m1")
	if err != nil || !reflect.DeepEqual(again, first) {
		t.Errorf("opened again: %+v, %v; want %+v", again, err, first)
	}
	if _, err := openDataDir(dir, "m2"); err == nil || !strings.Contains(err.Error(), `belongs to node "m1", not to "m2"`) {
		t.Errorf("another node: %v", err)
	}
	other, err := openDataDir(filepath.Join(t.TempDir(), "data"), "m1")
	if err != nil || other.InstanceID == first.InstanceID {
		t.Errorf("another disk has the same instance id (%v)", err)
	}
}

// A node that is started one folder too deep must not found an empty cluster beside what it has: the relative
// default, for instance, from inside its own data directory.
func TestDataDirInsideAnotherIsRefused(t *testing.T) {
	dir := t.TempDir()
	if _, err := openDataDir(dir, "m1"); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	for _, deeper := range []string{filepath.Join(dir, "data"), "lancemaster-data"} {
		if _, err := openDataDir(deeper, "m1"); err == nil || !strings.Contains(err.Error(), `the data directory of node "m1"`) {
			t.Errorf("%s: %v", deeper, err)
		}
	}
}

func TestDataDirIsClosedToOthers(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := openDataDir(dir, "m1"); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, identityFile): 0o600} {
		info, err := os.Stat(name)
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has mode %v (%v), want %v", name, info.Mode().Perm(), err, want)
		}
	}
}

// A data directory that lost its identity, or holds a damaged one, is not taken for
// a new one: its votes and its log are somebody's.
func TestDataDirWithoutItsIdentityIsRefused(t *testing.T) {
	for name, prepare := range map[string]func(dir string) error{
		"damaged": func(dir string) error { return os.WriteFile(filepath.Join(dir, identityFile), []byte("{"), 0o600) },
		"empty":   func(dir string) error { return os.WriteFile(filepath.Join(dir, identityFile), nil, 0o600) },
		"incomplete": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, identityFile), []byte(`{"node_id":"m1"}`), 0o600)
		},
		"state only": func(dir string) error { return os.WriteFile(filepath.Join(dir, stateFile), nil, 0o600) },
		"log only":   func(dir string) error { return os.Mkdir(filepath.Join(dir, raftDir), 0o700) },
	} {
		dir := t.TempDir()
		if err := prepare(dir); err != nil {
			t.Fatal(err)
		}
		if _, err := openDataDir(dir, "m1"); err == nil || !strings.Contains(err.Error(), "backup of this very node") {
			t.Errorf("%s: %v", name, err)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openDataDir(file, "m1"); err == nil {
		t.Error("a file passes for a data directory")
	}
}

// What is replaced is whole at any moment, and nothing else is left behind.
func TestWriteDurably(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	for _, text := range []string{"one", "two"} {
		if err := writeDurably(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Errorf("read %q, %v", got, err)
		}
	}
	if err := writeDurably(filepath.Join(dir, "absent", "f"), nil); err == nil {
		t.Error("a file in an absent directory was written")
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left are %v, %v", left, err)
	}
}

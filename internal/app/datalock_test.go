package app

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// Two processes must not use one directory. A second open file stands for the second process: the lock
// belongs to the open file, not to the process.
func TestADataDirectoryIsLocked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, err := lockDataDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = lockDataDir(dir)
	want := fmt.Sprintf("another process (pid %d) uses the data directory %s", os.Getpid(), dir)
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("locked twice: %v; want %q", err, want)
	}
	if err := first.release(); err != nil {
		t.Fatal(err)
	}
	second, err := lockDataDir(dir)
	if err != nil {
		t.Fatalf("after the release: %v", err)
	}
	if err := second.release(); err != nil {
		t.Error(err)
	}
	if err := second.release(); err != nil {
		t.Errorf("released again: %v", err)
	}
}

// A name that cannot be made sense of is left out, and never printed.
func TestTheHolderOfALock(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "12\n": " (pid 12)", "x\x1b[31m": "", "-4": "", "99999999999999999999999999": "",
	} {
		f, err := os.Create(t.TempDir() + "/lock")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
		if got := holder(f); got != want {
			t.Errorf("of %q: %q, want %q", text, got, want)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

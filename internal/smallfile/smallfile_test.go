package smallfile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lancemaster/lancemaster/internal/smallfile"
)

func TestRead(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for name, content := range map[string]string{"empty": "", "full": "12345678", "over": "123456789"} {
		if err := os.WriteFile(at(name), []byte(content), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(syscall.Mkfifo(at("pipe"), 0o600), os.Symlink(at("pipe"), at("link to a pipe")), os.Symlink(at("full"), at("link"))); err != nil {
		t.Fatal(err)
	}
	// A gigabyte that takes no room.
	if err := errors.Join(os.WriteFile(at("huge"), nil, 0o600), os.Truncate(at("huge"), 1<<30)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"empty": "", "full": "12345678", "link": "12345678"} {
		content, mode, err := smallfile.Read(at(name), 8)
		if err != nil || string(content) != want || mode != 0o640 {
			t.Errorf("%s: %q, %v, %v", name, content, mode, err)
		}
	}
	for name, want := range map[string]string{
		at("over"): "is larger than 8 bytes", at("huge"): "is larger than 8 bytes", at("pipe"): "is not a regular file",
		at("link to a pipe"): "is not a regular file", dir: "is not a regular file", "/dev/zero": "is not a regular file",
		"/proc/self/maps": "is larger than 8 bytes", // says that it is empty
	} {
		if content, _, err := smallfile.Read(name, 8); err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q, %v", name, content, err)
		}
	}
	if _, _, err := smallfile.Read(at("none"), 8); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

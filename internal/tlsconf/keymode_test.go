package tlsconf

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestWhoMayReadAKey(t *testing.T) {
	for _, tc := range []struct {
		mode            fs.FileMode
		root, ours      bool
		openToOthers    bool
		whatItIsFoundAs string
	}{
		{0o600, false, true, false, "as tls cert makes it"},
		{0o400, false, true, false, "its own, read only"},
		{0o640, false, true, true, "its own, and its group's"},
		{0o440, true, true, false, "a Secret's file with fsGroup"},
		{0o640, true, true, false, "installed by root for the service's group"},
		{0o640, true, false, true, "root's, for another group than ours"},
		{0o660, true, true, true, "the group may change it"},
		{0o644, true, true, true, "everybody's"},
		{0o444, true, true, true, "a Secret's file without a defaultMode"},
		{0o604, false, false, true, "everybody's but its group's"},
		{0o601, false, false, true, "others may do something"},
	} {
		if got := (keyMode{tc.mode, tc.root, tc.ours}).openToOthers(); got != tc.openToOthers {
			t.Errorf("%s (%#o, root's %v, our group's %v): open to others: %v", tc.whatItIsFoundAs, tc.mode, tc.root, tc.ours, got)
		}
	}
}

func TestAKeyFilesOwnersAreFound(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, nil, 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(path, -1, os.Getegid()); err != nil {
		t.Fatal(err)
	}
	if got, want := lookAtKey(path), (keyMode{0o640, os.Geteuid() == 0, true}); got != want {
		t.Errorf("found %+v, want %+v", got, want)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(path, 12345, 12345); err != nil {
			t.Fatal(err)
		}
		if got, want := lookAtKey(path), (keyMode{0o640, false, false}); got != want {
			t.Errorf("found %+v, want %+v", got, want)
		}
	}
	if got := lookAtKey(path + "none"); got != (keyMode{}) {
		t.Errorf("found %+v where there is nothing", got)
	}
}

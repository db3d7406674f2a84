package lance

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestParseManifestName(t *testing.T) {
	for _, c := range []struct {
		name    string
		version int64 // 0: no manifest's name; -1: refused
		scheme  NamingScheme
	}{
		{"1.manifest", 1, V1},
		{"42.manifest", 42, V1},
		{"9223372036854775807.manifest", 1<<63 - 1, V1},
		{"18446744073709551614.manifest", 1, V2},
		{"18446744073709551572.manifest", 43, V2},
		{"09223372036854775808.manifest", 1<<63 - 1, V2}, // the largest version there can be
		{"09223372036854775807.manifest", -1, V2},        // 2^63
		{"9223372036854775808.manifest", -1, V1},         // 2^63
		{"0.manifest", -1, V1},
		{"18446744073709551615.manifest", -1, V2}, // version 0
		{"18446744073709551616.manifest", -1, V2}, // 2^64
		{"99999999999999999999.manifest", -1, V2},
		{"00000000000000000001.manifest", -1, V2},
		{"123456789012345678901.manifest", -1, V1},
		{name: "d12345.manifest"}, {name: "d9223372036854775809.manifest"},
		{name: "latest_version_hint.json"}, {name: ".manifest"}, {name: "1.manifest.tmp"}, {name: "1.manifest#2"},
		{name: ".tmp_1.manifest"}, {name: "1.manifest-7e3c"}, {name: "-1.manifest"}, {name: "+1.manifest"},
		{name: "1e3.manifest"}, {name: "１.manifest"}, {name: "1.MANIFEST"}, {name: "1"}, {name: ""},
	} {
		m, ok, err := parseManifestName(c.name)
		switch {
		case c.version == 0:
			if ok || err != nil {
				t.Errorf("%q passes for a manifest: %+v, %v", c.name, m, err)
			}
		case c.version < 0:
			wantCode(t, err, ManifestDamaged, c.name)
		case !ok || err != nil || m.version != c.version || m.scheme != c.scheme:
			t.Errorf("%q: got %+v, %v, %v; want version %d, %v", c.name, m, ok, err, c.version, c.scheme)
		}
	}
}

func TestLatestVersion(t *testing.T) {
	v := func(n int64) []byte { return file(msg{}.raw(1, column(0, "id", "int64")).int(3, n), nil) }
	for _, c := range []struct {
		what  string
		files memory
		want  int64
		path  string
		code  Code
	}{
		{what: "V1 compares numbers, not text", files: memory{"9.manifest": v(9), "10.manifest": v(10), "1.manifest": v(1)}, want: 10, path: "_versions/10.manifest"},
		{what: "V2 counts down", files: memory{v2Name(9): v(9), v2Name(10): v(10), v2Name(11): v(11)}, want: 11, path: "_versions/" + v2Name(11)},
		{what: "what is no manifest is skipped", files: memory{
			"2.manifest": v(2), "d18446744073709551000.manifest": []byte("x"), "d7.manifest": v(7),
			".tmp_9.manifest": v(9), "9.manifest.tmp": v(9), "9.manifest#1": v(9), "latest_version_hint.json": []byte(`{"version":99}`),
		}, want: 2, path: "_versions/2.manifest"},
		{what: "leading zeros decode too", files: memory{"007.manifest": v(7), "1.manifest": v(1)}, want: 7, path: "_versions/007.manifest"},
		{what: "older versions are not looked into", files: memory{"1.manifest": nil, "2.manifest": v(2)}, want: 2, path: "_versions/2.manifest"},
		{what: "mixed schemes", files: memory{"9.manifest": v(9), v2Name(1): v(1)}, code: Unsupported},
		{what: "two names of the newest version", files: memory{"07.manifest": v(7), "7.manifest": v(7)}, code: ManifestDamaged},
		{what: "two names of an older version", files: memory{"07.manifest": v(7), "7.manifest": v(7), "8.manifest": v(8)}, want: 8, path: "_versions/8.manifest"},
		{what: "no manifest", files: memory{"latest_version_hint.json": nil, "d7.manifest": v(7)}, code: DatasetMissing},
		{what: "empty", files: memory{}, code: DatasetMissing},
		{what: "digits that are no version", files: memory{"1.manifest": v(1), "0.manifest": v(1)}, code: ManifestDamaged},
	} {
		t.Run(c.what, func(t *testing.T) {
			for range 8 { // map order stands for listing order
				d, err := OpenSource(t.Context(), c.files)
				if c.code != "" {
					wantCode(t, err, c.code, "_versions/")
					continue
				}
				if err != nil || d.Version != c.want || d.ManifestPath != c.path {
					t.Fatalf("got %+v, %v; want version %d in %s", d, err, c.want, c.path)
				}
			}
		})
	}
}

func TestOpenLocator(t *testing.T) {
	for _, locator := range []string{
		"", "/abs/path", "relative", "file:/abs", "file://host/abs", "file://", "file://relative",
		"s3://bucket/x", "s3://user:secret@bucket/x", "gs://b/x?token=secret", "FILE:///abs", "secret scheme://x",
		strings.Repeat("s", 1000) + "://secret",
	} {
		_, err := Open(t.Context(), locator)
		wantCode(t, err, NotLocal, "schema contract")
		if strings.Contains(err.Error(), "secret") && !strings.HasPrefix(locator, "secret") {
			t.Errorf("%q: the message repeats more than the scheme: %v", locator, err)
		}
		if len(err.Error()) > 3000 {
			t.Errorf("a message of %d bytes", len(err.Error()))
		}
	}
}

// writeDataset makes a folder with these version files.
func writeDataset(t *testing.T, files memory) string {
	t.Helper()
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, versionsDir), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(root, versionsDir, name), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestOpenFolders(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	noVersions := t.TempDir()
	fileForVersions := t.TempDir()
	if err := os.WriteFile(filepath.Join(fileForVersions, versionsDir), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	loop := filepath.Join(t.TempDir(), "loop")
	if err := os.Symlink(loop, loop); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what, path string
		code       Code
		say        string
	}{
		{"missing", filepath.Join(noVersions, "nope"), DatasetMissing, "no such folder"},
		{"a file", plain, DatasetMissing, "in its place"},
		{"below a file", filepath.Join(plain, "x"), DatasetMissing, "no such folder"},
		{"no _versions", noVersions, DatasetMissing, "not a Lance dataset"},
		{"a file for _versions", fileForVersions, DatasetMissing, "not a Lance dataset"},
		{"empty _versions", writeDataset(t, nil), DatasetMissing, "no manifest"},
		{"a loop of links", loop, Unreadable, ""},
		{"a NUL in the path", "/a\x00b", Unreadable, ""},
		{"too long a path", "/" + strings.Repeat("x", 5000), Unreadable, ""},
	} {
		t.Run(c.what, func(t *testing.T) {
			_, err := Open(t.Context(), "file://"+c.path)
			wantCode(t, err, c.code, c.say, `dataset "`)
			if len(err.Error()) > 1024 {
				t.Errorf("a message of %d bytes: %v", len(err.Error()), err)
			}
		})
	}
}

func TestOpenThroughLinks(t *testing.T) {
	target := writeDataset(t, nil)
	b := file(one(), nil)
	elsewhere := filepath.Join(t.TempDir(), "manifest")
	if err := os.WriteFile(elsewhere, b, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, filepath.Join(target, versionsDir, "1.manifest")); err != nil {
		t.Fatal(err)
	}
	// A path is taken as it stands: nothing in it is decoded.
	link := filepath.Join(t.TempDir(), "100%25 #?é")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	if d, err := Open(t.Context(), "file://"+link); err != nil || d.Version != 1 {
		t.Errorf("got %+v, %v", d, err)
	}
}

// What is not a regular file is refused at once: a pipe without a writer would
// block an ordinary open for ever.
func TestOpenSpecialFiles(t *testing.T) {
	pipe := writeDataset(t, nil)
	if err := syscall.Mkfifo(filepath.Join(pipe, versionsDir, "1.manifest"), 0o644); err != nil {
		t.Fatal(err)
	}
	folder := writeDataset(t, nil)
	if err := os.Mkdir(filepath.Join(folder, versionsDir, "1.manifest"), 0o755); err != nil {
		t.Fatal(err)
	}
	device := writeDataset(t, nil)
	if err := os.Symlink("/dev/zero", filepath.Join(device, versionsDir, "1.manifest")); err != nil {
		t.Fatal(err)
	}
	for what, root := range map[string]string{"pipe": pipe, "folder": folder, "device": device} {
		_, err := openWithin(t, root)
		wantCode(t, err, ManifestDamaged, "_versions/1.manifest", "not a regular file")
		if t.Failed() {
			t.Logf("case %s", what)
		}
	}
	pipes := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(pipes, versionsDir), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := openWithin(t, pipes)
	wantCode(t, err, DatasetMissing, "in its place")
}

// openWithin fails the test when Open does not come back.
func openWithin(t *testing.T, root string) (*Dataset, error) {
	t.Helper()
	type answer struct {
		d   *Dataset
		err error
	}
	done := make(chan answer, 1)
	go func() {
		d, err := Open(context.Background(), "file://"+root)
		done <- answer{d, err}
	}()
	select {
	case a := <-done:
		return a.d, a.err
	case <-time.After(20 * time.Second):
		t.Fatal("Open hangs")
		return nil, nil
	}
}

func TestLocalFileShrinks(t *testing.T) {
	root := writeDataset(t, v1(1, file(one(), nil)))
	o, err := Dir(root).Open(t.Context(), "1.manifest")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(root, versionsDir, "1.manifest"), 3); err != nil {
		t.Fatal(err)
	}
	if err := o.ReadRange(t.Context(), make([]byte, 4), 0); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("reading past the end: %v", err)
	}
	if err := o.ReadRange(t.Context(), make([]byte, 3), 0); err != nil {
		t.Errorf("reading what is there: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := o.ReadRange(ctx, make([]byte, 3), 0); !errors.Is(err, context.Canceled) {
		t.Errorf("reading after the end of the context: %v", err)
	}
	if err := o.Close(); err != nil {
		t.Error(err)
	}
	if err := o.ReadRange(t.Context(), make([]byte, 3), 0); !errors.Is(err, os.ErrClosed) {
		t.Errorf("reading a closed file: %v", err)
	}
}

// failing is a source whose steps fail with the given errors.
type failing struct {
	memory
	list, open, read error
	opened           *failingFile
}

func (f *failing) Versions(ctx context.Context, visit func(string) error) error {
	if f.list != nil {
		return f.list
	}
	return f.memory.Versions(ctx, visit)
}

func (f *failing) Open(context.Context, string) (Object, error) {
	if f.open != nil {
		return nil, f.open
	}
	f.opened = &failingFile{memoryFile: memoryFile{data: f.memory["1.manifest"]}, err: f.read}
	return f.opened, nil
}

type failingFile struct {
	memoryFile
	err error
}

func (f *failingFile) ReadRange(ctx context.Context, p []byte, off int64) error {
	if f.err != nil {
		return f.err
	}
	return f.memoryFile.ReadRange(ctx, p, off)
}

func TestReadFailures(t *testing.T) {
	good := v1(1, file(one(), nil))
	denied := &fs.PathError{Op: "open", Path: "/elsewhere", Err: syscall.EACCES}
	for _, c := range []struct {
		what string
		src  *failing
		code Code
		say  string
	}{
		{"listing denied", &failing{memory: good, list: denied}, Unreadable, "cannot list _versions/: permission denied"},
		{"listing fails", &failing{memory: good, list: syscall.EIO}, Unreadable, "input/output error"},
		{"listing finds nothing", &failing{memory: good, list: fs.ErrNotExist}, DatasetMissing, "_versions/"},
		{"opening denied", &failing{memory: good, open: denied}, Unreadable, "_versions/1.manifest: cannot read the manifest: permission denied"},
		{"reading fails", &failing{memory: good, read: syscall.EIO}, Unreadable, "_versions/1.manifest"},
		{"a time limit of the source's own", &failing{memory: good, read: context.DeadlineExceeded}, Unreadable, "_versions/1.manifest"},
		{"the file shrank", &failing{memory: good, read: io.ErrUnexpectedEOF}, ManifestDamaged, "shorter"},
	} {
		t.Run(c.what, func(t *testing.T) {
			_, err := OpenSource(t.Context(), c.src)
			wantCode(t, err, c.code, c.say)
			if strings.Contains(err.Error(), "/elsewhere") {
				t.Errorf("the message gives away a path of the source: %v", err)
			}
			if c.src.opened != nil && c.src.opened.closed != 1 {
				t.Errorf("the file was closed %d times", c.src.opened.closed)
			}
		})
	}
	src := &failing{memory: good}
	if _, err := OpenSource(t.Context(), src); err != nil || src.opened.closed != 1 {
		t.Errorf("no failure: %v, closed %d times", err, src.opened.closed)
	}
}

// vanishing takes its newest manifest away between listing and opening, as a
// cleanup does, the given number of times.
type vanishing struct {
	memory
	times, listings int
}

func (v *vanishing) Versions(ctx context.Context, visit func(string) error) error {
	v.listings++
	return v.memory.Versions(ctx, visit)
}

func (v *vanishing) Open(ctx context.Context, name string) (Object, error) {
	if v.times > 0 {
		v.times--
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.ENOENT}
	}
	return v.memory.Open(ctx, name)
}

func TestVanishingVersions(t *testing.T) {
	src := &vanishing{memory: v1(1, file(one(), nil)), times: maxListings - 1}
	if d, err := OpenSource(t.Context(), src); err != nil || d.Version != 1 || src.listings != maxListings {
		t.Errorf("got %+v, %v after %d listings", d, err, src.listings)
	}
	src = &vanishing{memory: v1(1, file(one(), nil)), times: 1000}
	_, err := OpenSource(t.Context(), src)
	wantCode(t, err, Unreadable, "_versions/1.manifest", "try again")
	if src.listings != maxListings {
		t.Errorf("%d listings, want %d", src.listings, maxListings)
	}
}

func TestContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Open(ctx, fixtureLocator(t, "typed.lance")); !errors.Is(err, context.Canceled) || CodeOf(err) != "" {
		t.Errorf("got %v with code %q, want the context's own error", err, CodeOf(err))
	}
	// Ended between listing and opening, and while reading.
	for _, step := range []string{"open", "read"} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		src := cancelsEarly{memory: v1(1, file(one(), nil)), step: step, cancel: cancel}
		if _, err := OpenSource(ctx, src); !errors.Is(err, context.Canceled) || CodeOf(err) != "" {
			t.Errorf("%s: got %v with code %q, want the context's own error", step, err, CodeOf(err))
		}
	}
}

type cancelsEarly struct {
	memory
	step   string
	cancel func()
}

func (c cancelsEarly) Open(ctx context.Context, name string) (Object, error) {
	c.cancel()
	if c.step == "open" {
		return nil, ctx.Err()
	}
	return c.memory.Open(ctx, name)
}

// endless lists names without end.
type endless struct{ memory }

func (endless) Versions(_ context.Context, visit func(string) error) error {
	for {
		if err := visit("1.tmp"); err != nil {
			return err
		}
	}
}

func TestListingIsBounded(t *testing.T) {
	_, err := OpenSource(t.Context(), endless{})
	wantCode(t, err, Unsupported, "more than 1000000 files")
}

package lance

import (
	"context"
	"encoding/binary"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

const fixtures = "../../testdata/lance"

var datasetNames = []string{"casetwins.lance", "indexed.lance", "typed.lance", "v1names.lance"}

// fixtureLocator is the normalized locator of a fixture dataset.
func fixtureLocator(t testing.TB, name string) string {
	t.Helper()
	root, err := filepath.Abs(filepath.Join(fixtures, name))
	if err != nil {
		t.Fatal(err)
	}
	return "file://" + root
}

func openFixture(t testing.TB, name string) *Dataset {
	t.Helper()
	d, err := Open(t.Context(), fixtureLocator(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// fixtureManifest returns the bytes and version of a fixture's latest manifest.
func fixtureManifest(t testing.TB, name string) ([]byte, int64) {
	t.Helper()
	d := openFixture(t, name)
	b, err := os.ReadFile(filepath.Join(fixtures, name, d.ManifestPath))
	if err != nil {
		t.Fatal(err)
	}
	return b, d.Version
}

// memory is a dataset in memory: file name to contents.
type memory map[string][]byte

func (m memory) Versions(ctx context.Context, visit func(string) error) error {
	for name := range m {
		if err := visit(name); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (m memory) Open(_ context.Context, name string) (Object, error) {
	b, ok := m[name]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return &memoryFile{data: b}, nil
}

type memoryFile struct {
	data   []byte
	closed int
}

func (f *memoryFile) Size() int64  { return int64(len(f.data)) }
func (f *memoryFile) Close() error { f.closed++; return nil }

func (f *memoryFile) ReadRange(ctx context.Context, p []byte, off int64) error {
	if off < 0 || off > int64(len(f.data)) || copy(p, f.data[off:]) < len(p) {
		return io.ErrUnexpectedEOF
	}
	return ctx.Err()
}

// v1 is a dataset whose only manifest has these bytes and the name of this version.
func v1(version int64, manifest []byte) memory {
	return memory{strconv.FormatInt(version, 10) + manifestSuffix: manifest}
}

func v2Name(version uint64) string {
	return strings.Repeat("0", 20-len(strconv.FormatUint(math.MaxUint64-version, 10))) +
		strconv.FormatUint(math.MaxUint64-version, 10) + manifestSuffix
}

// msg builds a protobuf message field by field. As with append, two messages must
// not be built from one beginning.
type msg []byte

func (m msg) num(field protowire.Number, n uint64) msg {
	return protowire.AppendVarint(protowire.AppendTag(m, field, protowire.VarintType), n)
}

func (m msg) int(field protowire.Number, n int64) msg { return m.num(field, uint64(n)) }

func (m msg) raw(field protowire.Number, b []byte) msg {
	return protowire.AppendBytes(protowire.AppendTag(m, field, protowire.BytesType), b)
}

func (m msg) text(field protowire.Number, s string) msg { return m.raw(field, []byte(s)) }

// column is a top-level field description.
func column(id int64, name, logicalType string) msg {
	return msg{}.text(2, name).int(3, id).int(4, -1).text(5, logicalType)
}

// framed is a message behind its u32 length.
func framed(m msg) []byte {
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(m))), m...)
}

func footer(position uint64, major, minor uint16, magic string) []byte {
	b := binary.LittleEndian.AppendUint64(nil, position)
	b = binary.LittleEndian.AppendUint16(b, major)
	b = binary.LittleEndian.AppendUint16(b, minor)
	return append(b, magic...)
}

// file is a manifest file: an optional index section at offset 0, the manifest, the footer.
func file(manifest, indexes msg) []byte {
	var b []byte
	if indexes != nil {
		b = framed(indexes)
		manifest = manifest.num(6, 0)
	}
	position := uint64(len(b))
	b = append(b, framed(manifest)...)
	return append(b, footer(position, 0, 2, "LANC")...)
}

// one is a minimal manifest of version 1 with one column, to be added to.
func one() msg { return msg{}.raw(1, column(0, "id", "int64")).num(3, 1) }

func openBytes(t testing.TB, b []byte) (*Dataset, error) {
	t.Helper()
	return OpenSource(t.Context(), v1(1, b))
}

func wantCode(t testing.TB, err error, code Code, parts ...string) {
	t.Helper()
	if CodeOf(err) != code {
		t.Fatalf("got code %q (%v), want %q", CodeOf(err), err, code)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the message %q does not say %q", err, part)
		}
	}
}

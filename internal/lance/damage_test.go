package lance

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// Every proper prefix of a manifest lacks its footer or what the footer names.
func TestTruncatedManifests(t *testing.T) {
	for _, name := range datasetNames {
		b, version := fixtureManifest(t, name)
		for n := range b {
			_, err := OpenSource(t.Context(), v1(version, b[:n]))
			if CodeOf(err) != ManifestDamaged || !strings.HasPrefix(err.Error(), fmt.Sprintf("_versions/%d.manifest: ", version)) {
				t.Fatalf("%s cut to %d bytes: %v", name, n, err)
			}
		}
		// The front may be missing as well.
		for n := 1; n < len(b); n++ {
			if d, err := OpenSource(t.Context(), v1(version, b[n:])); CodeOf(err) != ManifestDamaged {
				t.Fatalf("%s without its first %d bytes: %+v, %v", name, n, d, err)
			}
		}
	}
}

// The format has no checksum, so a flipped bit may pass. It must then still give
// a dataset that keeps the package's promises.
func TestFlippedBytes(t *testing.T) {
	for _, name := range datasetNames {
		good, version := fixtureManifest(t, name)
		for i := range good {
			for _, mask := range []byte{0x01, 0x80, 0xff} {
				b := []byte(string(good))
				b[i] ^= mask
				d, err := OpenSource(t.Context(), v1(version, b))
				checkOutcome(t, d, err, version)
			}
		}
	}
}

// checkOutcome holds whatever a manifest gave against what is promised of it.
func checkOutcome(t testing.TB, d *Dataset, err error, version int64) {
	t.Helper()
	if err != nil {
		switch {
		case d != nil:
			t.Fatalf("a dataset and an error: %v", err)
		case CodeOf(err) != ManifestDamaged && CodeOf(err) != Unsupported:
			t.Fatalf("code %q: %v", CodeOf(err), err)
		case len(err.Error()) > 2048 || !isPrintable(err.Error()):
			t.Fatalf("an unfit message of %d bytes: %.200q", len(err.Error()), err.Error())
		}
		return
	}
	if d.Version != version || d.ReaderFlags&^readerFlags != 0 {
		t.Fatalf("version %d, reader flags %d", d.Version, d.ReaderFlags)
	}
	if y := d.Timestamp.Year(); y < 1 || y > 9999 {
		t.Fatalf("timestamp %v", d.Timestamp)
	}
	ids := map[int32]bool{-1: true}
	for _, f := range d.Fields {
		if f.ID < 0 || ids[f.ID] || !ids[f.ParentID] {
			t.Fatalf("field %+v is out of the tree", f)
		}
		ids[f.ID] = true
		if _, err := SchemaContract(f); err != nil && CodeOf(err) != ColumnNested && CodeOf(err) != ColumnUnsupported {
			t.Fatal(err)
		}
	}
	for _, x := range d.Indexes {
		if len(x.FieldIDs) > maxIndexFields || x.DatasetVersion < 0 || (x.Type == IVFPQ) != (x.Metric != "") {
			t.Fatalf("index %+v", x)
		}
	}
}

func isPrintable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}

func TestDamage(t *testing.T) {
	good := file(one(), nil)
	body := good[:len(good)-footerLen]
	withFooter := func(f []byte) []byte { return append([]byte(string(body)), f...) }
	field := func(m msg) []byte { return file(msg{}.raw(1, m).num(3, 1), nil) }
	index := func(m msg) []byte { return file(one(), msg{}.raw(1, m)) }
	vector := func(m msg) []byte {
		return index(msg{}.text(3, "x").raw(6, msg{}.text(1, "VectorIndexDetails").raw(2, m)))
	}
	deep := msg{}.raw(1, column(0, "f", "struct")).num(3, 1)
	for i := range int64(maxDepth) {
		deep = deep.raw(1, msg{}.int(3, i+1).int(4, i))
	}
	for _, c := range []struct {
		what string
		b    []byte
		code Code
		say  string
	}{
		{"empty", nil, ManifestDamaged, "0 bytes long"},
		{"foreign", append([]byte(strings.Repeat("row group ", 50)), "PAR1"...), ManifestDamaged, `ends in "PAR1"`},
		{"foreign and binary", make([]byte, 1000), ManifestDamaged, `"\x00\x00\x00\x00"`},
		{"newer major", withFooter(footer(0, 1, 2, "LANC")), Unsupported, "version 1.2; only 0.2"},
		{"newer minor", withFooter(footer(0, 0, 3, "LANC")), Unsupported, "version 0.3; only 0.2"},
		{"older minor", withFooter(footer(0, 0, 1, "LANC")), Unsupported, "version 0.1; only 0.2"},
		{"negative position", withFooter(footer(math.MaxUint64, 0, 2, "LANC")), ManifestDamaged, "position"},
		{"position in the footer", withFooter(footer(uint64(len(body)), 0, 2, "LANC")), ManifestDamaged, "position"},
		{"position off by one", withFooter(footer(1, 0, 2, "LANC")), ManifestDamaged, "the manifest"},
		{"bytes after the manifest", append(append([]byte(string(body)), 0), footer(0, 0, 2, "LANC")...), ManifestDamaged, "not at the footer"},
		{"no version", file(msg{}.raw(1, column(0, "id", "int64")), nil), ManifestDamaged, "version 1 and the manifest in it for version 0"},
		{"another version", file(one().num(3, 2), nil), ManifestDamaged, "for version 2"},
		{"a version past i64", file(one().num(3, math.MaxUint64), nil), ManifestDamaged, "version: the number 18446744073709551615"},
		{"version as text", file(one().text(3, "1"), nil), ManifestDamaged, "version: wire type 2"},
		{"reader flags as text", file(one().text(9, "1"), nil), ManifestDamaged, "reader flags: wire type 2"},
		{"unknown reader flags", file(one().num(9, 1|32|64|1<<63), nil), Unsupported, "feature flags 32, 64, 9223372036854775808,"},
		{"timestamp of nowhen", file(one().raw(7, msg{}.int(1, math.MaxInt64)), nil), ManifestDamaged, "timestamp"},
		{"negative nanoseconds", file(one().raw(7, msg{}.int(2, -1)), nil), ManifestDamaged, "timestamp"},
		{"a cut tag", file(append(one(), 0x80), nil), ManifestDamaged, "the manifest: at byte"},
		{"field number zero", file(append(one(), 0x00, 0x01), nil), ManifestDamaged, "the manifest: at byte"},
		{"a group", file(append(one(), 0x13, 0x14), nil), ManifestDamaged, "wire type 3"},
		{"a field as number", file(one().num(1, 1), nil), ManifestDamaged, "field description 2: wire type 0"},
		{"a name as number", field(msg{}.num(2, 1)), ManifestDamaged, "field description 1: name: wire type 0"},
		{"a name not UTF-8", field(msg{}.text(2, "\xff")), ManifestDamaged, "name: a text that is not valid UTF-8"},
		{"a group in a field", field(msg{0x0b, 0x0c}), ManifestDamaged, "wire type 3"},
		{"an id past i32", field(msg{}.num(3, 1<<40)), ManifestDamaged, "id: the number 1099511627776"},
		{"a negative id", field(msg{}.int(3, -5).int(4, -1)), ManifestDamaged, "id -5 is negative"},
		{"a parent of its own", field(msg{}.int(3, 5).int(4, 5)), ManifestDamaged, "parent id 5"},
		{"a parent that is none", field(msg{}.int(3, 5).int(4, -2)), ManifestDamaged, "parent id -2"},
		{"no parent given and no field 0", field(msg{}.int(3, 5)), ManifestDamaged, "parent id 0"},
		{"an id twice", file(one().raw(1, column(0, "again", "int8")), nil), ManifestDamaged, "id 0 is taken"},
		{"nested too deep", file(deep, nil), Unsupported, "field description 129: fields nest more than 128 deep"},
		{"index section nowhere", file(one().num(6, 1<<40), nil), ManifestDamaged, "the index section: its position 1099511627776"},
		{"index section past i64", file(one().num(6, math.MaxUint64), nil), ManifestDamaged, "index section offset: the number 18446744073709551615"},
		{"index section too long", file(one().num(6, 4), nil), ManifestDamaged, "the index section"},
		{"an index as number", file(one(), msg{}.num(1, 1)), ManifestDamaged, "the index section: index 1: wire type 0"},
		{"a short uuid", index(msg{}.raw(1, msg{}.text(1, "short"))), ManifestDamaged, "index 1: uuid: 5 bytes where 16"},
		{"field ids cut", index(msg{}.raw(2, []byte{0x80})), ManifestDamaged, "field ids"},
		{"field ids past i32", index(msg{}.raw(2, protowire.AppendVarint(nil, 1<<40))), ManifestDamaged, "field ids"},
		{"too many field ids, packed", index(msg{}.raw(2, make([]byte, maxIndexFields+1))), Unsupported, "more than 64 numbers"},
		{"built at no version", index(msg{}.num(4, 1<<63)), ManifestDamaged, "dataset version"},
		{"created at no time", index(msg{}.num(8, math.MaxUint64)), ManifestDamaged, "creation time"},
		{"created in the year 300000", index(msg{}.num(8, 9_000_000_000_000_000)), ManifestDamaged, "creation time"},
		{"a metric as text", vector(msg{}.text(1, "l2")), ManifestDamaged, "index 1: details: metric: wire type 2"},
		{"bits past u32", vector(msg{}.raw(4, msg{}.num(1, 1<<32))), ManifestDamaged, "details: product quantization"},
		{"product quantization as number", vector(msg{}.num(4, 1)), ManifestDamaged, "product quantization: wire type 0"},
	} {
		t.Run(c.what, func(t *testing.T) {
			d, err := openBytes(t, c.b)
			wantCode(t, err, c.code, c.say, "_versions/1.manifest: ")
			checkOutcome(t, d, err, 1)
		})
	}
}

// What a protobuf decoder must accept.
func TestLeniency(t *testing.T) {
	pq := msg{}.num(1, 2).num(2, 16)
	details := func(url string, m msg) msg { return msg{}.text(1, url).raw(2, m) }
	m := msg{}.
		num(100, 7).raw(101, []byte("unknown")).raw(2, []byte("no fragment")).
		num(3, 9).num(3, 1). // the later one counts
		raw(7, msg{}.int(1, 10).num(9, 9)).raw(7, msg{}.num(2, 5)).
		num(9, 31).num(10, 1<<40).
		raw(1, msg{}.text(2, "old").text(2, "new").num(4, math.MaxUint32).text(5, "string").num(6, 2).num(77, 1)).
		raw(1, msg{}.int(3, 1).text(2, "child").text(5, "int8")) // no parent given: that is field 0
	m = protowire.AppendFixed32(protowire.AppendTag(m, 102, protowire.Fixed32Type), 1)
	m = protowire.AppendFixed64(protowire.AppendTag(m, 103, protowire.Fixed64Type), 1)
	x := msg{}.num(50, 1).raw(1, msg{}.raw(1, []byte("0123456789abcdef"))).
		num(2, 3).raw(2, []byte{4, 5}).int(2, -1).text(3, "x").
		raw(6, details("type.googleapis.com/lance.table.VECTORINDEXDETAILS", msg{}.num(1, 2).raw(4, pq)))
	d, err := openBytes(t, file(m, msg{}.num(9, 9).raw(1, x)))
	if err != nil {
		t.Fatal(err)
	}
	want := &Dataset{
		Version: 1, NamingScheme: V1, ManifestPath: "_versions/1.manifest", ReaderFlags: 31, WriterFlags: 1 << 40,
		Timestamp: time.Unix(10, 5).UTC(),
		Fields: []Field{
			{ID: 0, ParentID: -1, Name: "new", LogicalType: "string", Nullable: true},
			{ID: 1, ParentID: 0, Name: "child", LogicalType: "int8"},
		},
		Indexes: []Index{{
			UUID: "30313233-3435-3637-3839-616263646566", Name: "x", FieldIDs: []int32{3, 4, 5, -1},
			Type: IVFPQ, TypeURL: "type.googleapis.com/lance.table.VECTORINDEXDETAILS", Metric: Dot, NumBits: 2, NumSubVectors: 16,
		}},
	}
	if !reflect.DeepEqual(d, want) {
		t.Errorf("got  %+v\nwant %+v", d, want)
	}
}

func TestIndexTypes(t *testing.T) {
	pq := func() msg { return msg{}.raw(4, msg{}.num(1, 8).num(2, 4)) }
	for _, c := range []struct {
		what, url string
		value     msg
		want      Index
	}{
		{"btree", "/lance.table.BTreeIndexDetails", nil, Index{Type: BTree}},
		{"another package", "x.y/lance.index.pb.bitmapindexdetails", nil, Index{Type: Bitmap}},
		{"a longer name", "/lance.table.SuperBTreeIndexDetails", nil, Index{}},
		{"another type", "/lance.table.InvertedIndexDetails", nil, Index{}},
		{"no package", "BTreeIndexDetails", nil, Index{Type: BTree}},
		{"pq, l2", "/VectorIndexDetails", pq(), Index{Type: IVFPQ, Metric: L2, NumBits: 8, NumSubVectors: 4}},
		{"pq, cosine", "/VectorIndexDetails", pq().num(1, 1), Index{Type: IVFPQ, Metric: Cosine, NumBits: 8, NumSubVectors: 4}},
		{"pq, hamming", "/VectorIndexDetails", pq().num(1, 3), Index{Type: IVFPQ, Metric: Hamming, NumBits: 8, NumSubVectors: 4}},
		{"pq, a metric to come", "/VectorIndexDetails", pq().num(1, 9), Index{Type: IVFPQ, Metric: "metric(9)", NumBits: 8, NumSubVectors: 4}},
		{"pq without numbers", "/VectorIndexDetails", msg{}.raw(4, nil), Index{Type: IVFPQ, Metric: L2}},
		{"nothing recorded", "/VectorIndexDetails", nil, Index{}},
		{"a graph over pq", "/VectorIndexDetails", pq().raw(3, nil), Index{}},
		{"scalar quantization", "/VectorIndexDetails", msg{}.raw(5, nil), Index{}},
	} {
		t.Run(c.what, func(t *testing.T) {
			c.want.Name, c.want.TypeURL = "x", c.url
			details := msg{}.text(1, c.url).raw(2, c.value)
			d, err := openBytes(t, file(one(), msg{}.raw(1, msg{}.text(3, "x").raw(6, details))))
			if err != nil || !reflect.DeepEqual(d.Indexes, []Index{c.want}) {
				t.Errorf("got %+v, %v; want %+v", d, err, c.want)
			}
		})
	}
	d, err := openBytes(t, file(one(), msg{}.raw(1, msg{}.text(3, "bare"))))
	if err != nil || !reflect.DeepEqual(d.Indexes, []Index{{Name: "bare"}}) {
		t.Errorf("an index without details: got %+v, %v", d, err)
	}
	if d, err := openBytes(t, file(one(), msg{})); err != nil || len(d.Indexes) != 0 {
		t.Errorf("an empty index section: got %+v, %v", d, err)
	}
}

// An index section anywhere before the manifest, with other sections around it.
func TestIndexSectionOffset(t *testing.T) {
	b := []byte("another section")
	offset := uint64(len(b))
	b = append(b, framed(msg{}.raw(1, msg{}.text(3, "x")))...)
	position := uint64(len(b))
	b = append(append(b, framed(one().num(6, offset))...), footer(position, 0, 2, "LANC")...)
	d, err := openBytes(t, b)
	if err != nil || len(d.Indexes) != 1 || d.Indexes[0].Name != "x" {
		t.Errorf("got %+v, %v", d, err)
	}
}

// A manifest of several windows, with wanted and unwanted messages of every size
// around the window's, reads the same as a small one.
func TestManifestLargerThanTheWindow(t *testing.T) {
	m, indexes := msg{}, msg{}
	var names []string
	for i, size := range []int{0, 1, windowSize - 64, windowSize - 1, windowSize, windowSize + 1, 3 * windowSize, 7, 100} {
		name := fmt.Sprintf("c%d", i)
		names = append(names, name)
		m = m.raw(2, make([]byte, size))
		m = m.raw(1, column(int64(i), name, "int8").raw(10, make([]byte, size)))
		indexes = indexes.raw(1, msg{}.raw(5, make([]byte, size)).text(3, name)).raw(2, make([]byte, size))
	}
	d, err := openBytes(t, file(m.num(3, 1), indexes))
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range names {
		if d.Fields[i].Name != name || d.Indexes[i].Name != name {
			t.Errorf("%d: field %q, index %q, want %q", i, d.Fields[i].Name, d.Indexes[i].Name, name)
		}
	}
	if len(d.Fields) != len(names) || len(d.Indexes) != len(names) {
		t.Errorf("%d fields, %d indexes, want %d", len(d.Fields), len(d.Indexes), len(names))
	}
}

// sparse is a file of which only some ranges are not zero.
type sparse struct {
	size  int64
	parts map[int64][]byte
}

func (s sparse) Versions(_ context.Context, visit func(string) error) error {
	return visit("1.manifest")
}
func (s sparse) Open(context.Context, string) (Object, error) { return s, nil }
func (s sparse) Size() int64                                  { return s.size }
func (s sparse) Close() error                                 { return nil }

func (s sparse) ReadRange(_ context.Context, p []byte, off int64) error {
	clear(p)
	for at, b := range s.parts {
		for i, x := range b {
			if j := at + int64(i) - off; j >= 0 && j < int64(len(p)) {
				p[j] = x
			}
		}
	}
	return nil
}

// sparseManifest is a file of the given size whose manifest begins with m and
// claims all the rest.
func sparseManifest(size int64, m msg) sparse {
	length := uint32(size - footerLen - 4)
	head := append([]byte{byte(length), byte(length >> 8), byte(length >> 16), byte(length >> 24)}, m...)
	return sparse{size: size, parts: map[int64][]byte{0: head, size - footerLen: footer(0, 0, 2, "LANC")}}
}

// What a hostile file claims must not decide what is allocated for it.
func TestHostileLengths(t *testing.T) {
	claim := func(field protowire.Number, n uint64) msg {
		return protowire.AppendVarint(protowire.AppendTag(nil, field, protowire.BytesType), n)
	}
	const most = maxManifest
	many := func(field protowire.Number, n int, m msg) msg {
		var all msg
		for range n {
			all = all.raw(field, m)
		}
		return all
	}
	for _, c := range []struct {
		what string
		src  Source
		code Code
		say  string
	}{
		{"a file past the limit", sparseManifest(most+1, one()), Unsupported, "268435457 bytes long; the limit is 268435456"},
		{"a file of 2^62 bytes", sparse{size: 1 << 62}, Unsupported, "the limit"},
		{"one field description of 200 MiB", sparseManifest(most, claim(1, 200<<20)), Unsupported, "209715200 bytes long; the limit"},
		{"a timestamp of 200 MiB", sparseManifest(most, claim(7, 200<<20)), Unsupported, "209715200 bytes long"},
		{"a length past the file", sparseManifest(most, claim(1, 300<<20)), ManifestDamaged, "claims 314572800 bytes"},
		{"a fragment past the file", sparseManifest(most, claim(2, 1<<63)), ManifestDamaged, "claims 9223372036854775808 bytes"},
		{"a fragment of 2^64-1 bytes", sparseManifest(most, claim(2, math.MaxUint64)), ManifestDamaged, "claims"},
		{"200 MiB of zeros", sparseManifest(most, one().raw(2, nil)), ManifestDamaged, "at byte"},
		{"a long name", v1(1, file(msg{}.raw(1, column(0, strings.Repeat("x", maxText+1), "int8")), nil)), Unsupported, "a text of 65537 bytes"},
		{"too many indexes", v1(1, file(one(), many(1, maxIndexes+1, nil))), Unsupported, "more than 65536 indexes"},
		{"field ids, one by one", v1(1, file(one(), msg{}.raw(1, many(2, maxIndexFields+1, []byte{1})))), Unsupported, "more than 64 numbers"},
	} {
		t.Run(c.what, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := OpenSource(t.Context(), c.src)
			runtime.ReadMemStats(&after)
			wantCode(t, err, c.code, c.say)
			limit := uint64(4 << 20)
			if strings.HasPrefix(c.what, "too many") {
				limit = 64 << 20 // the list itself, as far as it is allowed to grow, with what append left behind
			}
			if got := after.TotalAlloc - before.TotalAlloc; got > limit {
				t.Errorf("allocated %d bytes, want at most %d", got, limit)
			}
		})
	}
}

func TestLimitsOfTheSchema(t *testing.T) {
	m := msg{}
	for i := range int64(maxFields) {
		m = m.raw(1, msg{}.int(3, i).int(4, -1))
	}
	if d, err := openBytes(t, file(m.num(3, 1), nil)); err != nil || len(d.Fields) != maxFields {
		t.Errorf("as many fields as are allowed: %v", err)
	}
	_, err := openBytes(t, file(m.raw(1, msg{}.int(3, maxFields).int(4, -1)).num(3, 1), nil))
	wantCode(t, err, Unsupported, "more than 65536 fields")

	m = msg{}
	long := strings.Repeat("x", maxText)
	for i := range int64(maxTexts/maxText) + 1 {
		m = m.raw(1, msg{}.int(3, i).int(4, -1).text(2, long))
	}
	_, err = openBytes(t, file(m.num(3, 1), nil))
	wantCode(t, err, Unsupported, "more than 33554432 bytes of names and types")
}

// The real thing on disk: a damaged newest manifest is an error, never a reason
// to fall back to an older version.
func TestDamagedNewestOnDisk(t *testing.T) {
	good := file(one(), nil)
	root := writeDataset(t, memory{"1.manifest": good, "2.manifest": good[:10]})
	_, err := Open(t.Context(), "file://"+root)
	wantCode(t, err, ManifestDamaged, root, "_versions/2.manifest", "10 bytes long", "Lance client")
	if err := os.Remove(filepath.Join(root, versionsDir, "2.manifest")); err != nil {
		t.Fatal(err)
	}
	if d, err := Open(t.Context(), "file://"+root); err != nil || d.Version != 1 {
		t.Errorf("got %+v, %v", d, err)
	}
}

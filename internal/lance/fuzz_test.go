package lance

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// FuzzManifest: whatever a manifest file holds, the answer is a dataset that
// keeps the promises or a typed refusal, and it is the same answer twice.
//
// Each input is read twice over: as a file, and, cut in two, as the messages of a
// well-framed one, because few changes to a whole file leave its frame intact.
func FuzzManifest(f *testing.F) {
	for _, name := range datasetNames {
		paths, err := filepath.Glob(filepath.Join(fixtures, name, versionsDir, "*"+manifestSuffix))
		if err != nil || len(paths) == 0 {
			f.Fatalf("no manifests in %s: %v", name, err)
		}
		for _, path := range paths {
			m, ok, err := parseManifestName(filepath.Base(path))
			if !ok || err != nil {
				f.Fatalf("%s: %v", path, err)
			}
			b, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(m.version, b, uint16(0))
			manifest, indexes := messagesOf(b)
			f.Add(m.version, append(indexes, manifest...), uint16(len(indexes)))
		}
	}
	f.Add(int64(1), []byte(nil), uint16(0))
	f.Fuzz(func(t *testing.T, version int64, b []byte, split uint16) {
		version = max(version, 1)
		checkManifest(t, version, b)
		at := min(int(split), len(b))
		checkManifest(t, version, file(msg(bytes.Clone(b[at:])).int(3, version), b[:at:at]))
	})
}

// messagesOf cuts a fixture's file, which has its index section in front, into its
// two messages.
func messagesOf(b []byte) (manifest, indexes []byte) {
	le := binary.LittleEndian
	position := le.Uint64(b[len(b)-footerLen:])
	indexes = bytes.Clone(b[4 : 4+le.Uint32(b)])
	return b[position+4 : len(b)-footerLen], indexes
}

func checkManifest(t *testing.T, version int64, b []byte) {
	t.Helper()
	d, err := OpenSource(t.Context(), v1(version, b))
	checkOutcome(t, d, err, version)
	again, errAgain := OpenSource(t.Context(), v1(version, b))
	if !reflect.DeepEqual(d, again) || (err == nil) != (errAgain == nil) || err != nil && err.Error() != errAgain.Error() {
		t.Fatalf("two answers: %+v, %v and %+v, %v", d, err, again, errAgain)
	}
	if d == nil {
		return
	}
	for _, field := range d.Fields[:min(len(d.Fields), 32)] {
		got, err := d.Column(field.Name)
		if field.TopLevel() && err == nil && got.Name != field.Name {
			t.Fatalf("column %q found as %q", field.Name, got.Name)
		}
		if field.TopLevel() && err != nil && CodeOf(err) != ColumnAmbiguous {
			t.Fatalf("column %q: %v", field.Name, err)
		}
	}
	lower := newLower()
	for _, x := range d.Indexes[:min(len(d.Indexes), 32)] {
		got, found, err := d.FindIndex(lower(x.Name))
		if CodeOf(err) != IndexAmbiguous && (!found || got.Name != x.Name) {
			t.Fatalf("index %q: %+v, %v, %v", x.Name, got, found, err)
		}
	}
}

// FuzzLogicalType: a type is of one kind, and one with a spelling has a contract
// that is JSON and says that spelling.
func FuzzLogicalType(f *testing.F) {
	for _, d := range fixtureTable {
		for _, field := range d.Fields {
			f.Add(field.Name, field.LogicalType)
		}
	}
	for _, s := range []string{
		"decimal:256:76:-128", "timestamp:ns:+05:30", `timestamp:s:"<&>\`, "fixed_size_list:halffloat:2147483647",
		"large_string", "uint8", "date64:ms", "dict:string:int32:false", "fixed_size_list:fixed_size_list:float:2:4", "", ":", "::",
	} {
		f.Add("Ünï<>&\u2028\x00", s)
	}
	f.Fuzz(func(t *testing.T, name, s string) {
		parsed := ParseLogicalType(s)
		kinds := 0
		for _, is := range []bool{
			parsed.IsBool(), parsed.IsIntegral(), parsed.IsFloating(), parsed.IsDecimal(), parsed.IsString(),
			parsed.IsDate(), parsed.IsTimestamp(), parsed.IsVector(),
		} {
			if is {
				kinds++
			}
		}
		if named := parsed.Spelling() != ""; kinds > 1 || (kinds == 1) != named {
			t.Fatalf("%q is of %d kinds and spelled %q", s, kinds, parsed.Spelling())
		}
		if parsed.IsVector() && (parsed.Dimension < 1 || parsed.Element == "") {
			t.Fatalf("%q: %+v", s, parsed)
		}
		got, err := SchemaContract(top(1, name, s))
		if err != nil {
			if CodeOf(err) != ColumnUnsupported || got != "" {
				t.Fatalf("%q, %q: %q, %v", name, s, got, err)
			}
			return
		}
		var back schemaContract
		back.Fields = []contractField{{contractVector: &contractVector{}}}
		if err := json.Unmarshal([]byte(got), &back); err != nil {
			t.Fatalf("%s: %v", got, err)
		}
		if field := back.Fields[0]; field.Type != parsed.Spelling() || field.Name != newLower()(name) || field.ID != 1 {
			t.Fatalf("%q, %q: %s", name, s, got)
		}
		if parsed.IsVector() && (back.Fields[0].Dimension != parsed.Dimension || back.Fields[0].Element != parsed.Element) {
			t.Fatalf("%q: %s", s, got)
		}
	})
}

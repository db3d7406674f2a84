package lance

import (
	"reflect"
	"testing"
	"time"
)

func top(id int32, name, logicalType string) Field {
	return Field{ID: id, ParentID: -1, Name: name, LogicalType: logicalType}
}

// fixtureTable is what testdata/lance/README.md says of each dataset, and what a
// decoder that shares no code with this package finds in the files.
var fixtureTable = map[string]*Dataset{
	"casetwins.lance": {
		Version: 3, NamingScheme: V2, ManifestPath: "_versions/18446744073709551612.manifest",
		Timestamp: time.Unix(1796158579, 166093682).UTC(),
		Fields:    []Field{top(0, "id", "int64"), top(1, "entityId", "int64")},
		Indexes: []Index{{
			UUID: "27531839-3f7d-4dad-843a-dbb70ab13cfe", Name: "Twin_Idx", FieldIDs: []int32{0}, DatasetVersion: 1,
			Type: BTree, TypeURL: "/lance.table.BTreeIndexDetails", CreatedAt: time.UnixMilli(1796158579162).UTC(),
		}, {
			UUID: "4f325332-97c5-490d-abfd-2b8afb752d57", Name: "twin_idx", FieldIDs: []int32{1}, DatasetVersion: 2,
			Type: BTree, TypeURL: "/lance.table.BTreeIndexDetails", CreatedAt: time.UnixMilli(1796158579165).UTC(),
		}},
	},
	"indexed.lance": {
		Version: 4, NamingScheme: V2, ManifestPath: "_versions/18446744073709551611.manifest",
		Timestamp: time.Unix(1796158579, 151235927).UTC(),
		Fields:    []Field{top(0, "id", "int64"), top(1, "flag", "bool"), top(2, "vec", "fixed_size_list:float:8")},
		Indexes: []Index{{
			UUID: "1a4ff8ef-726c-4409-b887-4ac105fe23d2", Name: "id_btree", FieldIDs: []int32{0}, DatasetVersion: 1,
			Type: BTree, TypeURL: "/lance.table.BTreeIndexDetails", CreatedAt: time.UnixMilli(1796158579126).UTC(),
		}, {
			UUID: "0660872b-d433-48d2-b10d-80526cb91778", Name: "flag_bitmap", FieldIDs: []int32{1}, DatasetVersion: 2,
			Type: Bitmap, TypeURL: "/lance.table.BitmapIndexDetails", CreatedAt: time.UnixMilli(1796158579132).UTC(),
		}, {
			UUID: "337c26cc-09ba-4c26-a1db-4901cdcfda94", Name: "Vec_IvfPq", FieldIDs: []int32{2}, DatasetVersion: 3,
			Type: IVFPQ, TypeURL: "/lance.index.pb.VectorIndexDetails", Metric: L2, NumBits: 8, NumSubVectors: 2,
			CreatedAt: time.UnixMilli(1796158579150).UTC(),
		}},
	},
	"typed.lance": {
		Version: 1, NamingScheme: V2, ManifestPath: "_versions/18446744073709551614.manifest",
		Timestamp: time.Unix(1796158579, 91634870).UTC(),
		Fields: []Field{
			top(0, "id", "int64"), top(1, "entityId", "int64"), top(2, "title", "string"), top(3, "flag", "bool"),
			top(4, "day", "date32:day"), top(5, "ts", "timestamp:us:UTC"), top(6, "ts_naive", "timestamp:ms:-"),
			top(7, "score", "double"), top(8, "price", "decimal:128:10:2"),
			top(9, "vec", "fixed_size_list:float:8"), top(10, "vec16", "fixed_size_list:halffloat:8"),
			{ID: 11, ParentID: -1, Name: "note", LogicalType: "string", Nullable: true},
			top(12, "meta", "struct"),
			{ID: 13, ParentID: 12, Name: "userId", LogicalType: "int32"},
			{ID: 14, ParentID: 12, Name: "tag", LogicalType: "string", Nullable: true},
		},
	},
	"v1names.lance": {
		Version: 3, NamingScheme: V1, ManifestPath: "_versions/3.manifest",
		Timestamp: time.Unix(1796158579, 180248014).UTC(), ReaderFlags: 1, WriterFlags: 1,
		Fields: []Field{top(0, "id", "int64"), top(1, "vec", "fixed_size_list:float:8")},
		Indexes: []Index{{
			UUID: "23b5748f-15f5-4f46-bead-5416342696bf", Name: "id_btree", FieldIDs: []int32{0}, DatasetVersion: 1,
			Type: BTree, TypeURL: "/lance.table.BTreeIndexDetails", CreatedAt: time.UnixMilli(1796158579172).UTC(),
		}},
	},
}

func TestFixtures(t *testing.T) {
	for _, name := range datasetNames {
		t.Run(name, func(t *testing.T) {
			got, want := openFixture(t, name), fixtureTable[name]
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
}

func TestTopLevelAndFieldByID(t *testing.T) {
	d := openFixture(t, "typed.lance")
	if n := len(d.TopLevel()); n != 13 {
		t.Errorf("%d top-level fields, want 13", n)
	}
	if f, ok := d.FieldByID(13); !ok || f.Name != "userId" || f.TopLevel() {
		t.Errorf("field 13 is %+v, %v", f, ok)
	}
	if f, ok := d.FieldByID(15); ok {
		t.Errorf("field 15 is %+v, want none", f)
	}
}

func BenchmarkOpen(b *testing.B) {
	for _, name := range datasetNames {
		b.Run(name, func(b *testing.B) {
			locator := fixtureLocator(b, name)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Open(b.Context(), locator); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	// A dataset with many fragments: its manifest is walked, not held.
	b.Run("32 MiB of fragments", func(b *testing.B) {
		m := one()
		for range 32 << 10 {
			m = m.raw(2, make([]byte, 1020))
		}
		source := v1(1, file(m, nil))
		b.SetBytes(int64(len(m)))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := OpenSource(b.Context(), source); err != nil {
				b.Fatal(err)
			}
		}
	})
}

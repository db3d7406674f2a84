package lance

import (
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestColumn(t *testing.T) {
	typed := openFixture(t, "typed.lance")
	for name, want := range map[string]int32{
		"id": 0, "ID": 0, "entityId": 1, "entityid": 1, "ENTITYID": 1, "vec": 9, "Vec16": 10, "meta": 12,
	} {
		if f, err := typed.Column(name); err != nil || f.ID != want {
			t.Errorf("%s: field %+v, %v; want id %d", name, f, err, want)
		}
	}
	_, err := typed.Column("nope")
	wantCode(t, err, ColumnMissing, `"nope"`, "version 1", `"entityId"`)
	_, err = typed.Column("")
	wantCode(t, err, ColumnMissing)
	for _, name := range []string{"meta.userId", "META.USERID", "userId", "userid", "meta.tag", "tag"} {
		_, err = typed.Column(name)
		wantCode(t, err, ColumnNested, name, "top-level", "meta.")
	}
	for _, name := range []string{"meta.", ".userId", "meta.id", "other.userId", "x.meta.userId", "meta.userId.x"} {
		_, err = typed.Column(name)
		wantCode(t, err, ColumnMissing)
	}
}

func TestColumnAmbiguous(t *testing.T) {
	d := &Dataset{Version: 1, Fields: []Field{
		top(0, "Key", "int8"), top(1, "KEY", "int8"), top(2, "outer", "struct"),
		{ID: 3, ParentID: 2, Name: "solo", LogicalType: "int8"}, top(4, "Solo", "int8"),
		{ID: 5, ParentID: 2, Name: "deep", LogicalType: "struct"}, {ID: 6, ParentID: 5, Name: "leaf", LogicalType: "int8"},
		top(7, "same", "int8"), top(8, "same", "int8"),
		top(9, "ΌΔΟΣ", "int8"),
	}}
	_, err := d.Column("key")
	wantCode(t, err, ColumnAmbiguous, `"Key"`, `"KEY"`, "exact")
	if f, err := d.Column("KEY"); err != nil || f.ID != 1 {
		t.Errorf("the exact spelling must win: %+v, %v", f, err)
	}
	if f, err := d.Column("solo"); err != nil || f.ID != 4 {
		t.Errorf("a nested field must not stand in the way of a top-level one: %+v, %v", f, err)
	}
	_, err = d.Column("same")
	wantCode(t, err, ColumnAmbiguous)
	_, err = d.Column("outer.deep.leaf")
	wantCode(t, err, ColumnNested, "outer.deep.leaf")
	_, err = d.Column("deep.leaf")
	wantCode(t, err, ColumnMissing)
	if f, err := d.Column("όδος"); err != nil || f.ID != 9 {
		t.Errorf("letters beyond ASCII compare in lower case: %+v, %v", f, err)
	}
}

// A wide, deep schema with long names must not make one lookup expensive, and
// its message stays short.
func TestColumnOfHostileSchema(t *testing.T) {
	d := &Dataset{Version: 1}
	for i := range int32(100) {
		d.Fields = append(d.Fields, Field{ID: i, ParentID: i - 1, Name: strings.Repeat("N", 10_000), LogicalType: "struct"})
	}
	for i := int32(100); i < maxFields; i++ {
		d.Fields = append(d.Fields, Field{ID: i, ParentID: 99, Name: "leaf" + strconv.Itoa(int(i)), LogicalType: "int8"})
	}
	start := time.Now()
	_, err := d.Column("absent" + strings.Repeat("é", 1000))
	wantCode(t, err, ColumnMissing)
	if len(err.Error()) > 4096 {
		t.Errorf("the message is %d bytes long", len(err.Error()))
	}
	_, err = d.Column("LEAF65535")
	wantCode(t, err, ColumnNested)
	if len(err.Error()) > 4096 {
		t.Errorf("the message is %d bytes long", len(err.Error()))
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("two lookups took %v", took)
	}
}

func TestFindIndex(t *testing.T) {
	indexed := openFixture(t, "indexed.lance")
	x, found, err := indexed.FindIndex("vec_ivfpq")
	if err != nil || !found || x.Name != "Vec_IvfPq" {
		t.Errorf("got %+v, %v, %v", x, found, err)
	}
	for _, absent := range []string{"Vec_IvfPq", "vec", ""} {
		if x, found, err := indexed.FindIndex(absent); found || err != nil {
			t.Errorf("%q: got %+v, %v, %v; only the normalized form is a match", absent, x, found, err)
		}
	}
	twins := openFixture(t, "casetwins.lance")
	_, found, err = twins.FindIndex("twin_idx")
	wantCode(t, err, IndexAmbiguous, `"Twin_Idx"`, `"twin_idx"`, "rename or drop")
	if found {
		t.Error("twins were found and refused at once")
	}
	if _, found, err := twins.FindIndex("other"); found || err != nil {
		t.Errorf("another name: %v, %v", found, err)
	}
}

func TestFindIndexInSegments(t *testing.T) {
	segment := Index{Name: "A", Type: BTree, FieldIDs: []int32{1}, DatasetVersion: 1}
	later := segment
	later.DatasetVersion = 2
	d := &Dataset{Indexes: []Index{segment, {Name: "b"}, later}}
	if x, found, err := d.FindIndex("a"); err != nil || !found || x.Type != BTree || x.DatasetVersion != 1 {
		t.Errorf("segments of one definition: got %+v, %v, %v", x, found, err)
	}
	for name, change := range map[string]func(*Index){
		"type":        func(x *Index) { x.Type = Bitmap },
		"columns":     func(x *Index) { x.FieldIDs = []int32{2} },
		"metric":      func(x *Index) { x.Metric = Dot },
		"bits":        func(x *Index) { x.NumBits = 4 },
		"sub-vectors": func(x *Index) { x.NumSubVectors = 4 },
	} {
		d.Indexes[2] = segment
		change(&d.Indexes[2])
		if x, found, err := d.FindIndex("a"); err != nil || !found || x.Type != OtherIndex {
			t.Errorf("segments that differ in %s: got %+v, %v, %v; want no type", name, x, found, err)
		}
	}
	d.Indexes[2] = Index{Name: "a"}
	_, _, err := d.FindIndex("a")
	wantCode(t, err, IndexAmbiguous)
}

package lance

import (
	"encoding/json"
	"testing"
)

// The contract is compared byte by byte on the other side.
func TestSchemaContract(t *testing.T) {
	d := openFixture(t, "typed.lance")
	for name, want := range map[string]string{
		"vec":      `{"scv":1,"flds":[{"fid":9,"nn":"vec","nt":"fixed_size_list","nul":false,"fsd":8,"vet":"float32","ven":true}]}`,
		"vec16":    `{"scv":1,"flds":[{"fid":10,"nn":"vec16","nt":"fixed_size_list","nul":false,"fsd":8,"vet":"float16","ven":true}]}`,
		"id":       `{"scv":1,"flds":[{"fid":0,"nn":"id","nt":"int64","nul":false}]}`,
		"entityId": `{"scv":1,"flds":[{"fid":1,"nn":"entityid","nt":"int64","nul":false}]}`,
		"title":    `{"scv":1,"flds":[{"fid":2,"nn":"title","nt":"utf8","nul":false}]}`,
		"flag":     `{"scv":1,"flds":[{"fid":3,"nn":"flag","nt":"bool","nul":false}]}`,
		"day":      `{"scv":1,"flds":[{"fid":4,"nn":"day","nt":"date<day>","nul":false}]}`,
		"ts":       `{"scv":1,"flds":[{"fid":5,"nn":"ts","nt":"timestamp<us,tz=\"UTC\">","nul":false}]}`,
		"ts_naive": `{"scv":1,"flds":[{"fid":6,"nn":"ts_naive","nt":"timestamp<ms,tz=\"\">","nul":false}]}`,
		"score":    `{"scv":1,"flds":[{"fid":7,"nn":"score","nt":"float64","nul":false}]}`,
		"price":    `{"scv":1,"flds":[{"fid":8,"nn":"price","nt":"decimal<128>(10,2)","nul":false}]}`,
		"note":     `{"scv":1,"flds":[{"fid":11,"nn":"note","nt":"utf8","nul":true}]}`,
	} {
		f, err := d.Column(name)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := SchemaContract(f); err != nil || got != want {
			t.Errorf("%s: got %s, %v\nwant %s", name, got, err, want)
		}
	}
}

func TestSchemaContractEscapes(t *testing.T) {
	for _, c := range []struct{ name, logicalType, nn, nt string }{
		{`A"B\C`, "int8", `a"b\c`, "int8"},
		{"a<b>&c", "int8", "a<b>&c", "int8"},
		{"\x00\n\t\u2028", "int8", "\x00\n\t\u2028", "int8"},
		{"ΌΔΟΣ", "int8", "όδος", "int8"}, // the last sigma has a form of its own
		{"İ", "int8", "i̇", "int8"},
		{"", "int8", "", "int8"},
		{"t", `timestamp:us:Weird/"Zone\`, "t", `timestamp<us,tz="Weird/"Zone\">`},
		{"t", "timestamp:us:+05:30", "t", `timestamp<us,tz="+05:30">`},
	} {
		got, err := SchemaContract(top(7, c.name, c.logicalType))
		if err != nil {
			t.Errorf("%q: %v", c.name, err)
			continue
		}
		var back schemaContract
		if err := json.Unmarshal([]byte(got), &back); err != nil {
			t.Errorf("%q: %s: %v", c.name, got, err)
			continue
		}
		if f := back.Fields[0]; f.Name != c.nn || f.Type != c.nt || f.ID != 7 {
			t.Errorf("%q: reads back as %+v, want %q, %q", c.name, f, c.nn, c.nt)
		}
	}
	if got, _ := SchemaContract(top(1, "a<b>&c", "date64:ms")); got != `{"scv":1,"flds":[{"fid":1,"nn":"a<b>&c","nt":"date<ms>","nul":false}]}` {
		t.Errorf("marks of HTML were escaped: %s", got)
	}
}

func TestSchemaContractRefuses(t *testing.T) {
	for _, c := range []struct {
		field Field
		code  Code
	}{
		{top(1, "meta", "struct"), ColumnUnsupported},
		{top(1, "blob", "binary"), ColumnUnsupported},
		{top(1, "a\xff", "int8"), ColumnUnsupported},
		{top(1, "ts", "timestamp:us:\xff"), ColumnUnsupported},
		{Field{ID: 13, ParentID: 12, Name: "userId", LogicalType: "int32"}, ColumnNested},
	} {
		got, err := SchemaContract(c.field)
		wantCode(t, err, c.code, "name a")
		if got != "" {
			t.Errorf("%+v: an error and %s", c.field, got)
		}
	}
}

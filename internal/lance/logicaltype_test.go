package lance

import "testing"

func TestParseLogicalType(t *testing.T) {
	vector := func(element string, dimension int) DataType {
		return DataType{Kind: VectorKind, Element: element, Dimension: dimension}
	}
	for _, c := range []struct {
		in       string
		want     DataType
		spelling string
	}{
		{"bool", DataType{Kind: BoolKind}, "bool"},
		{"int8", DataType{Kind: IntKind, Bits: 8}, "int8"},
		{"int16", DataType{Kind: IntKind, Bits: 16}, "int16"},
		{"int32", DataType{Kind: IntKind, Bits: 32}, "int32"},
		{"int64", DataType{Kind: IntKind, Bits: 64}, "int64"},
		{"uint8", DataType{Kind: UintKind, Bits: 8}, "uint8"},
		{"uint16", DataType{Kind: UintKind, Bits: 16}, "uint16"},
		{"uint32", DataType{Kind: UintKind, Bits: 32}, "uint32"},
		{"uint64", DataType{Kind: UintKind, Bits: 64}, "uint64"},
		{"halffloat", DataType{Kind: FloatKind, Bits: 16}, "float16"},
		{"float", DataType{Kind: FloatKind, Bits: 32}, "float32"},
		{"double", DataType{Kind: FloatKind, Bits: 64}, "float64"},
		{"string", DataType{Kind: StringKind}, "utf8"},
		{"large_string", DataType{Kind: LargeStringKind}, "large_utf8"},
		{"decimal:128:10:2", DataType{Kind: DecimalKind, Bits: 128, Precision: 10, Scale: 2}, "decimal<128>(10,2)"},
		{"decimal:128:38:-3", DataType{Kind: DecimalKind, Bits: 128, Precision: 38, Scale: -3}, "decimal<128>(38,-3)"},
		{"decimal:256:76:0", DataType{Kind: DecimalKind, Bits: 256, Precision: 76}, "decimal<256>(76,0)"},
		{"date32:day", DataType{Kind: DateKind, Bits: 32, Unit: "day"}, "date<day>"},
		{"date64:ms", DataType{Kind: DateKind, Bits: 64, Unit: "ms"}, "date<ms>"},
		{"timestamp:us:UTC", DataType{Kind: TimestampKind, Unit: "us", Zone: "UTC"}, `timestamp<us,tz="UTC">`},
		{"timestamp:ms:-", DataType{Kind: TimestampKind, Unit: "ms"}, `timestamp<ms,tz="">`},
		{"timestamp:s:-", DataType{Kind: TimestampKind, Unit: "s"}, `timestamp<s,tz="">`},
		{"timestamp:ns:+05:30", DataType{Kind: TimestampKind, Unit: "ns", Zone: "+05:30"}, `timestamp<ns,tz="+05:30">`},
		{"fixed_size_list:float:8", vector("float32", 8), "fixed_size_list"},
		{"fixed_size_list:halffloat:768", vector("float16", 768), "fixed_size_list"},
		{"fixed_size_list:double:2147483647", vector("float64", 2147483647), "fixed_size_list"},
		{"fixed_size_list:int8:4", vector("int8", 4), "fixed_size_list"},
		{"fixed_size_list:uint8:4", vector("uint8", 4), "fixed_size_list"},
		{"fixed_size_list:bool:4", vector("bool", 4), "fixed_size_list"},
		{"struct", DataType{Kind: StructKind}, ""},
		{in: ""}, {in: "null"}, {in: "Int64"}, {in: "int64 "}, {in: "int128"}, {in: "float16"}, {in: "binary"},
		{in: "large_binary"}, {in: "list"}, {in: "large_list"}, {in: "list.struct"}, {in: "map"}, {in: "blob"},
		{in: "json"}, {in: "dict:string:int32:false"}, {in: "time32:s"}, {in: "duration:us"},
		{in: "fixed_size_binary:16"}, {in: "date32"}, {in: "date32:ms"}, {in: "date64:day"},
		{in: "decimal"}, {in: "decimal:128"}, {in: "decimal:128:10"}, {in: "decimal:128:10:2:3"}, {in: "decimal:64:10:2"},
		{in: "decimal:128:39:0"}, {in: "decimal:256:77:0"}, {in: "decimal:128:0:0"}, {in: "decimal:128:-1:0"},
		{in: "decimal:128:010:2"}, {in: "decimal:128:10:+2"}, {in: "decimal:128:10:128"}, {in: "decimal:0128:10:2"},
		{in: "timestamp"}, {in: "timestamp:us"}, {in: "timestamp:us:"}, {in: "timestamp:m:UTC"}, {in: "timestamp::UTC"},
		{in: "fixed_size_list"}, {in: "fixed_size_list:float"}, {in: "fixed_size_list:float:0"},
		{in: "fixed_size_list:float:-8"}, {in: "fixed_size_list:float:08"}, {in: "fixed_size_list:float:2147483648"},
		{in: "fixed_size_list:float:8:8"}, {in: "fixed_size_list:string:8"}, {in: "fixed_size_list:struct:8"},
		{in: "fixed_size_list:lance.bfloat16:8"}, {in: "fixed_size_list:fixed_size_list:float:2:4"},
		{in: "fixed_size_list:float: 8"},
	} {
		got := ParseLogicalType(c.in)
		if got != c.want {
			t.Errorf("%q: got %+v, want %+v", c.in, got, c.want)
		}
		if got.Spelling() != c.spelling {
			t.Errorf("%q: spelled %q, want %q", c.in, got.Spelling(), c.spelling)
		}
	}
}

func TestPredicates(t *testing.T) {
	names := []string{"bool", "integral", "floating", "decimal", "string", "date", "timestamp", "vector", "float vector"}
	ask := func(t DataType) []bool {
		return []bool{
			t.IsBool(), t.IsIntegral(), t.IsFloating(), t.IsDecimal(), t.IsString(),
			t.IsDate(), t.IsTimestamp(), t.IsVector(), t.IsFloatVector(),
		}
	}
	for in, want := range map[string]string{
		"bool": "bool", "int8": "integral", "uint64": "integral", "halffloat": "floating", "double": "floating",
		"decimal:256:10:2": "decimal", "string": "string", "large_string": "string", "date32:day": "date",
		"date64:ms": "date", "timestamp:ns:-": "timestamp", "struct": "", "binary": "",
		"fixed_size_list:float:8": "vector, float vector", "fixed_size_list:halffloat:8": "vector, float vector",
		"fixed_size_list:double:8": "vector", "fixed_size_list:int8:8": "vector",
	} {
		got := ""
		for i, yes := range ask(ParseLogicalType(in)) {
			if yes && got != "" {
				got += ", "
			}
			if yes {
				got += names[i]
			}
		}
		if got != want {
			t.Errorf("%s is %q, want %q", in, got, want)
		}
	}
}

package lance

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Kind is the family a type belongs to.
type Kind uint8

const (
	// UnsupportedKind is every type no index of the master's can be built on.
	UnsupportedKind Kind = iota
	// BoolKind and those that follow are named for the types they hold.
	BoolKind
	IntKind
	UintKind
	FloatKind
	StringKind
	LargeStringKind
	DecimalKind
	DateKind
	TimestampKind
	VectorKind // a list of fixed size of bools or numbers
	StructKind
)

// DataType is a parsed logical type. Which fields count depends on Kind.
type DataType struct {
	Kind      Kind
	Bits      int    // IntKind, UintKind, FloatKind, DecimalKind, DateKind
	Precision int    // DecimalKind
	Scale     int    // DecimalKind; may be negative
	Unit      string // DateKind: day, ms; TimestampKind: s, ms, us, ns
	Zone      string // TimestampKind; "" without one
	Dimension int    // VectorKind; 1 or more
	Element   string // VectorKind; the contract's spelling, as float32
}

// scalars are the types without parameters.
var scalars = map[string]DataType{
	"bool":         {Kind: BoolKind},
	"int8":         {Kind: IntKind, Bits: 8},
	"int16":        {Kind: IntKind, Bits: 16},
	"int32":        {Kind: IntKind, Bits: 32},
	"int64":        {Kind: IntKind, Bits: 64},
	"uint8":        {Kind: UintKind, Bits: 8},
	"uint16":       {Kind: UintKind, Bits: 16},
	"uint32":       {Kind: UintKind, Bits: 32},
	"uint64":       {Kind: UintKind, Bits: 64},
	"halffloat":    {Kind: FloatKind, Bits: 16},
	"float":        {Kind: FloatKind, Bits: 32},
	"double":       {Kind: FloatKind, Bits: 64},
	"string":       {Kind: StringKind},
	"large_string": {Kind: LargeStringKind},
	"date32:day":   {Kind: DateKind, Bits: 32, Unit: "day"},
	"date64:ms":    {Kind: DateKind, Bits: 64, Unit: "ms"},
	"struct":       {Kind: StructKind},
}

// ParseLogicalType reads Lance's spelling of a type. What it does not know, or
// what no type can be, has UnsupportedKind.
func ParseLogicalType(s string) DataType {
	if t, ok := scalars[s]; ok {
		return t
	}
	name, rest, _ := strings.Cut(s, ":")
	switch name {
	case "decimal":
		return parseDecimal(rest)
	case "timestamp":
		return parseTimestamp(rest)
	case "fixed_size_list":
		return parseVector(rest)
	}
	return DataType{}
}

func parseDecimal(s string) DataType {
	parts := strings.Split(s, ":")
	if len(parts) != 3 {
		return DataType{}
	}
	maxPrecision := map[string]int{"128": 38, "256": 76}[parts[0]] // 0 for another width
	bits, _ := number(parts[0])
	precision, ok1 := number(parts[1])
	scale, ok2 := number(parts[2])
	if !ok1 || !ok2 || precision < 1 || precision > maxPrecision || scale < math.MinInt8 || scale > math.MaxInt8 {
		return DataType{}
	}
	return DataType{Kind: DecimalKind, Bits: bits, Precision: precision, Scale: scale}
}

// parseTimestamp takes everything after the unit for the zone: an offset such as
// +05:30 has a colon of its own.
func parseTimestamp(s string) DataType {
	unit, zone, ok := strings.Cut(s, ":")
	if !ok || zone == "" {
		return DataType{}
	}
	switch unit {
	case "s", "ms", "us", "ns":
	default:
		return DataType{}
	}
	if zone == "-" {
		zone = ""
	}
	return DataType{Kind: TimestampKind, Unit: unit, Zone: zone}
}

func parseVector(s string) DataType {
	name, size, _ := strings.Cut(s, ":")
	element := scalars[name]
	dimension, ok := number(size)
	switch element.Kind {
	case BoolKind, IntKind, UintKind, FloatKind:
	default:
		return DataType{}
	}
	if !ok || dimension < 1 {
		return DataType{}
	}
	return DataType{Kind: VectorKind, Dimension: dimension, Element: element.Spelling()}
}

// number reads a decimal i32 in its one canonical spelling.
func number(s string) (int, bool) {
	n, err := strconv.ParseInt(s, 10, 32)
	return int(n), err == nil && strconv.FormatInt(n, 10) == s
}

// IsBool reports a boolean.
func (t DataType) IsBool() bool { return t.Kind == BoolKind }

// IsIntegral reports an integer, signed or not, of any width.
func (t DataType) IsIntegral() bool { return t.Kind == IntKind || t.Kind == UintKind }

// IsFloating reports a float of 16, 32 or 64 bits.
func (t DataType) IsFloating() bool { return t.Kind == FloatKind }

// IsDecimal reports a decimal of 128 or 256 bits.
func (t DataType) IsDecimal() bool { return t.Kind == DecimalKind }

// IsString reports UTF-8 text, with 32-bit or 64-bit offsets.
func (t DataType) IsString() bool { return t.Kind == StringKind || t.Kind == LargeStringKind }

// IsDate reports a date in days or milliseconds.
func (t DataType) IsDate() bool { return t.Kind == DateKind }

// IsTimestamp reports a timestamp, with or without a zone.
func (t DataType) IsTimestamp() bool { return t.Kind == TimestampKind }

// IsVector reports a list of fixed size of bools or numbers; Dimension and
// Element say which.
func (t DataType) IsVector() bool { return t.Kind == VectorKind }

// IsFloatVector reports a vector of float16 or float32, which IVF_PQ is built on.
func (t DataType) IsFloatVector() bool {
	return t.IsVector() && (t.Element == "float16" || t.Element == "float32")
}

// Spelling is the type's name in the schema contract; "" for structs and
// unsupported types, which have none.
func (t DataType) Spelling() string {
	switch t.Kind {
	case BoolKind:
		return "bool"
	case IntKind:
		return "int" + strconv.Itoa(t.Bits)
	case UintKind:
		return "uint" + strconv.Itoa(t.Bits)
	case FloatKind:
		return "float" + strconv.Itoa(t.Bits)
	case StringKind:
		return "utf8"
	case LargeStringKind:
		return "large_utf8"
	case DecimalKind:
		return fmt.Sprintf("decimal<%d>(%d,%d)", t.Bits, t.Precision, t.Scale)
	case DateKind:
		return "date<" + t.Unit + ">"
	case TimestampKind:
		return "timestamp<" + t.Unit + `,tz="` + t.Zone + `">`
	case VectorKind:
		return "fixed_size_list"
	case StructKind, UnsupportedKind:
	}
	return ""
}

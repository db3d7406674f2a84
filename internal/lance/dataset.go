package lance

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
)

// Dataset is what one manifest says: the latest version when it was read.
type Dataset struct {
	Version      int64     // 1 or more
	Timestamp    time.Time // UTC; zero when the manifest does not say
	Fields       []Field   // every field, parents before their children
	Indexes      []Index   // in stored order, one entry per segment
	ReaderFlags  uint64
	WriterFlags  uint64
	NamingScheme NamingScheme
	ManifestPath string // relative to the dataset, with forward slashes
}

// topLevel is the parent id of a field that is in no other.
const topLevel = -1

// Field is one field of the schema.
type Field struct {
	ID          int32
	ParentID    int32 // -1 for a top-level field
	Name        string
	LogicalType string // Lance's spelling; see ParseLogicalType
	Nullable    bool
}

// TopLevel reports whether the field is a column of its own and not part of
// another one.
func (f Field) TopLevel() bool { return f.ParentID == topLevel }

// Type is the field's parsed logical type.
func (f Field) Type() DataType { return ParseLogicalType(f.LogicalType) }

// FieldByID returns the field with this id.
func (d *Dataset) FieldByID(id int32) (Field, bool) {
	i := slices.IndexFunc(d.Fields, func(f Field) bool { return f.ID == id })
	if i < 0 {
		return Field{}, false
	}
	return d.Fields[i], true
}

// Column finds the top-level field that name means: the one spelled exactly so,
// else the only one spelled so in another case. Errors have the codes
// ColumnMissing, ColumnNested and ColumnAmbiguous.
func (d *Dataset) Column(name string) (Field, error) {
	lower := newLower()
	folded := lower(name)
	var exact, similar []Field
	for _, f := range d.Fields {
		switch {
		case !f.TopLevel():
		case f.Name == name:
			exact = append(exact, f)
		case lower(f.Name) == folded:
			similar = append(similar, f)
		}
	}
	found := exact
	if len(found) == 0 {
		found = similar
	}
	if len(found) == 1 {
		return found[0], nil
	}
	if len(found) > 1 {
		return Field{}, &Error{Code: ColumnAmbiguous, Reason: fmt.Sprintf(
			"column %s could be any of %s; give the exact spelling of one", quote(name), listNames(found))}
	}
	if path, ok := d.nestedNamed(folded, lower); ok {
		return Field{}, &Error{Code: ColumnNested, Reason: fmt.Sprintf(
			"column %s is nested (%s), and an index needs a top-level column; the top-level columns are %s",
			quote(name), quote(path), listNames(d.TopLevel()))}
	}
	return Field{}, &Error{Code: ColumnMissing, Reason: fmt.Sprintf(
		"the dataset has no column %s at version %d; its columns are %s", quote(name), d.Version, listNames(d.TopLevel()))}
}

// nestedNamed finds a field inside another one by its own name or its dotted
// path, both in lower case, and returns its path as stored.
func (d *Dataset) nestedNamed(folded string, lower func(string) string) (path string, ok bool) {
	tree := make(map[int32]int, len(d.Fields))
	names := make([]string, len(d.Fields)) // folded once: a parent is asked for by every child
	for i, f := range d.Fields {
		tree[f.ID], names[i] = i, lower(f.Name)
	}
	for i, f := range d.Fields {
		if f.TopLevel() {
			continue
		}
		chain := d.ancestry(i, tree)
		if names[i] == folded || endsAsPath(folded, chain, names) {
			var parts []string
			for _, j := range slices.Backward(chain) {
				parts = append(parts, d.Fields[j].Name)
			}
			return strings.Join(parts, "."), true
		}
	}
	return "", false
}

// ancestry lists the places of a field and its parents, innermost first.
func (d *Dataset) ancestry(i int, tree map[int32]int) []int {
	chain := []int{i}
	for !d.Fields[i].TopLevel() && len(chain) < maxDepth {
		parent, ok := tree[d.Fields[i].ParentID]
		if !ok {
			break
		}
		i = parent
		chain = append(chain, i)
	}
	return chain
}

// endsAsPath reports whether s is the dotted path of chain. It compares from the
// end instead of joining, so that a deep schema with long names costs nothing.
func endsAsPath(s string, chain []int, names []string) bool {
	for k, i := range chain {
		ok := true
		if k > 0 {
			s, ok = strings.CutSuffix(s, ".")
		}
		if ok {
			s, ok = strings.CutSuffix(s, names[i])
		}
		if !ok {
			return false
		}
	}
	return s == ""
}

// TopLevel returns the columns: the fields that are in no other field.
func (d *Dataset) TopLevel() []Field {
	var columns []Field
	for _, f := range d.Fields {
		if f.TopLevel() {
			columns = append(columns, f)
		}
	}
	return columns
}

// FindIndex finds the index whose stored name has this normalized form; found is
// false when there is none. Two stored names of the same form are an error with
// code IndexAmbiguous.
//
// Of an index in several segments it returns the first; when another segment
// differs in type, columns or parameters, Type is OtherIndex, so that the index
// never passes for one definition that only a part of it has.
func (d *Dataset) FindIndex(normalized string) (index Index, found bool, err error) {
	lower := newLower()
	for _, x := range d.Indexes {
		switch {
		case lower(x.Name) != normalized:
		case !found:
			index, found = x, true
		case x.Name != index.Name:
			return Index{}, false, &Error{Code: IndexAmbiguous, Reason: fmt.Sprintf(
				"the dataset has the indexes %s and %s, whose names differ only in case", quote(index.Name), quote(x.Name))}
		case !x.sameDefinition(index):
			index.Type = OtherIndex
		}
	}
	return index, found, nil
}

func (x Index) sameDefinition(o Index) bool {
	return x.Type == o.Type && slices.Equal(x.FieldIDs, o.FieldIDs) &&
		x.Metric == o.Metric && x.NumBits == o.NumBits && x.NumSubVectors == o.NumSubVectors
}

// newLower returns the lower-casing that names are compared in: the same as for
// index names at admission, and as Java's root locale. A caser has state, so each
// caller takes its own.
func newLower() func(string) string {
	caser := cases.Lower(language.Und)
	return func(s string) string {
		if isLowerASCII(s) {
			return s
		}
		return caser.String(s)
	}
}

func isLowerASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 || 'A' <= s[i] && s[i] <= 'Z' {
			return false
		}
	}
	return true
}

// listNames spells a few names for a message.
func listNames(fields []Field) string {
	const most = 16
	if len(fields) == 0 {
		return "none"
	}
	var names []string
	for _, f := range fields[:min(len(fields), most)] {
		names = append(names, quote(f.Name))
	}
	list := strings.Join(names, ", ")
	if more := len(fields) - most; more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	return list
}

// quote makes a text from outside safe and short enough for a message.
func quote(s string) string { return strconv.Quote(clipRaw(s)) }

// clip is quote without the quotation marks.
func clip(s string) string {
	q := quote(s)
	return q[1 : len(q)-1]
}

func clipRaw(s string) string {
	const most = 128
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

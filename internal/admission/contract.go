package admission

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"

	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/lance"
)

// maxContract bounds a schema contract, in bytes.
const maxContract = 4096

// contract is a schema contract of one column, with its keys in the order that
// the wire has them.
type contract struct {
	Version int             `json:"scv"`
	Fields  []contractField `json:"flds"`
}

type contractField struct {
	ID              *int32 `json:"fid"`
	Name            string `json:"nn"`
	Type            string `json:"nt"`
	Nullable        *bool  `json:"nul"`
	Dimension       int32  `json:"fsd,omitempty"`
	Element         string `json:"vet,omitempty"`
	ElementNullable *bool  `json:"ven,omitempty"`
}

// JSON returns the contract in its one canonical spelling.
func (c contract) JSON() string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(c) // strings, numbers and bools always encode
	return strings.TrimSuffix(b.String(), "\n")
}

// parseContract reads a schema contract strictly: what this contract does not
// define is refused, because a backend would compare against it.
func parseContract(text string) (contract, error) {
	next := `it looks like {"scv":1,"flds":[{"fid":9,"nn":"vec","nt":"fixed_size_list","nul":false,"fsd":8,"vet":"float32","ven":true}]}`
	refuse := func(format string, args ...any) (contract, error) {
		return contract{}, invalid(next, "the schema contract is refused: %s", fmt.Sprintf(format, args...))
	}
	if text == "" {
		return refuse("CREATE and REPLACE need one where the master cannot read the dataset")
	}
	if len(text) > maxContract {
		return refuse("it is over %d bytes", maxContract)
	}
	var c contract
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return refuse("%v", err)
	}
	if d.More() {
		return refuse("something follows the JSON object")
	}
	if c.Version != 1 || len(c.Fields) != 1 {
		return refuse("scv must be 1 and flds must have exactly one field")
	}
	f := c.Fields[0]
	if f.ID == nil || *f.ID < 0 || f.Nullable == nil || f.Name == "" || len(f.Name) > job.MaxName {
		return refuse("fid (0 or more), nn and nul are required")
	}
	if !known(f.Type) {
		if spelling := lance.ParseLogicalType(f.Type).Spelling(); spelling != "" {
			next = fmt.Sprintf("write %s: that is how a contract spells what the manifest calls %s", spelling, f.Type)
		} else {
			next = "docs/schema-contract.md has the types, such as int64, utf8 and timestamp<us,tz=\"UTC\">"
		}
		return refuse("nt %q is no type of a contract", f.Type)
	}
	vector := f.Type == "fixed_size_list"
	if vector != (f.Dimension > 0) || vector != (f.Element != "") || vector != (f.ElementNullable != nil) {
		return refuse("fsd, vet and ven go with nt fixed_size_list, all three, and with no other type")
	}
	if vector && !*f.ElementNullable {
		return refuse("ven must be true: a manifest keeps no element nullability")
	}
	return c, nil
}

// The contract's spellings of types, by what may be built on them.
var (
	integral  = regexp.MustCompile(`^u?int(8|16|32|64)$`)
	floating  = regexp.MustCompile(`^float(16|32|64)$`)
	decimal   = regexp.MustCompile(`^decimal<(128|256)>\(\d{1,2},-?\d{1,2}\)$`)
	text      = regexp.MustCompile(`^(large_)?utf8$`)
	date      = regexp.MustCompile(`^date<(day|ms)>$`)
	timestamp = regexp.MustCompile(`^timestamp<(s|ms|us|ns),tz="[^"\\[:cntrl:]]*">$`)
	boolean   = regexp.MustCompile(`^bool$`)
)

// admits says which scalar columns each index type may be built on.
var admits = map[job.IndexType]struct {
	types []*regexp.Regexp
	words string
}{
	job.IndexBTree:  {[]*regexp.Regexp{integral, floating, decimal, text, date, timestamp}, "integral, floating, decimal, string (utf8), date and timestamp"},
	job.IndexBitmap: {[]*regexp.Regexp{boolean, integral, text, date}, "boolean (bool), integral, string (utf8) and date"},
}

// known reports whether a contract can have a type.
func known(spelling string) bool {
	for _, t := range []*regexp.Regexp{integral, floating, decimal, text, date, timestamp, boolean} {
		if t.MatchString(spelling) {
			return true
		}
	}
	return spelling == "fixed_size_list"
}

// checkColumn holds the column of a contract against index type, properties and
// the rule on nullable columns.
func checkColumn(p *plan, schemaContract string) error {
	c, err := parseContract(schemaContract)
	if err != nil {
		return err
	}
	f := c.Fields[0]
	if f.Name != cases.Lower(language.Und).String(p.spec.Column) {
		return invalid("give the contract of the column the index is for", "the schema contract is of column %q, not of %q", f.Name, p.spec.Column)
	}
	if *f.Nullable && !p.settings.NullableColumnsAllowed {
		return &job.Refusal{
			Code:    job.CodeColumn,
			Message: fmt.Sprintf("column %q is nullable", p.spec.Column),
			Next:    "index a non-nullable column, or allow nullable ones with: lancemaster settings set admission.nullable_columns=allow",
		}
	}
	if p.spec.IndexType == job.IndexIVFPQ {
		return checkVector(p, f)
	}
	rule := admits[p.spec.IndexType]
	for _, t := range rule.types {
		if t.MatchString(f.Type) {
			return nil
		}
	}
	return wrongType(p, f.describe(), rule.words+" columns")
}

func checkVector(p *plan, f contractField) error {
	if f.Type != "fixed_size_list" || f.Element != "float16" && f.Element != "float32" {
		return wrongType(p, f.describe(), "fixed_size_list columns of float16 or float32")
	}
	if n := p.subVectors; n < 1 || f.Dimension%n != 0 {
		return &job.Refusal{
			Code:    job.CodeColumn,
			Message: fmt.Sprintf("num_sub_vectors %d does not divide dimension %d of column %q", n, f.Dimension, p.spec.Column),
			Next:    "choose a divisor of the dimension",
		}
	}
	return nil
}

func (f contractField) describe() string {
	if f.Type == "fixed_size_list" {
		return fmt.Sprintf("fixed_size_list of %s", f.Element)
	}
	return f.Type
}

func wrongType(p *plan, have, want string) error {
	return &job.Refusal{
		Code:    job.CodeColumn,
		Message: fmt.Sprintf("column %q is %s; %s takes %s", p.spec.Column, have, p.spec.IndexType, want),
		Next:    "choose another column or index type",
	}
}

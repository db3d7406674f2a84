package lance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// contractVersion is the "scv" of the schema contract this package writes.
const contractVersion = 1

type schemaContract struct {
	Version int             `json:"scv"`
	Fields  []contractField `json:"flds"`
}

type contractField struct {
	ID       int32  `json:"fid"`
	Name     string `json:"nn"`
	Type     string `json:"nt"`
	Nullable bool   `json:"nul"`
	*contractVector
}

type contractVector struct {
	Dimension       int    `json:"fsd"`
	Element         string `json:"vet"`
	ElementNullable bool   `json:"ven"`
}

// SchemaContract is the JSON a backend holds a column against before it builds
// on it. Its bytes are compared and journaled, so key order and spelling are
// fixed. A nested field and a type without a spelling are refused.
func SchemaContract(f Field) (string, error) {
	t := f.Type()
	switch {
	case !f.TopLevel():
		return "", &Error{Code: ColumnNested, Reason: "column " + quote(f.Name) + " is nested; name a top-level column"}
	case t.Spelling() == "", !utf8.ValidString(f.Name), !utf8.ValidString(f.LogicalType):
		return "", &Error{Code: ColumnUnsupported, Reason: fmt.Sprintf(
			"column %s has type %s, which no schema contract can state; name a column of another type", quote(f.Name), quote(f.LogicalType))}
	}
	field := contractField{ID: f.ID, Name: newLower()(f.Name), Type: t.Spelling(), Nullable: f.Nullable}
	if t.IsVector() {
		// The manifest keeps no trace of whether elements may be null.
		field.contractVector = &contractVector{Dimension: t.Dimension, Element: t.Element, ElementNullable: true}
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // types are spelled with < and >
	if err := enc.Encode(schemaContract{Version: contractVersion, Fields: []contractField{field}}); err != nil {
		return "", fmt.Errorf("encode the schema contract of column %s: %w", quote(f.Name), err)
	}
	return string(bytes.TrimSuffix(b.Bytes(), []byte("\n"))), nil
}

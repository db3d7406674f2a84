package lance

import (
	"errors"
	"strings"
)

// Code says which kind of refusal an [*Error] is; [CodeOf] finds it in any error.
type Code string

const (
	// DatasetMissing says that there is verifiably no Lance dataset at the locator.
	DatasetMissing Code = "DATASET_MISSING"
	// ManifestDamaged says that the newest manifest is not a well-formed one.
	ManifestDamaged Code = "MANIFEST_DAMAGED"
	// Unsupported is well formed as far as it was read, but uses something
	// this reader does not know, or goes past one of its limits.
	Unsupported Code = "DATASET_UNSUPPORTED"
	// Unreadable says that permission or input/output stood in the way; whether there is
	// a dataset is not known.
	Unreadable Code = "DATASET_UNREADABLE"
	// NotLocal says that the locator is not one this process can read at all.
	NotLocal Code = "DATASET_NOT_LOCAL"
	// ColumnMissing says that no top-level field has this name.
	ColumnMissing Code = "COLUMN_MISSING"
	// ColumnNested says that the name is that of a field inside another one.
	ColumnNested Code = "COLUMN_NESTED"
	// ColumnAmbiguous says that several top-level fields have this name.
	ColumnAmbiguous Code = "COLUMN_AMBIGUOUS"
	// ColumnUnsupported says that the column's type has no place in a schema contract.
	ColumnUnsupported Code = "COLUMN_UNSUPPORTED"
	// IndexAmbiguous says that several stored index names differ only in case.
	IndexAmbiguous Code = "INDEX_AMBIGUOUS"
)

// advice is what the caller can do about a code; column codes carry their own.
var advice = map[Code]string{
	DatasetMissing:  "check the locator",
	ManifestDamaged: "check with a Lance client whether the dataset can still be opened",
	Unsupported:     "give the dataset version and the schema contract with the request, or use a release that knows this format",
	Unreadable:      "check what the server may read there and try again",
	NotLocal:        "give the dataset version and the schema contract with the request",
	IndexAmbiguous:  "rename or drop one of them with a Lance client first",
}

// Error is every refusal of this package other than the end of the caller's
// context, which is returned as such.
type Error struct {
	Code    Code
	Dataset string // where the dataset was looked for; empty when not known
	File    string // the manifest at fault, relative to the dataset; may be empty
	Reason  string
	Err     error // the cause, when there is one
}

func (e *Error) Error() string {
	var b strings.Builder
	if e.Dataset != "" {
		b.WriteString("dataset " + quote(e.Dataset) + ": ")
	}
	if e.File != "" {
		b.WriteString(e.File + ": ")
	}
	b.WriteString(e.Reason)
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	if next := advice[e.Code]; next != "" {
		b.WriteString("; " + next)
	}
	return b.String()
}

func (e *Error) Unwrap() error { return e.Err }

// CodeOf returns the code of a refusal of this package, or "" for any other
// error, a cancelled context among them.
func CodeOf(err error) Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return ""
}

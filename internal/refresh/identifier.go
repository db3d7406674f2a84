package refresh

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

var (
	errEmptyName   = errors.New("it is empty")
	errNameNUL     = errors.New("it holds a NUL character")
	errNameNotUTF8 = errors.New("it is not valid UTF-8")
)

// quoteIdentifier returns a name as one identifier of a statement, whatever it
// holds. Between backticks only a backtick has a meaning, and there two of them are
// one; a backslash is a plain character. What no identifier can hold is refused.
func quoteIdentifier(name string) (string, error) {
	switch {
	case name == "":
		return "", errEmptyName
	case strings.IndexByte(name, 0) >= 0:
		return "", errNameNUL
	case !utf8.ValidString(name):
		return "", errNameNotUTF8
	}
	return "`" + strings.ReplaceAll(name, "`", "``") + "`", nil
}

// refreshStatement returns the statement that makes Doris forget what it knows of
// a table.
func refreshStatement(attempt Attempt) (string, error) {
	var quoted [3]string
	for i, part := range []struct{ what, name string }{
		{"catalog", attempt.Catalog}, {"database", attempt.Database}, {"table", attempt.Table},
	} {
		var err error
		if quoted[i], err = quoteIdentifier(part.name); err != nil {
			return "", fmt.Errorf("the %s's name %q cannot be put into a statement: %w",
				part.what, oneLine(part.name, maxExcerpt), err)
		}
	}
	return "REFRESH TABLE " + strings.Join(quoted[:], "."), nil
}

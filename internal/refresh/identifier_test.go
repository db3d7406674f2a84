package refresh

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestRefreshStatement(t *testing.T) {
	tests := []struct{ catalog, database, table, want string }{
		{"lance", "db", "t", "REFRESH TABLE `lance`.`db`.`t`"},
		{"a.b", "c d", "e`f", "REFRESH TABLE `a.b`.`c d`.`e``f`"},
		{"`", "``", "`;DROP TABLE x;--`", "REFRESH TABLE ````.``````.```;DROP TABLE x;--```"},
		{`back\`, `quo"te's`, "naïve 表 🚀", "REFRESH TABLE `back\\`.`quo\"te's`.`naïve 表 🚀`"},
		{"new\nline", "/*", "?", "REFRESH TABLE `new\nline`.`/*`.`?`"},
	}
	for _, tt := range tests {
		got, err := refreshStatement(Attempt{Catalog: tt.catalog, Database: tt.database, Table: tt.table})
		if err != nil || got != tt.want {
			t.Errorf("got %q, %v, want %q", got, err, tt.want)
		}
	}
}

func TestRefreshStatementRefusesNames(t *testing.T) {
	good := Attempt{Catalog: "c", Database: "d", Table: "t"}
	for _, tt := range []struct {
		name  string
		spoil func(*Attempt)
		why   error
		what  string
	}{
		{"empty table", func(a *Attempt) { a.Table = "" }, errEmptyName, "table"},
		{"NUL in database", func(a *Attempt) { a.Database = "a\x00b" }, errNameNUL, "database"},
		{"broken catalog", func(a *Attempt) { a.Catalog = "a\xe2\x82" }, errNameNotUTF8, "catalog"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			attempt := good
			tt.spoil(&attempt)
			got, err := refreshStatement(attempt)
			if got != "" || !errors.Is(err, tt.why) || !strings.Contains(err.Error(), tt.what) {
				t.Errorf("got %q, %v, want an error about the %s: %v", got, err, tt.what, tt.why)
			}
		})
	}
}

// readIdentifier reads one identifier between backticks as the server's lexer
// does, and returns what follows it.
func readIdentifier(statement string) (name, rest string, ok bool) {
	if !strings.HasPrefix(statement, "`") {
		return "", statement, false
	}
	var b strings.Builder
	for i := 1; i < len(statement); i++ {
		switch {
		case statement[i] != '`':
			b.WriteByte(statement[i])
		case i+1 < len(statement) && statement[i+1] == '`':
			b.WriteByte('`')
			i++
		default:
			return b.String(), statement[i+1:], true
		}
	}
	return "", statement, false
}

// Whatever a name holds, it stays one identifier, with nothing before or after it.
func FuzzQuoteIdentifier(f *testing.F) {
	for _, name := range []string{"t", "", "`", "a`.`b", "a``", "\x00", "\xff", `\`, "` -- ", "表", "\u00bf`\u2019"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		quoted, err := quoteIdentifier(name)
		refused := name == "" || strings.ContainsRune(name, 0) || !utf8.ValidString(name)
		if refused != (err != nil) {
			t.Fatalf("%q: refused is %v, want %v", name, err, refused)
		}
		if err != nil {
			return
		}
		// Among others in a statement, since there the neighbours could be swallowed.
		rest := "REFRESH TABLE " + quoted + "." + quoted + ";"
		rest = strings.TrimPrefix(rest, "REFRESH TABLE ")
		for _, follows := range []string{".", ";"} {
			got, after, ok := readIdentifier(rest)
			if !ok || got != name || !strings.HasPrefix(after, follows) {
				t.Fatalf("%q became %q, of which %q is read and %q is left", name, quoted, got, after)
			}
			rest = after[1:]
		}
		if rest != "" {
			t.Fatalf("%q leaves %q behind", name, rest)
		}
	})
}

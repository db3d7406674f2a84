package command

import (
	"encoding/hex"
	"flag"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/lancemaster/lancemaster/internal/job"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files instead of checking them")

// TestGolden pins the bytes of every kind. A difference means that journals and
// state files written before can no longer be read, or not by older nodes of the
// same level: it is never to be settled with -rewrite alone.
func TestGolden(t *testing.T) {
	var want []string
	for _, s := range subjects(t) {
		if s.kind.level > 1 {
			continue // see testdata/level2
		}
		path := filepath.Join("testdata", s.file+".txt")
		want = append(want, filepath.Base(path))
		t.Run(s.name, func(t *testing.T) {
			text := fmt.Sprintf("%s, kind %d, from level %d\n", s.name, s.kind.number, s.kind.level) +
				describe(t, s, "every field set", s.make(&full{})) +
				describe(t, s, "nothing set that may be left out", s.make(least{}))
			if *rewrite {
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			golden, err := os.ReadFile(path)
			if err != nil {
				t.Fatalf("%v; a new kind's bytes are written with -rewrite", err)
			}
			if string(golden) != text {
				t.Errorf("%s differs from what is pinned; now it is:\n%s", path, text)
			}
			decodePinned(t, s, string(golden))
		})
	}
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !slices.Contains(want, filepath.Base(f)) {
			t.Errorf("%s belongs to no kind", f)
		}
	}
}

func describe(t *testing.T, s subject, title string, v any) string {
	t.Helper()
	data, err := s.encode(v)
	if err != nil {
		t.Fatal(err)
	}
	back, err := s.decode(data)
	if err != nil {
		t.Fatalf("%s: %v", title, err)
	}
	if !reflect.DeepEqual(v, back) {
		t.Fatalf("%s: %+v came back as %+v", title, v, back)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "\n== %s\n", title)
	show(&text, "", reflect.ValueOf(v))
	fmt.Fprintf(&text, "-- %d bytes\n", len(data))
	for chunk := range slices.Chunk(data, 32) {
		text.WriteString(hex.EncodeToString(chunk) + "\n")
	}
	return text.String()
}

// show prints each field that is not its type's zero.
func show(text *strings.Builder, path string, v reflect.Value) {
	switch {
	case v.IsZero():
	case v.Type() == reflect.TypeFor[job.Hash]():
		fmt.Fprintf(text, "%s = %x\n", path, v.Interface())
	case v.Kind() == reflect.Pointer:
		show(text, path, v.Elem())
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			show(text, strings.TrimPrefix(path+"."+v.Type().Field(i).Name, "."), v.Field(i))
		}
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			show(text, fmt.Sprintf("%s[%d]", path, i), v.Index(i))
		}
	case v.Kind() == reflect.String:
		fmt.Fprintf(text, "%s = %q\n", path, v.String())
	default:
		fmt.Fprintf(text, "%s = %v\n", path, v.Interface())
	}
}

// decodePinned reads the bytes as they stand in the file, whatever is encoded now.
func decodePinned(t *testing.T, s subject, golden string) {
	t.Helper()
	found := 0
	for _, part := range strings.Split(golden, "bytes\n")[1:] {
		digits, _, _ := strings.Cut(part, "==")
		data, err := hex.DecodeString(strings.Join(strings.Fields(digits), ""))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.decode(data); err != nil {
			t.Errorf("pinned bytes cannot be read: %v", err)
		}
		found++
	}
	if found != 2 {
		t.Errorf("%d pinned values in the file, not 2", found)
	}
}

// TestEveryCommandHasAKind reads package job's source, so that a command added
// there cannot be forgotten here. What is of other builds is left out.
func TestEveryCommandHasAKind(t *testing.T) {
	files, err := filepath.Glob("../job/*.go")
	if err != nil {
		t.Fatal(err)
	}
	inSource := map[string]bool{}
	for _, file := range files {
		ours, err := buildContext().MatchFile(filepath.Split(file))
		if err != nil {
			t.Fatal(err)
		}
		if !ours || strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil && f.Name.Name == "Name" && f.Type.Params.NumFields() == 0 {
				if typ, ok := f.Recv.List[0].Type.(*ast.Ident); ok {
					inSource[typ.Name] = true
				}
			}
		}
	}
	inTests := map[string]bool{}
	for _, c := range commandTypes {
		inTests[reflect.TypeOf(c).Name()] = true
	}
	if len(inSource) < 27 || !reflect.DeepEqual(inSource, inTests) {
		t.Errorf("package job has commands %v, the codec %v", inSource, inTests)
	}
	if len(commands) != len(commandTypes) {
		t.Errorf("the table has %d kinds, there are %d commands", len(commands), len(commandTypes))
	}
}

func buildContext() *build.Context {
	context := build.Default
	if MaxLevel > 1 {
		context.BuildTags = append(slices.Clone(context.BuildTags), "nextlevel")
	}
	return &context
}

func TestKindNumbersAreUniqueAndContiguous(t *testing.T) {
	for i, k := range commands {
		if int(k.number) != i+1 && k.level == 1 {
			t.Errorf("command %s stands in row %d with number %d", k.name, i+1, k.number)
		}
		if k.level < 1 || k.level > MaxLevel {
			t.Errorf("command %s is of level %d", k.name, k.level)
		}
	}
	if len(commandsByName) != len(commands) || len(commandsByNumber) != len(commands) {
		t.Error("two commands share a name or a number")
	}
}

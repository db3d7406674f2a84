package command

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/lancemaster/lancemaster/internal/job"
)

// source chooses the leaves of a generated value. What higher levels add to a type
// stays at its zero unless the source is of type later.
type source interface {
	text(path string) string
	number(path string, bits int) int64
	pick(path string, n int) int
	// size is how many elements a list gets, and whether a pointer is set.
	size(path string) int
}

// enums are the valid numbers of each enum, so that a generated value is valid.
var enums = map[reflect.Type][]uint64{}

func enum[E ~uint8](valid func(E) bool) {
	var numbers []uint64
	for n := range 256 {
		if valid(E(n)) {
			numbers = append(numbers, uint64(n))
		}
	}
	enums[reflect.TypeFor[E]()] = numbers
}

func init() {
	enum(job.State.Valid)
	enum(job.RefreshState.Valid)
	enum(job.Mutation.Valid)
	enum(job.ResultCode.Valid)
	enum(job.Reason.Valid)
	enum(job.Proof.Valid)
	enum(job.SnapshotSource.Valid)
	enum(job.BackendState.Valid)
	enum(job.Role.Valid)
}

// fill sets every field that v has, by reflection, so that a field added to a type
// and forgotten by the codec fails the tests.
func fill(s source, path string, v reflect.Value) {
	if words, ok := map[reflect.Type][]string{
		reflect.TypeFor[job.IndexType]():     {string(job.IndexIVFPQ), string(job.IndexBTree), string(job.IndexBitmap), ""},
		reflect.TypeFor[job.RefresherKind](): {string(job.RefresherNone), string(job.RefresherHTTP), string(job.RefresherDoris)},
	}[v.Type()]; ok {
		v.SetString(words[s.pick(path, len(words))])
		return
	}
	if numbers, ok := enums[v.Type()]; ok {
		v.SetUint(numbers[s.pick(path, len(numbers))])
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			name := path + "." + v.Type().Field(i).Name
			if _, all := s.(later); !all && strings.HasPrefix(v.Type().Field(i).Name, "later") {
				continue
			}
			if strings.HasSuffix(name, ".Level") {
				v.Field(i).SetInt(1) // a higher one is refused
				continue
			}
			fill(s, name, v.Field(i))
		}
	case reflect.Pointer:
		if s.size(path) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(s, path, v.Elem())
		}
	case reflect.Slice:
		for n := range s.size(path) {
			v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
			fill(s, fmt.Sprintf("%s[%d]", path, n), v.Index(n))
		}
	case reflect.Array:
		for n := range v.Len() {
			fill(s, fmt.Sprintf("%s[%d]", path, n), v.Index(n))
		}
	case reflect.String:
		v.SetString(s.text(path))
	case reflect.Bool:
		v.SetBool(s.pick(path, 2) == 1)
	case reflect.Int32, reflect.Int64:
		v.SetInt(s.number(path, v.Type().Bits()))
	case reflect.Uint8, reflect.Uint64:
		v.SetUint(uint64(s.number(path, v.Type().Bits())) & (1<<v.Type().Bits() - 1))
	default:
		panic(fmt.Sprintf("no way to fill %s of type %s", path, v.Type()))
	}
}

// full makes every field different from its zero, and from its neighbours'.
type full struct{ n int64 }

func (f *full) text(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }

func (f *full) number(_ string, bits int) int64 {
	f.n++
	if bits == 8 {
		return f.n%255 + 1
	}
	return 1000 + f.n
}

func (f *full) pick(_ string, n int) int {
	if n == 2 {
		return 1 // true
	}
	return min(1, n-1)
}
func (f *full) size(string) int { return 2 }

// later is a source for all that this build knows, of whatever level.
type later struct{ source }

// least leaves everything at its zero that may be.
type least struct{}

func (least) text(string) string       { return "" }
func (least) number(string, int) int64 { return 0 }
func (least) pick(string, int) int     { return 0 }
func (least) size(string) int          { return 0 }

// as is a type assertion that says what it met instead.
func as[T any](v any) T {
	t, ok := v.(T)
	if !ok {
		panic(fmt.Sprintf("%T is no %s", v, reflect.TypeFor[T]()))
	}
	return t
}

// subject is one kind, of command or record, as the tests see it.
type subject struct {
	name   string
	file   string
	kind   kind
	format byte
	zero   any
	encode func(any) ([]byte, error)
	decode func([]byte) (any, error)
}

var commandTypes = append([]job.Command{
	job.Form{}, job.Admit{}, job.MarkRunning{}, job.Complete{}, job.RecordTermination{}, job.RefreshStart{},
	job.RefreshFinish{}, job.Cancel{}, job.RejectBeforeDispatch{}, job.ForceRelease{}, job.ReleaseSlot{},
	job.RecordLateResult{}, job.Quarantine{}, job.TermStart{}, job.RemoveResolved{}, job.PutCatalog{},
	job.RemoveCatalog{}, job.AddBackend{}, job.SetBackendState{}, job.RemoveBackend{}, job.ChangeSettings{},
	job.RaiseLevel{}, job.Reopen{}, job.PutMember{}, job.RemoveMember{}, job.PutToken{}, job.RemoveToken{},
}, laterCommands...)

func recordSubject[D any](k kind, encode func(D) ([]byte, error), decode func([]byte) (D, error)) subject {
	var zero D
	return subject{
		name: "record " + k.name, file: "record_" + strings.ToLower(k.name), kind: k, format: recordFormat, zero: zero,
		encode: func(v any) ([]byte, error) { return encode(as[D](v)) },
		decode: func(b []byte) (any, error) { return decode(b) },
	}
}

func subjects(t testing.TB) []subject {
	t.Helper()
	list := []subject{
		recordSubject(jobKind, EncodeRecord, DecodeRecord),
		recordSubject(eventKind, EncodeEvent, DecodeEvent),
		recordSubject(catalogKind, EncodeCatalog, DecodeCatalog),
		recordSubject(backendKind, EncodeBackend, DecodeBackend),
		recordSubject(clusterKind, EncodeCluster, DecodeCluster),
		recordSubject(settingKind, EncodeSettingChange, DecodeSettingChange),
		recordSubject(memberKind, EncodeMember, DecodeMember),
		recordSubject(tokenKind, EncodeToken, DecodeToken),
	}
	for _, c := range commandTypes {
		k, ok := commandsByName[c.Name()]
		if !ok {
			t.Fatalf("command %s has no row in the table of kinds", c.Name())
		}
		list = append(list, subject{
			name: "command " + k.name, file: "command_" + strings.ToLower(k.name), kind: *k, format: commandFormat, zero: c,
			encode: func(v any) ([]byte, error) { return Encode(as[job.Command](v)) },
			decode: func(b []byte) (any, error) { return Decode(b) },
		})
	}
	return list
}

// make makes a value of the subject's type; a record is never a nil pointer.
func (s subject) make(from source) any {
	typ := reflect.TypeOf(s.zero)
	if typ.Kind() == reflect.Pointer {
		v := reflect.New(typ.Elem())
		fill(from, s.kind.name, v.Elem())
		return v.Interface()
	}
	v := reflect.New(typ).Elem()
	fill(from, s.kind.name, v)
	return v.Interface()
}

package command

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"math"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/apache/thrift/lib/go/thrift"
	"pgregory.net/rapid"

	"github.com/lancemaster/lancemaster/internal/job"
)

// drawn lets rapid choose the leaves.
type drawn struct{ t *rapid.T }

func (d drawn) text(path string) string {
	return rapid.OneOf(rapid.Just(""), rapid.String(), rapid.StringMatching(`[\x00-\xff]{0,20}`)).Draw(d.t, path)
}

func (d drawn) number(path string, bits int) int64 {
	if bits == 32 {
		return int64(rapid.Int32().Draw(d.t, path))
	}
	return rapid.OneOf(rapid.Just(int64(0)), rapid.Int64(), rapid.Just(int64(math.MinInt64))).Draw(d.t, path)
}

func (d drawn) pick(path string, n int) int { return rapid.IntRange(0, n-1).Draw(d.t, path) }
func (d drawn) size(path string) int        { return rapid.IntRange(0, 3).Draw(d.t, path) }

// TestRoundTrip holds for every kind and level: what is encoded comes back equal, and
// the same value is always the same bytes.
func TestRoundTrip(t *testing.T) {
	for _, s := range subjects(t) {
		t.Run(s.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				v := s.make(later{drawn{t}})
				data, err := s.encode(v)
				if err != nil {
					t.Fatalf("encode %+v: %v", v, err)
				}
				back, err := s.decode(data)
				if err != nil {
					t.Fatalf("decode %x: %v", data, err)
				}
				if !reflect.DeepEqual(v, back) {
					t.Fatalf("%+v came back as %+v", v, back)
				}
				again, err := s.encode(back)
				if err != nil || !bytes.Equal(data, again) {
					t.Fatalf("encoded again: %x, not %x (%v)", again, data, err)
				}
			})
		})
	}
}

// TestDamage flips, cuts and extends the bytes of every kind. Nothing but the very
// value may come out of it: a flipped byte is another value or an error.
func TestDamage(t *testing.T) {
	for _, s := range subjects(t) {
		t.Run(s.name, func(t *testing.T) {
			v := s.make(later{&full{}})
			data, err := s.encode(v)
			if err != nil {
				t.Fatal(err)
			}
			for n := range data {
				if _, err := s.decode(data[:n]); err == nil {
					t.Errorf("the first %d of %d bytes were accepted", n, len(data))
				}
				for _, bit := range []byte{0x01, 0x10, 0x80} {
					damaged := bytes.Clone(data)
					damaged[n] ^= bit
					if other, err := s.decode(damaged); err == nil && reflect.DeepEqual(other, v) {
						t.Errorf("byte %d flipped by %#x is read as the same value", n, bit)
					}
				}
			}
			for _, tail := range []string{"\x00", "\x01", string(data)} {
				wantCorrupt(t, s, append(bytes.Clone(data), tail...))
			}
		})
	}
}

func wantCorrupt(t *testing.T, s subject, data []byte) {
	t.Helper()
	_, err := s.decode(data)
	var corrupt *CorruptError
	if !errors.As(err, &corrupt) {
		t.Fatalf("%s: decode answers %v, not a CorruptError", s.name, err)
	}
}

func wantUnsupported(t *testing.T, s subject, data []byte) *UnsupportedError {
	t.Helper()
	_, err := s.decode(data)
	var unsupported *UnsupportedError
	if !errors.As(err, &unsupported) {
		t.Fatalf("%s: decode answers %v, not an UnsupportedError", s.name, err)
	}
	if !strings.Contains(unsupported.Error(), "upgrade this node") {
		t.Errorf("%q does not say what to do", unsupported)
	}
	return unsupported
}

func TestHigherLevelIsUnsupported(t *testing.T) {
	for _, s := range subjects(t) {
		data, err := s.encode(s.make(least{}))
		if err != nil {
			t.Fatal(err)
		}
		data[2] = byte(MaxLevel) + 1
		if e := wantUnsupported(t, s, data); e.Level != MaxLevel+1 || !strings.Contains(e.Error(), s.kind.name) {
			t.Errorf("%v does not name level and kind", e)
		}
		data[2] = 0
		wantCorrupt(t, s, data)
	}
}

func TestUnknownKind(t *testing.T) {
	s := subjects(t)[len(subjects(t))-1]
	data, err := s.encode(s.make(least{}))
	if err != nil {
		t.Fatal(err)
	}
	data[3], data[4] = 0x12, 0x34
	if e := wantUnsupported(t, s, data); e.What != "command kind 4660" {
		t.Errorf("the error is about %q", e.What)
	}
	// A record's kind is known from where it stands: another is no newer build's.
	record := subjects(t)[0]
	if data, err = record.encode(record.make(least{})); err != nil {
		t.Fatal(err)
	}
	data[4] = 77
	wantCorrupt(t, record, data)
}

// TestUnknownFieldIsUnsupported adds a field, as a newer build would, to the struct
// itself and to a struct inside it. Thrift would skip it.
func TestUnknownFieldIsUnsupported(t *testing.T) {
	for _, s := range subjects(t) {
		data, err := s.encode(s.make(least{}))
		if err != nil {
			t.Fatal(err)
		}
		// The struct's stop byte becomes: field, long form, id 100, type i32, value 7.
		longer := append(bytes.Clone(data[:len(data)-1]), 0x05, 0xC8, 0x01, 0x0E, 0x00)
		if e := wantUnsupported(t, s, longer); !strings.Contains(e.Why, "field 100") {
			t.Errorf("%v does not name the field", e)
		}
		if s.format == recordFormat {
			continue
		}
		// Behind the header's two fields comes its stop byte.
		at := bytes.Index(data, []byte{0x16, 0x00, 0x18, 0x00, 0x00}) + 4
		inner := append(bytes.Clone(data[:at]), 0x05, 0xC8, 0x01, 0x0E)
		if e := wantUnsupported(t, s, append(inner, data[at:]...)); !strings.Contains(e.Why, "field 100") {
			t.Errorf("%v does not name the field", e)
		}
	}
}

// TestInvalid refuses what must not be journaled: numbers that no enum of this build has,
// texts and lists out of bounds, levels of a newer build, values of foreign types.
func TestInvalid(t *testing.T) {
	valid := job.Complete{Code: job.CodeNativeOK, Proof: job.ProofNone}
	for name, c := range map[string]job.Command{
		"code 0":           job.Complete{Proof: job.ProofNone},
		"code 13":          job.Complete{Code: 13, Proof: job.ProofNone},
		"proof 0":          job.Complete{Code: job.CodeNativeOK},
		"proof 4":          job.Complete{Code: job.CodeNativeOK, Proof: 4},
		"late code":        job.RecordLateResult{Code: 99, Proof: job.ProofNone},
		"termination":      job.RecordTermination{Proof: 7},
		"mutation":         job.Admit{Snapshot: job.Snapshot{Source: 1}},
		"snapshot source":  job.Admit{Spec: job.Spec{Mutation: 1}, Snapshot: job.Snapshot{Source: 3}},
		"index type":       job.Admit{Spec: job.Spec{Mutation: 1, IndexType: "HNSW"}, Snapshot: job.Snapshot{Source: 1}},
		"backend state":    job.SetBackendState{State: 9},
		"refresher":        job.PutCatalog{Catalog: job.Catalog{Refresher: job.Refresher{Kind: "smtp"}}},
		"level too high":   job.RaiseLevel{Level: MaxLevel + 1},
		"formed too high":  job.Form{Level: MaxLevel + 1},
		"foreign":          foreign{},
		"pointer":          &valid,
		"nothing":          nil,
		"long actor":       job.Cancel{Header: job.Header{Actor: strings.Repeat("x", job.MaxName+1)}},
		"long note":        job.ForceRelease{Note: strings.Repeat("x", job.MaxNote+1)},
		"long invocation":  job.MarkRunning{InvocationID: strings.Repeat("x", job.MaxInvocationID+1)},
		"long message":     job.Complete{Code: 5, Proof: 1, Message: strings.Repeat("x", job.MaxMessage+1)},
		"long contract":    job.Admit{Spec: job.Spec{Mutation: 1}, Snapshot: job.Snapshot{Source: 1, SchemaContract: strings.Repeat("x", job.MaxSchemaContract+1)}},
		"role":             job.PutToken{Role: 5},
		"no role":          job.PutToken{},
		"too many members": job.Quarantine{Members: make([]job.Member, maxMembers+1)},
		"long node id":     job.PutMember{NodeID: strings.Repeat("x", job.MaxName+1)},
		"long member":      job.Form{Level: 1, Members: []job.Member{{Address: strings.Repeat("x", job.MaxName+1)}}},
		"too many labels":  job.AddBackend{Labels: make([]job.Label, maxLabels+1)},
		"too many options": job.PutCatalog{Catalog: job.Catalog{Options: make([]job.Option, maxOptions+1)}},
	} {
		var invalid *InvalidError
		if _, err := Encode(c); !errors.As(err, &invalid) {
			t.Errorf("%s: Encode answers %v, not an InvalidError", name, err)
		}
	}
	data, err := Encode(valid)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(data, []byte{0x15, 0x0A}) + 1 // the code, i32 5
	if at == 0 {
		t.Fatal("the code is not where it was")
	}
	for _, number := range [][]byte{{0x1A}, {0x00}, {0x01}, {0x8A, 0x04}, {0xFF, 0xFF, 0xFF, 0xFF, 0x0F}} {
		changed := append(append(bytes.Clone(data[:at]), number...), data[at+1:]...)
		if _, err := Decode(changed); !errors.As(err, new(*CorruptError)) {
			t.Errorf("result code %x: Decode answers %v", number, err)
		}
	}
}

type foreign struct{ job.Header }

func (foreign) Name() string { return job.Cancel{}.Name() }

// TestRecordsTakeLongerTexts: what a transition composed a little too long must not
// stop a cluster; what threatens memory must.
func TestRecordsTakeLongerTexts(t *testing.T) {
	r := as[*job.Record](subjects(t)[0].make(least{}))
	r.Result = &job.Result{Reason: job.ReasonNone, Message: strings.Repeat("x", 2*job.MaxMessage)}
	if _, err := EncodeRecord(r); err != nil {
		t.Error(err)
	}
	r.Result.Message = strings.Repeat("x", maxStored+1)
	if _, err := EncodeRecord(r); !errors.As(err, new(*InvalidError)) {
		t.Errorf("EncodeRecord answers %v", err)
	}
	for name, err := range map[string]error{
		"record":  func() error { _, err := EncodeRecord(nil); return err }(),
		"catalog": func() error { _, err := EncodeCatalog(nil); return err }(),
		"backend": func() error { _, err := EncodeBackend(nil); return err }(),
		"member":  func() error { _, err := EncodeMember(nil); return err }(),
		"token":   func() error { _, err := EncodeToken(nil); return err }(),
	} {
		if !errors.As(err, new(*InvalidError)) {
			t.Errorf("a nil %s is answered by %v", name, err)
		}
	}
}

// TestLevelInForce: a node does not go past the point where a level that it does not
// know begins.
func TestLevelInForce(t *testing.T) {
	row := commandsByName[job.RaiseLevel{}.Name()]
	data, err := row.bytes(commandFormat, "", job.RaiseLevel{Level: MaxLevel + 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Decode(data); !errors.As(err, new(*UnsupportedError)) {
		t.Errorf("RaiseLevel to %d is answered by %v", MaxLevel+1, err)
	}
	data, err = EncodeCluster(job.Cluster{Level: MaxLevel + 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := DecodeCluster(data); !errors.As(err, new(*UnsupportedError)) {
		t.Errorf("a cluster at level %d is answered by %v", MaxLevel+1, err)
	}
}

// TestHostileLengths: a few bytes that promise much are refused before memory is
// taken for them.
func TestHostileLengths(t *testing.T) {
	huge := []byte{0xFF, 0xFF, 0xFF, 0xFF, 0x07}
	form := append([]byte{commandFormat, 0, 1, 0, 1}, must(hex.DecodeString("1c1600180000"+"1500"+"1502"))...)
	for name, data := range map[string][]byte{
		"string":      append([]byte{commandFormat, 0, 1, 0, 8, 0x1C, 0x16, 0x00, 0x18}, huge...),
		"list":        append(append(bytes.Clone(form), 0x19, 0xFC), huge...),
		"list, small": append(append(bytes.Clone(form), 0x19, 0xFC), 0x80, 0x20),
		"empty":       {},
		"header only": {commandFormat, 0, 1, 0, 8},
		"no format":   {0, 0, 1, 0, 8, 0},
		"too long":    append([]byte{commandFormat, 0, 1, 0, 8}, make([]byte, MaxSize)...),
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := Decode(data)
			runtime.ReadMemStats(&after)
			if !errors.As(err, new(*CorruptError)) {
				t.Errorf("Decode answers %v", err)
			}
			if taken := after.TotalAlloc - before.TotalAlloc; taken > 64<<10 {
				t.Errorf("%d bytes of input made Decode take %d bytes", len(data), taken)
			}
		})
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// TestPaddedNumber writes a number in more bytes than it needs, which the compact
// protocol reads happily.
func TestPaddedNumber(t *testing.T) {
	data := must(Encode(job.Cancel{Header: job.Header{At: 1}}))
	at := bytes.Index(data, []byte{0x16, 0x02}) + 1
	if at == 0 {
		t.Fatal("the time is not where it was")
	}
	padded := append(append(bytes.Clone(data[:at]), 0x82, 0x00), data[at+1:]...)
	if _, err := Decode(padded); !errors.As(err, new(*CorruptError)) {
		t.Errorf("Decode answers %v", err)
	}
}

// TestStrictKnowsSkip guards the assumption strict rests on: that generated code
// skips unknown fields through the protocol it was given.
func TestStrictKnowsSkip(t *testing.T) {
	p := &strict{TProtocol: thrift.NewTCompactProtocolConf(thrift.NewTMemoryBuffer(), config)}
	if err := p.Skip(context.Background(), thrift.I32); err == nil || p.unknown == nil {
		t.Error("Skip skips")
	}
}

func FuzzDecodeCommand(f *testing.F) {
	for _, s := range subjects(f) {
		if s.format == commandFormat {
			f.Add(must(s.encode(s.make(&full{}))))
			f.Add(must(s.encode(s.make(least{}))))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Decode(data)
		if err != nil {
			wantTyped(t, err)
			return
		}
		if again, err := Encode(c); err != nil || !bytes.Equal(again, data) {
			t.Fatalf("%x decodes to %+v and encodes to %x (%v)", data, c, again, err)
		}
	})
}

func FuzzDecodeRecord(f *testing.F) {
	records := subjects(f)[:8]
	for n, s := range records {
		f.Add(n, must(s.encode(s.make(&full{}))))
		f.Add(n, must(s.encode(s.make(least{}))))
	}
	f.Fuzz(func(t *testing.T, n int, data []byte) {
		s := records[uint(n)%uint(len(records))]
		v, err := s.decode(data)
		if err != nil {
			wantTyped(t, err)
			return
		}
		if again, err := s.encode(v); err != nil || !bytes.Equal(again, data) {
			t.Fatalf("%x decodes to %+v and encodes to %x (%v)", data, v, again, err)
		}
	})
}

func wantTyped(t *testing.T, err error) {
	t.Helper()
	if !errors.As(err, new(*CorruptError)) && !errors.As(err, new(*UnsupportedError)) {
		t.Fatalf("the error is of no type a caller knows: %v", err)
	}
}

func BenchmarkCommand(b *testing.B) {
	admit := as[job.Command](subject{kind: *commandsByName["ADMIT"], zero: job.Admit{}}.make(&full{}))
	data := must(Encode(admit))
	b.Run("Encode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			must(Encode(admit))
		}
	})
	b.Run("Decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			must(Decode(data))
		}
	})
}

func BenchmarkRecord(b *testing.B) {
	record := as[*job.Record](subject{kind: jobKind, zero: (*job.Record)(nil)}.make(&full{}))
	data := must(EncodeRecord(record))
	b.Run("Encode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			must(EncodeRecord(record))
		}
	})
	b.Run("Decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			must(DecodeRecord(data))
		}
	})
}

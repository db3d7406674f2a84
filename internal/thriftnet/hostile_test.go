package thriftnet

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/apache/thrift/lib/go/thrift"

	"github.com/lancemaster/lancemaster/gen-go/report"
	"github.com/lancemaster/lancemaster/gen-go/shared"
)

func TestUnknownMethod(t *testing.T) {
	s, seen := start(t, handler{}, nil)
	c := dial(t, s, ClientConfig{})
	args := report.ReportServiceReportLanceIndexJobResultArgs{Report: sample()}
	_, err := c.Call(t.Context(), "noSuchMethod", &args, &args)
	var x thrift.TApplicationException
	if !errors.As(err, &x) || x.TypeId() != thrift.UNKNOWN_METHOD {
		t.Fatalf("answered %v, want UNKNOWN_METHOD", err)
	}
	mustSend(t, c) // the connection goes on
	if seen.count(IncidentUnknownMethod) != 1 {
		t.Error("the unknown method was not counted")
	}
}

func TestNoCall(t *testing.T) {
	for _, kind := range []thrift.TMessageType{thrift.REPLY, thrift.EXCEPTION, thrift.ONEWAY, 0, 9} {
		s, _ := start(t, handler{}, nil)
		c := raw(t, s)
		write(t, c, message(t, Binary, func(p thrift.TProtocol) error {
			return p.WriteMessageBegin(context.Background(), "reportLanceIndexJobResult", kind, 1)
		}))
		if x := readException(t, c); x.TypeId() != thrift.INVALID_MESSAGE_TYPE_EXCEPTION {
			t.Errorf("kind %d is answered %v", kind, x)
		}
		if left := rest(t, c); len(left) > 0 {
			t.Errorf("kind %d: %d more bytes", kind, len(left))
		}
	}
}

// What cannot be read is answered with words that show nothing of the inside.
func TestUnreadableRequests(t *testing.T) {
	field := func(p thrift.TProtocol, kind thrift.TType, id int16, value func() error) error {
		ctx := context.Background()
		return errors.Join(p.WriteFieldBegin(ctx, "", kind, id), value(), p.WriteFieldEnd(ctx))
	}
	structOf := func(p thrift.TProtocol, fields func() error) error {
		ctx := context.Background()
		return errors.Join(p.WriteStructBegin(ctx, ""), fields(), p.WriteFieldStop(ctx), p.WriteStructEnd(ctx))
	}
	args := func(p thrift.TProtocol, inner func() error) error {
		return structOf(p, func() error { return field(p, thrift.STRUCT, 1, func() error { return structOf(p, inner) }) })
	}
	bad := sample()
	bad.InvocationID = "\xff\xfe"
	badOptional := sample()
	text := "ok \xc3"
	badOptional.SanitizedMessage = &text
	cases := map[string][]byte{
		"a required field is missing": callBytes(t, Binary, func(p thrift.TProtocol) error {
			return args(p, func() error {
				return field(p, thrift.I64, 1, func() error { return p.WriteI64(context.Background(), 1) })
			})
		}),
		"text that is not UTF-8":          reportBytes(t, Binary, bad),
		"optional text that is not UTF-8": reportBytes(t, Binary, badOptional),
		"a field of a type there is not":  append(callBytes(t, Binary, func(thrift.TProtocol) error { return nil }), 99, 0, 1),
		"a string of two GiB":             append(callBytes(t, Binary, func(thrift.TProtocol) error { return nil }), 12, 0, 1, 11, 0, 3, 0x7f, 0xff, 0xff, 0xff),
		"a string of negative length":     append(callBytes(t, Binary, func(thrift.TProtocol) error { return nil }), 12, 0, 1, 11, 0, 3, 0xff, 0xff, 0xff, 0xff),
		"a list of two billion":           append(callBytes(t, Binary, func(thrift.TProtocol) error { return nil }), 15, 0, 9, 11, 0x7f, 0xff, 0xff, 0xff),
		"a list within bytes, not bounds": append(callBytes(t, Binary, func(thrift.TProtocol) error { return nil }), 15, 0, 9, 3, 0, 1, 0, 0),
		"a map of two billion":            append(callBytes(t, Binary, func(thrift.TProtocol) error { return nil }), 13, 0, 9, 11, 11, 0x7f, 0xff, 0xff, 0xff),
		"structs nested without end":      append(callBytes(t, Binary, func(thrift.TProtocol) error { return nil }), deep(200)...),
		"a message that grows field by field": append(callBytes(t, Binary, func(thrift.TProtocol) error { return nil }),
			strings.Repeat("\x0b\x00\x09\x00\x00\x80\x00"+strings.Repeat("x", 1<<15), 40)...),
	}
	for name, request := range cases {
		t.Run(name, func(t *testing.T) {
			s, seen := start(t, handler{result: func(context.Context, *report.TLanceIndexJobReport) (*shared.TStatus, error) {
				t.Error("the handler was called")
				return ok(), nil
			}}, nil)
			c := raw(t, s)
			done := make(chan struct{})
			go func() { defer close(done); _, _ = c.Write(request) }() // the server may close before all is written
			if len(request) < 1<<20 {
				x := readException(t, c)
				if x.TypeId() != thrift.PROTOCOL_ERROR || x.Error() != textUnreadable {
					t.Errorf("answered %d %q", x.TypeId(), x.Error())
				}
			}
			rest(t, c)
			<-done
			seen.await(t, IncidentUnreadable, 1)
		})
	}
}

// deep opens structs in structs.
func deep(levels int) []byte {
	var b []byte
	for range levels {
		b = append(b, 12, 0, 9)
	}
	return b
}

// A length alone costs next to nothing.
func TestHostileLengthsAllocateLittle(t *testing.T) {
	s, seen := start(t, handler{}, nil)
	empty := func(thrift.TProtocol) error { return nil }
	requests := [][]byte{
		append(callBytes(t, Binary, empty), 12, 0, 1, 11, 0, 3, 0, 0x0f, 0xff, 0xff),  // a string of nearly 1 MiB
		append(callBytes(t, Binary, empty), 15, 0, 9, 12, 0x00, 0x0f, 0xff, 0xff),     // as many structs
		append(callBytes(t, Binary, empty), 13, 0, 9, 11, 11, 0x00, 0x00, 0x04, 0x00), // as many entries as are allowed
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const rounds = 50
	for range rounds {
		for _, request := range requests {
			c := raw(t, s)
			write(t, c, request)
			if err := c.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			rest(t, c)
		}
	}
	runtime.ReadMemStats(&after)
	seen.await(t, IncidentUnreadable, rounds*len(requests))
	if each := (after.TotalAlloc - before.TotalAlloc) / uint64(rounds*len(requests)); each > 100<<10 {
		t.Errorf("a hostile length costs %d bytes", each)
	}
}

func TestForeignBytesCloseTheConnection(t *testing.T) {
	hello := "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
	for name, bytes := range map[string]string{"HTTP": "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "TLS": hello, "zeroes": "\x00\x00\x00\x00", "compact": "\x82\x21"} {
		t.Run(name, func(t *testing.T) {
			s, seen := start(t, handler{}, nil)
			c := raw(t, s)
			write(t, c, []byte(bytes))
			if answer := rest(t, c); len(answer) > 0 {
				t.Errorf("answered %q", answer)
			}
			seen.await(t, IncidentForeign, 1)
		})
	}
	t.Run("plain on a TLS port", func(t *testing.T) {
		serverTLS, _ := certificate(t)
		s, seen := start(t, handler{}, func(c *Config) { c.TLS = serverTLS })
		c := raw(t, s)
		write(t, c, reportBytes(t, Binary, sample()))
		rest(t, c)
		seen.await(t, IncidentHandshake, 1)
	})
	t.Run("nothing on a TLS port", func(t *testing.T) {
		serverTLS, _ := certificate(t)
		s, seen := start(t, handler{}, func(c *Config) { c.TLS, c.ReadTimeout = serverTLS, 50*time.Millisecond })
		rest(t, raw(t, s))
		seen.await(t, IncidentHandshake, 1)
	})
}

// A sender that never pauses long but never ends is cut at an absolute time.
func TestSlowSenderIsCut(t *testing.T) {
	s, seen := start(t, handler{}, func(c *Config) { c.ReadTimeout = 200 * time.Millisecond })
	c := raw(t, s)
	request := reportBytes(t, Binary, sample())
	write(t, c, request[:4])
	began := time.Now()
	closed := make(chan struct{})
	go func() { defer close(closed); rest(t, c) }()
	drip := time.NewTicker(10 * time.Millisecond)
	defer drip.Stop()
	long := strings.NewReader(strings.Repeat("\x00", 1<<20)) // a method name without end
	write(t, c, []byte{0, 0, 0, 0x7f})
	for sent := 0; ; sent++ {
		select {
		case <-closed:
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("the sender was cut after %s", took)
			}
			seen.await(t, IncidentUnreadable, 1)
			return
		case <-drip.C:
			if sent > 100 {
				continue // within the name; the time must be up long since
			}
			b, _ := long.ReadByte()
			_, _ = c.Write([]byte{b})
		}
	}
}

// Large messages under way are bounded together and never keep small ones out.
func TestAllowance(t *testing.T) {
	s, seen := start(t, handler{}, func(c *Config) { c.MaxInFlight, c.ReadTimeout = 256<<10, time.Minute })
	large := sample()
	text := strings.Repeat("x", 250<<10)
	large.SanitizedMessage = &text
	request := reportBytes(t, Binary, large)
	holder := raw(t, s)
	write(t, holder, request[:len(request)-1])
	deadline := time.Now().Add(bound)
	for s.shared.used.Load() < 200<<10 {
		if time.Now().After(deadline) {
			t.Fatal("the first large message is not counted")
		}
		runtime.Gosched()
	}
	second := raw(t, s)
	_, _ = second.Write(request[:len(request)-1]) // may be refused before it is all there
	seen.await(t, IncidentUnreadable, 1)
	mustSend(t, dial(t, s, ClientConfig{}))
	write(t, holder, request[len(request)-1:])
	c := newTransport(holder, false, 1<<20, nil)
	if err := c.begin(); err != nil {
		t.Fatal(err)
	}
	if _, kind, _, err := Binary.over(c, configuration(1<<20, 10)).ReadMessageBegin(t.Context()); err != nil || kind != thrift.REPLY {
		t.Errorf("the first large message is answered with kind %d, %v", kind, err)
	}
	if used := s.shared.used.Load(); used > 256<<10 {
		t.Errorf("%d bytes are in use", used)
	}
}

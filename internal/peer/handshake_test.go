package peer

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

func at(n *node, id string) raft.ServerAddress { return raft.ServerAddress(id + "@" + n.Addr()) }

// Each refusal reaches both sides with the same words, is logged once by each however often it is
// tried, and again when it has gone and come back.
func TestRefusalsAreSaidOnceOnBothSides(t *testing.T) {
	for name, test := range map[string]struct {
		spoil, mend func(a, b *node)
		code        Code
		byOther     bool // from the dialler's view
	}{
		"the acceptor refuses": {
			func(_, b *node) { b.change(func(n *node) { delete(n.members, "m1") }) },
			func(_, b *node) { b.change(func(n *node) { n.members["m1"] = "disk-m1" }) },
			CodeUnknownMember, true,
		},
		"the dialler refuses": {
			func(a, _ *node) { a.change(func(n *node) { n.members["m2"] = "another" }) },
			func(a, _ *node) { a.change(func(n *node) { n.members["m2"] = "disk-m2" }) },
			CodeOtherInstance, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := start(t, member("m1"), nil), start(t, member("m2"), nil)
			text := `code=` + string(test.code)
			for round := 1; round <= 2; round++ {
				test.spoil(a, b)
				var words string
				for range 3 {
					_, err := a.RaftStream().Dial(at(b, "m2"), patience)
					words = refusedAs(t, err, test.code, test.byOther)
				}
				for who, n := range map[string]*node{"dialler": a, "acceptor": b} {
					eventually(t, "the refusal is not logged as often as it should by the "+who, func() bool {
						return len(n.log.with(text)) == round
					})
					if line := n.log.with(text)[0]; !strings.Contains(line, "level=WARN") || !strings.Contains(line, words[:20]) {
						t.Errorf("the log of the %s says %s", who, line)
					}
				}
				test.mend(a, b)
				conn, err := a.RaftStream().Dial(at(b, "m2"), patience)
				ok(t, err)
				ok(t, conn.Close())
				// The acceptor notes success only when it has the dialler's verdict.
				in, err := b.RaftStream().Accept()
				ok(t, err)
				ok(t, in.Close())
			}
		})
	}
}

func TestWrongNode(t *testing.T) {
	a, b := start(t, member("m1"), nil), start(t, member("m2"), nil)
	_, err := a.RaftStream().Dial(at(b, "m3"), patience)
	if words := refusedAs(t, err, CodeWrongNode, true); !strings.Contains(words, "leads to node m2, not to node m3") {
		t.Error(words)
	}
	_, _, err = a.Call(within(t), "m3", b.Addr(), "who", nil)
	refusedAs(t, err, CodeWrongNode, true)
	// To itself under another's name.
	_, err = a.RaftStream().Dial(at(a, "m2"), patience)
	refusedAs(t, err, CodeWrongNode, true)
	// Without a name only Judge decides.
	conn, err := a.RaftStream().Dial(raft.ServerAddress(b.Addr()), patience)
	ok(t, err)
	ok(t, conn.Close())
}

// A dialler believes no acceptor that answers for another.
func TestDiallerChecksWhomItReached(t *testing.T) {
	var config net.ListenConfig
	liar, err := config.Listen(within(t), "tcp", "127.0.0.1:0")
	ok(t, err)
	t.Cleanup(func() { _ = liar.Close() })
	verdicts := make(chan verdict, 1)
	go func() {
		conn, err := liar.Accept()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		var h hello
		var v verdict
		if _, err := readMessage(conn, &h); err != nil {
			return
		}
		if writeMessage(conn, answer{Identity: member("m3")}) != nil {
			return
		}
		if _, err := readMessage(conn, &v); err == nil {
			verdicts <- v
		}
	}()
	a := start(t, member("m1"), nil)
	_, err = a.RaftStream().Dial(raft.ServerAddress("m2@"+liar.Addr().String()), patience)
	refusedAs(t, err, CodeWrongNode, false)
	select {
	case v := <-verdicts:
		if v.Refusal == nil || v.Refusal.Code != CodeWrongNode {
			t.Errorf("the acceptor is told %+v", v)
		}
	case <-time.After(patience):
		t.Error("the acceptor is not told")
	}
}

// rawHandshake sends bytes to a node and reads its answer.
func rawHandshake(t *testing.T, n *node, frame []byte) (answer, byte, error) {
	t.Helper()
	conn := connect(t, n)
	if _, err := conn.Write(frame); err != nil {
		return answer{}, 0, err
	}
	var got answer
	version, err := readMessage(conn, &got)
	return got, version, err
}

func frameOf(version byte, body string) []byte {
	frame := append([]byte(magic), version)
	frame = binary.BigEndian.AppendUint32(frame, uint32(len(body)))
	return append(frame, body...)
}

func TestVersionsOfTheHandshake(t *testing.T) {
	n := start(t, member("m2"), nil)
	got, _, err := rawHandshake(t, n, frameOf(9, `["something", "else"]`))
	if err != nil || got.Refusal == nil || got.Refusal.Code != CodeUnsupportedProtocol {
		t.Errorf("a later version is answered %+v, %v", got, err)
	}
	const newer = `{"kind":"call","flavour":{"of":"v7"},"identity":{"cluster_id":7,"incarnation":1,"node_id":"m1","instance_id":"disk-m1","level":1,"max_level":1,"mood":"good"}}`
	got, version, err := rawHandshake(t, n, frameOf(protocolVersion, newer))
	if err != nil || got.Refusal != nil || got.Identity != member("m2") || version != protocolVersion {
		t.Errorf("fields of a later version are answered %+v, %v", got, err)
	}
	got, _, err = rawHandshake(t, n, frameOf(protocolVersion, strings.Replace(newer, `"call"`, `"gossip"`, 1)))
	if err != nil || got.Refusal == nil || got.Refusal.Code != CodeUnsupportedProtocol {
		t.Errorf("an unknown kind is answered %+v, %v", got, err)
	}
	got, _, err = rawHandshake(t, n, frameOf(protocolVersion, `{"kind":"call"}`))
	if err != nil || got.Refusal == nil || got.Refusal.Code != CodeRefused {
		t.Errorf("an identity without a name is answered %+v, %v", got, err)
	}
}

// A dialler that meets a later version is told so, whatever else that says.
func TestDiallerMeetsALaterVersion(t *testing.T) {
	a := start(t, member("m1"), func(c *Config) {
		c.Dial = pipe(t, func(conn net.Conn) {
			var h hello
			if _, err := readMessage(conn, &h); err == nil {
				_, _ = conn.Write(frameOf(protocolVersion+1, `[]`))
			}
		})
	})
	_, _, err := a.Call(within(t), "", "anywhere:1", "who", nil)
	refusedAs(t, err, CodeUnsupportedProtocol, false)
}

func TestWhatIsNoHandshake(t *testing.T) {
	n := start(t, member("m2"), nil)
	long := append([]byte(magic), protocolVersion, 0, 0xff, 0xff, 0xff)
	for name, test := range map[string]struct {
		bytes  []byte
		reason failure
		loud   bool
	}{
		"a browser":   {[]byte("GET / HTTP/1.1\r\n\r\n"), failedForeign, true},
		"one letter":  {[]byte("X"), failedForeign, true},
		"TLS":         {[]byte{0x16, 0x03, 0x01}, failedForeign, true},
		"too long":    {long, failedMalformed, true},
		"no JSON":     {frameOf(protocolVersion, `{"kind":`), failedMalformed, true},
		"nothing":     {nil, failedClosed, false},
		"half a word": {[]byte(magic[:3]), failedClosed, false},
		"half a text": {frameOf(protocolVersion, `{}`)[:headerSize+1], failedClosed, false},
	} {
		before := n.failures(test.reason)
		conn := connect(t, n)
		_, err := conn.Write(test.bytes)
		ok(t, err)
		if test.reason == failedClosed {
			ok(t, conn.Close())
		} else if got, err := io.ReadAll(conn); len(got) != 0 || (err != nil && !isReset(err)) {
			t.Errorf("%s: answered %q, %v", name, got, err)
		}
		eventually(t, name+" is not counted", func() bool { return n.failures(test.reason) == before+1 })
	}
	for _, text := range []string{"not of a lancemaster node", "makes no sense"} {
		var got []string
		eventually(t, text+" is not logged", func() bool { got = n.log.with(text); return len(got) > 0 }) // it is counted first
		if len(got) != 1 || !strings.Contains(got[0], "with=127.0.0.1") {
			t.Errorf("%q is logged: %v", text, got)
		}
	}
}

func isReset(err error) bool { return strings.Contains(err.Error(), "reset") }

func TestMessagesHaveBounds(t *testing.T) {
	if err := writeMessage(io.Discard, hello{Want: strings.Repeat("x", maxHandshake)}); err == nil {
		t.Error("a message is written that nobody reads")
	}
	var b bytes.Buffer
	ok(t, writeMessage(&b, hello{Kind: KindRaft}))
	b.WriteString("rest")
	var h hello
	if _, err := readMessage(&b, &h); err != nil || b.String() != "rest" || h.Kind != KindRaft {
		t.Errorf("%+v, %v, and %q is left", h, err, b.String())
	}
}

func FuzzReadMessage(f *testing.F) {
	var b bytes.Buffer
	if err := writeMessage(&b, hello{Kind: KindCall, Identity: member("m1")}); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add(frameOf(9, `[]`))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := bytes.NewReader(data)
		var h hello
		version, err := readMessage(r, &h)
		if used := len(data) - r.Len(); used > headerSize+maxHandshake {
			t.Fatalf("%d bytes were read", used)
		}
		if err != nil {
			return
		}
		if version != data[len(magic)] {
			t.Fatalf("version %d", version)
		}
		if h.Identity.check() == nil && (h.Identity.NodeID == "" || strings.ContainsAny(h.Identity.NodeID, "\n\x00")) {
			t.Fatalf("a node calls itself %q", h.Identity.NodeID)
		}
	})
}

func FuzzFrames(f *testing.F) {
	f.Add(request{timeout: time.Second, method: "echo", payload: []byte("x")}.encode())
	identity := member("m1")
	encoded, err := reply{status: statusOK, identity: &identity, payload: []byte("x")}.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(encoded)
	f.Fuzz(func(t *testing.T, data []byte) {
		r := bytes.NewReader(data)
		length, err := readLength(r, maxReply)
		if err != nil {
			return
		}
		body, err := readBody(r, length)
		if err != nil {
			if errors.Is(err, errFrame) {
				t.Fatal(err)
			}
			return
		}
		if len(body) != length {
			t.Fatalf("%d bytes of %d", len(body), length)
		}
		if req, err := decodeRequest(body); err == nil {
			again, err := decodeRequest(req.encode()[4:])
			if err != nil || again.method != req.method || !bytes.Equal(again.payload, req.payload) {
				// A name that is too long is the handler table's to refuse.
				if len(req.method) <= maxMethod {
					t.Fatalf("%+v became %+v, %v", req, again, err)
				}
			}
		}
		if rep, err := decodeReply(body); err == nil {
			frame, err := rep.encode()
			if err != nil {
				t.Fatal(err)
			}
			again, err := decodeReply(frame[4:])
			if err != nil || again.status != rep.status || !bytes.Equal(again.payload, rep.payload) {
				t.Fatalf("%+v became %+v, %v", rep, again, err)
			}
		}
	})
}

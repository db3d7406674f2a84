package refresh

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"
)

// packet frames a payload of the MySQL protocol.
func packet(sequence byte, payload string) string {
	n := len(payload)
	return string([]byte{byte(n), byte(n >> 8), byte(n >> 16), sequence}) + payload
}

// greeting is a server's first packet, with the plugin it wants for the login.
func greeting(plugin string) string {
	return packet(0, "\x0a8.0.0\x00\x01\x00\x00\x00"+"12345678"+"\x00"+"\xff\xf7"+"\x2d\x02\x00"+"\xff\x81"+"\x15"+
		strings.Repeat("\x00", 10)+"123456789012\x00"+plugin+"\x00")
}

const okPacket = "\x00\x00\x00\x02\x00\x00\x00"

// rows are the answer to a statement as a SELECT has it: one column, one row.
var rows = packet(1, "\x01") + packet(2, "\x03def\x00\x00\x00\x01a\x00\x0c\x21\x00\x01\x00\x00\x00\xfd\x00\x00\x00\x00\x00") +
	packet(3, "\xfe\x00\x00\x02\x00") + packet(4, "\x011") + packet(5, "\xfe\x00\x00\x02\x00")

// converse answers each thing the client sends with the next packet, and then
// reads until the client closes.
func converse(t *testing.T, first string, answers ...string) (address string) {
	t.Helper()
	return rawServer(t, func(conn net.Conn) {
		_, _ = io.WriteString(conn, first)
		for _, answer := range answers {
			if _, err := conn.Read(make([]byte, 4096)); err != nil {
				return
			}
			_, _ = io.WriteString(conn, answer)
		}
		_, _ = io.Copy(io.Discard, conn)
	})
}

func tryMySQL(ctx context.Context, t *testing.T, address string) (string, error) {
	t.Helper()
	d := NewDoris(secrets{"env:PASSWORD": passwordCanary}, nil)
	evidence, err := d.Refresh(ctx, dorisSpec(address), change)
	if err != nil && strings.Contains(err.Error(), passwordCanary) {
		t.Errorf("the password is seen in %q", err)
	}
	return evidence, err
}

func TestMySQLConversation(t *testing.T) {
	native := greeting("mysql_native_password")
	for name, tt := range map[string]struct {
		first   string
		answers []string
		want    string // empty for success
	}{
		"OK":                 {native, []string{packet(2, okPacket), packet(1, okPacket)}, ""},
		"too many":           {packet(0, "\xff\x10\x04Too many connections"), nil, "error 1040 Too many connections"},
		"refused login":      {native, []string{packet(2, "\xff\x15\x04#28000no "+passwordCanary)}, "error 1045 no ***"},
		"refused statement":  {native, []string{packet(2, okPacket), packet(1, "\xff\x51\x04#HY000not master")}, "error 1105 not master"},
		"rows":               {native, []string{packet(2, okPacket), rows}, "rows and not with OK"},
		"a file is asked of": {native, []string{packet(2, okPacket), packet(1, "\xfb/etc/hostname"), packet(3, okPacket)}, "local file"},
		"clear password":     {native, []string{packet(2, "\xfemysql_clear_password\x00")}, "the password itself"},
		"unknown plugin":     {native, []string{packet(2, "\xfedialog\x00")}, "plugin is not supported"},
	} {
		t.Run(name, func(t *testing.T) {
			evidence, err := tryMySQL(t.Context(), t, converse(t, tt.first, tt.answers...))
			if tt.want != "" {
				wantError(t, err, tt.want)
			} else if err != nil || !strings.Contains(evidence, "answered OK") {
				t.Errorf("got %q, %v", evidence, err)
			}
		})
	}
}

// The driver says "invalid connection" and logs why; the error says why.
func TestMySQLClosed(t *testing.T) {
	address := rawServer(t, func(net.Conn) {})
	_, err := tryMySQL(t.Context(), t, address)
	wantError(t, err, address+": the connection broke: ")
}

func TestMySQLHangs(t *testing.T) {
	native := greeting("mysql_native_password")
	for name, answers := range map[string][]string{
		"before the greeting": {""},
		"in another protocol": {"SSH-2.0-OpenSSH_9.9\r\n"},
		"in the greeting":     {native[:20]},
		"in the login":        {native},
		"in the answer":       {native, packet(2, okPacket)},
		"within the answer":   {native, packet(2, okPacket), packet(1, okPacket)[:6]},
	} {
		t.Run(name, func(t *testing.T) {
			address := converse(t, answers[0], answers[1:]...)
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if _, err := tryMySQL(ctx, t, address); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error %v, want one that says that time ran out", err)
			}
		})
	}
}

// What a frontend sends is bounded, whatever its packets say of their lengths.
func TestMySQLTooMuch(t *testing.T) {
	address := rawServer(t, func(conn net.Conn) {
		_, _ = io.WriteString(conn, "\xff\xff\xff\x00")
		piece := strings.Repeat("x", 64<<10)
		for range 1 << 14 {
			if _, err := io.WriteString(conn, piece); err != nil {
				return
			}
		}
		t.Error("a frontend could send a gigabyte")
	})
	_, err := tryMySQL(t.Context(), t, address)
	wantError(t, err, "it sent more than 1048576 bytes")
}

// The driver trusts the lengths in a packet. What breaks it breaks one attempt, and
// the frontend is left alone.
func TestMySQLBrokenPackets(t *testing.T) {
	native := greeting("mysql_native_password")
	for name, tt := range map[string]struct {
		first   string
		answers []string
	}{
		"short greeting": {packet(0, "\x0a8.0\x00"), nil},
		"short scramble": {packet(0, native[4:4+1+6+4+8+1+2]), nil},
		"short error":    {packet(0, "\xff\x10"), nil},
		"short OK":       {native, []string{packet(2, "\x00")}},
		"short switch":   {native, []string{packet(2, "\xfemysql_native_password\x00short\x00")}},
	} {
		t.Run(name, func(t *testing.T) {
			address := converse(t, tt.first, tt.answers...)
			d := NewDoris(secrets{"env:PASSWORD": passwordCanary}, nil)
			_, err := d.Refresh(t.Context(), dorisSpec(address), change)
			wantError(t, err, errBrokeDriver.Error())
			_, err = d.Refresh(t.Context(), dorisSpec(address), change)
			wantError(t, err, "not asked before")
		})
	}
	t.Run("after the login", func(t *testing.T) {
		address := converse(t, native, packet(2, okPacket), packet(1, "\x00"))
		_, err := tryMySQL(t.Context(), t, address)
		wantError(t, err, errBrokeDriver.Error())
	})
}

// Without TLS a server cannot have the password by asking for it encrypted with a
// key of its own.
func TestMySQLTakesNoKeyFromTheServer(t *testing.T) {
	for name, asks := range map[string][]string{
		"caching_sha2_password": {greeting("caching_sha2_password"), packet(2, "\x01\x04")},
		"sha256_password":       {greeting("mysql_native_password"), packet(2, "\xfesha256_password\x0012345678901234567890\x00")},
	} {
		t.Run(name, func(t *testing.T) {
			sent := make(chan []byte, 1)
			address := rawServer(t, func(conn net.Conn) {
				_, _ = io.WriteString(conn, asks[0])
				readSome(t, conn)
				_, _ = io.WriteString(conn, asks[1])
				reply := make([]byte, 4096)
				n, _ := conn.Read(reply)
				sent <- reply[:n]
				_, _ = io.WriteString(conn, packet(4, "\xff\x15\x04#28000Access denied"))
			})
			_, err := tryMySQL(t.Context(), t, address)
			wantError(t, err, "error 1045 Access denied")
			// A request for the key would be one byte long; a ciphertext has the key's length.
			if reply := <-sent; len(reply) != 4+256 {
				t.Errorf("the server was sent %q", reply)
			}
		})
	}
}

// What a server can send must end an attempt, never the process.
func FuzzMySQLAnswers(f *testing.F) {
	native := greeting("mysql_native_password")
	f.Add([]byte(native), []byte(packet(2, okPacket)), []byte(packet(1, okPacket)))
	f.Add([]byte(greeting("caching_sha2_password")), []byte(packet(2, "\x01\x04")), []byte(packet(4, "\x01-----BEGIN")))
	f.Add([]byte(native), []byte(packet(2, okPacket)), []byte(packet(1, "\x01")+packet(2, "\x03def")+packet(3, "\xfe\x00\x00\x02\x00")))
	f.Add([]byte(native), []byte(packet(2, "\xfesha256_password\x0012345678901234567890\x00")), []byte(packet(4, "\x01x")))
	f.Fuzz(func(t *testing.T, first, second, third []byte) {
		// All at once: the client does not know what was written when.
		address := rawServer(t, func(conn net.Conn) {
			_, _ = conn.Write(slices.Concat(first, second, third))
			if err := overTCP(conn).CloseWrite(); err == nil {
				_, _ = io.Copy(io.Discard, conn)
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		evidence, err := tryMySQL(ctx, t, address)
		if (err == nil) != (evidence != "") {
			t.Errorf("evidence %q with error %v", evidence, err)
		}
	})
}

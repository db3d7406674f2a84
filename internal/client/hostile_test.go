package client_test

import (
	"encoding/binary"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/internal/client"
	"github.com/lancemaster/lancemaster/internal/client/clienttest"
)

// reply begins a strict binary reply to a method, up to the result's first field.
func reply(method string, fields ...byte) []byte {
	b := []byte{0x80, 1, 0, 2}
	b = binary.BigEndian.AppendUint32(b, uint32(len(method)))
	b = append(b, method...)
	b = binary.BigEndian.AppendUint32(b, 10) // the first call's sequence number
	return append(b, fields...)
}

// TestHostileReplies: whatever a peer answers, the call ends soon, with an error, and
// takes little memory.
func TestHostileReplies(t *testing.T) {
	success := []byte{12, 0, 0} // field 0, a struct
	list := func(count uint32) []byte {
		return binary.BigEndian.AppendUint32([]byte{15, 0, 1, 12}, count)
	}
	nested := append([]byte{}, success...)
	for range 1 << 20 {
		nested = append(nested, 12, 0, 99) // an unknown field that is a struct, in itself
	}
	endless := append(append([]byte{}, success...), 11, 0, 99) // an unknown field that is a long text
	endless = binary.BigEndian.AppendUint32(endless, client.MaxReply)
	endless = append(endless, make([]byte, client.MaxReply)...)
	for name, raw := range map[string][]byte{
		"nothing":           {},
		"another protocol":  []byte("SSH-2.0-OpenSSH_9.9\r\n"),
		"not strict":        append([]byte{0, 0, 0, 8}, "listJobs\x02\x00\x00\x00\x01\x00"...),
		"huge name":         {0x80, 1, 0, 2, 0x7f, 0xff, 0xff, 0xff},
		"negative name":     {0x80, 1, 0, 2, 0xff, 0xff, 0xff, 0xff},
		"another method":    reply("getJob", 0),
		"no result":         reply("listJobs", 0),
		"half a result":     reply("listJobs", success...),
		"an empty page":     reply("listJobs", append(success, 0, 0)...), // required fields are missing
		"huge list":         reply("listJobs", append(success, list(0x7fffffff)...)...),
		"large list":        reply("listJobs", append(success, list(client.MaxContainer+1)...)...),
		"long list, no job": reply("listJobs", append(success, list(client.MaxContainer)...)...),
		"negative list":     reply("listJobs", append(success, list(0xffffffff)...)...),
		"deep":              reply("listJobs", nested...),
		"too much":          reply("listJobs", endless...),
	} {
		t.Run(name, func(t *testing.T) {
			s := clienttest.New(t)
			s.Always("listJobs", clienttest.Behavior{Raw: raw, Drop: true})
			c, _ := newClient(t, s.Addr())
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			begun := time.Now()
			page, err := c.Jobs(t.Context(), client.JobQuery{})
			runtime.ReadMemStats(&after)
			if err == nil {
				t.Fatalf("the answer is taken: %+v", page)
			}
			if took := time.Since(begun); took > 5*time.Second {
				t.Errorf("it took %s", took)
			}
			// The count holds the server's side and every repeated attempt too.
			if took := after.TotalAlloc - before.TotalAlloc; took > client.MaxRounds*4*client.MaxReply {
				t.Errorf("it took %d bytes", took)
			}
			if name == "too much" && !client.IsCode(err, client.CodeBadReply) {
				t.Errorf("an answer that is too large gives %v", err)
			}
		})
	}
}

// TestAnotherPortIsNotWaitedFor: what only hangs up is asked a few times, since a
// master that stops does so too, but not as long as an election is waited for.
func TestAnotherPortIsNotWaitedFor(t *testing.T) {
	raft, http := clienttest.New(t), clienttest.New(t)
	raft.Always("*", clienttest.Behavior{Drop: true})
	http.Always("*", clienttest.Behavior{Raw: []byte("HTTP/1.1 400 Bad Request\r\n\r\n"), Drop: true})
	for _, tt := range []struct {
		addresses []string
		pauses    int
		code      string
	}{
		{[]string{http.Addr()}, 0, client.CodeBadReply},
		{[]string{raft.Addr()}, client.MaxHangups - 1, client.CodeConnectionLost},
		{[]string{raft.Addr(), http.Addr()}, client.MaxHangups - 1, client.CodeBadReply},
	} {
		c, p := newClient(t, tt.addresses...)
		_, err := c.Job(t.Context(), 1)
		if e := theError(t, err, tt.code); !strings.Contains(e.Next, "HTTP or Raft port") {
			t.Errorf("the next step is %q", e.Next)
		}
		if p.count() != tt.pauses {
			t.Errorf("%v: %d pauses, want %d", tt.addresses, p.count(), tt.pauses)
		}
	}
}

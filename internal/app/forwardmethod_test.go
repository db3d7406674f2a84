package app

import (
	"testing"

	"github.com/apache/thrift/lib/go/thrift"
)

// Those who wait for jobs through a follower must hold up nobody else.
func TestLongPollsAndReportsGoTheirOwnWay(t *testing.T) {
	message := func(method string) []byte {
		buffer := thrift.NewTMemoryBuffer()
		out := thrift.NewTBinaryProtocolConf(buffer, nil)
		if err := out.WriteMessageBegin(t.Context(), method, thrift.CALL, 1); err != nil {
			t.Fatal(err)
		}
		return buffer.Bytes()
	}
	for _, tt := range []struct {
		service string
		message []byte
		want    string
	}{
		{"admin", message("submit"), forwardAdmin},
		{"admin", message("waitJob"), forwardPoll},
		{"admin", message("watchJobs"), forwardPoll},
		{"report", message("reportLanceIndexJobResult"), forwardReport},
		{"admin", nil, forwardAdmin},
		{"admin", []byte{0x80, 1, 0, 1, 0xff, 0xff, 0xff, 0xff, 'w'}, forwardAdmin},
	} {
		if got := methodFor(tt.service, tt.message); got != tt.want {
			t.Errorf("%s %q goes by %s, not %s", tt.service, tt.message, got, tt.want)
		}
	}
}

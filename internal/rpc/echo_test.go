package rpc

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/apache/thrift/lib/go/thrift"

	"github.com/lancemaster/lancemaster/gen-go/shared"
	"github.com/lancemaster/lancemaster/internal/job"
)

// A backend that repeats what it was called with must not have it stored in the job's
// message: the values follow no key here, so that no pattern would find them.
func TestABackendsEchoesAreNotKept(t *testing.T) {
	const key, longer = "wJalrXUtnFEMI/K7MDENG", "wJalrXUtnFEMI/K7MDENG/bPxRfiCY"
	inv := invocation()
	inv.StorageOptions = map[string]string{"secret_access_key": key, "other": longer, "region": "eu"}
	echo := "cannot sign with " + longer + " nor " + key + " for " + inv.Secret + "0 in eu"
	for name, answer := range map[string]func(seq int32) []byte{
		"a refusal": func(seq int32) []byte {
			return statusReply(submitMethod, seq, &shared.TStatus{StatusCode: 6, ErrorMsgs: []string{echo}})
		},
		"an exception": func(seq int32) []byte {
			return answer(submitMethod, thrift.EXCEPTION, seq, func(ctx context.Context, p thrift.TProtocol) error {
				return thrift.NewTApplicationException(thrift.INTERNAL_ERROR, echo).Write(ctx, p)
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			at := wild(t, func(conn net.Conn) {
				seq, err := readCall(conn)
				if err != nil {
					t.Errorf("the call cannot be read: %v", err)
				}
				_, _ = conn.Write(answer(seq))
			})
			ctx, cancel := context.WithTimeout(t.Context(), bound)
			defer cancel()
			conn, err := NewBackendClient(BackendClientConfig{}).Dial(ctx, at)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			got, err := conn.Submit(ctx, inv)
			text := strings.Join(got.Messages, "\n")
			if err != nil {
				text += err.Error()
			}
			if !strings.Contains(text, "cannot sign with *** nor *** for ***0 in eu") {
				t.Errorf("got %q", text)
			}
		})
	}
}

func TestAHeartbeatsTokenIsNotKept(t *testing.T) {
	const token = "orchard seven"
	at := wild(t, func(conn net.Conn) {
		seq, err := readCall(conn)
		if err != nil {
			t.Errorf("the call cannot be read: %v", err)
		}
		_, _ = conn.Write(answer("heartbeat", thrift.EXCEPTION, seq, func(ctx context.Context, p thrift.TProtocol) error {
			return thrift.NewTApplicationException(thrift.INTERNAL_ERROR, "not the one I know: "+token).Write(ctx, p)
		}))
	})
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	_, err := NewBackendClient(BackendClientConfig{}).Heartbeat(ctx, at, job.HeartbeatRequest{Token: token})
	if err == nil || strings.Contains(err.Error(), token) || !strings.Contains(err.Error(), "not the one I know: ***") {
		t.Errorf("got %v", err)
	}
}

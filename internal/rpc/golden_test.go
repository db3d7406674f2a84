package rpc

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/apache/thrift/lib/go/thrift"

	"github.com/lancemaster/lancemaster/gen-go/admin"
	"github.com/lancemaster/lancemaster/gen-go/backend"
	"github.com/lancemaster/lancemaster/gen-go/report"
	"github.com/lancemaster/lancemaster/gen-go/shared"
	"github.com/lancemaster/lancemaster/internal/job"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files anew")

// wireStructs are the structs that programs of other makers write or read, with every field set, and
// with only those that must be.
func wireStructs() map[string]thrift.TStruct {
	full := dispatchOf(invocation())
	full.StorageOptions = map[string]string{"region": "eu"} // one entry: a map has no order
	full.IfExists = ptr(true)
	return map[string]thrift.TStruct{
		"dispatch": full,
		"dispatch-drop": dispatchOf(&job.Invocation{
			Job: 8, DispatchRevision: 1, InvocationID: "inv-8", ProcessEpoch: epoch, DeadlineAt: 1_700_000_360_000, Mutation: job.MutationDrop,
			IndexName: "Idx", IfExists: true, DatasetURI: "s3://b/t", DatasetVersion: 3, Secret: secret, MaxNumPartitions: 4096, MaxNumSubVectors: 256,
		}),
		"report": &report.TLanceIndexJobReport{
			JobID: 7, DispatchRevision: 1, InvocationID: "inv-7", BeProcessEpoch: epoch, ResultCode: nativeOK,
			CompletionReason: ptr(shared.TLanceIndexCompletionReason_IF_CONDITION_NOOP), SanitizedMessage: ptr("built"),
			ExternalMetadataAdvanced: ptr(true), TerminationProof: ptr(reaped), InvocationSecret: ptr(secret),
		},
		"report-least": &report.TLanceIndexJobReport{
			JobID: 7, DispatchRevision: 1, InvocationID: "inv-7", BeProcessEpoch: epoch, ResultCode: nativeIO,
		},
		"termination": &report.TLanceIndexJobTerminationReport{
			JobID: 7, DispatchRevision: 1, InvocationID: "inv-7", BeProcessEpoch: epoch, Proof: never, InvocationSecret: ptr(secret),
		},
		"status": &shared.TStatus{StatusCode: shared.TStatusCode_NOT_IMPLEMENTED_ERROR, ErrorMsgs: []string{"one", "two"}},
		"master-info": &backend.TMasterInfo{
			NetworkAddress: &shared.TNetworkAddress{Hostname: "m1", Port: 9020}, ClusterID: 9, Epoch: 1<<40 | 5, Token: ptr("tok"),
			BackendIP: ptr("10.0.0.7"), HTTPPort: ptr(int32(8030)), HeartbeatFlags: ptr(int64(1)), BackendID: ptr(int64(3)),
		},
		"heartbeat-result": &backend.THeartbeatResult_{
			Status: &shared.TStatus{}, BackendInfo: &backend.TBackendInfo{
				BePort: 9060, HTTPPort: 8040, BeRPCPort: ptr(int32(0)), BrpcPort: ptr(int32(8060)), Version: ptr("v1"), BeStartTime: ptr(int64(epoch)),
			},
		},
		"admin-error": &admin.TAdminError{
			Code: admin.TAdminErrorCode_FENCE_HELD, Message: "held", NextStep: ptr("wait"), LeaderAddress: ptr("m1:9021"), HolderJobID: ptr(int64(4)),
		},
		"admin-context": &admin.TRequestContext{Token: ptr("tok"), ClientName: ptr("joe"), ClientVersion: ptr("v1")},
	}
}

// The bytes of each wire struct are what other programs were built against.
func TestGoldenBytes(t *testing.T) {
	for name, s := range wireStructs() {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			for _, form := range []string{"binary", "compact"} {
				fmt.Fprintf(&b, "%s\n%s", form, hex.Dump(encode(t, form, s)))
			}
			file := filepath.Join("testdata", "wire", name+".hex")
			if *rewrite {
				if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatalf("%v; run the test with -rewrite to write it", err)
			}
			if string(want) != b.String() {
				t.Errorf("the bytes have changed; other programs read the old ones:\n%s", b.String())
			}
			for _, form := range []string{"binary", "compact"} {
				raw := encode(t, form, s)
				again, ok := reflect.New(reflect.TypeOf(s).Elem()).Interface().(thrift.TStruct)
				if !ok {
					t.Fatal("no struct")
				}
				if err := again.Read(t.Context(), protocol(form, raw)); err != nil || !bytes.Equal(encode(t, form, again), raw) {
					t.Errorf("%s: what was written is not what is read: %v", form, err)
				}
			}
		})
	}
}

func protocol(form string, raw []byte) thrift.TProtocol {
	b := &thrift.TMemoryBuffer{Buffer: bytes.NewBuffer(raw)}
	if form == "compact" {
		return thrift.NewTCompactProtocolConf(b, nil)
	}
	return thrift.NewTBinaryProtocolConf(b, nil)
}

func encode(t testing.TB, form string, s thrift.TStruct) []byte {
	t.Helper()
	p := protocol(form, nil)
	if err := s.Write(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	b, ok := p.Transport().(*thrift.TMemoryBuffer)
	if !ok {
		t.Fatal("no buffer")
	}
	return b.Bytes()
}

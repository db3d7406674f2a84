package job

import (
	"fmt"
	"log/slog"
)

// Invocation is the one dispatch of a job in full, as it goes to a backend. It
// carries secrets: they live in memory between preparing and sending, and no
// way of printing or encoding the value shows them.
type Invocation struct {
	Job              ID
	DispatchRevision Revision
	InvocationID     string
	ProcessEpoch     int64
	DeadlineAt       Millis
	Mutation         Mutation
	IndexName        string
	Column           string
	IndexType        IndexType
	PropertiesJSON   string // empty: the field stays unset
	IfNotExists      bool
	IfExists         bool
	DatasetURI       string
	DatasetVersion   int64
	SchemaContract   string
	StorageOptions   map[string]string
	Secret           string // 32 hexadecimal digits
	MaxNumPartitions int32
	MaxNumSubVectors int32
}

// String names the invocation without its secrets.
func (i Invocation) String() string {
	return fmt.Sprintf("invocation(job %d, %s)", i.Job, i.InvocationID)
}

// Format keeps every verb, %+v and %#v among them, from reaching the fields.
func (i Invocation) Format(s fmt.State, _ rune) { _, _ = fmt.Fprint(s, i.String()) }

// LogValue keeps slog from reaching the fields.
func (i Invocation) LogValue() slog.Value { return slog.StringValue(i.String()) }

// MarshalText keeps encoders from reaching the fields, slog's JSON of a list among
// them.
func (i Invocation) MarshalText() ([]byte, error) { return []byte(i.String()), nil }

// Reply is a backend's complete answer to an invocation.
type Reply struct {
	Status   int32 // the status number as sent
	Messages []string
}

// HeartbeatRequest is what the leader tells a backend. It carries the shared
// token, which no way of printing the value shows.
type HeartbeatRequest struct {
	Backend    BackendID
	ClusterID  int32
	Epoch      int64  // incarnation << 40 | term
	ReportHost string // where this master's report service listens
	ReportPort int32
	HTTPPort   int32
	Token      string
}

// String names the heartbeat without its token.
func (h HeartbeatRequest) String() string {
	return fmt.Sprintf("heartbeat(backend %d, epoch %d)", h.Backend, h.Epoch)
}

// Format keeps every verb from reaching the token.
func (h HeartbeatRequest) Format(s fmt.State, _ rune) { _, _ = fmt.Fprint(s, h.String()) }

// LogValue keeps slog from reaching the token.
func (h HeartbeatRequest) LogValue() slog.Value { return slog.StringValue(h.String()) }

// MarshalText keeps encoders from reaching the token.
func (h HeartbeatRequest) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// HeartbeatReply is a backend's answer.
type HeartbeatReply struct {
	Status       int32
	Messages     []string
	ProcessEpoch int64  // be_start_time; 0 when the backend sent none
	RemoteAddr   string // the resolved IP:port that answered
	BePort       int32
	Version      string
}

package job

import "time"

// Settings are the replicated settings in force, parsed.
type Settings struct {
	AdmissionEnabled           bool
	NullableColumnsAllowed     bool
	MaxUnresolvedPerTable      int
	MaxUnresolvedPerCatalog    int
	MaxUnresolvedGlobal        int
	MaxNumPartitions           int32
	MaxNumSubVectors           int32
	DispatchInterval           time.Duration
	ExecuteDeadline            time.Duration
	MaxExecuteDeadline         time.Duration
	MaxPerRound                int
	MaxInflightPerBackend      int
	DispatchPaused             bool
	SendWindow                 time.Duration
	RPCTimeout                 time.Duration
	HeartbeatInterval          time.Duration
	RefreshRetryInterval       time.Duration
	RetentionKeep              time.Duration
	RetentionInterval          time.Duration
	LocalDatasetsAllowed       bool
	LeaderChangeUnknown        bool // leader_change.running = unknown
	UnauthenticatedTermination bool
}

// MaxSendWindow bounds dispatch.send_window. It is fixed because other rules
// (the inherited job's wait, the force release's) count on it.
const MaxSendWindow = 10 * time.Second

// SettingValue is one setting's name and value in canonical spelling.
type SettingValue struct{ Name, Value string }

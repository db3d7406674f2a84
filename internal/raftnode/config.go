package raftnode

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// Config says how a node runs. ID, Dir, FSM, Fatal and Stream (or BindAddress, or NewTransport) have no default.
type Config struct {
	// ID is the member's name, unique in the cluster and never given to another disk.
	ID string
	// Dir holds raft.db (log, term and vote) and snapshots/. It is made when missing.
	Dir string
	// BindAddress is the host:port to listen on. Port 0 takes a free one.
	BindAddress string
	// AdvertiseAddress is the host:port under which other members reach this one. A name is
	// resolved anew at each dial. Empty means the bound address, which must then be of one host.
	AdvertiseAddress string
	// Stream carries the connections to other members, instead of a listener of the node's own:
	// BindAddress and AdvertiseAddress are then not used. Its Dial is given "ID@host:port", so that
	// it can make sure of whom it reaches. Shutdown closes it. May be nil.
	Stream raft.StreamLayer
	// MemberAddress gives a member's configured address, or false to use the one in the member
	// list. It is asked at each connection and must not block. May be nil.
	MemberAddress func(id string) (address string, ok bool)
	// NewTransport replaces TCP. BindAddress is then not used, and the transport's own address is
	// this member's. May be nil.
	NewTransport func() (raft.Transport, error)

	// FSM is the replicated state machine.
	FSM raft.FSM
	// Prepare is called in Start, before anything is applied. Raft does not restore a snapshot into
	// FSM at the start, since FSM keeps its own state on disk: here its owner checks that state
	// against the log and the snapshots, and restores the newest snapshot if the state is older.
	// Neither store may be used after Prepare has returned. May be nil.
	Prepare func(raft.LogStore, raft.SnapshotStore) error

	// Disk watches the writes. When nil the node makes its own from DiskStallLimit and Fatal, and
	// ends it with itself.
	Disk *DiskWatch
	// DiskStallLimit is how long one write may take before the disk counts as hung (default 8s).
	DiskStallLimit time.Duration
	// Fatal is told, once, that the disk hangs or has failed. The process must then end within
	// seconds. Fatal runs on a goroutine of the node: it must not wait for Shutdown.
	Fatal func(error)
	// Logger gets the node's lines and Raft's (default: none).
	Logger *slog.Logger

	// HeartbeatTimeout is how long a follower waits for its leader (default 1s). Heartbeats queue
	// behind writes to the disk, so it must exceed what a slow write takes.
	HeartbeatTimeout time.Duration
	// ElectionTimeout is how long a candidate waits for votes (default 1s).
	ElectionTimeout time.Duration
	// LeaderLease is how long a leader that reaches no majority goes on (default 500ms).
	LeaderLease time.Duration
	// CommitTimeout is how soon followers learn of a commit when nothing else is sent (default 50ms).
	CommitTimeout time.Duration
	// RPCTimeout bounds one request to another member (default 5s).
	RPCTimeout time.Duration

	// SnapshotInterval is how often the node looks whether a snapshot is due (default 2m).
	SnapshotInterval time.Duration
	// SnapshotThreshold is how many entries make one due (default 8192).
	SnapshotThreshold uint64
	// SnapshotRetain is how many snapshots are kept (default 2).
	SnapshotRetain int
	// TrailingLogs is how many entries stay in the log after a snapshot (default 10240).
	TrailingLogs uint64

	// MaxCommandSize bounds one command, in bytes (default 512 KiB).
	MaxCommandSize int
	// EnqueueTimeout is how long a command may wait for Raft to take it (default 5s).
	EnqueueTimeout time.Duration
	// BarrierTimeout bounds one shared barrier (default 10s).
	BarrierTimeout time.Duration
	// DrainTimeout is how long Shutdown lets commands under way be answered (default 2s).
	DrainTimeout time.Duration
	// LockTimeout is how long New waits for another process to let go of the log (default 2s).
	LockTimeout time.Duration

	recoverStep func(name string) // tests look at the disk in it
}

const (
	defaultDiskStallLimit    = 8 * time.Second
	defaultHeartbeatTimeout  = time.Second
	defaultElectionTimeout   = time.Second
	defaultLeaderLease       = 500 * time.Millisecond
	defaultCommitTimeout     = 50 * time.Millisecond
	defaultRPCTimeout        = 5 * time.Second
	defaultSnapshotInterval  = 2 * time.Minute
	defaultSnapshotThreshold = 8192
	defaultSnapshotRetain    = 2
	defaultTrailingLogs      = 10240
	defaultMaxCommandSize    = raft.SuggestedMaxDataSize
	defaultEnqueueTimeout    = 5 * time.Second
	defaultBarrierTimeout    = 10 * time.Second
	defaultDrainTimeout      = 2 * time.Second
	defaultLockTimeout       = 2 * time.Second

	// maxAppendEntries is how many entries Raft appends, sends or applies together.
	maxAppendEntries = 64
	// logCacheEntries is how many recent entries stay in memory, so that replication and applying
	// need not read back what was just written.
	logCacheEntries = 128
)

// withDefaults returns the configuration with every zero value that has a default replaced.
func (c Config) withDefaults() Config {
	setDefault(&c.DiskStallLimit, defaultDiskStallLimit)
	setDefault(&c.HeartbeatTimeout, defaultHeartbeatTimeout)
	setDefault(&c.ElectionTimeout, defaultElectionTimeout)
	setDefault(&c.LeaderLease, defaultLeaderLease)
	setDefault(&c.CommitTimeout, defaultCommitTimeout)
	setDefault(&c.RPCTimeout, defaultRPCTimeout)
	setDefault(&c.SnapshotInterval, defaultSnapshotInterval)
	setDefault(&c.SnapshotThreshold, defaultSnapshotThreshold)
	setDefault(&c.SnapshotRetain, defaultSnapshotRetain)
	setDefault(&c.TrailingLogs, defaultTrailingLogs)
	setDefault(&c.MaxCommandSize, defaultMaxCommandSize)
	setDefault(&c.EnqueueTimeout, defaultEnqueueTimeout)
	setDefault(&c.BarrierTimeout, defaultBarrierTimeout)
	setDefault(&c.DrainTimeout, defaultDrainTimeout)
	setDefault(&c.LockTimeout, defaultLockTimeout)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// validate reports everything that is wrong with a configuration whose defaults are set.
func (c Config) validate() error {
	var faults []error
	refuse := func(wrong bool, format string, args ...any) {
		if wrong {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	refuse(c.ID == "", "the member's id is empty")
	refuse(c.Dir == "", "the data directory is not named")
	refuse(c.FSM == nil, "there is no state machine")
	refuse(c.Fatal == nil && c.Disk == nil, "nobody is named to be told of a failed disk")
	refuse(c.BindAddress == "" && c.Stream == nil && c.NewTransport == nil, "there is no address to listen on")
	if c.AdvertiseAddress != "" {
		if _, _, err := net.SplitHostPort(c.AdvertiseAddress); err != nil {
			faults = append(faults, fmt.Errorf("advertised address %q is not host:port: %w", c.AdvertiseAddress, err))
		}
	}
	for _, bound := range []struct {
		name  string
		value time.Duration
	}{
		{"disk stall limit", c.DiskStallLimit}, {"rpc timeout", c.RPCTimeout},
		{"enqueue timeout", c.EnqueueTimeout}, {"barrier timeout", c.BarrierTimeout},
		{"drain timeout", c.DrainTimeout}, {"lock timeout", c.LockTimeout},
	} {
		refuse(bound.value < 0, "the %s is negative: %s", bound.name, bound.value)
	}
	refuse(c.SnapshotRetain < 0, "the number of kept snapshots is negative: %d", c.SnapshotRetain)
	refuse(c.MaxCommandSize < 0, "the largest command size is negative: %d", c.MaxCommandSize)
	if c.ID != "" {
		if err := raft.ValidateConfig(c.raft(nil)); err != nil {
			faults = append(faults, err)
		}
	}
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("raft node configuration refused: %w", err)
	}
	return nil
}

// raft is the library's configuration for this one.
func (c Config) raft(logger hclog.Logger) *raft.Config {
	conf := raft.DefaultConfig()
	conf.LocalID = raft.ServerID(c.ID)
	conf.Logger = logger
	conf.HeartbeatTimeout = c.HeartbeatTimeout
	conf.ElectionTimeout = c.ElectionTimeout
	conf.LeaderLeaseTimeout = c.LeaderLease
	conf.CommitTimeout = c.CommitTimeout
	conf.SnapshotInterval = c.SnapshotInterval
	conf.SnapshotThreshold = c.SnapshotThreshold
	conf.TrailingLogs = c.TrailingLogs
	conf.MaxAppendEntries = maxAppendEntries
	// One goroutine hands all commands to Raft, to keep their order; the buffer lets Raft still
	// take many of them into one write.
	conf.BatchApplyCh = true
	// A removed member stays up, so that its operator can ask it what happened.
	conf.ShutdownOnRemove = false
	// The state machine has its own state; Config.Prepare decides.
	conf.NoSnapshotRestoreOnStart = true
	conf.NoLegacyTelemetry = true
	return conf
}

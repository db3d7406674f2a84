package rpc

import (
	"context"
	"errors"
	"time"

	"github.com/lancemaster/lancemaster/internal/job"
)

// Journal proposes commands. The error is a *job.Refusal (applied nothing), wraps job.ErrNotAppended
// (never reached the journal), or is ambiguous.
type Journal interface {
	Propose(ctx context.Context, c job.Command) (job.Answer, error)
}

// State reads what has been applied on this node.
type State interface {
	// Read calls f with the state in memory; f must be quick and keep nothing but records.
	Read(f func(View))
	// Job returns a job, open or not; nil when there is none.
	Job(id job.ID) (*job.Record, error)
	List(q job.Query) (job.Page, error)
	// History returns a job's events, oldest first, and how many were dropped in between.
	History(id job.ID) (events []job.Event, dropped int64, err error)
	// EventsAfter returns events whose Raft index is above after, in the order of the log. It stops at
	// the end of an index once there are limit events or more.
	EventsAfter(after uint64, limit int) ([]job.Event, error)
	// Settings returns for each setting the change that set it; a first value has no old one.
	Settings() ([]job.SettingChange, error)
	// SettingsHistory returns the newest changes first; an empty name means all settings.
	SettingsHistory(name string, limit int) ([]SettingChange, error)
	// AppliedChanged returns a channel that is closed at the next applied change.
	AppliedChanged() <-chan struct{}
	// Applied returns the position of the newest entry that reads see.
	Applied() job.Position
}

// SettingChange is one entry of the settings' history with its place in the journal.
type SettingChange struct {
	Index uint64
	job.SettingChange
}

// View is what the services read of the state in memory.
type View interface {
	Cluster() job.Cluster
	Settings() job.Settings
	SettingValues() []job.SettingValue
	Catalogs() []*job.Catalog // by name
	Catalog(name string) *job.Catalog
	OpenInCatalog(name string) int
	UnresolvedInCatalog(name string) int
	Backends() []*job.Backend // by id
	Backend(id job.BackendID) *job.Backend
	SlotsHeld(id job.BackendID) int
	Tokens() []*job.Token // by name
}

// ErrNotLeader says that this node does not lead, or does not serve yet.
var ErrNotLeader = errors.New("this node is not the leader")

// Barrier makes reads linearizable: when it returns nil, the state holds everything that was
// acknowledged before the call. It fails on a node that does not lead; such errors wrap ErrNotLeader
// where that is the reason.
type Barrier interface {
	ReadBarrier(ctx context.Context) error
}

// Leader is who serves what only the leader may.
type Leader struct {
	Self   bool   // this node leads and serves
	NodeID string // else: who leads
}

// Leadership finds the leader.
type Leadership interface {
	Barrier
	// WaitLeader waits until this node leads and serves, or another leader is known, or ctx ends.
	WaitLeader(ctx context.Context) (Leader, error)
}

// LatchCloser closes the one-shot latch of an invocation that has not been sent, so that it never is.
type LatchCloser interface {
	CloseLatch(id job.ID, invocationID string)
}

// Submitter admits submissions. Its errors are like Journal's.
type Submitter interface {
	Submit(ctx context.Context, s job.Submission) (job.SubmissionOutcome, error)
}

// Releaser force releases UNKNOWN jobs. Its errors are like Journal's. The caller has waited for a
// read barrier. expected is the revision that the operator saw, nil for whatever it is.
type Releaser interface {
	ForceRelease(ctx context.Context, actor string, id job.ID, expected *job.Revision, note string) (*job.Record, error)
}

// Explainer says why a job is where it is.
type Explainer interface {
	Explain(rec *job.Record) []Reason
}

// Reason is one part of an explanation. Next is empty where nothing needs to be done.
type Reason struct{ Code, Message, Next string }

// Inspector reads a dataset. Refusals are *job.Refusal.
type Inspector interface {
	Inspect(ctx context.Context, req InspectRequest) (Inspection, error)
}

// InspectRequest names a dataset; Column and Catalog are optional.
type InspectRequest struct{ DatasetURI, Column, Catalog string }

// Inspection is what a dataset's newest version holds, and who holds which of its index names.
type Inspection struct {
	Locator        string
	Version        int64
	At             job.Millis
	Fields         []DatasetField
	Indexes        []DatasetIndex
	Fences         []DatasetFence
	Column         string // the stored spelling, where one was asked for
	SchemaContract string
}

// DatasetField is one field of a dataset's schema.
type DatasetField struct {
	ID, ParentID      int32
	Name, LogicalType string
	Nullable          bool
}

// DatasetIndex is one index of a dataset. Metric is empty and the numbers 0 where they do not apply.
type DatasetIndex struct {
	Name, Key, Type        string
	Columns                []string
	DatasetVersion         int64
	Metric                 string
	NumBits, NumSubVectors int32
	UUID                   string
	CreatedAt              job.Millis
}

// DatasetFence is a fence held on an index name of a dataset.
type DatasetFence struct {
	IndexKey string
	Job      job.ID
	Store    string
}

// Liveness tells what this leader's heartbeats say of a backend.
type Liveness interface {
	Backend(id job.BackendID) BackendLiveness
}

// BackendLiveness is a backend as this leader's heartbeats see it.
type BackendLiveness struct {
	Unheard      bool // neither an answer nor a failure of this term yet
	Alive        bool
	ProcessEpoch int64 // 0: none heard in this term
	LastOKAt     job.Millis
	LastError    string
	Version      string
}

// Node describes this node.
type Node interface {
	Status() NodeStatus
}

// NodeStatus is what a node says of itself, without asking anybody.
type NodeStatus struct {
	NodeID             string
	Version            string
	RaftState          string
	RaftTerm           uint64
	AppliedIndex       uint64
	ClusterID          int32
	Incarnation        int64
	Level              int32
	Ready              bool
	NotReadyReason     string
	LeaderID           string
	LeaderAdminAddress string
	Quarantined        bool
	ReportAddress      string
	AdminAddress       string
	HTTPAddress        string
	StartedAt          job.Millis
	InstanceID         string
	RaftAddress        string
	CommitIndex        uint64
	LastContact        time.Duration // since this node heard from the leader; 0 on the leader, Never
	MaxLevel           int32         // the highest that this build knows
	QuarantineCause    string
	QuarantinedAt      job.Millis
	WaitingFor         string // what a node without a cluster waits for
	Voters             int
	LastSnapshotIndex  uint64
}

// Never is a contact that has not been.
const Never = time.Duration(-1)

// Cluster serves the cluster's verbs, on the leader, but for Members. Its errors are like Journal's.
type Cluster interface {
	// Members is what this node knows; on the leader, with what the others told it.
	Members(ctx context.Context) (ClusterStatus, error)
	AddMember(ctx context.Context, actor, nodeID, address string) (Member, error)
	RemoveMember(ctx context.Context, actor, nodeID string) error
	// ReplaceMember lets another instance take the place of a member; without an address, where that
	// is registered.
	ReplaceMember(ctx context.Context, actor, nodeID, address string) (Member, error)
	// TransferLeader hands over to a voter, the most complete one where none is named.
	TransferLeader(ctx context.Context, actor, nodeID string) (newLeader string, err error)
}

// ClusterStatus is the cluster as one node sees it.
type ClusterStatus struct {
	Members                           []Member // by node id
	Voters, Quorum, FailuresTolerated int
	Warnings                          []string
}

// Member is one member of the cluster as another sees it.
type Member struct {
	NodeID, InstanceID                       string
	Address                                  string // of Raft, as registered
	ConfiguredAddress                        string // in this node's configuration, where that differs
	Voter, Leader, Self                      bool
	Reachable                                bool          // it answered the last time it was asked
	LastContact                              time.Duration // since it was heard; 0 of the node itself, Never
	AppliedIndex                             uint64
	Version                                  string
	Level, MaxLevel                          int32
	ClockOffset                              *time.Duration // how far its clock is ahead of this node's; nil: not known
	AdminAddress, ReportAddress, HTTPAddress string
	LastError                                string
	State                                    string // what it is doing, in words
}

// Snapshots makes snapshots of this node's state for reading. Refusals are *job.Refusal.
type Snapshots interface {
	// Begin makes one and keeps it for reading, for a bounded time.
	Begin(ctx context.Context) (SnapshotInfo, error)
	// Read returns limit bytes from an offset, fewer at the end and none past it.
	Read(ctx context.Context, id string, offset int64, limit int) ([]byte, error)
	// Release ends it; one that is not there has ended already.
	Release(id string)
}

// SnapshotInfo describes a snapshot that is open for reading.
type SnapshotInfo struct {
	ID                  string
	Size                int64
	SHA256              job.Hash
	RaftIndex, RaftTerm uint64
	ClusterID           int32
	Incarnation         int64
	Level               int32
	Jobs                int64
	CreatedAt           job.Millis
}

// Clock reads the wall clock.
type Clock interface {
	Now() time.Time
}

func millis(c Clock) job.Millis { return job.Millis(c.Now().UnixMilli()) }

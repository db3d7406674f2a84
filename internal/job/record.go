package job

// Millis is a point in time: milliseconds since the Unix epoch, UTC. Zero means
// that the event has not happened.
type Millis int64

// ID identifies a job. It comes from a replicated counter, starts at 1 and is
// never reused.
type ID int64

// Revision counts a job's transitions: 0 at admission, one more with each.
type Revision int64

// BackendID identifies a registered backend. It comes from a replicated counter,
// starts at 1 and is never reused.
type BackendID int64

// Hash is a SHA-256 sum.
type Hash [32]byte

// Bounds on stored text, in UTF-8 bytes.
const (
	MaxName         = 1024 // names and free text in general
	MaxIndexName    = 64   // an index name at admission
	MaxProperties   = 4096
	MaxInvocationID = 256
	MaxMessage      = 1024 // a result's or a failure's message
	MaxNote         = 1024 // notes and warnings
	MaxLateResults  = 4
	MaxEvidence     = 4 // proofs kept after the first
)

// Provider is the only provider of this contract: a dataset is a directory.
const Provider = "DIRECTORY"

// Record is everything that is stored about one job. A record is immutable once
// it is part of a Change; a transition works on a Clone.
type Record struct {
	ID          ID
	Creator     string // the actor of the admission
	RequestID   string // empty when the caller gave none
	RequestHash Hash   // of the request's body as the caller sent it; zero without RequestID
	Revision    Revision
	CreatedAt   Millis
	UpdatedAt   Millis
	ResolvedAt  Millis // when the fence was released
	ClosedAt    Millis // when the job last stopped being open

	Target   Target
	Spec     Spec
	Snapshot Snapshot
	Dispatch Dispatch // zero until RUNNING is entered

	State       State
	Refresh     Refresh
	Result      *Result // nil until terminal
	LateResults []LateResult
	// LateRefresh is the one best-effort refresh that a late NATIVE_OK of an
	// UNKNOWN job owes. It holds nothing. State is NOT_REQUIRED where none is owed.
	LateRefresh Refresh

	QuarantinedAt Millis
	ForceRelease  *Release
	SlotRelease   *Release
}

// Target says which index of which dataset a job is about.
type Target struct {
	Catalog   string
	Store     string // the store identity in force at admission
	Database  string
	Table     string
	Provider  string
	Locator   string // normalized
	IndexName string // display spelling
	IndexKey  string // normalized spelling
}

// Spec says what is to be done.
type Spec struct {
	Mutation         Mutation
	IfNotExists      bool
	IfExists         bool
	IndexType        IndexType // empty for DROP
	Column           string    // the stored spelling; empty for DROP
	PropertiesJSON   string    // empty where the type takes none
	MaxNumPartitions int32     // bounds in force at admission
	MaxNumSubVectors int32
	ExecuteDeadline  int64 // milliseconds, positive
}

// Snapshot is what admission knew of the dataset.
type Snapshot struct {
	DatasetVersion int64
	SchemaContract string // empty for DROP
	Source         SnapshotSource
}

// Dispatch is the one send of a job. Its identity (revision, invocation,
// backend, epoch) never changes once set.
type Dispatch struct {
	BackendID    BackendID
	ProcessEpoch int64 // the backend process the send is for: its start, UTC milliseconds
	Revision     Revision
	InvocationID string
	SecretHash   Hash   // of the 32 ASCII bytes of the secret as sent
	StartedAt    Millis // when RUNNING was journaled
	DeadlineAt   Millis // told to the backend
	SlotHeld     bool
	Proof        Proof // the proof that released the slot, or NONE; never overwritten
	ProofAt      Millis
	Evidence     []Evidence // later proofs, oldest first, no duplicates
}

// Dispatched reports whether RUNNING was ever entered.
func (d *Dispatch) Dispatched() bool { return d.Revision > 0 }

// Evidence is a termination proof that arrived when no slot was held any more.
type Evidence struct {
	Proof Proof
	At    Millis
}

// Refresh is the metadata refresh of a job.
type Refresh struct {
	State       RefreshState
	Attempt     int64  // counts the attempts begun
	StartedAt   Millis // of the newest attempt
	FinishedAt  Millis // when DONE was reached
	Evidence    string // what DONE rests on
	LastFailure *Failure
}

// Failure is the newest failed attempt of a refresh.
type Failure struct {
	At      Millis
	Message string // sanitized
}

// Result is the outcome of a job's invocation.
type Result struct {
	Code             ResultCode // zero where the job was never invoked
	Reason           Reason
	Message          string // sanitized
	MetadataAdvanced bool   // external_metadata_advanced
	At               Millis
}

// LateResult is an authenticated report that came after the job was UNKNOWN.
type LateResult struct {
	Code             ResultCode
	Message          string
	MetadataAdvanced bool
	At               Millis
}

// Release records an operator's decision.
type Release struct {
	Actor   string
	At      Millis
	Note    string
	Warning string
}

// HoldsFence reports whether the job holds the fence on its index name and, with
// it, its units of the unresolved quotas. The two are one predicate on purpose.
func (r *Record) HoldsFence() bool {
	switch r.State {
	case StateCommitted, StateNotCommitted:
		return r.Refresh.State != RefreshNotRequired && r.Refresh.State != RefreshDone
	case StateUnknown:
		return r.ForceRelease == nil
	default:
		return true
	}
}

// HoldsSlot reports whether the job holds a possible-live slot on its backend.
func (r *Record) HoldsSlot() bool { return r.Dispatch.SlotHeld }

// Open reports whether the job holds anything.
func (r *Record) Open() bool { return r.HoldsFence() || r.HoldsSlot() }

// Resolved reports whether the job's fence is released.
func (r *Record) Resolved() bool { return !r.HoldsFence() }

// OwesLateRefresh reports whether a late NATIVE_OK still waits for its refresh.
func (r *Record) OwesLateRefresh() bool {
	return r.LateRefresh.State == RefreshRequired || r.LateRefresh.State == RefreshRunning
}

// FenceKey identifies a same-name fence.
type FenceKey struct{ Store, Provider, Locator, IndexKey string }

// TableKey identifies a dataset, the scope of the per-table quota.
type TableKey struct{ Store, Locator string }

// Fence returns the key of the fence this target needs.
func (t Target) Fence() FenceKey {
	return FenceKey{Store: t.Store, Provider: t.Provider, Locator: t.Locator, IndexKey: t.IndexKey}
}

// TableKey returns the scope of the per-table quota this target counts against.
func (t Target) TableKey() TableKey { return TableKey{Store: t.Store, Locator: t.Locator} }

// Clone returns a copy that shares nothing that a transition may write to.
func (r *Record) Clone() *Record {
	c := *r
	c.Dispatch.Evidence = append([]Evidence(nil), r.Dispatch.Evidence...)
	c.LateResults = append([]LateResult(nil), r.LateResults...)
	c.Refresh.LastFailure = clone(r.Refresh.LastFailure)
	c.LateRefresh.LastFailure = clone(r.LateRefresh.LastFailure)
	c.Result = clone(r.Result)
	c.ForceRelease = clone(r.ForceRelease)
	c.SlotRelease = clone(r.SlotRelease)
	return &c
}

func clone[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}

// EventKind names the transition that an Event records.
type EventKind string

// The kinds of events. They are stored by name and never change.
const (
	EventAdmitted       EventKind = "ADMITTED"
	EventRunning        EventKind = "MARK_RUNNING"
	EventCompleted      EventKind = "COMPLETED"
	EventTermination    EventKind = "TERMINATION_RECORDED"
	EventRefreshRunning EventKind = "REFRESH_RUNNING"
	EventRefreshDone    EventKind = "REFRESH_DONE"
	EventRefreshFailed  EventKind = "REFRESH_FAILED"
	EventRefreshReset   EventKind = "REFRESH_RESET"
	EventCancelled      EventKind = "CANCELLED"
	EventRejected       EventKind = "REJECTED"
	EventForceReleased  EventKind = "FORCE_RELEASED"
	EventSlotReleased   EventKind = "SLOT_RELEASED"
	EventLateResult     EventKind = "LATE_RESULT"
	EventQuarantined    EventKind = "QUARANTINED"
	EventLeaderChanged  EventKind = "LEADER_CHANGED"
)

// Event is one applied transition of one job. Index and Term are the position of
// its command in the Raft log; Index is the cursor of a watch.
type Event struct {
	Job         ID
	Revision    Revision
	Index       uint64
	Term        uint64
	At          Millis
	Actor       string
	Kind        EventKind
	From        State // zero at admission
	To          State
	FromRefresh RefreshState
	ToRefresh   RefreshState
	Reason      string // one line for people: the code, proof or cause, sanitized
}

// History keeps the first events of a job and the newest: what lies between is
// dropped as new events arrive.
const (
	HistoryFirst = 16
	HistoryLast  = 112
)

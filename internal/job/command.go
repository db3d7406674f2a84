package job

// Header is what every command carries: the time and the name of whoever asked,
// as the leader saw them. Applying reads no other clock.
type Header struct {
	At    Millis
	Actor string
}

// Head returns the header; it makes every command a Command.
func (h Header) Head() Header { return h }

// Command is one entry of the journal. The concrete types are those of this
// file; each has one transition.
type Command interface {
	Head() Header
	// Name is the command's name in logs, metrics and the journal's listing.
	Name() string
}

// ActorSystem is the actor of what the master does of its own accord.
const ActorSystem = "system"

// Form makes an empty state a cluster's: it is the first command of a journal
// and brings every setting's default with it.
type Form struct {
	Header
	ClusterID int32
	Level     int32
	Settings  []SettingValue // every setting of the level, sorted by name
	// Members are the founders, sorted by node id, at least one. What is to be known of
	// each is NodeID, InstanceID and Address; the transition sets the rest.
	Members []Member
}

// Admit makes a job PENDING and takes its fence and quotas. The actor is the
// creator.
type Admit struct {
	Header
	RequestID   string
	RequestHash Hash
	Target      Target
	Spec        Spec
	Snapshot    Snapshot
}

// MarkRunning is the permission to send, journaled before any byte leaves.
type MarkRunning struct {
	Header
	Job          ID
	Expected     Revision
	Backend      BackendID
	ProcessEpoch int64
	InvocationID string
	SecretHash   Hash
	DeadlineAt   Millis
}

// Identity names one dispatch of one job; a command that concludes it must match
// what MarkRunning stored.
type Identity struct {
	Job          ID
	Revision     Revision // the dispatch revision
	InvocationID string
	ProcessEpoch int64
}

// Complete classifies the outcome of a RUNNING job.
type Complete struct {
	Header
	Identity
	Code             ResultCode
	Message          string
	MetadataAdvanced bool
	Proof            Proof // NONE where the report brought none
	// NotEnqueued says that the master knows that nothing was sent or nothing was
	// accepted; it goes with a PRE_INVOCATION code only.
	NotEnqueued bool
}

// RecordTermination keeps a proof that the worker is gone and releases the slot.
type RecordTermination struct {
	Header
	Identity
	Backend BackendID
	Proof   Proof
}

// RefreshStart begins an attempt at the refresh a job owes.
type RefreshStart struct {
	Header
	Job      ID
	Expected Revision
}

// RefreshFinish ends an attempt: with evidence, or with a failure.
type RefreshFinish struct {
	Header
	Job      ID
	Attempt  int64
	Failed   bool
	Evidence string // when it did not fail
	Message  string // sanitized; when it failed
}

// Cancel ends a PENDING job by an operator's word.
type Cancel struct {
	Header
	Job      ID
	Expected Revision
	Note     string // why; may be empty
}

// RejectBeforeDispatch ends a PENDING job that turned out to be impossible to
// send.
type RejectBeforeDispatch struct {
	Header
	Job      ID
	Expected Revision
	Message  string
}

// ForceRelease releases the fence and slot of an UNKNOWN job.
type ForceRelease struct {
	Header
	Job      ID
	Expected Revision
	Note     string
	Warning  string
}

// ReleaseSlot releases the slot of a terminal job whose worker an operator knows
// to be gone.
type ReleaseSlot struct {
	Header
	Job      ID
	Expected Revision
	Note     string
}

// RecordLateResult keeps an authenticated report for an UNKNOWN job, and the
// proof that came with it.
type RecordLateResult struct {
	Header
	Identity
	Code             ResultCode
	Message          string
	MetadataAdvanced bool
	Proof            Proof
}

// Quarantine follows a restore or a recovery: what was under way is UNKNOWN,
// the gate closes and dispatch pauses.
type Quarantine struct {
	Header
	Incarnation int64 // must be the present one plus one
	Cause       string
	// Members are the survivors, as in Form. They are all the members there are
	// afterwards, and each is registered anew.
	Members []Member
}

// Reopen ends a quarantine by an operator's word. Gate and dispatch stay as
// Quarantine left them; settings open them again.
type Reopen struct {
	Header
	Note string
	// MastersStopped: every master of an older incarnation is stopped for good.
	MastersStopped bool
	// BackendsRestarted: every backend was restarted at least MaxSendWindow after the
	// last of those masters had stopped.
	BackendsRestarted bool
}

// TermStart begins a leader's term.
type TermStart struct {
	Header
	laterTermStart
	Term uint64
}

// RemoveResolved removes jobs that are not open and were closed before a time.
type RemoveResolved struct {
	Header
	Before Millis
	Limit  int32 // 1..MaxRemoveBatch
}

// MaxRemoveBatch bounds one RemoveResolved.
const MaxRemoveBatch = 1000

// PutCatalog creates or changes a catalog. Expected is 0 to create, else the
// catalog's present revision.
type PutCatalog struct {
	Header
	Expected int64
	Catalog  Catalog // Revision and times are set by the transition
}

// RemoveCatalog removes a catalog that no open job uses.
type RemoveCatalog struct {
	Header
	Catalog string
}

// AddBackend registers a backend process's address.
type AddBackend struct {
	Header
	Address Address
	Labels  []Label
}

// SetBackendState drains or undrains a backend.
type SetBackendState struct {
	Header
	Backend BackendID
	State   BackendState
}

// RemoveBackend forgets a backend that holds no slot.
type RemoveBackend struct {
	Header
	Backend BackendID
}

// PutMember registers a member, or changes its address.
type PutMember struct {
	Header
	NodeID     string
	InstanceID string
	Address    string // host:port, where other masters reach it
	// Replaces is the instance id registered so far, where another instance takes the
	// node's place; else empty.
	Replaces string
}

// RemoveMember forgets a member.
type RemoveMember struct {
	Header
	NodeID string
}

// PutToken keeps a new access token.
type PutToken struct {
	Header
	Token string // its name
	Role  Role
	Hash  Hash // of the token's text, which is never journaled
}

// RemoveToken makes an access token worthless.
type RemoveToken struct {
	Header
	Token string // its name
}

// ChangeSettings changes settings together: all or none.
type ChangeSettings struct {
	Header
	Values []SettingValue // sorted by name, no duplicates
	Reset  bool           // the values are the defaults; for the record only
}

// RaiseLevel allows the commands and fields of a higher feature level.
type RaiseLevel struct {
	Header
	Level    int32
	Defaults []SettingValue // of settings the level brings, see LevelDefaults
}

// Name methods: the journal's names of the commands.
func (Form) Name() string                 { return "FORM" }
func (Admit) Name() string                { return "ADMIT" }
func (MarkRunning) Name() string          { return "MARK_RUNNING" }
func (Complete) Name() string             { return "COMPLETE" }
func (RecordTermination) Name() string    { return "RECORD_TERMINATION" }
func (RefreshStart) Name() string         { return "REFRESH_START" }
func (RefreshFinish) Name() string        { return "REFRESH_FINISH" }
func (Cancel) Name() string               { return "CANCEL" }
func (RejectBeforeDispatch) Name() string { return "REJECT_BEFORE_DISPATCH" }
func (ForceRelease) Name() string         { return "FORCE_RELEASE" }
func (ReleaseSlot) Name() string          { return "RELEASE_SLOT" }
func (RecordLateResult) Name() string     { return "RECORD_LATE_RESULT" }
func (Quarantine) Name() string           { return "QUARANTINE" }
func (TermStart) Name() string            { return "TERM_START" }
func (RemoveResolved) Name() string       { return "REMOVE_RESOLVED" }
func (PutCatalog) Name() string           { return "PUT_CATALOG" }
func (RemoveCatalog) Name() string        { return "REMOVE_CATALOG" }
func (AddBackend) Name() string           { return "ADD_BACKEND" }
func (SetBackendState) Name() string      { return "SET_BACKEND_STATE" }
func (RemoveBackend) Name() string        { return "REMOVE_BACKEND" }
func (ChangeSettings) Name() string       { return "CHANGE_SETTINGS" }
func (RaiseLevel) Name() string           { return "RAISE_LEVEL" }
func (Reopen) Name() string               { return "REOPEN" }
func (PutMember) Name() string            { return "PUT_MEMBER" }
func (RemoveMember) Name() string         { return "REMOVE_MEMBER" }
func (PutToken) Name() string             { return "PUT_TOKEN" }
func (RemoveToken) Name() string          { return "REMOVE_TOKEN" }

package job

import "fmt"

// State is the mutation state of a job.
type State uint8

// The numbers are stored in the journal and never change.
const (
	StatePending      State = 1
	StateRunning      State = 2
	StateCommitted    State = 3
	StateNotCommitted State = 4
	StateUnknown      State = 5
)

var stateNames = map[State]string{
	StatePending: "PENDING", StateRunning: "RUNNING", StateCommitted: "COMMITTED",
	StateNotCommitted: "NOT_COMMITTED", StateUnknown: "UNKNOWN",
}

// String returns the name the contract uses.
func (s State) String() string { return nameOf(stateNames, s) }

// Valid reports whether s is one of the five states.
func (s State) Valid() bool { return has(stateNames, s) }

// Terminal reports whether the mutation's outcome is settled.
func (s State) Terminal() bool { return s >= StateCommitted && s <= StateUnknown }

// ParseState reads the name that String returns.
func ParseState(name string) (State, bool) { return parse(stateNames, name) }

// RefreshState says what has become of the metadata refresh a known outcome owes.
type RefreshState uint8

// The numbers are stored in the journal and never change.
const (
	RefreshNotRequired RefreshState = 1
	RefreshRequired    RefreshState = 2
	RefreshRunning     RefreshState = 3
	RefreshDone        RefreshState = 4
	RefreshFailed      RefreshState = 5
)

var refreshNames = map[RefreshState]string{
	RefreshNotRequired: "NOT_REQUIRED", RefreshRequired: "REQUIRED", RefreshRunning: "RUNNING",
	RefreshDone: "DONE", RefreshFailed: "FAILED",
}

// String returns the name the contract uses.
func (s RefreshState) String() string { return nameOf(refreshNames, s) }

// Valid reports whether s is one of the five states.
func (s RefreshState) Valid() bool { return has(refreshNames, s) }

// ParseRefreshState reads the name that String returns.
func ParseRefreshState(name string) (RefreshState, bool) { return parse(refreshNames, name) }

// Mutation is what a job does to an index.
type Mutation uint8

// The numbers are those of the wire contract.
const (
	MutationCreate  Mutation = 1
	MutationReplace Mutation = 2
	MutationDrop    Mutation = 3
)

var mutationNames = map[Mutation]string{
	MutationCreate: "CREATE", MutationReplace: "REPLACE", MutationDrop: "DROP",
}

// String returns the name the contract uses.
func (m Mutation) String() string { return nameOf(mutationNames, m) }

// Valid reports whether m is one of the three mutations.
func (m Mutation) Valid() bool { return has(mutationNames, m) }

// ParseMutation reads the name that String returns.
func ParseMutation(name string) (Mutation, bool) { return parse(mutationNames, name) }

// ResultCode is the typed outcome of an invocation.
type ResultCode uint8

// 1 to 12 are the numbers of the wire contract. CodeNoTrustedResult exists only
// on the master's side and never travels.
const (
	CodeStaleAdmission            ResultCode = 1
	CodeUnsupportedSchemaContract ResultCode = 2
	CodeCredentialExpired         ResultCode = 3
	CodeResourceRejected          ResultCode = 4
	CodeNativeOK                  ResultCode = 5
	CodeNativeCommitConflict      ResultCode = 6
	CodeNativeNotFound            ResultCode = 7
	CodeNativeInvalidArgument     ResultCode = 8
	CodeNativeNotSupported        ResultCode = 9
	CodeNativeIndex               ResultCode = 10
	CodeNativeIO                  ResultCode = 11
	CodeNativeInternal            ResultCode = 12
	CodeNoTrustedResult           ResultCode = 100
)

var codeNames = map[ResultCode]string{
	CodeStaleAdmission:            "PRE_INVOCATION_STALE_ADMISSION",
	CodeUnsupportedSchemaContract: "PRE_INVOCATION_UNSUPPORTED_SCHEMA_CONTRACT",
	CodeCredentialExpired:         "PRE_INVOCATION_CREDENTIAL_EXPIRED",
	CodeResourceRejected:          "PRE_INVOCATION_RESOURCE_REJECTED",
	CodeNativeOK:                  "NATIVE_OK",
	CodeNativeCommitConflict:      "NATIVE_COMMIT_CONFLICT",
	CodeNativeNotFound:            "NATIVE_NOT_FOUND",
	CodeNativeInvalidArgument:     "NATIVE_INVALID_ARGUMENT",
	CodeNativeNotSupported:        "NATIVE_NOT_SUPPORTED",
	CodeNativeIndex:               "NATIVE_INDEX",
	CodeNativeIO:                  "NATIVE_IO",
	CodeNativeInternal:            "NATIVE_INTERNAL",
	CodeNoTrustedResult:           "NO_TRUSTED_RESULT",
}

// String returns the name the contract uses.
func (c ResultCode) String() string { return nameOf(codeNames, c) }

// Valid reports whether c is a code of this contract.
func (c ResultCode) Valid() bool { return has(codeNames, c) }

// OnWire reports whether a backend may report c.
func (c ResultCode) OnWire() bool { return c >= CodeStaleAdmission && c <= CodeNativeInternal }

// PreInvocation reports whether c says that the native operation never began.
func (c ResultCode) PreInvocation() bool {
	return c >= CodeStaleAdmission && c <= CodeResourceRejected
}

// Reason says how a job came to its outcome. It is derived by the master; what
// a backend sends is ignored.
type Reason uint8

// The numbers are stored in the journal and never change.
const (
	ReasonNone                    Reason = 1
	ReasonIfConditionNoop         Reason = 2
	ReasonCancelledBeforeDispatch Reason = 3
	ReasonRefusedBeforeDispatch   Reason = 4
	ReasonQuarantined             Reason = 5
	ReasonLeaderChanged           Reason = 6
)

var reasonNames = map[Reason]string{
	ReasonNone: "NONE", ReasonIfConditionNoop: "IF_CONDITION_NOOP",
	ReasonCancelledBeforeDispatch: "CANCELLED_BEFORE_DISPATCH",
	ReasonRefusedBeforeDispatch:   "REFUSED_BEFORE_DISPATCH",
	ReasonQuarantined:             "QUARANTINED", ReasonLeaderChanged: "LEADER_CHANGED",
}

// String returns the name the contract uses.
func (r Reason) String() string { return nameOf(reasonNames, r) }

// Valid reports whether r is a known reason.
func (r Reason) Valid() bool { return has(reasonNames, r) }

// Proof is why the worker of an invocation can no longer touch the dataset.
type Proof uint8

// The first three are the numbers of the wire contract; the others are found by
// the master and never travel.
const (
	ProofNone             Proof = 1
	ProofChildReaped      Proof = 2
	ProofNeverLaunched    Proof = 3
	ProofProcessEpochGone Proof = 100
	ProofNotEnqueued      Proof = 101
)

var proofNames = map[Proof]string{
	ProofNone: "NONE", ProofChildReaped: "CHILD_REAPED", ProofNeverLaunched: "NEVER_LAUNCHED",
	ProofProcessEpochGone: "BE_PROCESS_EPOCH_GONE", ProofNotEnqueued: "NOT_ENQUEUED",
}

// String returns the name the contract uses.
func (p Proof) String() string { return nameOf(proofNames, p) }

// Valid reports whether p is a known proof; NONE is known, and proves nothing.
func (p Proof) Valid() bool { return has(proofNames, p) }

// Proves reports whether p says that the worker is gone.
func (p Proof) Proves() bool { return p.Valid() && p != ProofNone }

// SnapshotSource says who read the dataset at admission.
type SnapshotSource uint8

// The numbers are stored in the journal and never change.
const (
	SnapshotManifest SnapshotSource = 1 // the master read the manifest
	SnapshotCaller   SnapshotSource = 2 // the caller supplied version and contract
)

var sourceNames = map[SnapshotSource]string{SnapshotManifest: "manifest", SnapshotCaller: "caller"}

// String returns the name the contract uses.
func (s SnapshotSource) String() string { return nameOf(sourceNames, s) }

// Valid reports whether s is a known source.
func (s SnapshotSource) Valid() bool { return has(sourceNames, s) }

// IndexType names a kind of index.
type IndexType string

// The index types this contract admits.
const (
	IndexIVFPQ  IndexType = "IVF_PQ"
	IndexBTree  IndexType = "BTREE"
	IndexBitmap IndexType = "BITMAP"
)

// BackendState says whether a backend takes new jobs.
type BackendState uint8

// The numbers are stored in the journal and never change.
const (
	BackendActive   BackendState = 1
	BackendDraining BackendState = 2
)

var backendNames = map[BackendState]string{BackendActive: "active", BackendDraining: "draining"}

// String returns the name the contract uses.
func (s BackendState) String() string { return nameOf(backendNames, s) }

// Valid reports whether s is a known state.
func (s BackendState) Valid() bool { return has(backendNames, s) }

// RefresherKind says how a catalog's metadata is refreshed.
type RefresherKind string

// The refreshers a catalog may name.
const (
	RefresherNone  RefresherKind = "none"
	RefresherHTTP  RefresherKind = "http"
	RefresherDoris RefresherKind = "doris"
)

func nameOf[E interface {
	comparable
	~uint8
}](names map[E]string, v E) string {
	if n, ok := names[v]; ok {
		return n
	}
	return fmt.Sprintf("unknown(%d)", uint8(v))
}

func has[E comparable](names map[E]string, v E) bool { _, ok := names[v]; return ok }

func parse[E comparable](names map[E]string, name string) (E, bool) {
	//order: names are unique, so at most one entry matches
	for v, n := range names {
		if n == name {
			return v, true
		}
	}
	var none E
	return none, false
}

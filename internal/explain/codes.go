package explain

// Code types a Reason for programs.
type Code string

// Why a PENDING job is not sent. The first six are about the job, the rest about who
// could take it.
const (
	Sending           Code = "SENDING"         // an attempt is under way
	Preparing         Code = "PREPARING"       // its secrets are being resolved
	DispatchPaused    Code = "DISPATCH_PAUSED" // setting dispatch.paused
	RetryLater        Code = "RETRY_LATER"     // the last try failed; with the error and the next try
	CatalogMissing    Code = "CATALOG_MISSING" // its catalog does not exist
	LocalDataset      Code = "LOCAL_DATASET"   // the rule about file: datasets
	RateLimited       Code = "RATE_LIMITED"    // setting dispatch.max_per_round
	NoEligibleBackend Code = "NO_ELIGIBLE_BACKEND"
	BackendDraining   Code = "BACKEND_DRAINING"
	BackendSilent     Code = "BACKEND_SILENT" // no heartbeat answered lately
	SlotsFull         Code = "SLOTS_FULL"
	Waiting           Code = "WAITING"     // nothing holds it up: it is sent at the next round
	GateClosed        Code = "GATE_CLOSED" // admission is closed, which does not hold this job up
)

// Where a job that was sent stands.
const (
	Running          Code = "RUNNING"
	Deadline         Code = "DEADLINE"
	BackendAlive     Code = "BACKEND_ALIVE"
	BackendRestarted Code = "BACKEND_RESTARTED" // another process answers at its address
	BackendRemoved   Code = "BACKEND_REMOVED"
	OutcomeUnknown   Code = "OUTCOME_UNKNOWN"
	LateResult       Code = "LATE_RESULT"
	ForceReleased    Code = "FORCE_RELEASED"
	TooEarly         Code = "TOO_EARLY" // to force release it
)

// What a job holds, and what frees it.
const (
	FenceHeld    Code = "FENCE_HELD"
	SlotHeld     Code = "SLOT_HELD"
	SlotReleased Code = "SLOT_RELEASED" // by an operator
)

// The refresh that an outcome owes, and the one that a late result does.
const (
	RefreshRequired Code = "REFRESH_REQUIRED"
	RefreshRunning  Code = "REFRESH_RUNNING"
	RefreshFailed   Code = "REFRESH_FAILED"
	LateRefresh     Code = "LATE_REFRESH"
)

// Outcome says how a job ended that is COMMITTED or NOT_COMMITTED; OutcomeUnknown does of
// one that is UNKNOWN.
const Outcome Code = "OUTCOME"

// Closed says that the job waits for nothing and holds nothing.
const Closed Code = "CLOSED"

// Reason is one part of an explanation.
type Reason struct {
	Code    Code
	Message string
	Next    string // what to do about it; empty where nothing needs to be done
}

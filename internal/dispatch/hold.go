package dispatch

// Hold types, for programs, what keeps a PENDING job from being sent.
type Hold string

// The holds, in the order in which a round looks for them.
const (
	HoldSending   Hold = "SENDING"         // an attempt is under way
	HoldPaused    Hold = "DISPATCH_PAUSED" // the setting dispatch.paused
	HoldRetry     Hold = "RETRY_LATER"     // an error of its own, until its next try
	HoldCatalog   Hold = "CATALOG_MISSING"
	HoldLocal     Hold = "LOCAL_DATASET" // the rule about file: datasets
	HoldPreparing Hold = "PREPARING"     // its secrets, or others', are being resolved
	HoldRate      Hold = "RATE_LIMITED"  // the setting dispatch.max_per_round
	HoldBackend   Hold = "NO_ELIGIBLE_BACKEND"
)

// hold is why a round did not send a job: for programs and for people. The zero hold
// says that none has looked at it.
type hold struct {
	code Hold
	text string
}

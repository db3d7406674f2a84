package stub

import (
	"context"
	"fmt"
	"time"

	"github.com/lancemaster/lancemaster/gen-go/backend"
	"github.com/lancemaster/lancemaster/gen-go/shared"
)

// Behaviour decides what becomes of a dispatch that has passed the checks every backend makes.
type Behaviour interface {
	Dispatched(ctx context.Context, call *Call) Answer
}

// Func is a Behaviour made of a function.
type Func func(ctx context.Context, call *Call) Answer

// Dispatched calls the function.
func (f Func) Dispatched(ctx context.Context, call *Call) Answer { return f(ctx, call) }

// Answer is how a dispatch is answered.
type Answer struct {
	Conduct  Conduct
	Status   int32 // of a Reply; 0 is OK: accepted
	Messages []string
}

// Conduct is what a stub does on the connection.
type Conduct uint8

// What a stub can do instead of an answer.
const (
	Reply   Conduct = iota
	Hang            // say nothing until the other side gives up
	Close           // close the connection without an answer
	Garbage         // answer with bytes that are no message
)

// String names the conduct.
func (c Conduct) String() string {
	return [...]string{"reply", "hang", "close", "garbage"}[c%4]
}

// garbage begins like a strict binary message and goes on with a length nobody should believe.
var garbage = []byte{0x80, 0x01, 0x00, 0x02, 0x7f, 0xff, 0xff, 0xff, 'g', 'a', 'r', 'b', 'a', 'g', 'e', 0}

// Call is one dispatch as a Behaviour sees it.
type Call struct {
	stub     *Stub
	dispatch *backend.TLanceIndexJobDispatch
	life     context.Context
	later    []func(context.Context, Reporter)
}

// Job returns the job's id.
func (c *Call) Job() int64 { return c.dispatch.JobID }

// InvocationID returns the invocation's id.
func (c *Call) InvocationID() string { return c.dispatch.InvocationID }

// IndexName returns the display name of the index.
func (c *Call) IndexName() string { return c.dispatch.IndexName }

// Mutation returns CREATE, REPLACE or DROP.
func (c *Call) Mutation() string { return c.dispatch.MutationType.String() }

// String names the call without its secrets.
func (c *Call) String() string {
	return fmt.Sprintf("dispatch(job %d, %s)", c.dispatch.JobID, c.dispatch.InvocationID)
}

// Format keeps every verb from reaching the secrets.
func (c *Call) Format(f fmt.State, _ rune) { _, _ = fmt.Fprint(f, c.String()) }

// Later leaves work for after the answer. It runs if the answer is OK and the dispatch is not a
// repetition; its context ends with the process that took the dispatch.
func (c *Call) Later(work func(context.Context, Reporter)) { c.later = append(c.later, work) }

// NotImplemented is the default behaviour: every dispatch is refused.
type NotImplemented struct{}

// Dispatched refuses.
func (NotImplemented) Dispatched(context.Context, *Call) Answer {
	return Answer{Status: int32(shared.TStatusCode_NOT_IMPLEMENTED_ERROR), Messages: []string{
		"lanceworker-stub accepts no work: it is a stand-in that builds no index, so that a job's whole life can be seen; register a real backend to build one",
	}}
}

// Always answers every dispatch alike.
type Always Answer

// Dispatched answers.
func (a Always) Dispatched(context.Context, *Call) Answer { return Answer(a) }

// Outcome is what a report says. The numbers are those of the wire; a backend may send wrong ones.
type Outcome struct {
	Code             int32
	Reason           int32 // 0: not sent
	Message          string
	MetadataAdvanced bool
	Proof            int32 // 0: not sent
}

// Report accepts a dispatch and reports later.
type Report struct {
	Outcome Outcome
	After   time.Duration
	Late    bool            // not before the dispatch's deadline has passed; After counts from there
	When    <-chan struct{} // nil: at once, or After; else when it is closed or receives
	Times   int             // how often the report is sent; 0 is once
	Secret  SecretUse
	// Termination, when not 0, is the proof of a termination report that follows.
	Termination int32
	// Done, when not nil, is told how each report ended: nil is any answer from the master.
	Done func(error)
}

// SecretUse says which secret a report carries.
type SecretUse uint8

// The secrets a report may carry.
const (
	RightSecret SecretUse = iota
	WrongSecret
	NoSecret
)

// Dispatched accepts.
func (r Report) Dispatched(_ context.Context, call *Call) Answer {
	if r.Late {
		r.After += max(0, time.UnixMilli(call.dispatch.DeadlineMs).Sub(call.stub.cfg.Now()))
	}
	call.Later(r.send)
	return Answer{Status: int32(shared.TStatusCode_OK)}
}

func (r Report) send(ctx context.Context, to Reporter) {
	if r.After > 0 {
		timer := time.NewTimer(r.After)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
	}
	if r.When != nil {
		select {
		case <-r.When:
		case <-ctx.Done():
			return
		}
	}
	for range max(1, r.Times) {
		r.done(to.Result(ctx, r.Outcome, r.Secret))
	}
	if r.Termination != 0 {
		r.done(to.Termination(ctx, r.Termination, r.Secret))
	}
}

func (r Report) done(err error) {
	if r.Done != nil {
		r.Done(err)
	}
}

package client

import (
	"context"
	"errors"
	"fmt"

	"github.com/apache/thrift/lib/go/thrift"

	"github.com/lancemaster/lancemaster/gen-go/admin"
	"github.com/lancemaster/lancemaster/internal/thriftnet"
)

// Codes that this package itself gives. A master's own codes come as it names
// them: FENCE_HELD, GATE_CLOSED and so on.
const (
	// CodeUnreachable: no address could be reached; nothing was done.
	CodeUnreachable = "UNREACHABLE"
	// CodeOutcomeUnknown: the call may or may not have been served.
	CodeOutcomeUnknown = "OUTCOME_UNKNOWN"
	// CodeTimeout: no answer came in time, to a call that changes nothing.
	CodeTimeout = "TIMEOUT"
	// CodeCanceled: the caller gave up.
	CodeCanceled = "CANCELED"
	// CodeConnectionLost: the connection ended during a call that changes nothing.
	CodeConnectionLost = "CONNECTION_LOST"
	// CodeBadReply: the peer answered something that is not an admin service's reply.
	CodeBadReply = "BAD_REPLY"
	// CodeUnsupported: the master does not know this call.
	CodeUnsupported = "UNSUPPORTED"
	// CodeInvalid: the arguments cannot be sent.
	CodeInvalid = "INVALID"
	// CodeNotLeader and CodeUnavailable are a master's codes: no leader could be
	// found, or it cannot serve now.
	CodeNotLeader   = "NOT_LEADER"
	CodeUnavailable = "UNAVAILABLE"
	// codeUnauthenticated is a master's code: it does not know who calls.
	codeUnauthenticated = "UNAUTHENTICATED"
)

// Error is why a call failed.
type Error struct {
	Code    string // for programs
	Message string // what was refused or what happened, and why
	Next    string // what to do next; may be empty
	// Holder is the job that stands in the way, 0 where none does.
	Holder int64
	// Present is the job as it is now, where the refusal is about its revision or
	// state.
	Present *Job

	leader string  // where NOT_LEADER points, if anywhere
	misfit *misfit // where an address is no admin service that can be called as it was
	cause  error
}

// Error returns the message and the next step.
func (e *Error) Error() string {
	if e.Next == "" {
		return e.Code + ": " + e.Message
	}
	return e.Code + ": " + e.Message + "; " + e.Next
}

// Unwrap returns the failure underneath, where there is one.
func (e *Error) Unwrap() error { return e.cause }

// IsCode reports whether err is an *Error with this code.
func IsCode(err error, code string) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == code
}

// Transient reports whether err says that no master could be asked just now,
// so that the same question may be answered later.
func Transient(err error) bool {
	var e *Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code {
	case CodeUnreachable, CodeTimeout, CodeConnectionLost, CodeNotLeader, CodeUnavailable:
		return true
	}
	return false
}

func refusalOf(t *admin.TAdminError) *Error {
	e := &Error{
		Code:    enumName(t.Code.String(), int64(t.Code)),
		Message: t.Message,
		Next:    t.GetNextStep(),
		Holder:  t.GetHolderJobID(),
		leader:  t.GetLeaderAddress(),
	}
	if t.Present != nil {
		e.Present = jobOf(t.Present)
	}
	return e
}

// verdict says what may follow a failed attempt.
type verdict int

const (
	final     verdict = iota // an answer: return it
	elsewhere                // nothing was done there; another address may serve the call
	ambiguous                // it may have been done there
)

// judge turns the failure of an attempt that had a connection into an Error, and
// says what may follow. call is the context of the whole call, attempt that of this
// attempt. The order of the tests matters: a transport error can hide inside a
// protocol error.
func judge(call, attempt context.Context, address string, err error) (*Error, verdict) {
	var refusal *admin.TAdminError
	if errors.As(err, &refusal) {
		e := refusalOf(refusal)
		switch e.Code {
		case CodeNotLeader:
			return e, elsewhere
		case CodeUnavailable, CodeOutcomeUnknown:
			return e, ambiguous
		}
		return e, final
	}
	if e, v := notServed(address, err); e != nil && !canceled(call) {
		return e, v
	}
	e := &Error{cause: err}
	var (
		transport   thrift.TTransportException
		application thrift.TApplicationException
	)
	switch {
	case canceled(call):
		e.Code, e.Message = CodeCanceled, fmt.Sprintf("the call to %s was given up", address)
	case over(attempt):
		e.Code, e.Message = CodeTimeout, fmt.Sprintf("%s did not answer in time", address)
	case errors.Is(err, thriftnet.ErrTooLarge):
		e.Code, e.Message = CodeBadReply, fmt.Sprintf("the answer of %s is larger than %d MiB", address, maxReply>>20)
		e.Next = "ask for less at a time"
	case errors.As(err, &transport):
		e.Code, e.Message = CodeConnectionLost, fmt.Sprintf("the connection to %s ended without a whole answer: %v", address, innermost(err))
		e.Next = "look at the masters with: lancemaster health; " + nextAsk
	case errors.As(err, &application):
		return applicationError(address, application)
	default:
		e.Code, e.Message = CodeBadReply, fmt.Sprintf("%s answered something that is not an admin service's reply: %v", address, innermost(err))
		e.Next = nextAsk
	}
	return e, ambiguous
}

const nextAsk = "check that the address is a master's admin service (default port 9021), not its report, HTTP or Raft port"

// innermost leaves out where in the generated code a reply was found wanting.
func innermost(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}

func canceled(ctx context.Context) bool { return errors.Is(ctx.Err(), context.Canceled) }

// notSent is the failure of an attempt that got no connection.
func notSent(call context.Context, address string, err error) (*Error, verdict) {
	if canceled(call) {
		return &Error{Code: CodeCanceled, Message: "the call was given up before anything was sent", cause: err}, final
	}
	return notConnected(address, err).failed(CodeUnreachable, err), elsewhere
}

// applicationError reads an answer of the peer's Thrift layer. Only two of them
// say for certain that nothing ran.
func applicationError(address string, a thrift.TApplicationException) (*Error, verdict) {
	switch a.TypeId() {
	case thrift.UNKNOWN_METHOD:
		return &Error{
			Code:    CodeUnsupported,
			Message: fmt.Sprintf("the master at %s does not know this call", address),
			Next:    nextAsk + "; if it is, use a command of the same version as the masters",
			cause:   a,
		}, final
	case thrift.PROTOCOL_ERROR:
		return &Error{Code: CodeInvalid, Message: fmt.Sprintf("the master at %s could not read the request: %v", address, a), cause: a}, final
	}
	return &Error{Code: CodeBadReply, Message: fmt.Sprintf("the master at %s failed: %v", address, a), cause: a}, ambiguous
}

// unknownOutcome is what the caller of a change that got no answer is told.
func unknownOutcome(op operation, lost *Error) *Error {
	e := &Error{Code: CodeOutcomeUnknown, Message: lost.Message, Next: lost.Next, cause: lost}
	if lost.Code != CodeOutcomeUnknown {
		e.Message = fmt.Sprintf("%s may or may not have been carried out: %s", op.name, lost.Message)
		e.Next = op.next
	}
	if e.Next == "" {
		e.Next = "look at the present state first, and repeat the call only if it was not carried out"
	}
	return e
}

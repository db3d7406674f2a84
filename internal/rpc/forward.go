package rpc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/apache/thrift/lib/go/thrift"

	"github.com/lancemaster/lancemaster/gen-go/admin"
	"github.com/lancemaster/lancemaster/gen-go/report"
	"github.com/lancemaster/lancemaster/internal/job"
)

// ForwardTimeout is the longest that a forwarded call takes; the connection that carries it must
// allow as much.
const ForwardTimeout = adminTimeout

// MaxForwarded is the size of the largest message or reply that is forwarded.
const MaxForwarded = 16 << 20

// Forwarder carries one Thrift message to the leader, once, and returns its reply. The other side
// hands it to Forwarded. An error is a *ForwardError where it is known that nothing was sent; with
// any other the leader may have acted. What a message holds is nobody's to log: there are secrets
// in it.
type Forwarder interface {
	Forward(ctx context.Context, service string, as Principal, message []byte) (reply []byte, err error)
}

// ForwardError is why a message got no reply.
type ForwardError struct {
	Sent bool // it may have reached the leader
	Err  error
}

func (e *ForwardError) Error() string {
	if e.Sent {
		return "the leader's answer was lost: " + e.Err.Error()
	}
	return "the leader could not be reached: " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *ForwardError) Unwrap() error { return e.Err }

// forwardConf bounds what one length in a forwarded message or its reply can ask for.
func forwardConf(maxContainer int32) *thrift.TConfiguration {
	strict := true
	return &thrift.TConfiguration{
		MaxMessageSize: MaxForwarded, MaxFrameSize: MaxForwarded, MaxContainerSize: maxContainer,
		TBinaryStrictRead: &strict, TBinaryStrictWrite: &strict,
	}
}

// maxForwardItems bounds a list in a reply; a page of jobs has 1000.
const maxForwardItems = 1 << 16

// leaderClient is a thrift.TClient that makes its calls by way of a Forwarder.
type leaderClient struct {
	forward Forwarder
	service string
	as      Principal
}

var _ thrift.TClient = leaderClient{}

var errReply = errors.New("the leader's reply does not answer the call")

// Call makes one call.
func (l leaderClient) Call(ctx context.Context, method string, args, result thrift.TStruct) (thrift.ResponseMeta, error) {
	const seq = 1
	none := thrift.ResponseMeta{}
	conf := forwardConf(maxForwardItems)
	out := thrift.NewTMemoryBuffer()
	p := thrift.NewTBinaryProtocolConf(out, conf)
	err := errors.Join(p.WriteMessageBegin(ctx, method, thrift.CALL, seq), args.Write(ctx, p), p.WriteMessageEnd(ctx))
	if err == nil && out.Len() > MaxForwarded {
		err = errors.New("the message is too large")
	}
	if err != nil {
		return none, &ForwardError{Err: err}
	}
	reply, err := l.forward.Forward(ctx, l.service, l.as, out.Bytes())
	if err != nil {
		if known, ok := errors.AsType[*ForwardError](err); ok {
			return none, known
		}
		return none, &ForwardError{Sent: true, Err: err}
	}
	in := thrift.NewTMemoryBuffer()
	if len(reply) <= MaxForwarded {
		_, _ = in.Write(reply) // never fails
	}
	p = thrift.NewTBinaryProtocolConf(in, conf)
	name, kind, number, err := p.ReadMessageBegin(ctx)
	switch {
	case err != nil || name != method || number != seq:
		return none, &ForwardError{Sent: true, Err: errReply}
	case kind == thrift.EXCEPTION:
		told := thrift.NewTApplicationException(thrift.UNKNOWN_APPLICATION_EXCEPTION, "")
		if err := told.Read(ctx, p); err != nil {
			return none, &ForwardError{Sent: true, Err: errReply}
		}
		return none, told
	case kind != thrift.REPLY:
		return none, &ForwardError{Sent: true, Err: errReply}
	}
	if err := result.Read(ctx, p); err != nil || in.Len() > 0 {
		return none, &ForwardError{Sent: true, Err: errReply}
	}
	return none, nil
}

func (a *Admin) leaderService(as Principal) *remote {
	return admin.NewAdminServiceClient(leaderClient{a.cfg.Forward, serviceAdmin, as})
}

func (s *Reports) leaderService() *report.ReportServiceClient {
	return report.NewReportServiceClient(leaderClient{s.cfg.Forward, serviceReport, Principal{}})
}

// forward has the leader serve a call. The leader's own refusals come back as they are.
func (a *Admin) forward(c call, m method, leader Leader, there func(context.Context) error) error {
	ctx := context.Context(c)
	if m.polls {
		var end func()
		ctx, end = pollContext(c)
		defer end()
	}
	ctx, cancel := context.WithTimeout(ctx, ForwardTimeout-forwardMargin)
	defer cancel()
	err := there(ctx)
	told, isRefusal := errors.AsType[*admin.TAdminError](err)
	switch {
	case err == nil:
		a.cfg.Metrics.forwarded(serviceAdmin, forwardAnswered)
		return nil
	case isRefusal:
		a.cfg.Metrics.forwarded(serviceAdmin, forwardAnswered)
		return told
	case isUnsent(err):
		a.cfg.Metrics.forwarded(serviceAdmin, forwardUnsent)
		return &unansweredError{leader: leader.NodeID, unsent: true, cause: err}
	case notUnderstood(err):
		a.cfg.Metrics.forwarded(serviceAdmin, forwardAnswered)
		return &job.Refusal{
			Code: job.CodeUnavailable,
			Message: fmt.Sprintf("the leader, %s, does not understand this call: it may run an older version; nothing was changed",
				cleanText(leader.NodeID, maxNodeName)),
			Next: "compare the versions with `cluster status`; upgrade the masters that are behind",
		}
	}
	a.cfg.Metrics.forwarded(serviceAdmin, forwardLost)
	return &unansweredError{leader: leader.NodeID, cause: err}
}

// forwardMargin leaves time to answer the caller when the leader does not.
const forwardMargin = 2 * time.Second

// unansweredError is a call that the leader did not answer.
type unansweredError struct {
	leader string
	unsent bool // it certainly was not served
	cause  error
}

func (f *unansweredError) Error() string {
	return fmt.Sprintf("forwarding to the leader, %s, failed: %v", f.leader, f.cause)
}
func (f *unansweredError) Unwrap() error { return f.cause }

func isUnsent(err error) bool {
	e, ok := errors.AsType[*ForwardError](err)
	return ok && !e.Sent
}

// notUnderstood reports whether the leader's Thrift layer refused a call before anything ran.
func notUnderstood(err error) bool {
	e, ok := errors.AsType[thrift.TApplicationException](err)
	return ok && (e.TypeId() == thrift.UNKNOWN_METHOD || e.TypeId() == thrift.PROTOCOL_ERROR)
}

// nothingDone reports whether a call certainly was not served, for want of a leader.
func nothingDone(err error) bool {
	if told, ok := errors.AsType[*admin.TAdminError](err); ok {
		return told.Code == admin.TAdminErrorCode_NOT_LEADER
	}
	if f, ok := errors.AsType[*unansweredError](err); ok {
		return f.unsent
	}
	return errors.Is(err, ErrNotLeader) && (errors.Is(err, job.ErrNotAppended) || errors.Is(err, errBarrier))
}

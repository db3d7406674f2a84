package rpc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"unicode/utf8"

	"github.com/apache/thrift/lib/go/thrift"

	"github.com/lancemaster/lancemaster/gen-go/admin"
	"github.com/lancemaster/lancemaster/gen-go/report"
	"github.com/lancemaster/lancemaster/internal/thriftnet"
)

// Forwarded serves what other masters forward. It holds their messages to the bounds of the servers,
// never forwards again, and keeps a panic to the call that caused it.
type Forwarded struct {
	services map[string]forwardedService
	logger   *slog.Logger
}

type forwardedService struct {
	processor    thrift.TProcessor
	maxMessage   int
	maxContainer int32
	observe      func(thriftnet.Incident)
}

// NewForwarded makes the receiving side over the handlers of this node's own servers.
func NewForwarded(reports *Reports, a *Admin) *Forwarded {
	return &Forwarded{
		services: map[string]forwardedService{
			serviceReport: {report.NewReportServiceProcessor(reports), maxReport, maxReportItems, reports.cfg.Metrics.observe(serviceReport)},
			serviceAdmin:  {admin.NewAdminServiceProcessor(a), maxAdmin, maxAdminItems, a.cfg.Metrics.observe(serviceAdmin)},
		},
		logger: a.cfg.Logger,
	}
}

type forwardedKey struct{}

// forwarded reports whether the call that ctx is of came from another master.
func forwarded(ctx context.Context) bool { return ctx.Value(forwardedKey{}) != nil }

// What another master is told of a message that reaches no handler.
var (
	errUnknownService = errors.New("there is no such service to forward to")
	errUnreadable     = errors.New("the forwarded message cannot be read")
	errPanic          = errors.New("internal error; the leader's log says more")
)

// maxMethodName bounds the name of a method: it is echoed in the reply.
const maxMethodName = 128

// Serve handles one message for another master and returns the reply. An error says that no handler
// was reached, but for errPanic.
func (f *Forwarded) Serve(ctx context.Context, service string, as Principal, message []byte) (reply []byte, err error) {
	s, ok := f.services[service]
	if !ok {
		return nil, errUnknownService
	}
	if len(message) > s.maxMessage {
		s.observe(thriftnet.IncidentUnreadable)
		return nil, errUnreadable
	}
	ctx = context.WithValue(WithPrincipal(ctx, as), forwardedKey{}, true)
	conf := forwardConf(s.maxContainer)
	buffer := thrift.NewTMemoryBuffer()
	_, _ = buffer.Write(message) // never fails
	in := textInput{thrift.NewTBinaryProtocolConf(buffer, conf)}
	method, kind, seq, err := in.ReadMessageBegin(ctx)
	if err != nil || kind != thrift.CALL || len(method) > maxMethodName {
		s.observe(thriftnet.IncidentUnreadable)
		return nil, errUnreadable
	}
	out := thrift.NewTMemoryBuffer()
	to := thrift.NewTBinaryProtocolConf(out, conf)
	function, known := s.processor.ProcessorMap()[method]
	if !known {
		s.observe(thriftnet.IncidentUnknownMethod)
		told := thrift.NewTApplicationException(thrift.UNKNOWN_METHOD, "this service has no such method")
		err := errors.Join(to.WriteMessageBegin(ctx, method, thrift.EXCEPTION, seq), told.Write(ctx, to), to.WriteMessageEnd(ctx))
		return out.Bytes(), err
	}
	defer func() {
		if p := recover(); p != nil {
			s.observe(thriftnet.IncidentPanic)
			// Its type and place and never its value, which may hold what the request held.
			f.logger.Error("panic in a forwarded call", "service", service, "method", method, "panic", fmt.Sprintf("%T", p), "stack", string(debug.Stack()))
			reply, err = nil, errPanic
		}
	}()
	_, _ = function.Process(ctx, seq, in, to) // what went wrong is in the reply
	if out.Len() == 0 {
		return nil, errUnreadable
	}
	return out.Bytes(), nil
}

// textInput refuses text that is not UTF-8, as the servers do.
type textInput struct{ thrift.TProtocol }

func (t textInput) ReadString(ctx context.Context) (string, error) {
	text, err := t.TProtocol.ReadString(ctx)
	if err == nil && !utf8.ValidString(text) {
		return "", thrift.NewTProtocolExceptionWithType(thrift.INVALID_DATA, errors.New("a text is not valid UTF-8"))
	}
	return text, err
}

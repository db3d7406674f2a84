package stub

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/lancemaster/lancemaster/gen-go/backend"
	"github.com/lancemaster/lancemaster/gen-go/report"
	"github.com/lancemaster/lancemaster/gen-go/shared"
	"github.com/lancemaster/lancemaster/internal/thriftnet"
)

// Reporter tells the master about one invocation. Whatever the master answers counts as delivered;
// only a failed call is tried again.
type Reporter interface {
	Result(ctx context.Context, o Outcome, secret SecretUse) error
	Termination(ctx context.Context, proof int32, secret SecretUse) error
}

// How a report is tried: as existing backends do.
const (
	reportAttempts = 3
	reportTimeout  = 30 * time.Second
)

type reporter struct {
	stub     *Stub
	dispatch *backend.TLanceIndexJobDispatch
}

// secret returns what goes into the report's secret field.
func (r reporter) secret(use SecretUse) *string {
	switch use {
	case NoSecret:
		return nil
	case WrongSecret:
		wrong := strings.Repeat("0", 32)
		return &wrong
	case RightSecret:
	}
	return r.dispatch.InvocationSecret
}

func (r reporter) Result(ctx context.Context, o Outcome, use SecretUse) error {
	w := &report.TLanceIndexJobReport{
		JobID: r.dispatch.JobID, DispatchRevision: r.dispatch.DispatchRevision, InvocationID: r.dispatch.InvocationID,
		BeProcessEpoch: r.dispatch.BeProcessEpoch, ResultCode: shared.TLanceIndexResultCode(o.Code),
		ExternalMetadataAdvanced: &o.MetadataAdvanced, InvocationSecret: r.secret(use),
	}
	if o.Message != "" {
		w.SanitizedMessage = &o.Message
	}
	if o.Reason != 0 {
		reason := shared.TLanceIndexCompletionReason(o.Reason)
		w.CompletionReason = &reason
	}
	if o.Proof != 0 {
		proof := shared.TLanceIndexTerminationProof(o.Proof)
		w.TerminationProof = &proof
	}
	return r.try(ctx, func(ctx context.Context, c *report.ReportServiceClient) error {
		_, err := c.ReportLanceIndexJobResult_(ctx, w)
		return err
	})
}

func (r reporter) Termination(ctx context.Context, proof int32, use SecretUse) error {
	w := &report.TLanceIndexJobTerminationReport{
		JobID: r.dispatch.JobID, DispatchRevision: r.dispatch.DispatchRevision, InvocationID: r.dispatch.InvocationID,
		BeProcessEpoch: r.dispatch.BeProcessEpoch, Proof: shared.TLanceIndexTerminationProof(proof), InvocationSecret: r.secret(use),
	}
	return r.try(ctx, func(ctx context.Context, c *report.ReportServiceClient) error {
		_, err := c.ReportLanceIndexJobTermination(ctx, w)
		return err
	})
}

// try calls until a call is answered, to whichever master the newest heartbeat came from.
func (r reporter) try(ctx context.Context, call func(context.Context, *report.ReportServiceClient) error) error {
	var failed error
	for attempt := range reportAttempts {
		if attempt > 0 {
			timer := time.NewTimer(r.stub.cfg.RetryPause)
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
				return errors.Join(failed, ctx.Err())
			}
		}
		if failed = r.once(ctx, call); failed == nil {
			return nil
		}
		r.stub.cfg.Logger.Warn("a report was not delivered", "job", r.dispatch.JobID, "attempt", attempt+1, "error", failed.Error())
	}
	return fmt.Errorf("the report was not delivered in %d attempts: %w", reportAttempts, failed)
}

func (r reporter) once(ctx context.Context, call func(context.Context, *report.ReportServiceClient) error) error {
	s := r.stub
	s.mu.Lock()
	address := s.state.master.address
	s.mu.Unlock()
	if address == "" {
		return errors.New("no master has sent a heartbeat")
	}
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	cfg := thriftnet.ClientConfig{Protocol: s.cfg.Protocol, Framed: s.cfg.Framed}
	if s.cfg.ReportTLS != nil {
		cfg.TLS = s.cfg.ReportTLS()
	}
	c, err := thriftnet.Dial(ctx, address, cfg)
	if err != nil {
		return err
	}
	defer c.Close()
	return call(ctx, report.NewReportServiceClient(c))
}

// sockets remembers the raw connections by their peers' addresses, for answers that no protocol
// would write.
type sockets struct {
	mu   sync.Mutex
	open map[string]net.Conn
}

func (s *sockets) listen(ctx context.Context, address string) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return listener{Listener: l, sockets: s}, nil
}

// write writes raw bytes to a peer; a failure is the peer's to notice.
func (s *sockets) write(peer string, raw []byte) {
	s.mu.Lock()
	conn := s.open[peer]
	s.mu.Unlock()
	if conn != nil && conn.SetWriteDeadline(time.Now().Add(time.Second)) == nil {
		_, _ = conn.Write(raw)
	}
}

type listener struct {
	net.Listener
	sockets *sockets
}

func (l listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.sockets.mu.Lock()
	defer l.sockets.mu.Unlock()
	if l.sockets.open == nil {
		l.sockets.open = map[string]net.Conn{}
	}
	l.sockets.open[conn.RemoteAddr().String()] = conn
	return &socket{Conn: conn, sockets: l.sockets}, nil
}

type socket struct {
	net.Conn
	sockets *sockets
}

func (c *socket) Close() error {
	c.sockets.mu.Lock()
	delete(c.sockets.open, c.RemoteAddr().String())
	c.sockets.mu.Unlock()
	return c.Conn.Close()
}

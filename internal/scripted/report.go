package scripted

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/lancemaster/lancemaster/gen-go/backend"
	"github.com/lancemaster/lancemaster/gen-go/report"
	"github.com/lancemaster/lancemaster/gen-go/shared"
	"github.com/lancemaster/lancemaster/internal/oracle"
	"github.com/lancemaster/lancemaster/internal/thriftnet"
)

// ResultOf is the truthful report of a dispatch: the code, the proof that the worker is gone, and the
// secret echoed. Tests falsify what they want in it.
func ResultOf(d *backend.TLanceIndexJobDispatch, code shared.TLanceIndexResultCode) *report.TLanceIndexJobReport {
	secret := d.GetInvocationSecret()
	proof := shared.TLanceIndexTerminationProof_CHILD_REAPED
	return &report.TLanceIndexJobReport{
		JobID: d.JobID, DispatchRevision: d.DispatchRevision, InvocationID: d.InvocationID, BeProcessEpoch: d.BeProcessEpoch,
		ResultCode: code, TerminationProof: &proof, InvocationSecret: &secret,
	}
}

// TerminationOf is the truthful termination report of a dispatch.
func TerminationOf(d *backend.TLanceIndexJobDispatch) *report.TLanceIndexJobTerminationReport {
	secret := d.GetInvocationSecret()
	return &report.TLanceIndexJobTerminationReport{
		JobID: d.JobID, DispatchRevision: d.DispatchRevision, InvocationID: d.InvocationID, BeProcessEpoch: d.BeProcessEpoch,
		Proof: shared.TLanceIndexTerminationProof_CHILD_REAPED, InvocationSecret: &secret,
	}
}

func (b *Backend) withReports(ctx context.Context, address string, f func(*report.ReportServiceClient) (*shared.TStatus, error)) (*shared.TStatus, error) {
	if address == "" {
		if address = b.ReportTo(); address == "" {
			return nil, errors.New("no heartbeat has told where to report")
		}
	}
	c, err := thriftnet.Dial(ctx, address, b.cfg.Speak)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }() // the answer counts
	return f(report.NewReportServiceClient(c))
}

// TryResult makes one result report to a master, "" for the one of the newest heartbeat.
func (b *Backend) TryResult(ctx context.Context, address string, r *report.TLanceIndexJobReport) (*shared.TStatus, error) {
	return b.withReports(ctx, address, func(c *report.ReportServiceClient) (*shared.TStatus, error) {
		return c.ReportLanceIndexJobResult_(ctx, r)
	})
}

// TryTermination makes one termination report to a master, "" for the one of the newest heartbeat.
func (b *Backend) TryTermination(ctx context.Context, address string, r *report.TLanceIndexJobTerminationReport) (*shared.TStatus, error) {
	return b.withReports(ctx, address, func(c *report.ReportServiceClient) (*shared.TStatus, error) {
		return c.ReportLanceIndexJobTermination(ctx, r)
	})
}

// betweenReports is how long a backend waits before it makes a failed report again.
const betweenReports = 50 * time.Millisecond

// ReportUntilTaken repeats a report as backends do, on failed calls only, until it is answered or the
// context ends, and records how. to chooses a master for each try; nil is the one of the newest
// heartbeat.
func (b *Backend) ReportUntilTaken(ctx context.Context, to func() string, r *report.TLanceIndexJobReport) {
	began := oracle.Moment(0)
	if b.cfg.Recorder != nil {
		began = b.cfg.Recorder.Now()
	}
	for {
		address := ""
		if to != nil {
			address = to()
		}
		status, err := b.TryResult(ctx, address, r)
		if err == nil {
			if b.cfg.Recorder != nil {
				b.cfg.Recorder.Reported(oracle.Report{
					Span: oracle.Span{From: began, To: b.cfg.Recorder.Now()}, Job: r.JobID, Code: r.ResultCode.String(),
					OK: status.StatusCode == shared.TStatusCode_OK, Dropped: strings.Join(status.ErrorMsgs, "; "),
				})
			}
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(betweenReports):
		}
	}
}

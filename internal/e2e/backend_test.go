//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/gen-go/backend"
	"github.com/lancemaster/lancemaster/gen-go/report"
	"github.com/lancemaster/lancemaster/gen-go/shared"
	"github.com/lancemaster/lancemaster/internal/thriftnet"
)

// answer is how the scripted backend ends one call of submit_lance_index_job.
type answer struct {
	status shared.TStatusCode
	text   string
	// cut closes the connection after the call was read, without an answer.
	cut bool
	// held delays the answer until the channel is closed, or the backend's end.
	held <-chan struct{}
	// then runs after the answer has been decided on, on a goroutine of the backend's.
	then func(context.Context)
}

// scriptedBackend plays a backend. Its counts are the oracle of at most one send per job.
type scriptedBackend struct {
	t        *testing.T
	be, beat *thriftnet.Server
	speak    thriftnet.ClientConfig // of its reports
	ctx      context.Context
	end      context.CancelFunc
	running  sync.WaitGroup

	mu     sync.Mutex
	epoch  int64
	script func(d *backend.TLanceIndexJobDispatch) answer
	sends  map[int64][]*backend.TLanceIndexJobDispatch
	conns  map[string]net.Conn // of the backend service, by the peer's address
	master *backend.TMasterInfo
	beats  int
}

// newBackend starts a scripted backend that accepts everything and reports nothing.
func newBackend(t *testing.T) *scriptedBackend {
	t.Helper()
	return newBackendSpeaking(t, thriftnet.ClientConfig{})
}

// newBackendSpeaking starts one that serves and reports in the protocol of speak.
func newBackendSpeaking(t *testing.T, speak thriftnet.ClientConfig) *scriptedBackend {
	t.Helper()
	speak.Timeout = patience
	b := &scriptedBackend{
		t: t, epoch: time.Now().UnixMilli(), speak: speak,
		script: func(*backend.TLanceIndexJobDispatch) answer { return answer{} },
		sends:  map[int64][]*backend.TLanceIndexJobDispatch{}, conns: map[string]net.Conn{},
	}
	b.ctx, b.end = context.WithCancel(context.Background())
	var err error
	b.be, err = thriftnet.New(thriftnet.Config{
		Name: "scripted backend", Address: "127.0.0.1:0", RequestTimeout: 10 * time.Minute,
		Processor: backend.NewBackendServiceProcessor(b), Listen: b.listen, Protocol: speak.Protocol, Framed: speak.Framed,
	})
	if err != nil {
		t.Fatal(err)
	}
	b.beat, err = thriftnet.New(thriftnet.Config{
		Name: "scripted heartbeat", Address: "127.0.0.1:0", Processor: backend.NewHeartbeatServiceProcessor(b),
		Protocol: speak.Protocol, Framed: speak.Framed,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*thriftnet.Server{b.be, b.beat} {
		if err := s.Start(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(b.stop)
	return b
}

func (b *scriptedBackend) stop() {
	b.end()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := errors.Join(b.be.Stop(ctx), b.beat.Stop(ctx)); err != nil {
		b.t.Errorf("stopping the scripted backend: %v", err)
	}
	b.running.Wait()
	b.checkSends()
}

// checkSends holds the master to at most one send per job.
func (b *scriptedBackend) checkSends() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, sends := range b.sends {
		if len(sends) > 1 {
			b.t.Errorf("job %d was sent %d times", id, len(sends))
		}
	}
}

// listen keeps the connections at hand, to be cut in the middle of a call.
func (b *scriptedBackend) listen(ctx context.Context, address string) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	return keeper{l, b}, err
}

type keeper struct {
	net.Listener
	b *scriptedBackend
}

func (k keeper) Accept() (net.Conn, error) {
	c, err := k.Listener.Accept()
	if err == nil {
		k.b.mu.Lock()
		k.b.conns[c.RemoteAddr().String()] = c
		k.b.mu.Unlock()
	}
	return c, err
}

// SubmitLanceIndexJob counts the send and answers by the script.
func (b *scriptedBackend) SubmitLanceIndexJob(ctx context.Context, d *backend.TLanceIndexJobDispatch) (*shared.TStatus, error) {
	b.mu.Lock()
	b.sends[d.JobID] = append(b.sends[d.JobID], d)
	script, conn := b.script, b.conns[thriftnet.Peer(ctx)]
	b.mu.Unlock()
	a := script(d)
	if a.held != nil {
		select {
		case <-a.held:
		case <-b.ctx.Done():
		}
	}
	if a.then != nil {
		b.running.Go(func() { a.then(b.ctx) })
	}
	if a.cut && conn != nil {
		_ = conn.Close() // this is the misbehaviour asked for
	}
	status := &shared.TStatus{StatusCode: a.status}
	if a.text != "" {
		status.ErrorMsgs = []string{a.text}
	}
	return status, nil
}

// Heartbeat learns where to report to.
func (b *scriptedBackend) Heartbeat(_ context.Context, info *backend.TMasterInfo) (*backend.THeartbeatResult_, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.master = info
	b.beats++
	epoch, version := b.epoch, "scripted"
	return &backend.THeartbeatResult_{
		Status:      &shared.TStatus{StatusCode: shared.TStatusCode_OK},
		BackendInfo: &backend.TBackendInfo{BePort: int32(port(b.be)), HTTPPort: 0, BeStartTime: &epoch, Version: &version},
	}, nil
}

func port(s *thriftnet.Server) int {
	_, p, _ := net.SplitHostPort(s.Addr().String())
	n, _ := strconv.Atoi(p) // the address of a listener has a port
	return n
}

// onSubmit replaces the script.
func (b *scriptedBackend) onSubmit(script func(*backend.TLanceIndexJobDispatch) answer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.script = script
}

// always has every call answered the same.
func (b *scriptedBackend) always(a answer) {
	b.onSubmit(func(*backend.TLanceIndexJobDispatch) answer { return a })
}

// restart makes the backend look like another process at the same address.
func (b *scriptedBackend) restart() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.epoch++
}

// sentTo returns the dispatches of a job.
func (b *scriptedBackend) sentTo(id int64) []*backend.TLanceIndexJobDispatch {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]*backend.TLanceIndexJobDispatch(nil), b.sends[id]...)
}

// allSends returns all dispatches by job.
func (b *scriptedBackend) allSends() map[int64][]*backend.TLanceIndexJobDispatch {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.sends)
}

// expectSend waits for a job's dispatch.
func (b *scriptedBackend) expectSend(id int64) *backend.TLanceIndexJobDispatch {
	b.t.Helper()
	var d *backend.TLanceIndexJobDispatch
	eventually(b.t, patience, func() string {
		sends := b.sentTo(id)
		if len(sends) == 0 {
			return fmt.Sprintf("job %d was not sent", id)
		}
		d = sends[0]
		return ""
	})
	return d
}

// masterInfo waits for a heartbeat and returns the newest.
func (b *scriptedBackend) masterInfo() *backend.TMasterInfo {
	b.t.Helper()
	var info *backend.TMasterInfo
	eventually(b.t, patience, func() string {
		b.mu.Lock()
		defer b.mu.Unlock()
		if info = b.master; info == nil {
			return "the scripted backend got no heartbeat"
		}
		return ""
	})
	return info
}

// reportTo is the report address of the newest heartbeat.
func (b *scriptedBackend) reportTo() (string, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.master == nil {
		return "", false
	}
	at := b.master.NetworkAddress
	return net.JoinHostPort(at.Hostname, strconv.Itoa(int(at.Port))), true
}

// resultOf is the truthful report of a dispatch: the code, the proof that the worker is gone, and the
// secret echoed. Tests falsify what they want in it.
func resultOf(d *backend.TLanceIndexJobDispatch, code shared.TLanceIndexResultCode) *report.TLanceIndexJobReport {
	secret := d.GetInvocationSecret()
	proof := shared.TLanceIndexTerminationProof_CHILD_REAPED
	return &report.TLanceIndexJobReport{
		JobID: d.JobID, DispatchRevision: d.DispatchRevision, InvocationID: d.InvocationID, BeProcessEpoch: d.BeProcessEpoch,
		ResultCode: code, TerminationProof: &proof, InvocationSecret: &secret,
	}
}

// terminationOf is the truthful termination report of a dispatch.
func terminationOf(d *backend.TLanceIndexJobDispatch) *report.TLanceIndexJobTerminationReport {
	secret := d.GetInvocationSecret()
	return &report.TLanceIndexJobTerminationReport{
		JobID: d.JobID, DispatchRevision: d.DispatchRevision, InvocationID: d.InvocationID, BeProcessEpoch: d.BeProcessEpoch,
		Proof: shared.TLanceIndexTerminationProof_CHILD_REAPED, InvocationSecret: &secret,
	}
}

func withReports(ctx context.Context, b *scriptedBackend, f func(*report.ReportServiceClient) (*shared.TStatus, error)) (*shared.TStatus, error) {
	address, known := b.reportTo()
	if !known {
		return nil, errors.New("no heartbeat has told where to report")
	}
	c, err := thriftnet.Dial(ctx, address, b.speak)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return f(report.NewReportServiceClient(c))
}

// tryResult makes one result report.
func (b *scriptedBackend) tryResult(ctx context.Context, r *report.TLanceIndexJobReport) (*shared.TStatus, error) {
	return withReports(ctx, b, func(c *report.ReportServiceClient) (*shared.TStatus, error) {
		return c.ReportLanceIndexJobResult_(ctx, r)
	})
}

// tryTermination makes one termination report.
func (b *scriptedBackend) tryTermination(ctx context.Context, r *report.TLanceIndexJobTerminationReport) (*shared.TStatus, error) {
	return withReports(ctx, b, func(c *report.ReportServiceClient) (*shared.TStatus, error) {
		return c.ReportLanceIndexJobTermination(ctx, r)
	})
}

// reportUntilTaken repeats a report as backends do, on failed calls only, until it is answered.
func (b *scriptedBackend) reportUntilTaken(ctx context.Context, r *report.TLanceIndexJobReport) {
	for ctx.Err() == nil {
		if _, err := b.tryResult(ctx, r); err == nil {
			return
		}
		time.Sleep(10 * pollEvery) //sleep: the context bounds the tries
	}
}

// report makes a result report that must be answered OK, and returns what the answer says.
func (b *scriptedBackend) report(r *report.TLanceIndexJobReport) []string {
	b.t.Helper()
	b.masterInfo()
	status, err := b.tryResult(b.ctx, r)
	return b.answeredOK(status, err)
}

// terminated makes a termination report that must be answered OK, and returns what the answer says.
func (b *scriptedBackend) terminated(r *report.TLanceIndexJobTerminationReport) []string {
	b.t.Helper()
	b.masterInfo()
	status, err := b.tryTermination(b.ctx, r)
	return b.answeredOK(status, err)
}

func (b *scriptedBackend) answeredOK(status *shared.TStatus, err error) []string {
	b.t.Helper()
	if err != nil {
		b.t.Fatalf("the report failed: %v", err)
	}
	if status.StatusCode != shared.TStatusCode_OK {
		b.t.Fatalf("the report was answered %s %q, want OK", status.StatusCode, status.ErrorMsgs)
	}
	return status.ErrorMsgs
}

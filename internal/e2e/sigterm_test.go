//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/apache/thrift/lib/go/thrift"

	"github.com/lancemaster/lancemaster/gen-go/admin"
	"github.com/lancemaster/lancemaster/gen-go/backend"
	"github.com/lancemaster/lancemaster/gen-go/report"
	"github.com/lancemaster/lancemaster/gen-go/shared"
	"github.com/lancemaster/lancemaster/internal/await"
	"github.com/lancemaster/lancemaster/internal/programs"
	"github.com/lancemaster/lancemaster/internal/scripted"
	"github.com/lancemaster/lancemaster/internal/thriftnet"
)

const (
	sigtermRounds  = 4
	sigtermClients = 6
	sigtermLoad    = 300 * time.Millisecond
)

// A master that is told to stop under load answers every client that had asked before, ends within
// the contract's time, and loses nothing that it acknowledged.
func TestSigtermUnderLoad(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	m := startMaster(t)
	m.set("admission.enabled", "true", "dispatch.max_inflight_per_backend", "1000", "dispatch.max_per_round", "10000",
		"admission.max_unresolved_per_table", "10000", "admission.max_unresolved_per_catalog", "10000",
		"admission.max_unresolved_global", "10000", "backend.heartbeat_interval", "500ms")
	m.putCatalog("c", "store", none())
	b.OnSubmit(func(d *backend.TLanceIndexJobDispatch) scripted.Answer {
		if d.JobID%4 == 0 { // a send is always under way
			return scripted.Answer{Held: b.Context().Done()}
		}
		return scripted.Answer{Then: func(ctx context.Context) {
			b.ReportUntilTaken(ctx, nil, scripted.ResultOf(d, shared.TLanceIndexResultCode_NATIVE_OK))
		}}
	})
	m.register(b)
	load := &steadyLoad{t: t, master: m}
	waited := m.admit(createRemote("c", "s3://bucket/waited", "waited"))
	for round := range sigtermRounds {
		load.round(round, waited)
	}
	if load.answers.Load() == 0 || load.acknowledgements() == 0 {
		t.Error("no call was answered; this test checked nothing")
	}
}

// steadyLoad is a set of clients that ask one thing after another until the master is gone.
type steadyLoad struct {
	t       *testing.T
	master  *master
	answers atomic.Int64

	mu           sync.Mutex
	acknowledged map[int64]string
}

func (l *steadyLoad) acknowledgements() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acknowledged)
}

func (l *steadyLoad) round(n int, waited int64) {
	l.t.Helper()
	var told atomic.Int64 // when SIGTERM was sent, in UTC nanoseconds; 0: not yet
	var running sync.WaitGroup
	for i := range sigtermClients {
		running.Go(func() { l.client(&told, l.mixed(fmt.Sprintf("r%d_c%d", n, i), waited)) })
	}
	running.Go(func() { l.client(&told, l.waiter(waited)) })
	running.Go(func() { l.dialler(&told, waited) })
	running.Go(func() { l.reporter(&told, waited) })
	await.Moment(sigtermLoad)
	began := time.Now()
	told.Store(began.UnixNano())
	l.master.proc.Signal(syscall.SIGTERM)
	took := l.master.proc.Stops(began)
	running.Wait()
	l.t.Logf("round %d: stopped after %s", n, took)
	l.master.start()
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, name := range l.acknowledged {
		if j := l.master.job(id); j.Target.IndexName != name {
			l.t.Errorf("job %d is for index %s, and was acknowledged for %s", id, j.Target.IndexName, name)
		}
	}
}

// A second signal ends a stop that somebody does not want to wait for.
func TestSecondSignal(t *testing.T) {
	t.Parallel()
	m := withRemote(t)
	b := newBackend(t)
	b.Always(scripted.Answer{Held: b.Context().Done()}) // a send under way is waited for
	m.register(b)
	b.expectSend(m.admit(remote(1)))
	began := time.Now()
	m.proc.Signal(syscall.SIGTERM)
	programs.Eventually(t, patience, func() string {
		if s, err := m.status(); err == nil && s.Ready {
			return "the master has not begun to stop"
		}
		return ""
	})
	m.proc.Signal(syscall.SIGTERM)
	m.proc.Wait(programs.StopLimit)
	took, code := time.Since(began), m.proc.ExitCode()
	if code != 1 || took > 2*time.Second {
		t.Errorf("after the second signal the master ended with exit code %d, %s after the first; want 1, at once", code, took)
	}
	m.start()
}

type call func(context.Context, *admin.AdminServiceClient) error

// client makes calls over one connection until one is not answered.
func (l *steadyLoad) client(told *atomic.Int64, next func() call) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := dialAPI(ctx, l.master.admin)
	if err != nil {
		l.t.Errorf("dialling before the stop: %v", err)
		return
	}
	defer conn.conn.Close()
	for ctx.Err() == nil {
		begun := time.Now().UnixNano()
		err := next()(ctx, conn.AdminServiceClient)
		if !l.goesOn(told, begun, err) {
			return
		}
	}
	l.t.Error("the master did not stop serving")
}

// dialler makes each call over a connection of its own.
func (l *steadyLoad) dialler(told *atomic.Int64, id int64) {
	for {
		begun := time.Now().UnixNano()
		_, err := ask(l.master.admin, func(ctx context.Context, c *admin.AdminServiceClient) (*admin.TJob, error) {
			return c.GetJob(ctx, &admin.TGetJobRequest{Ctx: caller(), JobID: &id})
		})
		if !l.goesOn(told, begun, err) {
			return
		}
	}
}

// reporter is a backend that reports what is not believed.
func (l *steadyLoad) reporter(told *atomic.Int64, id int64) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := thriftnet.Dial(ctx, l.master.report, thriftnet.ClientConfig{Timeout: patience})
	if err != nil {
		l.t.Errorf("dialling before the stop: %v", err)
		return
	}
	defer conn.Close()
	c := report.NewReportServiceClient(conn)
	for {
		begun := time.Now().UnixNano()
		_, err := c.ReportLanceIndexJobResult_(ctx, &report.TLanceIndexJobReport{
			JobID: id, DispatchRevision: 1, InvocationID: "forged", ResultCode: shared.TLanceIndexResultCode_NATIVE_OK, InvocationSecret: ptr(wrongSecret),
		})
		if !l.goesOn(told, begun, err) {
			return
		}
	}
}

// goesOn judges how a call ended. One that was not answered may only be one that was begun after the
// master was told to stop.
func (l *steadyLoad) goesOn(told *atomic.Int64, begun int64, err error) bool {
	if err == nil || isAnswer(err) {
		l.answers.Add(1)
		return true
	}
	if stop := told.Load(); stop == 0 || begun < stop {
		l.t.Errorf("a call begun %s before the stop was not answered: %v", time.Duration(stop-begun), err)
	}
	return false
}

// isAnswer tells an error that the master answered with from a broken connection.
func isAnswer(err error) bool {
	var application thrift.TApplicationException
	return refusalOf(err) != nil || errors.As(err, &application)
}

// mixed submits and reads in turn.
func (l *steadyLoad) mixed(prefix string, waited int64) func() call {
	n := 0
	return func() call {
		n++
		name := fmt.Sprintf("%s_%d", prefix, n)
		switch n % 4 {
		case 0:
			return func(ctx context.Context, c *admin.AdminServiceClient) error {
				_, err := c.ListJobs(ctx, &admin.TListJobsRequest{Ctx: caller(), Limit: ptr(int32(10))})
				return err
			}
		case 1:
			return func(ctx context.Context, c *admin.AdminServiceClient) error {
				_, err := c.GetJob(ctx, &admin.TGetJobRequest{Ctx: caller(), JobID: &waited})
				return err
			}
		default:
			return func(ctx context.Context, c *admin.AdminServiceClient) error {
				answer, err := c.Submit(ctx, createRemote("c", "s3://bucket/t", name))
				if err == nil {
					l.mu.Lock()
					defer l.mu.Unlock()
					if l.acknowledged == nil {
						l.acknowledged = map[int64]string{}
					}
					l.acknowledged[answer.Job.JobID] = name
				}
				return err
			}
		}
	}
}

// waiter is a client in a long wait for something that will not happen.
func (l *steadyLoad) waiter(id int64) func() call {
	return func() call {
		return func(ctx context.Context, c *admin.AdminServiceClient) error {
			_, err := c.WaitJob(ctx, &admin.TWaitJobRequest{Ctx: caller(), JobID: &id, AfterRevision: ptr(int64(1 << 40)), WaitMs: ptr(int64(20_000))})
			return err
		}
	}
}

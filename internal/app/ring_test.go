package app

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lancemaster/lancemaster/gen-go/report"
	"github.com/lancemaster/lancemaster/gen-go/shared"
	"github.com/lancemaster/lancemaster/internal/fsm"
	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/job/jobtest"
	"github.com/lancemaster/lancemaster/internal/lance"
	"github.com/lancemaster/lancemaster/internal/release"
	"github.com/lancemaster/lancemaster/internal/rpc"
)

// races is how often each race is run. All of one kind run at once, against one real
// state machine behind one journal, as they would on a leader.
const races = 1000

// sequencer gives commands their place in the log, as Raft does: what came in
// together goes into one batch, in an order that the proposers cannot know.
type sequencer struct {
	machine *fsm.Machine
	queue   chan queued
}

type queued struct {
	data []byte
	done chan *fsm.Result
}

func (s *sequencer) Propose(ctx context.Context, data []byte) (any, uint64, error) {
	q := queued{data, make(chan *fsm.Result, 1)}
	select {
	case s.queue <- q:
	case <-ctx.Done():
		return nil, 0, ctx.Err()
	}
	r := <-q.done
	return r, r.Position.Index, nil
}

func (s *sequencer) run() {
	order := rand.New(rand.NewPCG(1, 2))
	var index uint64
	for first := range s.queue {
		batch := []queued{first}
		for range 64 {
			runtime.Gosched()
			select {
			case q, open := <-s.queue:
				if open {
					batch = append(batch, q)
				}
			default:
			}
		}
		order.Shuffle(len(batch), func(i, j int) { batch[i], batch[j] = batch[j], batch[i] })
		entries := make([]*raft.Log, len(batch))
		for i, q := range batch {
			index++
			entries[i] = &raft.Log{Index: index, Term: 1, Type: raft.LogCommand, Data: q.data}
		}
		for i, r := range s.machine.ApplyBatch(entries) {
			result, ok := r.(*fsm.Result)
			if !ok {
				panic("the state machine answered with something else than a result")
			}
			batch[i].done <- result
		}
	}
}

// ring is where the races are run: the real state machine, journal, report service,
// admin service and force release.
type ring struct {
	t        *testing.T
	machine  *fsm.Machine
	journal  *journal
	releaser *release.Service
	reports  *rpc.Reports
	admin    *rpc.Admin
	// verified is called by a force release between its first look and its proposal.
	verified func(job.ID)
	// passed is what is added to the clock of the force release.
	passed atomic.Int64
}

// alwaysCurrent leads, and what it shows is current: there is one process.
type alwaysCurrent struct{}

func (alwaysCurrent) ReadBarrier(context.Context) error { return nil }
func (alwaysCurrent) WaitLeader(context.Context) (rpc.Leader, error) {
	return rpc.Leader{Self: true}, nil
}
func (alwaysCurrent) CloseLatch(job.ID, string) {}
func (alwaysCurrent) Status() rpc.NodeStatus    { return rpc.NodeStatus{} }

func newRing(t *testing.T) *ring {
	t.Helper()
	m, err := fsm.Open(fsm.Config{Path: filepath.Join(t.TempDir(), "state.db"), Fatal: func(err error) { t.Errorf("fatal: %v", err) }})
	if err != nil {
		t.Fatal(err)
	}
	s := &sequencer{machine: m, queue: make(chan queued, 2*races)}
	var running sync.WaitGroup
	running.Go(s.run)
	r := &ring{t: t, machine: m, verified: func(job.ID) {}}
	t.Cleanup(func() {
		if err := m.Check(); err != nil {
			t.Errorf("the state file and memory: %v", err)
		}
		close(s.queue)
		running.Wait()
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	r.journal = newJournal(s, slog.New(slog.DiscardHandler), prometheus.NewRegistry(), func(res *fsm.Result) { r.releaser.Applied(res.Changes) })
	r.releaser = release.New(release.Config{
		Sending: func(job.ID) bool { return false }, ClockAgrees: func() bool { return true },
		State: m, Journal: r.journal, Now: func() time.Time { return time.Now().Add(time.Duration(r.passed.Load())) },
		Open: func(context.Context, string) (*lance.Dataset, error) { return &lance.Dataset{}, nil },
		Refresh: func(_ context.Context, _ *job.Catalog, rec *job.Record) error {
			r.verified(rec.ID)
			return nil
		},
	})
	metrics, err := rpc.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	r.reports = rpc.NewReports(rpc.ReportConfig{
		Journal: r.journal, State: rpcState{m}, Leadership: alwaysCurrent{}, Latches: alwaysCurrent{}, Clock: wallClock(time.Now), Metrics: metrics,
	})
	r.admin = rpc.NewAdmin(rpc.AdminConfig{
		Journal: r.journal, State: rpcState{m}, Leadership: alwaysCurrent{}, Releaser: r.releaser, Node: alwaysCurrent{}, Clock: wallClock(time.Now), Metrics: metrics,
	})
	r.must(job.Form{Header: head(), ClusterID: 1, Level: 1, Settings: job.DefaultSettings(), Members: jobtest.Members("master-1")})
	r.set("admission.enabled", "true")
	for _, name := range []string{"global", "per_catalog", "per_table"} {
		r.set("admission.max_unresolved_"+name, "100000")
	}
	r.set("dispatch.max_inflight_per_backend", "1000")
	r.must(job.PutCatalog{Header: head(), Catalog: job.Catalog{Name: "c", Refresher: job.Refresher{Kind: job.RefresherNone}}})
	r.must(job.AddBackend{Header: head(), Address: job.Address{Host: "b", BePort: 9060, HeartbeatPort: 9050}})
	return r
}

func head() job.Header {
	return job.Header{At: job.Millis(time.Now().UnixMilli()), Actor: "test"}
}

func (r *ring) propose(c job.Command) (job.Answer, error) {
	return r.journal.Propose(context.Background(), c)
}

func (r *ring) must(c job.Command) job.Answer {
	answer, err := r.propose(c)
	if err != nil {
		r.t.Errorf("%s: %v", c.Name(), err)
	}
	return answer
}

func (r *ring) set(name, value string) {
	r.must(job.ChangeSettings{Header: head(), Values: []job.SettingValue{{Name: name, Value: value}}})
}

func (r *ring) job(id job.ID) *job.Record {
	rec, err := r.machine.Job(id)
	if err != nil || rec == nil {
		r.t.Errorf("job %d: %v, %v", id, rec, err)
		return &job.Record{}
	}
	return rec
}

// each runs f for n contests at once.
func each(n int, f func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { f(i) })
	}
	all.Wait()
}

// both runs two opponents at once, either of them first.
func both(i int, a, b func()) {
	if i%2 == 1 {
		a, b = b, a
	}
	var two sync.WaitGroup
	two.Go(a)
	two.Go(b)
	two.Wait()
}

func admitting(i int) job.Admit {
	index := fmt.Sprintf("idx%d", i)
	return job.Admit{
		Header: head(),
		Target: job.Target{
			Catalog: "c", Store: "s3", Database: "d", Table: "t", Provider: job.Provider, Locator: "s3://b/t", IndexName: index, IndexKey: index,
		},
		Spec:     job.Spec{Mutation: job.MutationDrop, MaxNumPartitions: 1, MaxNumSubVectors: 1, ExecuteDeadline: 3_600_000},
		Snapshot: job.Snapshot{DatasetVersion: 1, Source: job.SnapshotCaller},
	}
}

const invocationSecret = "0123456789abcdef0123456789abcdef"

func marking(rec *job.Record) job.MarkRunning {
	return job.MarkRunning{
		Header: head(), Job: rec.ID, Expected: rec.Revision, Backend: 1, ProcessEpoch: 7, InvocationID: fmt.Sprint("inv-", rec.ID),
		SecretHash: sha256.Sum256([]byte(invocationSecret)), DeadlineAt: head().At + 3_600_000,
	}
}

// jobs admits as many jobs as there are races and takes each as far as asked.
func (r *ring) jobs(steps ...func(*job.Record) job.Command) []*job.Record {
	r.t.Helper()
	list := make([]*job.Record, races)
	each(races, func(i int) {
		rec := r.must(admitting(i)).Job
		for _, step := range steps {
			if rec != nil {
				rec = r.must(step(rec)).Job
			}
		}
		list[i] = rec
	})
	if r.t.Failed() {
		r.t.FailNow()
	}
	return list
}

func run(rec *job.Record) job.Command { return marking(rec) }

func lose(rec *job.Record) job.Command {
	d := rec.Dispatch
	return job.Complete{
		Header:   head(),
		Identity: job.Identity{Job: rec.ID, Revision: d.Revision, InvocationID: d.InvocationID, ProcessEpoch: d.ProcessEpoch},
		Code:     job.CodeNoTrustedResult, Proof: job.ProofNone,
	}
}

func (r *ring) result(rec *job.Record, proof *shared.TLanceIndexTerminationProof) string {
	secret, d := invocationSecret, rec.Dispatch
	return r.reported(r.reports.ReportLanceIndexJobResult_(context.Background(), &report.TLanceIndexJobReport{
		JobID: int64(rec.ID), DispatchRevision: int64(d.Revision), InvocationID: d.InvocationID, BeProcessEpoch: d.ProcessEpoch,
		ResultCode: shared.TLanceIndexResultCode_NATIVE_OK, TerminationProof: proof, InvocationSecret: &secret,
	}))
}

func (r *ring) termination(rec *job.Record) string {
	secret, d := invocationSecret, rec.Dispatch
	return r.reported(r.reports.ReportLanceIndexJobTermination(context.Background(), &report.TLanceIndexJobTerminationReport{
		JobID: int64(rec.ID), DispatchRevision: int64(d.Revision), InvocationID: d.InvocationID, BeProcessEpoch: d.ProcessEpoch,
		Proof: shared.TLanceIndexTerminationProof_CHILD_REAPED, InvocationSecret: &secret,
	}))
}

func (r *ring) reported(status *shared.TStatus, err error) string {
	if err != nil || status.StatusCode != shared.TStatusCode_OK {
		r.t.Errorf("a report was answered %v, %v", status, err)
		return ""
	}
	return strings.Join(status.ErrorMsgs, " ")
}

// tally counts who won, and wants both to have won some.
type tally struct {
	mu   sync.Mutex
	wins map[string]int
}

func (c *tally) win(who string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.wins == nil {
		c.wins = map[string]int{}
	}
	c.wins[who]++
}

func (c *tally) wantBoth(t *testing.T, who ...string) {
	t.Helper()
	t.Logf("won: %v", c.wins)
	sum := 0
	for _, w := range who {
		sum += c.wins[w]
		if c.wins[w] == 0 {
			t.Errorf("%s never won: this was no race", w)
		}
	}
	if sum != races {
		t.Errorf("%d contests have a winner, want %d: %v", sum, races, c.wins)
	}
}

// presentOf returns the job as the loser of a contest was shown it.
func presentOf(t *testing.T, err error, codes ...job.Code) *job.Record {
	refusal, ok := job.AsRefusal(err)
	for _, code := range codes {
		if ok && refusal.Code == code && refusal.Present != nil && refusal.Next != "" {
			return refusal.Present
		}
	}
	t.Errorf("the loser was told %v, want one of %v with the present state and what to do", err, codes)
	return &job.Record{}
}

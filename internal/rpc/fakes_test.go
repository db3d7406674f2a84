package rpc

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/job/jobtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bound is how long a test waits for what should happen at once.
const bound = 10 * time.Second

var _ View = (*job.Live)(nil)

// master is a whole master of one, in memory: the real transitions behind the interfaces that the
// services stand on.
type master struct {
	mu       sync.Mutex
	state    *jobtest.State
	changed  chan struct{}
	proposed []job.Command
	latched  []string
	barriers int
	now      time.Time

	fail      func(job.Command) error // before anything is applied
	lose      error                   // after it was applied
	interfere func(job.Command)       // before the command, as another's would be
	barrier   func(context.Context) error
	leader    func(context.Context) (Leader, error)
	listFails error
	readFails error
	submit    func(context.Context, job.Submission) (job.SubmissionOutcome, error)
	inspect   func(context.Context, InspectRequest) (Inspection, error)
	release   func(context.Context, string, job.ID, *job.Revision, string) (*job.Record, error)
	reasons   []Reason
	live      BackendLiveness
	status    NodeStatus
}

func newMaster(t testing.TB) *master {
	t.Helper()
	m := &master{
		state: jobtest.Formed(), changed: make(chan struct{}), now: time.UnixMilli(1_700_000_000_000),
		status: NodeStatus{NodeID: "n1", LeaderAdminAddress: "10.0.0.1:9021"},
	}
	m.must(t, job.ChangeSettings{Header: m.head(), Values: []job.SettingValue{{Name: "admission.enabled", Value: "true"}}})
	m.must(t, job.PutCatalog{Header: m.head(), Catalog: job.Catalog{Name: "c", Refresher: job.Refresher{Kind: job.RefresherNone}}})
	m.must(t, job.AddBackend{Header: m.head(), Address: job.Address{Host: "b", BePort: 9060, HeartbeatPort: 9050}})
	return m
}

func (m *master) head() job.Header { return job.Header{At: millis(m), Actor: "test"} }

func (m *master) Now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// apply applies a command as if another had proposed it.
func (m *master) apply(c job.Command) (job.Answer, *job.Refusal) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change, refusal := m.state.Apply(c)
	close(m.changed)
	m.changed = make(chan struct{})
	return change.Answer, refusal
}

func (m *master) must(t testing.TB, c job.Command) job.Answer {
	t.Helper()
	answer, refusal := m.apply(c)
	if refusal != nil {
		t.Fatalf("%s: %v", c.Name(), refusal)
	}
	return answer
}

func (m *master) Propose(_ context.Context, c job.Command) (job.Answer, error) {
	m.mu.Lock()
	m.proposed = append(m.proposed, c)
	fail, interfere, lose := m.fail, m.interfere, m.lose
	m.mu.Unlock()
	if fail != nil {
		if err := fail(c); err != nil {
			return job.Answer{}, err
		}
	}
	if interfere != nil {
		interfere(c)
	}
	answer, refusal := m.apply(c)
	if lose != nil {
		return job.Answer{}, lose
	}
	if refusal != nil {
		return job.Answer{}, refusal
	}
	return answer, nil
}

func (m *master) Read(f func(View)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(m.state.Live)
}

func (m *master) Job(id job.ID) (*job.Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.Job(id), m.readFails
}

func (m *master) List(q job.Query) (job.Page, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.listFails != nil {
		return job.Page{}, m.listFails
	}
	all := m.state.All()
	slices.Reverse(all)
	if q.Backend != 0 {
		all = slices.DeleteFunc(all, func(r *job.Record) bool { return r.Dispatch.BackendID != q.Backend })
	}
	if q.Open != nil {
		all = slices.DeleteFunc(all, func(r *job.Record) bool { return r.Open() != *q.Open })
	}
	from := 0
	if q.PageToken != "" {
		var err error
		if from, err = strconv.Atoi(q.PageToken); err != nil {
			return job.Page{}, err
		}
	}
	page := job.Page{Jobs: all[from:min(len(all), from+q.Limit)]}
	if to := from + len(page.Jobs); to < len(all) {
		page.Next = strconv.Itoa(to)
	}
	return page, m.readFails
}

func (m *master) History(id job.ID) ([]job.Event, int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.Events[id], 3, m.readFails
}

func (m *master) SettingsHistory(name string, limit int) ([]SettingChange, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var changes []SettingChange
	for i := len(m.state.Changes) - 1; i >= 0 && len(changes) < limit; i-- {
		if c := m.state.Changes[i]; name == "" || c.Name == name {
			changes = append(changes, SettingChange{Index: uint64(i + 1), SettingChange: c})
		}
	}
	return changes, m.readFails
}

func (m *master) EventsAfter(after uint64, limit int) ([]job.Event, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var events []job.Event
	for _, list := range m.state.Events {
		for _, e := range list {
			if e.Index > after {
				events = append(events, e)
			}
		}
	}
	slices.SortFunc(events, func(a, b job.Event) int { return cmp.Compare(a.Index, b.Index) })
	for limit < len(events) && events[limit].Index == events[limit-1].Index {
		limit++
	}
	return events[:min(limit, len(events))], m.readFails
}

func (m *master) Settings() ([]job.SettingChange, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.Changes, m.readFails // a later change replaces an earlier one
}

func (m *master) Applied() job.Position {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.Position
}

func (m *master) ForceRelease(ctx context.Context, actor string, id job.ID, expected *job.Revision, note string) (*job.Record, error) {
	return m.release(ctx, actor, id, expected, note)
}

func (m *master) Explain(*job.Record) []Reason { return m.reasons }

func (m *master) AppliedChanged() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changed
}

func (m *master) ReadBarrier(ctx context.Context) error {
	m.mu.Lock()
	m.barriers++
	m.mu.Unlock()
	if m.barrier != nil {
		return m.barrier(ctx)
	}
	return nil
}

func (m *master) WaitLeader(ctx context.Context) (Leader, error) {
	if m.leader != nil {
		return m.leader(ctx)
	}
	return Leader{Self: true}, nil
}

// following is a master that looks for its leader in a way of its own.
type following struct {
	*master
	find func(context.Context) (Leader, error)
}

func (f following) WaitLeader(ctx context.Context) (Leader, error) { return f.find(ctx) }

func (m *master) CloseLatch(id job.ID, invocation string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.latched = append(m.latched, invocation)
	_ = id
}

func (m *master) Submit(ctx context.Context, s job.Submission) (job.SubmissionOutcome, error) {
	m.mu.Lock()
	submit := m.submit
	m.mu.Unlock()
	return submit(ctx, s)
}

// change sets what the master does while a server is at it.
func (m *master) change(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
}

func (m *master) Inspect(ctx context.Context, r InspectRequest) (Inspection, error) {
	return m.inspect(ctx, r)
}

func (m *master) Backend(job.BackendID) BackendLiveness { return m.live }

func (m *master) Status() NodeStatus { return m.status }

func (m *master) commands() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var names []string
	for _, c := range m.proposed {
		names = append(names, c.Name())
	}
	return names
}

func (m *master) record(t testing.TB, id job.ID) *job.Record {
	t.Helper()
	rec, err := m.Job(id)
	if err != nil || rec == nil {
		t.Fatalf("job %d: %v, %v", id, rec, err)
	}
	return rec
}

// secret is the invocation secret of every job that these tests dispatch.
const secret = "0123456789abcdef0123456789abcdef"

const epoch = 1_699_999_000_000

// admit admits a job.
func (m *master) admit(t testing.TB, index string, mutation job.Mutation) *job.Record {
	t.Helper()
	spec := job.Spec{Mutation: mutation, MaxNumPartitions: 4096, MaxNumSubVectors: 256, ExecuteDeadline: 3_600_000}
	contract := ""
	if mutation != job.MutationDrop {
		spec.IndexType, spec.Column = job.IndexBTree, "id"
		contract = `{"scv":1,"flds":[{"fid":0,"nn":"id","nt":"int64","nul":false}]}`
	}
	answer := m.must(t, job.Admit{
		Header: m.head(),
		Target: job.Target{
			Catalog: "c", Store: "s3", Database: "d", Table: "t", Provider: job.Provider, Locator: "s3://b/t",
			IndexName: index, IndexKey: job.NormalizeIndexName(index),
		},
		Spec: spec, Snapshot: job.Snapshot{DatasetVersion: 1, SchemaContract: contract, Source: job.SnapshotCaller},
	})
	return answer.Job
}

// running admits a job and marks it RUNNING.
func (m *master) running(t testing.TB, index string) *job.Record {
	t.Helper()
	r := m.admit(t, index, job.MutationCreate)
	return m.must(t, job.MarkRunning{
		Header: m.head(), Job: r.ID, Expected: r.Revision, Backend: 1, ProcessEpoch: epoch, InvocationID: "inv-" + index,
		SecretHash: sha256.Sum256([]byte(secret)), DeadlineAt: millis(m) + 3_600_000,
	}).Job
}

// unknown makes a RUNNING job UNKNOWN.
func (m *master) unknown(t testing.TB, r *job.Record) *job.Record {
	t.Helper()
	return m.must(t, job.Complete{Header: m.head(), Identity: identity(r), Code: job.CodeNoTrustedResult, Proof: job.ProofNone}).Job
}

func identity(r *job.Record) job.Identity {
	return job.Identity{Job: r.ID, Revision: r.Dispatch.Revision, InvocationID: r.Dispatch.InvocationID, ProcessEpoch: r.Dispatch.ProcessEpoch}
}

// safeLog is a log that tests read.
type safeLog struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *safeLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *safeLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// bench is a master with both services in front of it.
type bench struct {
	*master
	log     *safeLog
	reg     *prometheus.Registry
	reports *Reports
	admin   *Admin
}

func newBench(t testing.TB) *bench {
	t.Helper()
	b := &bench{master: newMaster(t), log: &safeLog{}, reg: prometheus.NewRegistry()}
	metrics, err := NewMetrics(b.reg)
	if err != nil {
		t.Fatal(err)
	}
	logger := slog.New(slog.NewJSONHandler(b.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	b.reports = NewReports(ReportConfig{
		Journal: b, State: b, Leadership: b, Latches: b, Clock: b, Logger: logger, Metrics: metrics, Hold: 100 * time.Millisecond,
	})
	b.admin = NewAdmin(AdminConfig{
		Journal: b, State: b, Leadership: b, Submitter: b, Releaser: b, Explainer: b, Inspector: b, Liveness: b.master, Node: b, Clock: b, Logger: logger, Metrics: metrics, Wait: 100 * time.Millisecond,
	})
	return b
}

var errLost = errors.New("the answer was lost, with /some/path and internals")

func ptr[T any](v T) *T { return &v }

func (m *master) barrierCount() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.barriers
}

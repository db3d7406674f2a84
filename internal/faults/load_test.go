//go:build faults

package faults

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lancemaster/lancemaster/gen-go/backend"
	"github.com/lancemaster/lancemaster/gen-go/shared"
	"github.com/lancemaster/lancemaster/internal/client"
	"github.com/lancemaster/lancemaster/internal/oracle"
	"github.com/lancemaster/lancemaster/internal/programs"
	"github.com/lancemaster/lancemaster/internal/scripted"
)

const (
	submitters = 3
	readers    = 2
	// A submitter waits so long between submissions: a small load leaves a small machine room for
	// elections.
	shortestPause, longestPause = 5 * time.Millisecond, 60 * time.Millisecond
	// quietDeadline is the execute deadline of a job whose backend will not report.
	quietDeadline = 6 * time.Second
	// wanted is how many names clients quarrel over.
	wanted = 6
)

// load is clients that submit, read and release, and backends that do a bit of everything.
type load struct {
	c       *cluster
	ctx     context.Context // ends new work
	end     context.CancelFunc
	running sync.WaitGroup
	numbers atomic.Int64
	acked   atomic.Int64
	reports atomic.Int64 // that backends have yet to make
	gentle  atomic.Bool  // backends do nothing that makes an outcome UNKNOWN

	mu       sync.Mutex
	open     []*submission // not answered when the load ended
	jobs     []int64       // admitted ones, for readers
	failures []error       // of calls that are safe to repeat
}

type submission struct {
	client.Submission
	fence oracle.Fence
	from  oracle.Moment
}

// newLoad has the backends behave; start begins the clients.
func newLoad(c *cluster) *load {
	l := &load{c: c}
	for i, b := range c.backends {
		r := dice(c.t, fmt.Sprintf("reports of backend %d", i))
		var mu sync.Mutex
		anyMaster := func() string { // one report in three goes to whichever master
			mu.Lock()
			defer mu.Unlock()
			if n := r.IntN(3 * len(c.nodes)); n < len(c.nodes) {
				return c.nodes[n].report()
			}
			return ""
		}
		b.OnSubmit(func(d *backend.TLanceIndexJobDispatch) scripted.Answer { return l.behave(b, d, anyMaster) })
	}
	return l
}

func (l *load) start() {
	l.ctx, l.end = context.WithCancel(context.Background())
	l.c.t.Cleanup(func() { l.stop() })
	for i := range submitters {
		r, api := dice(l.c.t, fmt.Sprintf("submitter %d", i)), l.c.newClient()
		l.running.Go(func() { l.submit(r, api) })
	}
	for i := range readers {
		r, api := dice(l.c.t, fmt.Sprintf("reader %d", i)), l.c.newClient()
		l.running.Go(func() { l.read(r, api) })
	}
	api := l.c.newClient()
	l.running.Go(func() { l.operate(api) })
}

// stop ends the clients.
func (l *load) stop() {
	if l.end != nil {
		l.end()
	}
	l.running.Wait()
}

// behave decides by the index name, so that each job has its own lot in each run of a seed.
func (l *load) behave(b *scripted.Backend, d *backend.TLanceIndexJobDispatch, to func() string) scripted.Answer {
	h := fnv.New32a()
	fmt.Fprint(h, d.IndexName, d.JobID)
	reports := func(code shared.TLanceIndexResultCode) func(context.Context) {
		delay := time.Duration(h.Sum32()>>8%400) * time.Millisecond
		l.reports.Add(1)
		return func(ctx context.Context) {
			defer l.reports.Add(-1)
			select {
			case <-time.After(delay):
				b.ReportUntilTaken(ctx, to, scripted.ResultOf(d, code))
			case <-ctx.Done():
			}
		}
	}
	lot := h.Sum32() % 20
	if l.gentle.Load() {
		lot = 19
	}
	switch lot {
	case 0, 1:
		return scripted.Answer{Status: shared.TStatusCode_CANCELLED, Text: "not today"}
	case 2:
		return scripted.Answer{Cut: true}
	case 3: // accepted and never heard of again
		return scripted.Answer{}
	case 4:
		return scripted.Answer{Then: reports(shared.TLanceIndexResultCode_NATIVE_IO)}
	case 5, 6:
		return scripted.Answer{Then: reports(shared.TLanceIndexResultCode_NATIVE_COMMIT_CONFLICT)}
	case 7: // the answer is lost, the report comes
		return scripted.Answer{Cut: true, Then: reports(shared.TLanceIndexResultCode_NATIVE_OK)}
	default:
		return scripted.Answer{Then: reports(shared.TLanceIndexResultCode_NATIVE_OK)}
	}
}

// next makes a submission: half of them want names that others want too.
func (l *load) next(r *rand.Rand) *submission {
	n := l.numbers.Add(1)
	index := fmt.Sprintf("own_%d", n)
	if r.IntN(2) == 0 {
		index = fmt.Sprintf("wanted_%d", r.IntN(wanted))
	}
	uri := fmt.Sprintf("s3://bucket/t%d", r.IntN(2))
	return &submission{
		fence: oracle.Fence{Store: storeName, Locator: uri, Index: index},
		Submission: client.Submission{
			RequestID: fmt.Sprintf("request-%d", n), Catalog: catalogName, Database: "db", Table: fmt.Sprintf("t%d", r.IntN(3)), Dataset: uri,
			IndexName: index, Mutation: [...]string{"CREATE", "REPLACE"}[r.IntN(2)], IndexType: "btree", Column: "id", ExecuteDeadline: quietDeadline,
			Snapshot: &client.CallerSnapshot{DatasetVersion: 7, SchemaContract: idContract},
		},
	}
}

// idContract is the schema contract of a column id of type int64.
const idContract = `{"scv":1,"flds":[{"fid":0,"nn":"id","nt":"int64","nul":false}]}`

func (l *load) submit(r *rand.Rand, api *client.Client) {
	for l.pause(between(r, shortestPause, longestPause)) {
		s := l.next(r)
		s.from = l.c.recorder.Now()
		if !l.send(l.ctx, api, s) {
			l.mu.Lock()
			l.open = append(l.open, s)
			l.mu.Unlock()
		}
	}
}

// pause waits, and tells whether the load goes on.
func (l *load) pause(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-l.ctx.Done():
		return false
	}
}

// send submits until there is an answer, and records it.
func (l *load) send(ctx context.Context, api *client.Client, s *submission) bool {
	fact := oracle.Submission{RequestID: s.RequestID, Fence: s.fence, Mutation: s.Mutation}
	for ctx.Err() == nil {
		attempt, cancel := context.WithTimeout(ctx, patience)
		answer, err := api.Submit(attempt, s.Submission)
		cancel()
		fact.Span = oracle.Span{From: s.from, To: l.c.recorder.Now()}
		var refused *client.Error
		switch {
		case err == nil:
			fact.Job = answer.Job
			l.c.recorder.Submission(fact)
			l.acked.Add(1)
			l.mu.Lock()
			l.jobs = append(l.jobs, answer.Job.ID)
			l.mu.Unlock()
			return true
		case errors.As(err, &refused) && refused.Code == "FENCE_HELD":
			fact.Refused, fact.Holder = refused.Code, refused.Holder
			l.c.recorder.Submission(fact)
			return true
		case ctx.Err() == nil:
			l.failed(fmt.Errorf("submitting %s: %w", s.RequestID, err))
		}
	}
	return false
}

// failed notes that a call that is safe to repeat failed.
func (l *load) failed(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failures = append(l.failures, err)
}

// read looks at jobs that were admitted a while ago or just now.
func (l *load) read(r *rand.Rand, api *client.Client) {
	for l.pause(between(r, shortestPause, longestPause)) {
		l.mu.Lock()
		var id int64
		if n := len(l.jobs); n > 0 {
			id = l.jobs[max(0, n-1-r.IntN(20))]
		}
		l.mu.Unlock()
		if id != 0 {
			l.look(api, id)
		}
	}
}

func (l *load) look(api *client.Client, id int64) {
	attempt, cancel := context.WithTimeout(l.ctx, patience)
	defer cancel()
	from := l.c.recorder.Now()
	j, err := api.Job(attempt, id)
	switch {
	case err == nil:
		l.c.recorder.Observed(j, oracle.Span{From: from, To: l.c.recorder.Now()})
	case l.ctx.Err() == nil:
		l.failed(fmt.Errorf("reading job %d: %w", id, err))
	}
}

// operate is an operator who releases what is UNKNOWN.
func (l *load) operate(api *client.Client) {
	for l.pause(time.Second) {
		l.release(l.ctx, api)
	}
}

// release releases the UNKNOWN jobs that may be by now, and returns how many may not.
func (l *load) release(ctx context.Context, api *client.Client) (left int) {
	held := true
	page, err := api.Jobs(ctx, client.JobQuery{States: []string{client.StateUnknown}, Unresolved: &held, Limit: 1000})
	if err != nil {
		return -1
	}
	for _, j := range page.Jobs {
		from := l.c.recorder.Now()
		done, err := api.ForceRelease(ctx, client.JobVerb{JobID: j.ID, Note: "the worker is known to be gone"})
		if err != nil {
			left++
			continue
		}
		l.c.recorder.Observed(done, oracle.Span{From: from, To: l.c.recorder.Now()})
	}
	return left
}

// settle ends the load: every submission gets its answer, and every job its end.
func (l *load) settle() {
	t := l.c.t
	t.Helper()
	l.stop()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	for _, s := range l.open {
		if !l.send(ctx, l.c.api, s) {
			t.Fatalf("request %s gets no answer", s.RequestID)
		}
	}
	programs.Eventually(t, 2*patience, func() string {
		if n := l.reports.Load(); n > 0 {
			return fmt.Sprintf("%d reports were not answered", n)
		}
		for _, q := range []client.JobQuery{
			{States: []string{"PENDING", "RUNNING"}}, {RefreshStates: []string{"REQUIRED", "RUNNING", "FAILED"}},
		} {
			page, err := l.c.api.Jobs(ctx, q)
			if err != nil {
				return "listing jobs: " + err.Error()
			}
			if len(page.Jobs) > 0 {
				j := page.Jobs[0]
				return fmt.Sprintf("%d jobs have not ended: job %d is %s, refresh %s", len(page.Jobs), j.ID, j.State, j.Refresh.State)
			}
		}
		return ""
	})
}

// until waits until so many more submissions are acknowledged, as a sign that the cluster works.
func (l *load) until(more int64) {
	l.c.t.Helper()
	begun := l.acked.Load()
	programs.Eventually(l.c.t, patience, func() string {
		if now := l.acked.Load(); now < begun+more {
			return fmt.Sprintf("%d of %d submissions were acknowledged", now-begun, more)
		}
		return ""
	})
}

// forget leaves unanswered what was not answered yet, and looks at no job of before.
func (l *load) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open, l.jobs, l.failures = nil, nil, nil
}

// noFailures fails the test if a call that is safe to repeat has failed.
func (l *load) noFailures() {
	l.c.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, err := range l.failures {
		if i == 5 {
			break
		}
		l.c.t.Errorf("a call that is safe to repeat failed: %v", err)
	}
}

package testcluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lancemaster/lancemaster/internal/client"
	"github.com/lancemaster/lancemaster/internal/oracle"
)

const (
	// executeDeadline is that of every job.
	executeDeadline = 20 * time.Second
	// Pauses of a client between two calls.
	shortestPause, longestPause = 20 * time.Millisecond, 900 * time.Millisecond
	// callPatience bounds one call of a client.
	callPatience = 15 * time.Second

	storeName = "objects"
	noop      = "noop"   // the catalog whose refresher is none
	notifies  = "notify" // the catalog that notifies over HTTP
)

// idContract is the schema contract of a column id of type int64.
const idContract = `{"scv":1,"flds":[{"fid":0,"nn":"id","nt":"int64","nul":false}]}`

// Load is clients that submit, read, cancel and release.
type Load struct {
	cluster  *Cluster
	recorder *oracle.Recorder
	catalogs []string
	names    int // that clients quarrel over

	ctx     context.Context
	end     context.CancelFunc
	running sync.WaitGroup
	numbers atomic.Int64

	mu   sync.Mutex
	jobs []int64 // that were admitted
	open []request
}

// request is a submission under a request id and what is known of it.
type request struct {
	client.Submission
	from oracle.Moment
	lost bool // an attempt may have been carried out
}

// ClientAddr is the address of the nth client.
func ClientAddr(n int) netip.Addr { return nth("127.0.2.", n) }

// NewClient makes a client at the nth address, which asks the masters in an order by chance.
func (c *Cluster) NewClient(n int, random *rand.Rand) (*client.Client, error) {
	var addresses []string
	for _, i := range random.Perm(len(c.Masters)) {
		addresses = append(addresses, c.Masters[i].AdminAddr())
	}
	return client.New(client.Config{
		Addresses: addresses, Name: fmt.Sprintf("client-%d", n), Dial: c.Net.Host(ClientAddr(n)).Dial,
		DialTimeout: time.Second, CallTimeout: 5 * time.Second,
	})
}

// StartLoad starts clients; each has its own chances from the seed.
func StartLoad(c *Cluster, recorder *oracle.Recorder, seed uint64, clients int, catalogs []string, names int) (*Load, error) {
	l := &Load{cluster: c, recorder: recorder, catalogs: catalogs, names: names}
	l.ctx, l.end = context.WithCancel(context.Background())
	for n := range clients {
		random := rand.New(rand.NewPCG(seed, uint64(100+n))) //nolint:gosec // repeatable on purpose
		api, err := c.NewClient(n, random)
		if err != nil {
			return nil, err
		}
		l.running.Go(func() {
			defer func() { _ = api.Close() }() // nothing is under way
			l.drive(api, random)
		})
	}
	return l, nil
}

// Stop ends the clients, and records what was never answered.
func (l *Load) Stop() {
	l.end()
	l.running.Wait()
	for _, r := range l.open {
		l.recorder.Submission(l.fact(r, oracle.Never))
	}
	l.open = nil
}

func (l *Load) drive(api *client.Client, random *rand.Rand) {
	for l.pause(shortestPause + time.Duration(random.Int64N(int64(longestPause-shortestPause)))) {
		switch n := random.IntN(100); {
		case n < 40:
			l.submit(api, l.next(random))
		case n < 70:
			l.look(api, l.pick(random))
		case n < 82:
			l.list(api)
		case n < 90:
			l.act(l.pick(random), func(ctx context.Context, id int64) (*client.Job, error) {
				return api.CancelJob(ctx, client.JobVerb{JobID: id, Note: "not wanted any more"})
			})
		case n < 97:
			l.act(l.pick(random), func(ctx context.Context, id int64) (*client.Job, error) {
				return api.ForceRelease(ctx, client.JobVerb{JobID: id, Note: "looked at by hand"})
			})
		default:
			l.act(l.pick(random), func(ctx context.Context, id int64) (*client.Job, error) {
				return api.ReleaseSlot(ctx, client.JobVerb{JobID: id, Note: "its backend was looked at"})
			})
		}
	}
}

// pause waits, and tells whether the load goes on.
func (l *Load) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-l.ctx.Done():
		return false
	}
}

// next makes a request for one of few names.
func (l *Load) next(random *rand.Rand) request {
	s := client.Submission{
		RequestID: fmt.Sprintf("request-%d", l.numbers.Add(1)), Catalog: l.catalogs[random.IntN(len(l.catalogs))],
		Database: "db", Table: "t", Dataset: fmt.Sprintf("s3://bucket/t%d", random.IntN(2)),
		IndexName: fmt.Sprintf("name_%d", random.IntN(l.names)), Mutation: [...]string{"CREATE", "REPLACE", "DROP"}[random.IntN(3)],
		ExecuteDeadline: executeDeadline, Snapshot: &client.CallerSnapshot{DatasetVersion: 7},
	}
	if s.Mutation != "DROP" {
		s.IndexType, s.Column, s.Snapshot.SchemaContract = "btree", "id", idContract
	}
	return request{Submission: s, from: l.recorder.Now()}
}

func (l *Load) fact(r request, to oracle.Moment) oracle.Submission {
	return oracle.Submission{
		Span: oracle.Span{From: r.from, To: to}, RequestID: r.RequestID, Mutation: r.Mutation,
		Fence: oracle.Fence{Store: storeName, Locator: r.Dataset, Index: r.IndexName},
	}
}

// earlierAttempt is how a client says, of a refusal, that an attempt before it got no answer. That one
// may still be on its way and be admitted.
const earlierAttempt = "an earlier attempt got no answer"

// submit repeats a request until it is answered.
func (l *Load) submit(api *client.Client, r request) {
	for l.ctx.Err() == nil {
		began := l.recorder.Now()
		ctx, cancel := context.WithTimeout(l.ctx, callPatience)
		answer, err := api.Submit(ctx, r.Submission)
		cancel()
		fact := l.fact(r, l.recorder.Now())
		refusal, _ := errors.AsType[*client.Error](err)
		switch {
		case err == nil:
			fact.Job = answer.Job
			l.recorder.Submission(fact)
			l.mu.Lock()
			l.jobs = append(l.jobs, answer.Job.ID)
			l.mu.Unlock()
			return
		case refusal == nil || unanswered(refusal):
			r.lost = r.lost || refusal == nil || refusal.Code != client.CodeUnreachable
			if !l.pause(shortestPause) {
				break
			}
			continue
		case r.lost || strings.Contains(refusal.Message, earlierAttempt):
			// The refusal is one fact, and what becomes of the request is another that nobody knows.
			seen := fact
			seen.RequestID += " as it was refused"
			seen.Refused, seen.Holder, seen.From = refusal.Code, refusal.Holder, min(began, seen.To)
			l.recorder.Submission(seen)
			fact.To = oracle.Never
			l.recorder.Submission(fact)
			return
		default:
			fact.Refused, fact.Holder = refusal.Code, refusal.Holder
			l.recorder.Submission(fact)
			return
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = append(l.open, r)
}

// unanswered says whether a call got no answer about what it asked.
func unanswered(e *client.Error) bool {
	switch e.Code {
	case client.CodeUnreachable, client.CodeOutcomeUnknown, client.CodeTimeout, client.CodeCanceled,
		client.CodeConnectionLost, client.CodeBadReply, client.CodeNotLeader, client.CodeUnavailable:
		return true
	}
	return false
}

// pick chooses a job that was admitted, 0 where there is none.
func (l *Load) pick(random *rand.Rand) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := random.IntN(1 << 20)
	if len(l.jobs) == 0 {
		return 0
	}
	return l.jobs[len(l.jobs)-1-n%min(len(l.jobs), 12)]
}

func (l *Load) look(api *client.Client, id int64) {
	l.act(id, api.Job)
}

// act does something about a job, and records the job that the answer shows.
func (l *Load) act(id int64, f func(context.Context, int64) (*client.Job, error)) {
	if id == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(l.ctx, callPatience)
	defer cancel()
	from := l.recorder.Now()
	if j, err := f(ctx, id); err == nil {
		l.recorder.Observed(j, oracle.Span{From: from, To: l.recorder.Now()})
	}
}

func (l *Load) list(api *client.Client) {
	ctx, cancel := context.WithTimeout(l.ctx, callPatience)
	defer cancel()
	from := l.recorder.Now()
	page, err := api.Jobs(ctx, client.JobQuery{Limit: 20})
	if err != nil {
		return
	}
	for i := range page.Jobs {
		l.recorder.Observed(&page.Jobs[i], oracle.Span{From: from, To: l.recorder.Now()})
	}
}

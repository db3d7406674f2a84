//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/gen-go/admin"
	"github.com/lancemaster/lancemaster/gen-go/backend"
	"github.com/lancemaster/lancemaster/gen-go/shared"
	"github.com/lancemaster/lancemaster/internal/await"
	"github.com/lancemaster/lancemaster/internal/programs"
	"github.com/lancemaster/lancemaster/internal/scripted"
)

const (
	// defaultKills is how many times masters are killed in one run, over all clusters together.
	defaultKills = 200
	// clusters run beside each other: a restarted master waits more than it works.
	clusters = 5
	// submitters load one master.
	submitters = 8
	// A master is killed so long after the load began or, every other time, after the first submission
	// was acknowledged: on a slow machine nothing would be before, and then there is nothing to lose.
	shortestLoad, longestLoad = 5 * time.Millisecond, 150 * time.Millisecond
	// killStarting is how many kills of ten hit a master that is starting.
	killStarting = 2
)

func kills(t *testing.T) int {
	text := os.Getenv("LANCEMASTER_E2E_KILLS")
	if text == "" {
		return defaultKills
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("LANCEMASTER_E2E_KILLS=%s is no positive number", text)
	}
	return n
}

func seed(t *testing.T) uint64 {
	if text := os.Getenv("LANCEMASTER_E2E_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("LANCEMASTER_E2E_SEED=%s is no number", text)
		}
		return n
	}
	return rand.Uint64()
}

// A master is killed again and again at random moments under load. Whatever it acknowledged is there
// afterwards, nothing is half there, and no job is sent twice.
func TestKillUnderLoad(t *testing.T) {
	t.Parallel()
	all, s := kills(t), seed(t)
	t.Logf("LANCEMASTER_E2E_SEED=%d", s)
	for n := range clusters {
		t.Run(fmt.Sprintf("cluster %d", n), func(t *testing.T) {
			t.Parallel()
			c := newCrash(t, rand.New(rand.NewPCG(s, uint64(n))))
			for round := range (all + clusters - 1) / clusters {
				c.round(round)
				if t.Failed() {
					return
				}
			}
			c.end()
		})
	}
}

// submission is one request under a request id of its own, and what became of it.
type submission struct {
	request      *admin.TSubmitRequest
	acknowledged *admin.TJob // nil: the answer was lost
}

// crash is one master that is killed, and what its clients know.
type crash struct {
	*master
	b    *scriptedBackend
	rand *rand.Rand
	next int // numbers requests

	submitted []*submission
	seen      map[int64]*admin.TJob // newest state of each job that an answer has shown
	acked     int
	lost      int
}

func newCrash(t *testing.T, r *rand.Rand) *crash {
	c := &crash{b: newBackend(t), master: startMaster(t), rand: r, seen: map[int64]*admin.TJob{}}
	c.set("admission.enabled", "true", "dispatch.max_inflight_per_backend", "1000", "dispatch.max_per_round", "10000",
		"admission.max_unresolved_per_table", "100000", "admission.max_unresolved_per_catalog", "100000",
		"admission.max_unresolved_global", "100000", "dispatch.interval", "200ms", "backend.heartbeat_interval", "500ms",
		"refresh.retry_interval", "1h")
	c.putCatalog("c0", "one", none())
	c.putCatalog("c1", "two", none())
	c.putCatalog("c2", "two", failing())
	c.b.OnSubmit(c.behave)
	c.register(c.b)
	return c
}

// behave is a backend that does a bit of everything, the same for a job each time.
func (c *crash) behave(d *backend.TLanceIndexJobDispatch) scripted.Answer {
	h := fnv.New32a()
	fmt.Fprint(h, d.IndexName)
	reports := func(code shared.TLanceIndexResultCode, delay time.Duration) func(context.Context) {
		return func(ctx context.Context) {
			select {
			case <-time.After(delay):
				c.b.ReportUntilTaken(ctx, nil, scripted.ResultOf(d, code))
			case <-ctx.Done():
			}
		}
	}
	delay := time.Duration(h.Sum32()>>8%100) * time.Millisecond
	switch h.Sum32() % 10 {
	case 0:
		return scripted.Answer{Status: shared.TStatusCode_CANCELLED, Text: "not today"}
	case 1:
		return scripted.Answer{Cut: true}
	case 2: // accepted and never heard of again
		return scripted.Answer{}
	case 3:
		return scripted.Answer{Then: reports(shared.TLanceIndexResultCode_NATIVE_IO, delay)}
	case 4:
		return scripted.Answer{Then: reports(shared.TLanceIndexResultCode_NATIVE_COMMIT_CONFLICT, 0)}
	case 5: // the answer is lost, the report comes
		return scripted.Answer{Cut: true, Then: reports(shared.TLanceIndexResultCode_NATIVE_OK, delay)}
	default:
		return scripted.Answer{Then: reports(shared.TLanceIndexResultCode_NATIVE_OK, delay)}
	}
}

// request makes the next submission.
func (c *crash) request() *submission {
	n := c.next
	c.next++
	catalog := fmt.Sprintf("c%d", c.rand.IntN(3))
	r := createRemote(catalog, fmt.Sprintf("s3://bucket/t%d", c.rand.IntN(20)), fmt.Sprintf("Idx_%d", n))
	r.TableName = ptr(fmt.Sprintf("t%d", c.rand.IntN(4)))
	r.RequestID = ptr(fmt.Sprintf("request-%d", n))
	r.ExecuteDeadlineMs = ptr(int64(3_600_000 + n)) // none passes while the lists are compared, however slow that is
	return &submission{request: r}
}

// round loads the master, kills it at a random moment, restarts it and checks everything.
func (c *crash) round(n int) {
	c.t.Helper()
	batch := c.load()
	c.kill()
	for c.rand.IntN(10) < killStarting {
		c.launch()
		delay := time.Duration(c.rand.Int64N(int64(longestLoad)))
		await.Moment(delay)
		c.kill()
	}
	c.start()
	c.checkAcknowledged(batch)
	c.resubmit(batch)
	c.submitted = append(c.submitted, batch...)
	c.checkAll(n)
}

// load submits from several clients until the master is killed, at a random moment.
func (c *crash) load() []*submission {
	lanes := make([][]*submission, submitters)
	for i := range lanes {
		for range 400 {
			lanes[i] = append(lanes[i], c.request())
		}
	}
	moment := shortestLoad + time.Duration(c.rand.Int64N(int64(longestLoad-shortestLoad)))
	acknowledged := make(chan struct{})
	first := sync.OnceFunc(func() { close(acknowledged) })
	var running sync.WaitGroup
	for i := range lanes {
		running.Go(func() { lanes[i] = lanes[i][:c.submitLane(lanes[i], first)] })
	}
	if c.rand.IntN(2) == 0 {
		select {
		case <-acknowledged:
		case <-time.After(patience):
			c.t.Error("the master acknowledges nothing")
		}
	}
	await.Moment(moment)
	c.kill()
	running.Wait()
	var batch []*submission
	for _, lane := range lanes {
		batch = append(batch, lane...)
	}
	return batch
}

// submitLane submits one after the other until the master is gone, and returns how many were tried.
func (c *crash) submitLane(lane []*submission, acknowledged func()) int {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := dialAPI(ctx, c.admin)
	if err != nil {
		return 0
	}
	defer conn.conn.Close()
	for i, s := range lane {
		answer, err := conn.Submit(ctx, s.request)
		if refusal := refusalOf(err); refusal != nil {
			c.t.Errorf("submitting %s: %s", s.request.GetIndexName(), describe(err))
		}
		if err != nil {
			return i + 1
		}
		s.acknowledged = answer.Job
		acknowledged()
	}
	return len(lane)
}

// checkAcknowledged looks for every job that a client was told of.
func (c *crash) checkAcknowledged(batch []*submission) {
	c.t.Helper()
	for _, s := range batch {
		if s.acknowledged == nil {
			c.lost++
			continue
		}
		c.acked++
		c.observe(c.job(s.acknowledged.JobID), s.acknowledged)
	}
}

// observe compares a job with what an earlier answer showed: the intent is the same, no revision goes
// back, and no outcome changes.
func (c *crash) observe(now, before *admin.TJob) {
	c.t.Helper()
	if before != nil {
		sameRevision := before.Revision != now.Revision || sameRecord(before, now)
		settled := before.State < admin.TJobState_COMMITTED || before.State == now.State
		if !sameIntent(before, now) || now.Revision < before.Revision || !sameRevision || !settled {
			c.t.Errorf("job %d was shown as\n%v\nand then as\n%v", now.JobID, before, now)
		}
	}
	c.seen[now.JobID] = now
}

// sameRecord compares all that is stored. When a failed refresh is due again is computed.
func sameRecord(a, b *admin.TJob) bool {
	x, y := *a, *b
	rx, ry := *a.Refresh, *b.Refresh
	rx.NextRetryAtMs, ry.NextRetryAtMs = nil, nil
	x.Refresh, y.Refresh = &rx, &ry
	return x.Equals(&y)
}

// resubmit repeats every request: the same id brings the same job, whether its answer came or not.
func (c *crash) resubmit(batch []*submission) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	conn, err := dialAPI(ctx, c.admin)
	if err != nil {
		c.t.Fatal(err)
	}
	defer conn.conn.Close()
	for _, s := range batch {
		answer, err := conn.Submit(ctx, s.request)
		if err != nil {
			c.t.Fatalf("submitting %s again: %s", s.request.GetIndexName(), describe(err))
		}
		j := answer.Job
		switch {
		case s.acknowledged == nil:
			s.acknowledged = j
			c.observe(j, c.seen[j.JobID])
		case answer.Outcome != admin.TSubmitOutcome_EXISTING || j.JobID != s.acknowledged.JobID:
			c.t.Errorf("request %s was job %d and is %s, job %d, when repeated", s.request.GetRequestID(),
				s.acknowledged.JobID, answer.Outcome, j.JobID)
		default:
			c.observe(j, c.seen[j.JobID])
		}
		if j.RequestID != s.request.GetRequestID() || j.Target.IndexName != s.request.GetIndexName() ||
			j.Target.Locator != s.request.GetDatasetURI() || j.Spec.ExecuteDeadlineMs != s.request.GetExecuteDeadlineMs() ||
			j.Target.Catalog != s.request.GetCatalog() || j.Target.TableName != s.request.GetTableName() || j.Creator != actor {
			c.t.Errorf("request %v became job %v", s.request, j)
		}
	}
	if len(batch) > 0 { // another body under a known id is a conflict
		other := *batch[0].request
		other.Column = ptr("other")
		_, err := conn.Submit(ctx, &other)
		if r := refusalOf(err); r == nil || r.Code != admin.TAdminErrorCode_REQUEST_CONFLICT {
			c.t.Errorf("another body under a known request id: %s, want REQUEST_CONFLICT", describe(err))
		}
	}
}

// checkAll looks at every job there is.
func (c *crash) checkAll(round int) {
	c.t.Helper()
	jobs := c.list(admin.TListJobsRequest{})
	byID := map[int64]*admin.TJob{}
	fences := map[string]int64{}
	requests := map[string]int64{}
	for i, j := range jobs {
		if byID[j.JobID] != nil {
			c.t.Errorf("job %d is listed twice", j.JobID)
		}
		if i > 0 && (j.CreatedAtMs > jobs[i-1].CreatedAtMs || j.CreatedAtMs == jobs[i-1].CreatedAtMs && j.JobID > jobs[i-1].JobID) {
			c.t.Errorf("job %d is listed after job %d, which is older", j.JobID, jobs[i-1].JobID)
		}
		byID[j.JobID] = j
		c.observe(j, c.seen[j.JobID])
		c.checkWhole(j)
		if other, taken := requests[j.RequestID]; taken {
			c.t.Errorf("jobs %d and %d have the request id %s", other, j.JobID, j.RequestID)
		}
		requests[j.RequestID] = j.JobID
		if !j.FenceHeld {
			continue
		}
		key := fmt.Sprintf("%q %q %q", j.Target.Store, j.Target.Locator, j.Target.IndexKey)
		if other, held := fences[key]; held {
			c.t.Errorf("jobs %d and %d hold one fence, %s", other, j.JobID, key)
		}
		fences[key] = j.JobID
	}
	for _, s := range c.submitted {
		if byID[s.acknowledged.JobID] == nil {
			c.t.Errorf("job %d was acknowledged and is not listed", s.acknowledged.JobID)
		}
	}
	if len(jobs) != len(c.submitted) {
		c.t.Errorf("%d jobs are listed for %d requests", len(jobs), len(c.submitted))
	}
	c.checkSends(byID)
	c.checkAtRest()
	if c.t.Failed() {
		c.t.Logf("round %d: %d jobs", round, len(jobs))
	}
}

// checkWhole holds one record to what is true of every one.
func (c *crash) checkWhole(j *admin.TJob) {
	c.t.Helper()
	fault := func(wrong bool, what string) {
		if wrong {
			c.t.Errorf("job %d: %s: %v", j.JobID, what, j)
		}
	}
	terminal := j.State >= admin.TJobState_COMMITTED
	refreshed := j.Refresh.State == admin.TRefreshState_NOT_REQUIRED || j.Refresh.State == admin.TRefreshState_DONE
	known := terminal && j.State != admin.TJobState_UNKNOWN
	fault(j.State == admin.TJobState_PENDING && (j.Dispatch != nil || j.Revision != 0 || j.Result_ != nil), "PENDING with a past")
	fault(j.State == admin.TJobState_RUNNING && (j.Dispatch == nil || j.Result_ != nil), "RUNNING without a dispatch, or with a result")
	fault(terminal && j.Result_ == nil, "terminal without a result")
	fault(!terminal && j.Refresh.State != admin.TRefreshState_NOT_REQUIRED, "a refresh before the end")
	fault(j.State == admin.TJobState_COMMITTED && j.Refresh.State == admin.TRefreshState_NOT_REQUIRED, "COMMITTED without a refresh")
	fault(j.FenceHeld == (known && refreshed), "the fence is held against the rule")
	fault(j.IsOpen != (j.FenceHeld || j.SlotHeld), "open is not fence or slot")
	fault(j.Dispatch != nil && j.Dispatch.SlotHeld != j.SlotHeld, "two answers on the slot")
	fault(j.Dispatch != nil && j.SlotHeld != (j.Dispatch.Proof == "NONE" || j.Dispatch.Proof == ""), "the slot is held against its proof")
	fault((j.ResolvedAtMs == 0) != j.FenceHeld, "resolved is not the fence's release")
}

// checkSends holds the backend's view against the master's: one send per job, journaled before it.
func (c *crash) checkSends(byID map[int64]*admin.TJob) {
	c.t.Helper()
	for id, sends := range c.b.AllSends() {
		if len(sends) > 1 {
			c.t.Errorf("job %d was sent %d times", id, len(sends))
		}
		j := byID[id]
		if j == nil || j.Dispatch == nil { // sent after the list was read
			j = c.job(id)
		}
		if j.Dispatch == nil || j.Dispatch.InvocationID != sends[0].InvocationID || j.Dispatch.DispatchRevision != sends[0].DispatchRevision {
			c.t.Errorf("job %d was sent as %s at revision %d, and its record says %v", id, sends[0].InvocationID,
				sends[0].DispatchRevision, j.Dispatch)
		}
	}
}

// filter is a list and what belongs in it.
type filter struct {
	name   string
	filter admin.TListJobsRequest
	has    func(*admin.TJob) bool
}

func filters() []filter {
	out := []filter{
		{"open", admin.TListJobsRequest{IsOpen: ptr(true)}, func(j *admin.TJob) bool { return j.IsOpen }},
		{"closed", admin.TListJobsRequest{IsOpen: ptr(false)}, func(j *admin.TJob) bool { return !j.IsOpen }},
		{"unresolved", admin.TListJobsRequest{Unresolved: ptr(true)}, func(j *admin.TJob) bool { return j.FenceHeld }},
		{"resolved", admin.TListJobsRequest{Unresolved: ptr(false)}, func(j *admin.TJob) bool { return !j.FenceHeld }},
		{"catalog", admin.TListJobsRequest{Catalog: ptr("c1")}, func(j *admin.TJob) bool { return j.Target.Catalog == "c1" }},
		{"table", admin.TListJobsRequest{Catalog: ptr("c0"), Table: ptr("db.t1")}, func(j *admin.TJob) bool {
			return j.Target.Catalog == "c0" && j.Target.TableName == "t1"
		}},
		{"index", admin.TListJobsRequest{IndexName: ptr("IDX_3")}, func(j *admin.TJob) bool { return j.Target.IndexKey == "idx_3" }},
		{"backend", admin.TListJobsRequest{BackendID: ptr(int64(1))}, func(j *admin.TJob) bool { return j.Dispatch != nil && j.Dispatch.BackendID == 1 }},
		{"dataset", admin.TListJobsRequest{DatasetURI: ptr("s3://bucket/t3")}, func(j *admin.TJob) bool { return j.Target.Locator == "s3://bucket/t3" }},
		{"open in a catalog", admin.TListJobsRequest{IsOpen: ptr(true), Catalog: ptr("c2")}, func(j *admin.TJob) bool { return j.IsOpen && j.Target.Catalog == "c2" }},
	}
	for s := admin.TJobState_PENDING; s <= admin.TJobState_UNKNOWN; s++ {
		out = append(out, filter{s.String(), admin.TListJobsRequest{States: []admin.TJobState{s}}, func(j *admin.TJob) bool { return j.State == s }})
	}
	for s := admin.TRefreshState_NOT_REQUIRED; s <= admin.TRefreshState_FAILED; s++ {
		out = append(out, filter{"refresh " + s.String(), admin.TListJobsRequest{RefreshStates: []admin.TRefreshState{s}}, func(j *admin.TJob) bool { return j.Refresh.State == s }})
	}
	return out
}

// checkAtRest compares every filtered list, the history of a few jobs, and what is counted elsewhere
// with the whole list. Jobs move on meanwhile: a comparison counts when nothing did between the whole
// lists on either side of it.
func (c *crash) checkAtRest() {
	c.t.Helper()
	programs.Eventually(c.t, patience, func() string {
		before := c.list(admin.TListJobsRequest{})
		filtered := map[string][]int64{}
		for _, f := range filters() {
			filtered[f.name] = idsOf(c.list(f.filter))
		}
		histories := c.someHistories(before)
		counted := c.counts()
		after := c.list(admin.TListJobsRequest{})
		if !slices.EqualFunc(before, after, func(a, b *admin.TJob) bool { return a.JobID == b.JobID && a.Revision == b.Revision }) {
			return "jobs did not come to rest for long enough to compare lists"
		}
		for _, f := range filters() {
			want := idsOf(slices.DeleteFunc(slices.Clone(after), func(j *admin.TJob) bool { return !f.has(j) }))
			if !slices.Equal(filtered[f.name], want) {
				c.t.Errorf("the list of %s has %v, want %v", f.name, filtered[f.name], want)
			}
		}
		for _, j := range after {
			c.checkHistory(j, histories[j.JobID])
		}
		if want := count(after); !maps.Equal(counted, want) {
			c.t.Errorf("the master counts %v, and the jobs are %v", counted, want)
		}
		return ""
	})
}

// someHistories reads the history of the newest jobs and of one other.
func (c *crash) someHistories(jobs []*admin.TJob) map[int64][]*admin.TJobEvent {
	out := map[int64][]*admin.TJobEvent{}
	const newest = 10
	for i, j := range jobs {
		if i < newest || i == newest+c.next%max(1, len(jobs)-newest) {
			out[j.JobID] = c.history(j.JobID)
		}
	}
	return out
}

// checkHistory holds a job's history to telling how it came to be what it is.
func (c *crash) checkHistory(j *admin.TJob, events []*admin.TJobEvent) {
	c.t.Helper()
	if len(events) == 0 {
		return
	}
	last := events[len(events)-1]
	// The steps of a late refresh are told with its own state.
	refreshed := last.ToRefresh == j.Refresh.State || j.LateRefresh != nil && last.ToRefresh == j.LateRefresh.State
	if int64(len(events)) != j.Revision+1 || last.Revision != j.Revision || last.ToState != j.State || !refreshed {
		c.t.Errorf("job %d is %s, refresh %s, revision %d, and its history of %d events ends with %v",
			j.JobID, j.State, j.Refresh.State, j.Revision, len(events), last)
	}
	for i, e := range events {
		if e.Revision != int64(i) || i > 0 && (e.RaftIndex <= events[i-1].RaftIndex || e.FromState == nil || *e.FromState != events[i-1].ToState) {
			c.t.Errorf("event %d of job %d, %v, does not follow the one before", i, j.JobID, e)
		}
	}
}

// counts is what the master counts of its jobs in memory and on its pages.
func (c *crash) counts() map[string]int64 {
	c.t.Helper()
	out := map[string]int64{}
	catalogs := need(c.t, c.master, "listing catalogs", func(ctx context.Context, s *admin.AdminServiceClient) (*admin.TListCatalogsResponse, error) {
		return s.ListCatalogs(ctx, &admin.TListRequest{Ctx: caller()})
	})
	for _, k := range catalogs.Catalogs {
		out["open in "+k.Name] = k.OpenJobs
		out["unresolved in "+k.Name] = k.UnresolvedJobs
	}
	out["slots"] = c.backends()[0].SlotsHeld
	out["on the metrics page"] = int64(c.metricSum("lancemaster_jobs"))
	out["unresolved on the metrics page"] = int64(c.metricSum("lancemaster_jobs_unresolved"))
	return out
}

// count is the same from the list of all jobs.
func count(jobs []*admin.TJob) map[string]int64 {
	out := map[string]int64{"on the metrics page": int64(len(jobs)), "slots": 0, "unresolved on the metrics page": 0}
	for _, catalog := range []string{"c0", "c1", "c2"} {
		out["open in "+catalog], out["unresolved in "+catalog] = 0, 0
	}
	add := func(name string, is bool) {
		if is {
			out[name]++
		}
	}
	for _, j := range jobs {
		add("open in "+j.Target.Catalog, j.IsOpen)
		add("unresolved in "+j.Target.Catalog, j.FenceHeld)
		add("unresolved on the metrics page", j.FenceHeld)
		add("slots", j.SlotHeld)
	}
	return out
}

// end lets everything that can come to an end do so, and looks once more.
func (c *crash) end() {
	c.t.Helper()
	programs.Eventually(c.t, 2*patience, func() string {
		if n := len(c.list(admin.TListJobsRequest{States: []admin.TJobState{admin.TJobState_PENDING}})); n > 0 {
			return fmt.Sprintf("%d jobs are still PENDING", n)
		}
		return ""
	})
	c.checkAll(-1)
	c.t.Logf("%d submissions acknowledged, %d answers lost, %d jobs sent", c.acked, c.lost, len(c.b.AllSends()))
	if c.acked == 0 || len(c.b.AllSends()) == 0 {
		c.t.Error("the load did not reach the master; this test checked nothing")
	}
}

package oracle

import (
	"slices"
	"sync"
	"time"

	"github.com/lancemaster/lancemaster/internal/client"
)

// Moment is a time of the run, in nanoseconds of the recorder's clock.
type Moment int64

// Span is when a thing was done: it took effect, if at all, at one moment between the two. Where an
// answer never came, To is Never.
type Span struct{ From, To Moment }

// Never is the end of what may still take effect.
const Never = Moment(1<<63 - 1)

// Submission is one request, under a request id of its own, and what became of it. Repetitions of the
// request belong to it: From is when it was first sent, To when it was answered in the end.
type Submission struct {
	Span
	RequestID string
	Fence     Fence // of the name asked for
	Mutation  string
	// Job is the answer: the job admitted for it, or nil.
	Job *client.Job
	// Refused is the code of a refusal, or "". With neither Job nor Refused nobody knows.
	Refused string
	// Holder is the job that a refusal with FENCE_HELD named.
	Holder int64
}

// Fence is the key of a fence.
type Fence struct{ Store, Locator, Index string }

// FenceOf is the fence that a job takes.
func FenceOf(j *client.Job) Fence {
	return Fence{Store: j.Target.Store, Locator: j.Target.Locator, Index: j.Target.IndexKey}
}

// Send is one dispatch as a backend received it.
type Send struct {
	At           Moment
	Backend      string // the backend's name in the test
	Job          int64
	Revision     int64
	Invocation   string
	ProcessEpoch int64
}

// Report is a truthful report of a result by a backend, made until it was answered.
type Report struct {
	Span
	Job  int64
	Code string
	OK   bool // it was answered OK
	// Dropped says why the master did not use it, "" where it did.
	Dropped string
}

// Observation is one job as a client was shown it.
type Observation struct {
	Span
	Job       int64
	Revision  int64
	State     string
	FenceHeld bool
	Fence     Fence
}

// Facts are what was recorded while the cluster ran.
type Facts struct {
	Submissions  []Submission
	Sends        []Send
	Reports      []Report
	Observations []Observation
	// Where backends tell of their processes, what masters conclude about them is checked.
	Taken  []Taken
	Gone   []Gone
	Proofs []Proof
}

// Final is what there is after the run.
type Final struct {
	Began, At Moment // when reading it began and ended
	Jobs      []client.Job
	Histories map[int64]client.History
	// Reasons are the codes that explain each job that has not ended.
	Reasons map[int64][]string
	Nodes   []Node
}

// Node is the state of one node.
type Node struct {
	Name    string
	Applied uint64
	Hash    string
	Fault   string // what is wrong with its state, or ""
}

// Recorder collects facts from many goroutines.
type Recorder struct {
	now func() Moment

	mu    sync.Mutex
	facts Facts
	seen  map[int64]Observation // the newest of each job that is kept

	proved map[int64]string // the proof of each job that was seen
}

// NewRecorder makes a recorder. A nil clock is the monotonic one.
func NewRecorder(now func() Moment) *Recorder {
	if now == nil {
		began := time.Now()
		now = func() Moment { return Moment(time.Since(began)) }
	}
	return &Recorder{now: now, seen: map[int64]Observation{}, proved: map[int64]string{}}
}

// Now is the time by the recorder's clock.
func (r *Recorder) Now() Moment { return r.now() }

// Submission records what became of a request. If it has a job, that is an observation too.
func (r *Recorder) Submission(s Submission) {
	if s.Job != nil {
		r.Observed(s.Job, s.Span)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.facts.Submissions = append(r.facts.Submissions, s)
}

// Observed records a job as a linearizable read or an answer showed it, asked for and answered within
// the span. An observation that says no more than one that ended before it began is not kept.
func (r *Recorder) Observed(j *client.Job, s Span) {
	o := Observation{Span: s, Job: j.ID, Revision: j.Revision, State: j.State, FenceHeld: j.FenceHeld, Fence: FenceOf(j)}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.provedLocked(j, s.To)
	if before, known := r.seen[j.ID]; known && before.Revision == o.Revision && before.State == o.State && before.FenceHeld == o.FenceHeld && !o.FenceHeld {
		return
	}
	r.seen[j.ID] = o
	r.facts.Observations = append(r.facts.Observations, o)
}

// Sent records a dispatch; its time is now.
func (r *Recorder) Sent(s Send) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.At = r.now()
	r.facts.Sends = append(r.facts.Sends, s)
}

// Reported records how a report was answered.
func (r *Recorder) Reported(p Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.facts.Reports = append(r.facts.Reports, p)
}

// Facts returns what was recorded until now.
func (r *Recorder) Facts() Facts {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Facts{
		Submissions: slices.Clone(r.facts.Submissions), Sends: slices.Clone(r.facts.Sends),
		Reports: slices.Clone(r.facts.Reports), Observations: slices.Clone(r.facts.Observations),
		Taken: slices.Clone(r.facts.Taken), Gone: slices.Clone(r.facts.Gone), Proofs: slices.Clone(r.facts.Proofs),
	}
}

// Forget drops what was recorded: after a restore what was acknowledged since the snapshot is gone.
func (r *Recorder) Forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.facts, r.seen, r.proved = Facts{}, map[int64]Observation{}, map[int64]string{}
}

// SentJobs returns how often each job was sent until now.
func (r *Recorder) SentJobs() map[int64]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[int64]int{}
	for _, s := range r.facts.Sends {
		out[s.Job]++
	}
	return out
}

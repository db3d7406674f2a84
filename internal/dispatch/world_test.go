package dispatch

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lancemaster/lancemaster/internal/backend"
	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/job/jobtest"
	"github.com/lancemaster/lancemaster/internal/refresh"
)

// world is what the masters of a test share: a replicated state with a journal
// that can lose its answers, backends that can misbehave, and one log of what
// happened. Time is the bubble's.
type world struct {
	t       *testing.T
	started time.Time

	mu      sync.Mutex
	state   *jobtest.State
	term    uint64
	leader  string // empty: none
	nodes   map[string]*node
	members int
	agree   bool
	suspend time.Duration

	registerer prometheus.Registerer // of the nodes made from now on

	lines     []line
	logs      *syncBuffer
	answers   map[string][]string // by command name: what becomes of the next proposals
	late      []job.Command       // in the log, not applied yet
	backends  map[job.BackendID]*fakeBackend
	secrets   map[string]string
	refresher string // what the refreshers do
	gates     map[string]chan struct{}

	writes   map[job.ID]int
	maybe    map[job.ID]bool     // written, and not refused: a worker may run
	takenBy  map[job.ID]int64    // the process that was there when it was written
	running  map[job.ID]job.Hash // journaled RUNNING, by secret hash
	markedAt []time.Duration
	sent     []string // secrets that were written
}

type line struct {
	at   time.Duration
	job  job.ID
	text string
}

// fakeBackend is how a backend behaves, and what its heartbeats have shown.
type fakeBackend struct {
	dial, answer string
	addr         string // what a dial reaches; empty: 10.0.0.1:9060
	status       backend.Status
	process      int64 // the one that is really there
}

// node is one master process: its dispatcher and its table of sends.
type node struct {
	w     *world
	name  string
	dead  bool
	sends *Sends
	d     *Dispatcher
}

type syncBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func newWorld(t *testing.T) *world {
	w := &world{
		t: t, started: time.Now(), state: jobtest.Formed(), nodes: map[string]*node{},
		members: 1, agree: true, logs: &syncBuffer{},
		answers: map[string][]string{}, backends: map[job.BackendID]*fakeBackend{},
		secrets: map[string]string{}, gates: map[string]chan struct{}{},
		writes: map[job.ID]int{}, maybe: map[job.ID]bool{}, takenBy: map[job.ID]int64{}, running: map[job.ID]job.Hash{},
	}
	w.must(job.ChangeSettings{Header: w.header(), Values: []job.SettingValue{{Name: "admission.enabled", Value: "true"}}})
	w.must(job.PutCatalog{Header: w.header(), Catalog: job.Catalog{
		Name: "lake", Options: []job.Option{{Key: "endpoint", Value: "http://store:9000"}},
		Refresher: job.Refresher{Kind: job.RefresherNone},
	}})
	return w
}

func (w *world) header() job.Header {
	return job.Header{At: job.Millis(time.Now().UnixMilli()), Actor: "operator"}
}

// must applies a command that sets a test up.
func (w *world) must(c job.Command) job.Answer {
	w.mu.Lock()
	change, refusal := w.state.Apply(c)
	w.mu.Unlock()
	if refusal != nil {
		w.t.Fatalf("%s: %v", c.Name(), refusal)
	}
	return change.Answer
}

// say logs what happened. w.mu is held.
func (w *world) say(id job.ID, format string, args ...any) {
	if id == 0 && len(w.lines) > 0 {
		id = w.lines[len(w.lines)-1].job // no job's own: it stays where it was said
	}
	w.lines = append(w.lines, line{time.Since(w.started), id, fmt.Sprintf(format, args...)})
}

func (w *world) tell(id job.ID, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.say(id, format, args...)
}

// drain returns what happened since the last call: by time, and at one time each
// job's in its own order, since jobs do not wait for each other.
func (w *world) drain() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.SortStableFunc(w.lines, func(a, b line) int {
		if a.at != b.at {
			return int(a.at - b.at)
		}
		return int(a.job - b.job)
	})
	var b strings.Builder
	for _, l := range w.lines {
		fmt.Fprintf(&b, "%-5s %s\n", l.at.Round(time.Millisecond), l.text)
	}
	w.lines = nil
	return b.String()
}

func (w *world) node(name string) *node {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.nodes[name]
	if n == nil {
		n = &node{w: w, name: name, sends: NewSends()}
		d, err := New(Config{
			Proposer: n, Reader: n, Sender: n, Liveness: n, Term: n, Barrier: n, Membership: n,
			ClockAgreement: n, Resolver: n, Clock: n, Sends: n.sends,
			Refreshers: refresh.NewRegistry(map[string]refresh.Refresher{"http": n}),
			Random:     rand.NewChaCha8(sha256.Sum256([]byte(name))),
			Registerer: w.registerer,
			Logger:     slog.New(slog.NewTextHandler(w.logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
		})
		if err != nil {
			w.t.Fatal(err)
		}
		n.d = d
		w.nodes[name] = n
	}
	return n
}

// take returns what is to become of the next of these, empty when nothing was
// asked for. w.mu is held.
func (w *world) take(what string) string {
	script := w.answers[what]
	if len(script) == 0 {
		return ""
	}
	w.answers[what] = script[1:]
	return script[0]
}

// pass waits as a behaviour says: takes:DURATION (and what then, after a comma), or waits until a gate opens.
func (w *world) pass(ctx context.Context, behaviour, gate string) error {
	var open <-chan struct{}
	var timer <-chan time.Time
	switch {
	case behaviour == "waits":
		w.mu.Lock()
		if w.gates[gate] == nil {
			w.gates[gate] = make(chan struct{})
		}
		open = w.gates[gate]
		w.mu.Unlock()
	case behaviour == "hangs":
	case strings.HasPrefix(behaviour, "takes:"):
		duration, _, _ := strings.Cut(strings.TrimPrefix(behaviour, "takes:"), ",")
		d, err := time.ParseDuration(duration)
		if err != nil {
			w.t.Error(err)
		}
		timer = time.After(d)
	default:
		return nil
	}
	select {
	case <-open:
	case <-timer:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

var errLostAnswer = errors.New("leadership lost while committing log")

// Propose is the journal.
func (n *node) Propose(ctx context.Context, c job.Command) (job.Answer, error) {
	w := n.w
	w.mu.Lock()
	how := w.take(c.Name())
	w.mu.Unlock()
	if err := w.pass(ctx, how, "journal"); err != nil {
		return job.Answer{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if n.dead {
		return job.Answer{}, errors.New("the process is gone")
	}
	id := jobOf(c)
	if w.leader != n.name || how == "not-appended" {
		w.say(id, "journal %s of %s: not appended", c.Name(), n.name)
		return job.Answer{}, fmt.Errorf("%w: %s does not lead", job.ErrNotAppended, n.name)
	}
	switch how {
	case "lost":
		w.say(id, "journal %s: the answer is lost", c.Name())
		return job.Answer{}, errLostAnswer
	case "late":
		w.say(id, "journal %s: the answer is lost", c.Name())
		w.late = append(w.late, c)
		return job.Answer{}, errLostAnswer
	}
	change, refusal := w.apply(c)
	if how == "applied-lost" {
		w.say(id, "journal: the answer is lost")
		return job.Answer{}, errLostAnswer
	}
	if refusal != nil {
		return job.Answer{}, refusal
	}
	return change.Answer, nil
}

// apply applies a command and says what it did. w.mu is held.
func (w *world) apply(c job.Command) (job.Change, *job.Refusal) {
	change, refusal := w.state.Apply(c)
	if refusal != nil {
		w.say(jobOf(c), "journal %s refused: %s", c.Name(), refusal.Message)
		return change, refusal
	}
	if m, ok := c.(job.MarkRunning); ok {
		w.running[m.Job] = m.SecretHash
		w.markedAt = append(w.markedAt, time.Since(w.started))
	}
	for _, j := range change.Jobs {
		if j.New != nil {
			w.checkProof(j)
			w.say(j.New.ID, "journal %s job %d: %s", c.Name(), j.New.ID, difference(j))
		}
	}
	for _, n := range w.nodes {
		n.d.Wake()
	}
	return change, nil
}

// checkProof holds the proofs that the dispatcher finds against what really
// happened. w.mu is held.
func (w *world) checkProof(c job.JobChange) {
	proofs := []job.Proof{c.New.Dispatch.Proof}
	for _, e := range c.New.Dispatch.Evidence {
		proofs = append(proofs, e.Proof)
	}
	id := c.New.ID
	if slices.Contains(proofs, job.ProofNotEnqueued) && w.maybe[id] {
		w.t.Errorf("job %d is proven not enqueued, and a worker may run", id)
	}
	if slices.Contains(proofs, job.ProofProcessEpochGone) && w.maybe[id] &&
		w.takenBy[id] == w.backends[c.New.Dispatch.BackendID].process {
		w.t.Errorf("the process of job %d is proven gone, and is there", id)
	}
}

func difference(c job.JobChange) string {
	r := c.New
	var parts []string
	old := &job.Record{}
	if c.Old != nil {
		old = c.Old
	}
	if old.State != r.State {
		parts = append(parts, r.State.String())
	}
	if c.Old != nil && old.Refresh.State != r.Refresh.State {
		parts = append(parts, "refresh "+r.Refresh.State.String())
	}
	if c.Old != nil && old.LateRefresh.State != r.LateRefresh.State {
		parts = append(parts, "late refresh "+r.LateRefresh.State.String())
	}
	if old.HoldsSlot() != r.HoldsSlot() {
		if r.HoldsSlot() {
			parts = append(parts, fmt.Sprintf("slot held on backend %d", r.Dispatch.BackendID))
		} else {
			parts = append(parts, "slot free ("+r.Dispatch.Proof.String()+")")
		}
	}
	if len(r.Dispatch.Evidence) > len(old.Dispatch.Evidence) {
		parts = append(parts, "evidence "+r.Dispatch.Evidence[len(r.Dispatch.Evidence)-1].Proof.String())
	}
	text := strings.Join(parts, ", ")
	if old.State != r.State && r.Result != nil {
		text += fmt.Sprintf("\n%5s   %s: %s", "", r.Result.Code, r.Result.Message)
		if r.Result.Code == 0 {
			text = strings.Join(parts, ", ") + fmt.Sprintf("\n%5s   %s: %s", "", r.Result.Reason, r.Result.Message)
		}
	}
	return text
}

func jobOf(c job.Command) job.ID {
	switch c := c.(type) {
	case job.MarkRunning:
		return c.Job
	case job.Complete:
		return c.Job
	case job.RecordTermination:
		return c.Job
	case job.RecordLateResult:
		return c.Job
	case job.RefreshStart:
		return c.Job
	case job.RefreshFinish:
		return c.Job
	case job.RejectBeforeDispatch:
		return c.Job
	case job.Cancel:
		return c.Job
	default:
		return 0
	}
}

// Barrier applies what is in the log.
func (n *node) Barrier(ctx context.Context) error {
	w := n.w
	w.mu.Lock()
	defer w.mu.Unlock()
	how := w.take("BARRIER")
	if how != "" || w.leader != n.name || ctx.Err() != nil {
		w.say(0, "barrier of %s: failed", n.name)
		return errors.New("no quorum")
	}
	w.say(0, "barrier")
	w.catchUp()
	return nil
}

func (w *world) catchUp() {
	late := w.late
	w.late = nil
	for _, c := range late {
		_, _ = w.apply(c) // a refusal is in the log
	}
}

func (n *node) Read(show func(*job.Live)) {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	show(n.w.state.Live)
}

func (n *node) Job(id job.ID) (*job.Record, error) {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	if n.w.take("READ") != "" {
		return nil, errors.New("the state file cannot be read")
	}
	return n.w.state.Job(id), nil
}

func (n *node) Term() (uint64, bool) {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	return n.w.term, n.w.leader == n.name
}

func (n *node) Members() int {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	return n.w.members
}

func (n *node) AgreesWithMajority() bool {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	return n.w.agree
}

func (n *node) SinceBoot() (time.Duration, error) {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	return time.Since(n.w.started) + n.w.suspend, nil
}

func (n *node) Resolve(ctx context.Context, reference string) (string, error) {
	w := n.w
	w.mu.Lock()
	value, ok := w.secrets[reference]
	w.mu.Unlock()
	if err := w.pass(ctx, value, reference); err != nil {
		return "", fmt.Errorf("%s could not be read in time", reference)
	}
	if !ok {
		return "", fmt.Errorf("%s is missing", reference)
	}
	return value, nil
}

func (n *node) Status(id job.BackendID) (backend.Status, bool) {
	n.w.mu.Lock()
	defer n.w.mu.Unlock()
	b := n.w.backends[id]
	if b == nil {
		return backend.Status{}, false
	}
	s := b.status
	s.Observations = slices.Clone(s.Observations)
	return s, true
}

func (n *node) Refresh(ctx context.Context, _ refresh.Spec, a refresh.Attempt) (string, error) {
	n.w.mu.Lock()
	how := n.w.take(fmt.Sprintf("REFRESH %d", a.Job))
	if how == "" {
		how = n.w.refresher
	}
	n.w.say(job.ID(a.Job), "refresh job %d, attempt %d", a.Job, a.Number)
	n.w.mu.Unlock()
	if err := n.w.pass(ctx, how, "refresh"); err != nil {
		return "", fmt.Errorf("the refresh did not end in time: %w", err)
	}
	switch how {
	case "fails":
		return "", errors.New("HTTP 503")
	case "silent":
		return "", nil
	}
	return "HTTP 200", nil
}

func (n *node) Size(i *job.Invocation) (int, error) {
	size := len(i.SchemaContract) + 200
	for k, v := range i.StorageOptions {
		size += len(k) + len(v)
	}
	return size, nil
}

// at returns the backend that listens at an address. w.mu is held.
func (w *world) at(address job.Address) (job.BackendID, *fakeBackend) {
	id, _ := w.state.BackendAt(address)
	return id, w.backends[id]
}

type fakeConn struct {
	n       *node
	id      job.BackendID
	backend *fakeBackend
}

func (n *node) Dial(ctx context.Context, address job.Address) (Conn, error) {
	w := n.w
	w.mu.Lock()
	id, b := w.at(address)
	how := b.dial
	if !n.dead {
		w.say(w.dialing(n, id), "dial backend %d", id)
	}
	w.mu.Unlock()
	if how == "fails" {
		return nil, errors.New("connection refused")
	}
	if err := w.pass(ctx, how, fmt.Sprintf("dial %d", id)); err != nil {
		return nil, err
	}
	return &fakeConn{n, id, b}, nil
}

// dialing guesses whose dial this is, for the order of the log: the newest job
// RUNNING on the backend that was not written. w.mu is held.
func (w *world) dialing(_ *node, id job.BackendID) job.ID {
	running := w.state.Running()
	for i := len(running) - 1; i >= 0; i-- {
		if r := running[i]; r.Dispatch.BackendID == id && w.writes[r.ID] == 0 {
			return r.ID
		}
	}
	return 0
}

func (c *fakeConn) RemoteAddr() string {
	c.n.w.mu.Lock()
	defer c.n.w.mu.Unlock()
	if c.backend.addr != "" {
		return c.backend.addr
	}
	return "10.0.0.1:9060"
}

// Submit is the write. Here the promise is checked: RUNNING with exactly this
// identity and secret was journaled before, and no job is ever written twice.
func (c *fakeConn) Submit(ctx context.Context, i *job.Invocation) (job.Reply, error) {
	w := c.n.w
	w.mu.Lock()
	if c.n.dead {
		w.mu.Unlock()
		return job.Reply{}, errors.New("the process is gone")
	}
	w.say(i.Job, "write job %d to backend %d", i.Job, c.id)
	w.writes[i.Job]++
	if w.writes[i.Job] > 1 {
		w.t.Errorf("job %d was written %d times", i.Job, w.writes[i.Job])
	}
	rec := w.state.Job(i.Job)
	if rec == nil || rec.Dispatch.InvocationID != i.InvocationID || rec.Dispatch.Revision != i.DispatchRevision ||
		rec.Dispatch.BackendID != c.id || rec.Dispatch.ProcessEpoch != i.ProcessEpoch {
		w.t.Errorf("job %d was written under an identity that was never journaled", i.Job)
	}
	if w.running[i.Job] != sha256.Sum256([]byte(i.Secret)) || len(i.Secret) != 32 {
		w.t.Errorf("job %d was written with another secret than the journaled one", i.Job)
	}
	w.sent = append(w.sent, i.Secret)
	w.maybe[i.Job], w.takenBy[i.Job] = true, c.backend.process
	how := c.backend.answer
	w.mu.Unlock()
	if err := w.pass(ctx, how, fmt.Sprintf("answer %d", c.id)); err != nil {
		return job.Reply{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	reply, err := answer(c.backend.answer)
	if name, known := job.KnownStatus(reply.Status); err == nil && known && name != "OK" || errors.Is(err, job.ErrUnknownMethod) {
		w.maybe[i.Job] = false
	}
	return reply, err
}

func (c *fakeConn) Close() error { return nil }

// answer is what a backend says: OK, a status with a message, or an error.
func answer(how string) (job.Reply, error) {
	if strings.HasPrefix(how, "takes:") {
		_, how, _ = strings.Cut(how, ",")
	}
	switch how {
	case "unknown-method":
		return job.Reply{}, fmt.Errorf("calling: %w", job.ErrUnknownMethod)
	case "eof":
		return job.Reply{}, errors.New("EOF")
	}
	var number int32
	var text string
	if _, err := fmt.Sscanf(how, "status:%d:%s", &number, &text); err == nil {
		return job.Reply{Status: number, Messages: []string{text}}, nil
	}
	if _, err := fmt.Sscanf(how, "status:%d", &number); err == nil {
		return job.Reply{Status: number}, nil
	}
	return job.Reply{Status: job.StatusOK}, nil
}

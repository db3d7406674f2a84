package dispatch

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lancemaster/lancemaster/internal/job"
)

// run is the dispatcher's work in one term.
type run struct {
	d         *Dispatcher
	term      uint64
	startedAt time.Time // right after the term's barrier
	log       *slog.Logger
	wake      chan struct{}

	// rounds ends with the term: no round, preparation or refresh goes on after it.
	rounds     context.Context
	stopRounds context.CancelFunc
	// sends ends a little later, so that what was sent may be answered and what is
	// known may be journaled.
	sends     context.Context
	stopSends context.CancelFunc
	running   sync.WaitGroup

	// wokenAt is the first wake that no round has followed yet; nil: none. It is not under mu, which a
	// round holds while it asks others, who may wake it while they hold a lock of their own.
	wokenAt atomic.Pointer[time.Time]

	mu           sync.Mutex
	roundEnded   time.Time // of the newest round; before the first, the run's start
	stopping     bool      // no send is entered any more
	jobs         map[job.ID]*jobState
	attempting   map[job.ID]bool // an attempt's goroutine is at work
	reservations map[job.ID]*reservation
	tokens       bucket
	preparing    int
	refreshes    refreshes
	refreshTurn  int64
	// unreached is when a connection to a registered backend last could not be made in
	// this term.
	unreached map[job.BackendID]time.Time
	// inherited are the jobs that held a slot when the term began, by invocation.
	// Only for them may the sweep count the old leader's longest write from the
	// term's begin.
	inherited  map[job.ID]string
	rpcTimeout time.Duration // the longest backend.rpc_timeout of the term
}

// jobState is what a term's dispatcher remembers of one open job. Guarded by
// run.mu.
type jobState struct {
	reason    hold   // why the job is not sent, as of the newest round
	failures  int    // of preparing it, in a row
	lastError string // of preparing it, or of the newest proposal about it
	notBefore time.Time
	prep      *preparation
	deadline  *deadline
	// proposeAfter holds back a sweep's proposal that failed.
	proposeAfter time.Time
}

func newRun(ctx context.Context, d *Dispatcher, term uint64) *run {
	r := &run{
		d: d, term: term, startedAt: time.Now(), roundEnded: time.Now(), log: d.cfg.Logger.With("term", term),
		wake: make(chan struct{}, 1),
		jobs: make(map[job.ID]*jobState), attempting: make(map[job.ID]bool), reservations: make(map[job.ID]*reservation),
		refreshes: make(refreshes), unreached: make(map[job.BackendID]time.Time),
	}
	r.rounds, r.stopRounds = context.WithCancel(ctx)
	r.sends, r.stopSends = context.WithCancel(context.WithoutCancel(ctx))
	return r
}

func (r *run) start() {
	r.inherit()
	r.d.cfg.Sends.hurry()
	r.running.Go(r.loop)
	r.running.Go(func() {
		<-r.rounds.Done()
		r.closeLatches()
	})
}

// inherit takes down which jobs held a slot before this term sent anything.
func (r *run) inherit() {
	r.inherited = make(map[job.ID]string)
	r.d.cfg.Reader.Read(func(live *job.Live) {
		for _, rec := range live.Jobs() {
			if rec.HoldsSlot() {
				r.inherited[rec.ID] = rec.Dispatch.InvocationID
			}
		}
	})
}

// closeLatches is the end of the term for every send that was not written yet.
func (r *run) closeLatches() {
	r.mu.Lock()
	r.stopping = true
	r.mu.Unlock()
	r.d.cfg.Sends.closeAll()
}

func (r *run) stop() {
	r.closeLatches()
	r.stopRounds()
	bound := time.AfterFunc(stopTime, r.stopSends)
	r.running.Wait()
	r.settle(r.sends, true)
	bound.Stop()
	r.stopSends()
}

func (r *run) wakeUp() {
	now := time.Now()
	r.wokenAt.CompareAndSwap(nil, &now)
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// minPause keeps a due time that a round could do nothing about from making the
// next round follow without a pause.
const minPause = 10 * time.Millisecond

// deposedPause is how often a run that leads no more looks whether it still is so.
const deposedPause = time.Second

// loop runs the rounds until the term ends.
func (r *run) loop() {
	due := r.startedAt
	for r.rounds.Err() == nil {
		began := r.beginRound(due)
		next := r.round()
		r.endRound(began)
		due = next
		timer := time.NewTimer(max(time.Until(next), minPause))
		select {
		case <-r.wake:
		case <-timer.C:
		case <-r.rounds.Done():
		}
		timer.Stop()
	}
}

// beginRound notes how late a round begins: it was due at a time, or earlier if it was
// asked for.
func (r *run) beginRound(due time.Time) (began time.Time) {
	began = time.Now()
	if woken := r.wokenAt.Swap(nil); woken != nil {
		due = earliest(due, *woken)
	}
	r.d.metrics.roundLag.Observe(max(began.Sub(due), 0).Seconds())
	return began
}

func (r *run) endRound(began time.Time) {
	now := time.Now()
	r.mu.Lock()
	r.roundEnded = now
	r.mu.Unlock()
	r.d.metrics.roundDuration.Observe(now.Sub(began).Seconds())
}

// round does what is due and returns when the next round is due at the latest.
func (r *run) round() time.Time {
	if !r.leads() {
		return time.Now().Add(deposedPause) // Stop is on its way
	}
	r.settle(r.rounds, false)
	seen := r.look()
	next := time.Now().Add(max(seen.settings.DispatchInterval, minPause))
	next = earliest(next, r.settleDue())
	next = earliest(next, r.sweepDeadlines(seen))
	next = earliest(next, r.sweepPossibleLive(seen))
	next = earliest(next, r.startRefreshes(seen))
	return earliest(next, r.startDispatches(seen))
}

// state is what one round looks at. The records are immutable; all lists are in
// ascending order of their ids.
type state struct {
	settings   job.Settings
	pending    []*job.Record
	running    []*job.Record
	holding    []*job.Record // a slot, in any state
	refreshing []*job.Record
	backends   []*job.Backend
	slots      map[job.BackendID]int
	catalogs   map[string]*job.Catalog // of the pending and refreshing
}

// look reads the open jobs, whatever there is of history, and forgets what the
// run remembers of jobs that are open no more, and of backends that are gone.
func (r *run) look() *state {
	s := &state{slots: make(map[job.BackendID]int), catalogs: make(map[string]*job.Catalog)}
	open := make(map[job.ID]*job.Record)
	r.d.cfg.Reader.Read(func(live *job.Live) {
		s.settings = live.Settings()
		s.backends = live.Backends()
		for _, b := range s.backends {
			s.slots[b.ID] = live.SlotsHeld(b.ID)
		}
		for _, rec := range live.Jobs() {
			open[rec.ID] = rec
			s.sort(rec, live)
		}
	})
	r.forget(open)
	r.forgetBackends(s.backends)
	r.mu.Lock()
	r.rpcTimeout = max(r.rpcTimeout, s.settings.RPCTimeout)
	r.mu.Unlock()
	return s
}

// sort puts a record into the lists it belongs to.
func (s *state) sort(rec *job.Record, live *job.Live) {
	if rec.HoldsSlot() {
		s.holding = append(s.holding, rec)
	}
	switch {
	case rec.State == job.StatePending:
		s.pending = append(s.pending, rec)
	case rec.State == job.StateRunning:
		s.running = append(s.running, rec)
		return
	case owesRefresh(rec):
		s.refreshing = append(s.refreshing, rec)
	default:
		return
	}
	name := rec.Target.Catalog
	if _, known := s.catalogs[name]; !known {
		s.catalogs[name] = live.Catalog(name)
	}
}

// forget drops what is remembered of jobs that are open no more, and of the others
// what belongs to a state they have left.
func (r *run) forget(open map[job.ID]*job.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, st := range r.jobs {
		rec := open[id]
		if rec == nil {
			delete(r.jobs, id)
			continue
		}
		if rec.State != job.StatePending {
			st.reason, st.prep, st.notBefore = hold{}, nil, time.Time{}
		}
		if rec.State != job.StateRunning {
			st.deadline = nil
		}
	}
	for id, item := range r.refreshes {
		if open[id] == nil && !item.running {
			delete(r.refreshes, id)
		}
	}
	for id := range r.inherited {
		if open[id] == nil {
			delete(r.inherited, id)
		}
	}
}

// remembered returns what is remembered of a job. r.mu is held.
func (r *run) remembered(id job.ID) *jobState {
	st := r.jobs[id]
	if st == nil {
		st = &jobState{}
		r.jobs[id] = st
	}
	return st
}

// end is how a proposal ended.
type end int

const (
	applied     end = iota
	refused         // certainly not applied, and why
	notAppended     // certainly not applied
	ambiguous       // applied, or not, or not yet
)

func endOf(err error) end {
	if err == nil {
		return applied
	}
	if _, ok := job.AsRefusal(err); ok {
		return refused
	}
	if errors.Is(err, job.ErrNotAppended) {
		return notAppended
	}
	return ambiguous
}

// propose journals one command within a bound.
func (r *run) propose(ctx context.Context, command job.Command) (job.Answer, end, error) {
	bounded, cancel := context.WithTimeout(ctx, proposeTime)
	defer cancel()
	answer, err := r.d.cfg.Proposer.Propose(bounded, command)
	return answer, endOf(err), err
}

func (r *run) header() job.Header {
	return job.Header{At: job.Millis(nowMillis(r.d.wall(time.Now()))), Actor: job.ActorSystem}
}

// leads reports whether this master still leads the run's term.
func (r *run) leads() bool {
	term, leader := r.d.cfg.Term.Term()
	return leader && term == r.term && r.rounds.Err() == nil
}

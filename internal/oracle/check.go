package oracle

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/lancemaster/lancemaster/internal/client"
)

// maxFaults bounds what one check tells: the first few show what is wrong.
const maxFaults = 50

// Check returns what in the facts breaks the promise; nothing means that all is well.
func Check(f Facts, final Final) []string {
	c := &checker{facts: f, final: final, jobs: map[int64]*client.Job{}}
	for i := range final.Jobs {
		j := &final.Jobs[i]
		if c.jobs[j.ID] != nil {
			c.fault("job %d is listed twice", j.ID)
		}
		c.jobs[j.ID] = j
	}
	c.sends()
	c.submissions()
	for _, j := range final.Jobs {
		c.record(&j)
		c.history(&j)
	}
	c.fences()
	c.reports()
	c.proofs()
	c.observations()
	c.seenFences()
	c.nodes()
	return c.faults
}

type checker struct {
	facts  Facts
	final  Final
	jobs   map[int64]*client.Job
	faults []string
}

func (c *checker) fault(format string, args ...any) {
	switch {
	case len(c.faults) < maxFaults:
		c.faults = append(c.faults, fmt.Sprintf(format, args...))
	case len(c.faults) == maxFaults:
		c.faults = append(c.faults, "and more")
	}
}

// sends holds the masters to at most one send per job and per invocation, journaled before it.
func (c *checker) sends() {
	byJob, byInvocation := map[int64]Send{}, map[string]Send{}
	for _, s := range c.facts.Sends {
		if first, again := byJob[s.Job]; again {
			c.fault("job %d was sent to %s as %s and to %s as %s", s.Job, first.Backend, first.Invocation, s.Backend, s.Invocation)
		}
		byJob[s.Job] = s
		if first, again := byInvocation[s.Invocation]; again {
			c.fault("invocation %s was sent for job %d and for job %d", s.Invocation, first.Job, s.Job)
		}
		byInvocation[s.Invocation] = s
		j := c.jobs[s.Job]
		switch {
		case j == nil:
			c.fault("job %d was sent to %s and is not there", s.Job, s.Backend)
		case j.Dispatch == nil:
			c.fault("job %d was sent to %s and its record says that it was not", s.Job, s.Backend)
		case j.Dispatch.InvocationID != s.Invocation || j.Dispatch.Revision != s.Revision || j.Dispatch.ProcessEpoch != s.ProcessEpoch:
			c.fault("job %d was sent as %s, revision %d, epoch %d, and its record says %s, %d, %d", s.Job, s.Invocation, s.Revision,
				s.ProcessEpoch, j.Dispatch.InvocationID, j.Dispatch.Revision, j.Dispatch.ProcessEpoch)
		}
	}
}

// submissions looks for whatever was acknowledged.
func (c *checker) submissions() {
	byRequest := map[string]int64{}
	for _, j := range c.final.Jobs {
		if other, taken := byRequest[j.RequestID]; taken && j.RequestID != "" {
			c.fault("jobs %d and %d have the request id %s", other, j.ID, j.RequestID)
		}
		byRequest[j.RequestID] = j.ID
	}
	for _, s := range c.facts.Submissions {
		id, there := byRequest[s.RequestID]
		switch {
		case s.Job == nil && s.Refused != "" && there:
			c.fault("request %s was refused with %s and became job %d", s.RequestID, s.Refused, id)
		case s.Job == nil:
		case !there:
			c.fault("request %s was acknowledged as job %d, and no job has it", s.RequestID, s.Job.ID)
		case id != s.Job.ID:
			c.fault("request %s was acknowledged as job %d and is job %d", s.RequestID, s.Job.ID, id)
		case !sameIntent(s.Job, c.jobs[id]):
			c.fault("job %d was acknowledged as %+v %+v and is %+v %+v", id, s.Job.Target, s.Job.Intent, c.jobs[id].Target, c.jobs[id].Intent)
		case FenceOf(c.jobs[id]) != s.Fence || c.jobs[id].Intent.Mutation != s.Mutation:
			c.fault("request %s asked for %s of %+v and became job %d, %s of %+v", s.RequestID, s.Mutation, s.Fence, id,
				c.jobs[id].Intent.Mutation, FenceOf(c.jobs[id]))
		}
	}
}

func sameIntent(a, b *client.Job) bool {
	return a.Target == b.Target && a.Intent == b.Intent && a.Snapshot == b.Snapshot && a.Creator == b.Creator && a.CreatedAt.Equal(b.CreatedAt.Time)
}

// record holds one record to what is true of every one, and to having come to an end.
func (c *checker) record(j *client.Job) {
	fault := func(wrong bool, what string) {
		if wrong {
			c.fault("job %d (%s, refresh %s, revision %d): %s", j.ID, j.State, j.Refresh.State, j.Revision, what)
		}
	}
	// What an operator or a restore did follows rules of its own.
	undisturbed := j.ForceRelease == nil && j.SlotRelease == nil && j.Quarantined.IsZero()
	fault(j.State == client.StateCommitted && j.Refresh.State == refreshNotRequired, "COMMITTED, and no refresh was owed")
	fault(j.State == client.StateUnknown && !j.FenceHeld && j.ForceRelease == nil, "its fence is free, and nobody released it")
	fault(j.State != client.StateUnknown && j.FenceHeld == released(j.State, j.Refresh.State), "the fence is held against the rule")
	fault(j.Open != (j.FenceHeld || j.SlotHeld), "open is not fence or slot")
	fault(!j.Terminal() && !j.FenceHeld, "it has not ended, and its fence is free")
	fault(undisturbed && j.Dispatch != nil && j.SlotHeld != (j.Dispatch.Proof == "NONE" || j.Dispatch.Proof == ""), "the slot is held against its proof")
	fault(j.State == stateRunning, "it is still RUNNING")
	fault(j.State == statePending && len(c.final.Reasons[j.ID]) == 0, "it is PENDING, and nothing says why")
}

const (
	statePending       = "PENDING"
	stateRunning       = "RUNNING"
	refreshNotRequired = "NOT_REQUIRED"
	refreshDone        = "DONE"
	kindForceReleased  = "FORCE_RELEASED"
	kindQuarantined    = "QUARANTINED"
)

// released is the rule by which an outcome lets go of a fence.
func released(state, refresh string) bool {
	known := state == client.StateCommitted || state == client.StateNotCommitted
	return known && (refresh == refreshNotRequired || refresh == refreshDone)
}

// history holds a job's history to telling, step by step, how it came to be what it is.
func (c *checker) history(j *client.Job) {
	h := c.final.Histories[j.ID]
	if len(h.Events) == 0 {
		c.fault("job %d has no history", j.ID)
		return
	}
	running := 0
	for i, e := range h.Events {
		if e.ToState == stateRunning && e.FromState != stateRunning {
			running++
		}
		if i == 0 {
			if e.Revision != 0 || e.ToState != statePending {
				c.fault("the history of job %d begins with %+v", j.ID, e)
			}
			continue
		}
		before := h.Events[i-1]
		gap := h.Dropped > 0 && e.Revision == before.Revision+1+h.Dropped
		if !gap && (e.Revision != before.Revision+1 || e.FromState != before.ToState) || e.RaftIndex <= before.RaftIndex || e.RaftTerm < before.RaftTerm {
			c.fault("event %d of job %d, %+v, does not follow %+v", i, j.ID, e, before)
		}
		if !edge(e) {
			c.fault("job %d went from %s to %s by %s", j.ID, e.FromState, e.ToState, e.Kind)
		}
	}
	if running > 1 {
		c.fault("job %d entered RUNNING %d times", j.ID, running)
	}
	if last := h.Events[len(h.Events)-1]; last.ToState != j.State || last.Revision != j.Revision {
		c.fault("job %d is %s at revision %d, and its history ends with %+v", j.ID, j.State, j.Revision, last)
	}
}

// edge tells whether a job may go this way.
func edge(e client.Event) bool {
	if e.FromState == e.ToState {
		return true
	}
	switch e.FromState {
	case statePending:
		return e.ToState == stateRunning || e.ToState == client.StateNotCommitted || e.ToState == client.StateUnknown && e.Kind == kindQuarantined
	case stateRunning:
		return e.ToState == client.StateCommitted || e.ToState == client.StateNotCommitted || e.ToState == client.StateUnknown
	}
	return false
}

// held is how long a job had its fence, by the journal. Its order is that of the Raft log.
type held struct {
	job      int64
	from, to int64 // to is 0 while it holds it
}

// fences holds jobs to one owner per fence at each position of the journal.
func (c *checker) fences() {
	fences := map[Fence][]held{}
	for _, j := range c.final.Jobs {
		h := c.final.Histories[j.ID]
		if len(h.Events) == 0 {
			continue
		}
		span := held{job: j.ID, from: h.Events[0].RaftIndex}
		for _, e := range h.Events {
			if released(e.ToState, e.ToRefresh) || e.Kind == kindForceReleased {
				span.to = e.RaftIndex
				break
			}
		}
		if (span.to == 0) != j.FenceHeld {
			c.fault("job %d: its fence is held: %v, and by its history it was released at entry %d", j.ID, j.FenceHeld, span.to)
		}
		fences[FenceOf(&j)] = append(fences[FenceOf(&j)], span)
	}
	for fence, spans := range fences {
		slices.SortFunc(spans, func(a, b held) int { return cmp.Compare(a.from, b.from) })
		for i := 1; i < len(spans); i++ {
			if a, b := spans[i-1], spans[i]; a.to == 0 || a.to >= b.from {
				c.fault("job %d took the fence %+v at entry %d, and job %d had it from %d to %d", b.job, fence, b.from, a.job, a.from, a.to)
			}
		}
	}
}

// reports looks for the effect of every report that was answered OK before the jobs were read.
func (c *checker) reports() {
	for _, r := range c.facts.Reports {
		j := c.jobs[r.Job]
		if !r.OK || r.Dropped != "" || j == nil || r.To >= c.final.Began {
			continue
		}
		late := slices.ContainsFunc(j.LateResults, func(l client.Result) bool { return l.Code == r.Code })
		if !late && (j.Result == nil || j.Result.Code != r.Code) {
			c.fault("the report of %s for job %d was answered OK without a word, and the job is %s with %+v", r.Code, r.Job, j.State, j.Result)
		}
	}
}

// observations holds what clients were shown of a job to never going back.
func (c *checker) observations() {
	byJob := map[int64][]Observation{}
	for _, o := range c.facts.Observations {
		byJob[o.Job] = append(byJob[o.Job], o)
	}
	for id, list := range byJob {
		c.forward(id, list)
		for _, o := range list {
			if j := c.jobs[id]; j == nil || j.Revision < o.Revision {
				c.fault("a client was shown job %d at revision %d, and afterwards it is %+v", id, o.Revision, j)
				break
			}
		}
	}
}

// forward finds an observation that began after another had ended and shows an older revision.
func (c *checker) forward(id int64, list []Observation) {
	byEnd := slices.SortedFunc(slices.Values(list), func(a, b Observation) int { return cmp.Compare(a.To, b.To) })
	byStart := slices.SortedFunc(slices.Values(list), func(a, b Observation) int { return cmp.Compare(a.From, b.From) })
	newest, ended := Observation{Revision: -1}, 0
	for _, o := range byStart {
		for ended < len(byEnd) && byEnd[ended].To < o.From {
			if byEnd[ended].Revision > newest.Revision {
				newest = byEnd[ended]
			}
			ended++
		}
		if o.Revision < newest.Revision || o.Revision == newest.Revision && (o.State != newest.State || o.FenceHeld != newest.FenceHeld) {
			c.fault("a client was shown job %d as %s at revision %d, fence held: %v, and after that as %s at revision %d, fence held: %v", id,
				newest.State, newest.Revision, newest.FenceHeld, o.State, o.Revision, o.FenceHeld)
		}
	}
}

// nodes compares the states of nodes that are equally far.
func (c *checker) nodes() {
	first := map[uint64]Node{}
	for _, n := range c.final.Nodes {
		if n.Fault != "" {
			c.fault("the state of %s: %s", n.Name, n.Fault)
		}
		if other, known := first[n.Applied]; known && other.Hash != n.Hash {
			c.fault("%s and %s have both applied entry %d, and their states differ: %s, %s", other.Name, n.Name, n.Applied, other.Hash, n.Hash)
		}
		first[n.Applied] = n
	}
}

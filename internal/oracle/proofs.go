package oracle

import "github.com/lancemaster/lancemaster/internal/client"

// Taken is a dispatch that a process of a backend took up: from then on its worker may change the
// dataset.
type Taken struct {
	At      Moment
	Backend string
	Process int64 // its epoch, whichever the dispatch was meant for
	Job     int64
}

// Gone is the end of a backend's process, and of its workers with it.
type Gone struct {
	At      Moment
	Backend string
	Process int64
}

// Proof is why a worker is gone, as a client was shown it.
type Proof struct {
	At    Moment
	Job   int64
	Proof string
}

// Took records that a process took a dispatch up, before anybody is told; its time is now.
func (r *Recorder) Took(t Taken) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t.At = r.now()
	r.facts.Taken = append(r.facts.Taken, t)
}

// Ended records that a process has ended; its time is now.
func (r *Recorder) Ended(g Gone) {
	r.mu.Lock()
	defer r.mu.Unlock()
	g.At = r.now()
	r.facts.Gone = append(r.facts.Gone, g)
}

// provedLocked keeps the first sight of a job's proof.
func (r *Recorder) provedLocked(j *client.Job, at Moment) {
	if j.Dispatch == nil || j.Dispatch.Proof == "" || j.Dispatch.Proof == proofNone || r.proved[j.ID] == j.Dispatch.Proof {
		return
	}
	r.proved[j.ID] = j.Dispatch.Proof
	r.facts.Proofs = append(r.facts.Proofs, Proof{At: at, Job: j.ID, Proof: j.Dispatch.Proof})
}

const (
	proofNone        = "NONE"
	proofNotEnqueued = "NOT_ENQUEUED"
	proofEpochGone   = "BE_PROCESS_EPOCH_GONE"
)

// proofs holds what masters conclude by themselves, that no worker can be at work, to being true.
func (c *checker) proofs() {
	gone := map[Gone]bool{}
	ended := map[Gone]Moment{}
	for _, g := range c.facts.Gone {
		key := Gone{Backend: g.Backend, Process: g.Process}
		if !gone[key] {
			gone[key], ended[key] = true, g.At
		}
	}
	taken := map[int64][]Taken{}
	for _, t := range c.facts.Taken {
		taken[t.Job] = append(taken[t.Job], t)
	}
	for _, p := range c.facts.Proofs {
		for _, t := range taken[p.Job] {
			key := Gone{Backend: t.Backend, Process: t.Process}
			switch {
			case p.Proof == proofNotEnqueued:
				c.fault("job %d was never enqueued, as its record proves, and process %d of %s took it", p.Job, t.Process, t.Backend)
			case p.Proof == proofEpochGone && (!gone[key] || ended[key] > p.At):
				c.fault("job %d has the proof that its process is gone, and process %d of %s, which took it, was there", p.Job, t.Process, t.Backend)
			}
		}
	}
}

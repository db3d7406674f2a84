package oracle

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/lancemaster/lancemaster/internal/client"
	"github.com/lancemaster/lancemaster/internal/fsm"
)

// Read takes from the admin service all jobs, their histories, and why those that have not ended have
// not. Its reads are observations too.
func Read(ctx context.Context, c *client.Client, r *Recorder) (Final, error) {
	final := Final{Began: r.Now(), Histories: map[int64]client.History{}, Reasons: map[int64][]string{}}
	jobs, err := readJobs(ctx, c, r)
	if err != nil {
		return final, err
	}
	final.Jobs = jobs
	for i := range jobs {
		h, err := readHistory(ctx, c, &jobs[i])
		if err != nil {
			return final, err
		}
		j := jobs[i]
		final.Histories[j.ID] = *h
		if j.Terminal() {
			continue
		}
		e, err := c.Explain(ctx, j.ID)
		if err != nil {
			return final, fmt.Errorf("asking why job %d is %s: %w", j.ID, j.State, err)
		}
		for _, reason := range e.Reasons {
			final.Reasons[j.ID] = append(final.Reasons[j.ID], reason.Code)
		}
	}
	final.At = r.Now()
	return final, nil
}

// rereads is how often a job that moves on between its record and its history is read again.
const rereads = 10

// readHistory reads a job's history, and the job again where it has moved on since it was listed: a
// refresh of a late result may still be under way. What never fits is left for the check to find.
func readHistory(ctx context.Context, c *client.Client, j *client.Job) (*client.History, error) {
	for tries := 0; ; tries++ {
		h, err := c.History(ctx, j.ID)
		if err != nil {
			return nil, fmt.Errorf("reading the history of job %d: %w", j.ID, err)
		}
		if n := len(h.Events); n == 0 || h.Events[n-1].Revision <= j.Revision || tries == rereads {
			return h, nil
		}
		again, err := c.Job(ctx, j.ID)
		if err != nil {
			return nil, fmt.Errorf("reading job %d: %w", j.ID, err)
		}
		*j = *again
	}
}

const pageSize = 1000

func readJobs(ctx context.Context, c *client.Client, r *Recorder) ([]client.Job, error) {
	var jobs []client.Job
	q := client.JobQuery{Limit: pageSize}
	for {
		from := r.Now()
		page, err := c.Jobs(ctx, q)
		if err != nil {
			return nil, fmt.Errorf("listing jobs: %w", err)
		}
		for _, j := range page.Jobs {
			r.Observed(&j, Span{from, r.Now()})
		}
		jobs = append(jobs, page.Jobs...)
		if page.NextPageToken == "" {
			return jobs, nil
		}
		q.PageToken = page.NextPageToken
	}
}

// OpenState reads the state file of a node that is stopped.
func OpenState(name, path string) (node Node, err error) {
	if _, err := os.Stat(path); err != nil {
		return Node{}, fmt.Errorf("the state of %s: %w", name, err) // fsm.Open would make a new one
	}
	m, err := fsm.Open(fsm.Config{Path: path})
	if err != nil {
		return Node{}, fmt.Errorf("opening the state of %s: %w", name, err)
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	return StateOf(name, m)
}

// StateOf reads the state of a node whose machine is at hand. Nothing may be applied meanwhile.
func StateOf(name string, m *fsm.Machine) (Node, error) {
	sum, err := m.Hash()
	if err != nil {
		return Node{}, fmt.Errorf("the hash of %s: %w", name, err)
	}
	node := Node{Name: name, Applied: m.Applied().Index, Hash: fmt.Sprintf("%x", sum)}
	if err := m.Check(); err != nil {
		node.Fault = err.Error()
	}
	return node, nil
}

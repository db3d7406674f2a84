package fsm

import (
	"errors"
	"fmt"

	"github.com/hashicorp/raft"

	"github.com/lancemaster/lancemaster/internal/command"
	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/store"
)

// Result is what became of one log entry; a pointer to it is the response of the
// entry's Raft future. One of Refusal, Err and Replayed is set, or none: then the
// command is applied.
type Result struct {
	Position job.Position
	Answer   job.Answer
	Changes  job.Change
	Refusal  *job.Refusal
	// Replayed says that the state held the entry already. What it did the first time
	// is not known any more.
	Replayed bool
	// Err says that this node did not apply the entry and applies nothing more. The
	// entry is committed all the same: other nodes apply it, and so will this one.
	Err error
}

// view is the state before a command: memory, and the transaction for what memory
// does not hold. A View cannot return errors; the transaction keeps them.
type view struct {
	*job.Live
	tx *store.Tx
}

// Job returns a job, open or not, or nil.
func (v view) Job(id job.ID) *job.Record {
	if rec := v.Live.Job(id); rec != nil {
		return rec
	}
	rec, err := v.tx.Job(id)
	v.tx.Fail(err)
	return rec
}

// Request returns the job that this creator admitted under this request id.
func (v view) Request(creator, requestID string) (job.ID, bool) {
	id, found, err := v.tx.Request(creator, requestID)
	v.tx.Fail(err)
	return id, found
}

// Closed lists jobs that are not open and were closed before a time.
func (v view) Closed(before job.Millis, limit int) []job.ID {
	ids, err := v.tx.Closed(before, limit)
	v.tx.Fail(err)
	return ids
}

// Apply applies one entry; Raft calls ApplyBatch instead.
func (m *Machine) Apply(entry *raft.Log) any { return m.ApplyBatch([]*raft.Log{entry})[0] }

// ApplyBatch applies committed entries in one transaction and returns a *Result
// for each. After a failure it returns at once.
func (m *Machine) ApplyBatch(entries []*raft.Log) []any {
	b := &batch{m: m, results: make([]*Result, len(entries))}
	first, err := b.run(entries)
	responses := make([]any, len(entries))
	for i, entry := range entries {
		r := b.results[i]
		if r == nil {
			r = &Result{Position: job.Position{Index: entry.Index, Term: entry.Term}, Err: err}
		}
		responses[i] = r
	}
	if first {
		m.tell(err)
	}
	return responses
}

// batch is one transaction's worth of entries.
type batch struct {
	m       *Machine
	tx      *store.Tx
	at      job.Position
	results []*Result // nil where the entry was not applied
}

// run applies the entries, commits and publishes. Where it returns an error the
// machine is stopped, and the entries without a result have not been applied; first
// says that this error is what stopped it.
func (b *batch) run(entries []*raft.Log) (first bool, err error) {
	m := b.m
	m.applying.Lock()
	defer m.applying.Unlock()
	if err := m.Err(); err != nil {
		return false, err
	}
	if err := b.apply(entries); err != nil {
		return m.stop(err), err
	}
	return false, nil
}

func (b *batch) apply(entries []*raft.Log) error {
	begin := b.m.Applied()
	b.at = begin
	var err error
	if b.tx, err = b.m.state.store.Begin(); err != nil {
		return err
	}
	// An entry that cannot be decoded does not take those before it along: they are
	// whole, and their proposers wait.
	stopped := b.entries(entries)
	if b.at == begin && b.tx.Err() == nil {
		return errors.Join(stopped, b.tx.Rollback())
	}
	if err := b.tx.Commit(b.at); err != nil {
		clear(b.results)
		return fmt.Errorf("entries after %d could not be applied: %w", begin.Index, err)
	}
	b.publish()
	return stopped
}

// entries applies entries until one cannot be decoded or the transaction fails.
func (b *batch) entries(entries []*raft.Log) error {
	for i, entry := range entries {
		pos := job.Position{Index: entry.Index, Term: entry.Term}
		switch {
		case pos.Index <= b.at.Index:
			b.results[i] = &Result{Position: pos, Replayed: true}
			continue
		case entry.Type != raft.LogCommand:
			b.results[i] = &Result{Position: pos}
		default:
			c, err := command.Decode(entry.Data)
			if err != nil {
				return fmt.Errorf("log entry %d of term %d: %w", pos.Index, pos.Term, err)
			}
			b.results[i] = b.command(pos, c)
			if err := b.tx.Err(); err != nil {
				return err // Commit says so too
			}
		}
		b.at = pos
	}
	return nil
}

func (b *batch) command(pos job.Position, c job.Command) *Result {
	change, refusal := job.Apply(view{Live: b.m.ahead, tx: b.tx}, pos, c)
	if refusal != nil {
		return &Result{Position: pos, Refusal: refusal}
	}
	b.tx.Write(pos, change)
	b.m.ahead.Apply(change)
	return &Result{Position: pos, Answer: change.Answer, Changes: change}
}

// publish shows readers what has been committed.
func (b *batch) publish() {
	m := b.m
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range b.results {
		if r != nil && !r.Replayed && r.Refusal == nil {
			m.live.Apply(r.Changes)
		}
	}
	m.applied = b.at
	m.broadcast()
}

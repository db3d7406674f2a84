package store

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/lancemaster/lancemaster/internal/command"
	"github.com/lancemaster/lancemaster/internal/job"
)

// MaxSettingsHistory is how many changes of settings are kept.
const MaxSettingsHistory = 1000

// Tx is a write transaction. Its first fault is kept: from there on writing does
// nothing and Commit fails, so that a caller need not look after each step.
type Tx struct {
	Reader
	err error
}

// Begin begins the write transaction; there is one at a time. The caller must end
// it with Commit or Rollback.
func (s *Store) Begin() (*Tx, error) {
	tx, err := s.db.Begin(true)
	if err != nil {
		return nil, fmt.Errorf("cannot write the state file: %w", err)
	}
	return &Tx{Reader: Reader{tx: tx}}, nil
}

// Fail keeps err, unless an earlier fault is kept already or err is nil.
func (t *Tx) Fail(err error) {
	if t.err == nil {
		t.err = err
	}
}

// Err returns the fault that is kept.
func (t *Tx) Err() error { return t.err }

// Rollback leaves the state as it was.
func (t *Tx) Rollback() error { return t.tx.Rollback() }

// Commit makes all that was written durable, as the state at pos. After an error
// nothing of it is to be relied on.
func (t *Tx) Commit(pos job.Position) error {
	t.put(bucketMeta, metaApplied, appendUint64(appendUint64(nil, pos.Index), pos.Term))
	if t.err != nil {
		return errors.Join(t.err, t.tx.Rollback())
	}
	if err := t.tx.Commit(); err != nil {
		return fmt.Errorf("cannot write the state file: %w", err)
	}
	return nil
}

// Write writes what one command changes. pos is the command's position.
func (t *Tx) Write(pos job.Position, c job.Change) {
	for _, j := range c.Jobs {
		switch {
		case j.New != nil:
			t.putJob(j)
		case j.Old != nil:
			t.removeJob(j.Old)
		}
	}
	if c.Cluster != nil {
		t.putEncoded(bucketMeta, metaCluster, c.Cluster.ClusterID, func() ([]byte, error) {
			return command.EncodeCluster(*c.Cluster)
		})
	}
	t.putSettings(pos, c.Settings)
	if v := c.Catalog; v != nil {
		putEntry(t, bucketCatalogs, []byte(v.Name), v.Name, v.New, command.EncodeCatalog)
	}
	if v := c.Backend; v != nil {
		putEntry(t, bucketBackends, backendKey(v.ID), v.ID, v.New, command.EncodeBackend)
	}
	for _, v := range c.Members {
		putEntry(t, bucketMembers, []byte(v.NodeID), v.NodeID, v.New, command.EncodeMember)
	}
	if v := c.Token; v != nil {
		putEntry(t, bucketTokens, []byte(v.Name), v.Name, v.New, command.EncodeToken)
	}
}

// putEntry puts a table's entry, or deletes it where there is none any more.
func putEntry[V any](t *Tx, bucket int, key []byte, what any, v *V, encode func(*V) ([]byte, error)) {
	if v == nil {
		t.delete(bucket, key)
		return
	}
	t.putEncoded(bucket, key, what, func() ([]byte, error) { return encode(v) })
}

func (t *Tx) put(bucket int, key, value []byte) {
	if t.err == nil {
		if err := t.bucket(bucket).Put(key, value); err != nil {
			t.Fail(fmt.Errorf("cannot write to bucket %s: %w", bucketNames[bucket], err))
		}
	}
}

func (t *Tx) delete(bucket int, key []byte) {
	if t.err == nil {
		if err := t.bucket(bucket).Delete(key); err != nil {
			t.Fail(fmt.Errorf("cannot delete from bucket %s: %w", bucketNames[bucket], err))
		}
	}
}

// putEncoded puts a record; what names it in an error.
func (t *Tx) putEncoded(bucket int, key []byte, what any, encode func() ([]byte, error)) {
	if t.err != nil {
		return
	}
	value, err := encode()
	if err != nil {
		t.Fail(fmt.Errorf("%s %v: %w", bucketNames[bucket], what, err))
		return
	}
	t.put(bucket, key, value)
}

func (t *Tx) putJob(c job.JobChange) {
	r := c.New
	t.putEncoded(bucketJobs, jobKey(r.ID), r.ID, func() ([]byte, error) { return command.EncodeRecord(r) })
	t.putPostings(c.Old, r)
	if c.Old == nil && r.RequestID != "" {
		t.put(bucketRequests, requestKey(r.Creator, r.RequestID), jobKey(r.ID))
	}
	if c.Event != nil {
		t.putEvent(*c.Event)
	}
}

// putPostings writes the difference between two records of a job. Either may be
// nil.
func (t *Tx) putPostings(was, is *job.Record) {
	var old, now []posting
	if was != nil {
		old = postings(was)
	}
	if is != nil {
		now = postings(is)
	}
	for _, p := range missing(old, now) {
		t.delete(bucketPostings, p.key(positionOf(was)))
	}
	for _, p := range missing(now, old) {
		t.put(bucketPostings, p.key(positionOf(is)), nil)
	}
	t.putClosed(was, is)
	t.putCounts(was, is)
}

func (t *Tx) putClosed(was, is *job.Record) {
	var old, now []byte
	if was != nil && !was.Open() {
		old = closedKey(was)
	}
	if is != nil && !is.Open() {
		now = closedKey(is)
	}
	if bytes.Equal(old, now) {
		return
	}
	if old != nil {
		t.delete(bucketClosed, old)
	}
	if now != nil {
		t.put(bucketClosed, now, nil)
	}
}

// missing returns what of a list another lacks. The lists have about ten entries.
func missing(list, from []posting) []posting {
	var lacks []posting
	for _, p := range list {
		if !slices.Contains(from, p) {
			lacks = append(lacks, p)
		}
	}
	return lacks
}

// putEvent appends to a job's history and drops the event that thereby is neither
// among the first nor among the last. Each transition adds one revision and one
// event, which makes that event's key known.
func (t *Tx) putEvent(e job.Event) {
	t.putEncoded(bucketHistory, historyKey(e.Job, e.Revision), e.Job, func() ([]byte, error) { return command.EncodeEvent(e) })
	t.put(bucketWatch, watchKey(e), nil)
	middle := e.Revision - job.HistoryLast
	if middle < job.HistoryFirst || t.err != nil {
		return
	}
	key := historyKey(e.Job, middle)
	v := t.bucket(bucketHistory).Get(key)
	if v == nil {
		return
	}
	dropped, err := command.DecodeEvent(v)
	if err != nil {
		t.Fail(fmt.Errorf("history of job %d: %w", e.Job, err))
		return
	}
	t.delete(bucketHistory, key)
	t.delete(bucketWatch, watchKey(dropped))
	n, err := counter(t.bucket(bucketDropped).Get(jobKey(e.Job)))
	t.Fail(err)
	t.put(bucketDropped, jobKey(e.Job), appendUint64(nil, uint64(n)+1))
}

func (t *Tx) removeJob(r *job.Record) {
	if t.err != nil {
		return
	}
	events, _, err := t.History(r.ID)
	if err != nil {
		t.Fail(err)
		return
	}
	for _, e := range events {
		t.delete(bucketHistory, historyKey(e.Job, e.Revision))
		t.delete(bucketWatch, watchKey(e))
	}
	t.delete(bucketDropped, jobKey(r.ID))
	t.delete(bucketJobs, jobKey(r.ID))
	if r.RequestID != "" {
		t.delete(bucketRequests, requestKey(r.Creator, r.RequestID))
	}
	t.putPostings(r, nil)
}

func (t *Tx) putSettings(pos job.Position, changes []job.SettingChange) {
	if len(changes) == 0 || t.err != nil {
		return
	}
	for n, c := range changes {
		encode := func() ([]byte, error) { return command.EncodeSettingChange(c) }
		t.putEncoded(bucketSettings, []byte(c.Name), c.Name, encode)
		key := appendUint64(appendUint64(nil, pos.Index), uint64(n))
		t.putEncoded(bucketSettingsHistory, key, c.Name, encode)
	}
	kept, err := counter(t.bucket(bucketMeta).Get(metaSettingCount))
	t.Fail(err)
	kept += int64(len(changes))
	for _, key := range t.firstKeys(bucketSettingsHistory, kept-MaxSettingsHistory) {
		t.delete(bucketSettingsHistory, key)
		kept--
	}
	t.put(bucketMeta, metaSettingCount, appendUint64(nil, uint64(kept)))
}

// firstKeys copies a bucket's first n keys, for deleting them.
func (t *Tx) firstKeys(bucket int, n int64) [][]byte {
	if n <= 0 || t.err != nil {
		return nil
	}
	var keys [][]byte
	c := t.bucket(bucket).Cursor()
	for k, _ := c.First(); k != nil && int64(len(keys)) < n; k, _ = c.Next() {
		keys = append(keys, bytes.Clone(k))
	}
	return keys
}

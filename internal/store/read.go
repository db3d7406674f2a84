package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/lancemaster/lancemaster/internal/command"
	"github.com/lancemaster/lancemaster/internal/job"
)

// Reader reads one consistent state. It is not safe for concurrent use.
type Reader struct {
	tx      *bbolt.Tx
	buckets [bucketCount]*bbolt.Bucket
}

// BeginRead begins a read transaction; the caller must Close it.
func (s *Store) BeginRead() (*Reader, error) {
	tx, err := s.db.Begin(false)
	if err != nil {
		return nil, fmt.Errorf("cannot read the state file: %w", err)
	}
	return &Reader{tx: tx}, nil
}

// Read runs f in a read transaction.
func (s *Store) Read(f func(*Reader) error) error {
	r, err := s.BeginRead()
	if err != nil {
		return err
	}
	err = f(r)
	return errors.Join(err, r.Close())
}

// Close ends the read transaction.
func (r *Reader) Close() error { return r.tx.Rollback() }

func (r *Reader) bucket(n int) *bbolt.Bucket {
	if r.buckets[n] == nil {
		r.buckets[n] = r.tx.Bucket(bucketNames[n])
	}
	return r.buckets[n]
}

// Applied returns the position of the newest applied entry.
func (r *Reader) Applied() (job.Position, error) {
	v := r.bucket(bucketMeta).Get(metaApplied)
	switch len(v) {
	case 0:
		return job.Position{}, nil
	case 16:
		return job.Position{Index: binary.BigEndian.Uint64(v), Term: binary.BigEndian.Uint64(v[8:])}, nil
	}
	return job.Position{}, fmt.Errorf("the applied position in the state file is %d bytes long, not 16", len(v))
}

// Cluster returns the cluster's record; it is zero before formation.
func (r *Reader) Cluster() (job.Cluster, error) {
	v := r.bucket(bucketMeta).Get(metaCluster)
	if v == nil {
		return job.Cluster{}, nil
	}
	return command.DecodeCluster(v)
}

// Job returns a job's record, or nil.
func (r *Reader) Job(id job.ID) (*job.Record, error) {
	v := r.bucket(bucketJobs).Get(jobKey(id))
	if v == nil {
		return nil, nil
	}
	rec, err := command.DecodeRecord(v)
	if err != nil {
		return nil, fmt.Errorf("job %d: %w", id, err)
	}
	if rec.ID != id {
		return nil, fmt.Errorf("job %d is stored as job %d", rec.ID, id)
	}
	return rec, nil
}

// Request returns the job that a creator admitted under a request id.
func (r *Reader) Request(creator, requestID string) (job.ID, bool, error) {
	v := r.bucket(bucketRequests).Get(requestKey(creator, requestID))
	switch len(v) {
	case 0:
		return 0, false, nil
	case 8:
		return readID(v), true, nil
	}
	return 0, false, fmt.Errorf("the request index holds %d bytes, not 8", len(v))
}

// Closed lists up to limit jobs that are not open and were closed before a time,
// the one closed longest ago first.
func (r *Reader) Closed(before job.Millis, limit int) ([]job.ID, error) {
	var ids []job.ID
	c := r.bucket(bucketClosed).Cursor()
	for k, _ := c.First(); k != nil && len(ids) < limit; k, _ = c.Next() {
		if len(k) != 16 {
			return nil, fmt.Errorf("the index of closed jobs holds a key of %d bytes, not 16", len(k))
		}
		if job.Millis(readInt64(k)) >= before {
			break
		}
		ids = append(ids, readID(k[8:]))
	}
	return ids, nil
}

// LiveJobs returns the jobs that memory holds, ascending: those that are open or
// owe a late refresh.
func (r *Reader) LiveJobs() ([]*job.Record, error) {
	var ids []job.ID
	prefix := posting{postLive, ""}.prefix()
	c := r.bucket(bucketPostings).Cursor()
	for k, _ := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, _ = c.Next() {
		ids = append(ids, readID(k[len(k)-8:]))
	}
	slices.Sort(ids)
	records := make([]*job.Record, 0, len(ids))
	for _, id := range ids {
		rec, err := r.Job(id)
		if err != nil {
			return nil, err
		}
		if rec == nil {
			return nil, fmt.Errorf("job %d is indexed but not stored", id)
		}
		records = append(records, rec)
	}
	return records, nil
}

// History returns what is kept of a job's events, oldest first, and how many were
// dropped between the first and the last of them.
func (r *Reader) History(id job.ID) ([]job.Event, int64, error) {
	var events []job.Event
	prefix := jobKey(id)
	c := r.bucket(bucketHistory).Cursor()
	for k, v := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, v = c.Next() {
		e, err := command.DecodeEvent(v)
		if err != nil {
			return nil, 0, fmt.Errorf("history of job %d: %w", id, err)
		}
		events = append(events, e)
	}
	dropped, err := counter(r.bucket(bucketDropped).Get(prefix))
	return events, dropped, err
}

// EventsAfter returns events whose Raft index is above after, in the order of the
// log. It stops at the end of an index once it has limit events or more, so that
// the index of the last one is a cursor to go on from. Events whose job has been
// removed, and those dropped from a long history, are not among them.
func (r *Reader) EventsAfter(after uint64, limit int) ([]job.Event, error) {
	var events []job.Event
	history := r.bucket(bucketHistory)
	c := r.bucket(bucketWatch).Cursor()
	if after++; after == 0 {
		return nil, nil
	}
	for k, _ := c.Seek(appendUint64(nil, after)); k != nil; k, _ = c.Next() {
		if len(k) != 24 {
			return nil, fmt.Errorf("the watch index holds a key of %d bytes, not 24", len(k))
		}
		if n := len(events); n >= limit && n > 0 && events[n-1].Index != binary.BigEndian.Uint64(k) {
			break
		}
		e, err := command.DecodeEvent(history.Get(k[8:]))
		if err != nil {
			return nil, fmt.Errorf("event of job %d: %w", readID(k[8:]), err)
		}
		events = append(events, e)
	}
	return events, nil
}

// Catalogs returns all catalogs, by name.
func (r *Reader) Catalogs() ([]*job.Catalog, error) {
	return readAll(r.bucket(bucketCatalogs), command.DecodeCatalog)
}

// Backends returns all backends, by id.
func (r *Reader) Backends() ([]*job.Backend, error) {
	return readAll(r.bucket(bucketBackends), command.DecodeBackend)
}

// Members returns all members, by node id.
func (r *Reader) Members() ([]*job.Member, error) {
	return readAll(r.bucket(bucketMembers), command.DecodeMember)
}

// Tokens returns all access tokens, by name.
func (r *Reader) Tokens() ([]*job.Token, error) {
	return readAll(r.bucket(bucketTokens), command.DecodeToken)
}

// Settings returns for each setting, by name, the change that set it.
func (r *Reader) Settings() ([]job.SettingChange, error) {
	return readAll(r.bucket(bucketSettings), command.DecodeSettingChange)
}

func readAll[T any](b *bbolt.Bucket, decode func([]byte) (T, error)) ([]T, error) {
	var all []T
	err := b.ForEach(func(k, v []byte) error {
		one, err := decode(v)
		if err != nil {
			return fmt.Errorf("%q: %w", k, err)
		}
		all = append(all, one)
		return nil
	})
	return all, err
}

// SettingEntry is one line of the settings' history.
type SettingEntry struct {
	Index  uint64 // of the command in the Raft log
	Change job.SettingChange
}

// SettingsHistory returns up to limit changes, newest first, of one setting or, if
// name is empty, of all.
func (r *Reader) SettingsHistory(name string, limit int) ([]SettingEntry, error) {
	var entries []SettingEntry
	c := r.bucket(bucketSettingsHistory).Cursor()
	for k, v := c.Last(); k != nil && len(entries) < limit; k, v = c.Prev() {
		change, err := command.DecodeSettingChange(v)
		if err != nil {
			return nil, fmt.Errorf("history of settings: %w", err)
		}
		if name == "" || name == change.Name {
			entries = append(entries, SettingEntry{Index: binary.BigEndian.Uint64(k), Change: change})
		}
	}
	return entries, nil
}

func counter(v []byte) (int64, error) {
	switch len(v) {
	case 0:
		return 0, nil
	case 8:
		return int64(binary.BigEndian.Uint64(v)), nil
	}
	return 0, fmt.Errorf("a counter in the state file is %d bytes long, not 8", len(v))
}

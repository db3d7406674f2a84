package store

import (
	"fmt"

	"github.com/lancemaster/lancemaster/internal/job"
)

// Counts are kept beside the records, so that a scrape of the metrics costs the
// same however long the history is. The key is one of a few pairs of states.

// StateCount is how many jobs on record are in a pair of states.
type StateCount struct {
	State   job.State
	Refresh job.RefreshState
	Jobs    int64
}

func countKey(r *job.Record) []byte { return []byte{byte(r.State), byte(r.Refresh.State)} }

// putCounts moves a job from one count to another. Either record may be nil.
func (t *Tx) putCounts(was, is *job.Record) {
	if was != nil && is != nil && string(countKey(was)) == string(countKey(is)) {
		return
	}
	if was != nil {
		t.addCount(countKey(was), -1)
	}
	if is != nil {
		t.addCount(countKey(is), 1)
	}
}

func (t *Tx) addCount(key []byte, n int64) {
	if t.err != nil {
		return
	}
	have, err := counter(t.bucket(bucketStates).Get(key))
	t.Fail(err)
	if have+n == 0 {
		t.delete(bucketStates, key)
		return
	}
	t.put(bucketStates, key, appendUint64(nil, uint64(have+n)))
}

// StateCounts counts the jobs on record, open or not, by their states; pairs
// without a job are left out.
func (r *Reader) StateCounts() ([]StateCount, error) {
	var out []StateCount
	c := r.bucket(bucketStates).Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		n, err := counter(v)
		if err != nil {
			return nil, err
		}
		if len(k) != 2 {
			return nil, fmt.Errorf("the counts by state hold a key of %d bytes, not 2", len(k))
		}
		out = append(out, StateCount{State: job.State(k[0]), Refresh: job.RefreshState(k[1]), Jobs: n})
	}
	return out, nil
}

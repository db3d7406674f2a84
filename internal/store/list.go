package store

import (
	"bytes"
	"encoding/base64"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/lancemaster/lancemaster/internal/job"
)

// maxSteps bounds how many index entries one call looks at. Where filters that hardly
// ever meet leave a page short of its limit, its token goes on from there. It is far
// above the number of filters, so each call gets somewhere.
const maxSteps = 100_000

// List returns one page of the jobs that q selects, newest first; of jobs created in
// the same millisecond the greater id is the newer. A page that has a token may be
// shorter than its limit. A query that makes no sense is a *job.Refusal.
func (r *Reader) List(q job.Query) (job.Page, error) { return r.list(q, maxSteps) }

func (r *Reader) list(q job.Query, steps int) (job.Page, error) {
	limit, start, some, err := begin(q)
	if err != nil || !some {
		return job.Page{}, err
	}
	m := r.merge(q)
	m.steps = steps
	var page job.Page
	for at, ok := start, true; ok; at, ok = at.before() {
		at, ok = m.next(at)
		if !ok || at.created() < q.Since {
			break
		}
		if m.exhausted || len(page.Jobs) == limit {
			page.Next = encodeToken(at)
			break
		}
		rec, err := r.Job(at.id())
		if err != nil {
			return job.Page{}, err
		}
		if rec == nil {
			return job.Page{}, fmt.Errorf("job %d is indexed but not stored", at.id())
		}
		page.Jobs = append(page.Jobs, rec)
	}
	return page, nil
}

// begin checks the query and finds the position the page begins at. ok is false
// where nothing can be selected.
func begin(q job.Query) (limit int, start position, ok bool, err error) {
	refuse := func(format string, args ...any) (int, position, bool, error) {
		return 0, position{}, false, &job.Refusal{Code: job.CodeInvalid, Message: fmt.Sprintf(format, args...)}
	}
	limit = q.Limit
	if limit == 0 {
		limit = job.DefaultPageLimit
	}
	if limit < 1 || limit > job.MaxPageLimit {
		return refuse("a page of %d jobs is out of bounds, 1 to %d", q.Limit, job.MaxPageLimit)
	}
	for _, s := range q.States {
		if !s.Valid() {
			return refuse("there is no state %d", uint8(s))
		}
	}
	for _, s := range q.RefreshStates {
		if !s.Valid() {
			return refuse("there is no refresh state %d", uint8(s))
		}
	}
	if (q.Table != "" || q.Database != "") && (q.Table == "" || q.Database == "" || q.Catalog == "") {
		return refuse("jobs are listed by table only with catalog, database and table together")
	}
	for i := range start {
		start[i] = 0xFF
	}
	if q.Until != 0 {
		if start, ok = makePosition(q.Until, 0).before(); !ok {
			return limit, start, false, nil
		}
	}
	if q.PageToken != "" {
		token, ok := decodeToken(q.PageToken)
		if !ok {
			return refuse("the page token is not one that a list returned")
		}
		if bytes.Compare(token[:], start[:]) < 0 {
			start = token
		}
	}
	return limit, start, true, nil
}

// A token is the position where the next page begins, behind a version byte.
const tokenVersion byte = 1

func encodeToken(at position) string {
	return base64.RawURLEncoding.EncodeToString(append([]byte{tokenVersion}, at[:]...))
}

func decodeToken(token string) (position, bool) {
	var at position
	b, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(b) != 1+positionSize || b[0] != tokenVersion {
		return at, false
	}
	copy(at[:], b[1:])
	return at, true
}

// merge makes the intersection that q asks for.
func (r *Reader) merge(q job.Query) *intersection {
	m := &intersection{}
	var states, refreshes []posting
	for _, s := range q.States {
		states = append(states, statePosting(s))
	}
	for _, s := range q.RefreshStates {
		refreshes = append(refreshes, refreshPosting(s))
	}
	m.add(r, states...)
	m.add(r, refreshes...)
	if q.Open != nil {
		m.add(r, boolPosting(postOpen, *q.Open))
	}
	if q.Unresolved != nil {
		m.add(r, boolPosting(postUnresolved, *q.Unresolved))
	}
	if q.Table != "" {
		m.add(r, tablePosting(q.Catalog, q.Database, q.Table))
	} else if q.Catalog != "" {
		m.add(r, posting{postCatalog, q.Catalog})
	}
	if q.IndexKey != "" {
		m.add(r, posting{postIndexKey, q.IndexKey})
	}
	if q.Locator != "" {
		m.add(r, posting{postDataset, q.Locator})
	}
	if q.Backend != 0 {
		m.add(r, backendPosting(q.Backend))
	}
	if len(m.unions) == 0 {
		m.add(r, posting{postAll, ""})
	}
	return m
}

// intersection walks the positions that are in every one of its unions.
type intersection struct {
	unions    [][]*sequence
	steps     int  // how many more index entries may be looked at
	exhausted bool // steps ran out
}

// add adds the union of some postings. No postings mean no filter.
func (m *intersection) add(r *Reader, list ...posting) {
	if len(list) == 0 {
		return
	}
	var union []*sequence
	for _, p := range list {
		union = append(union, &sequence{cursor: r.bucket(bucketPostings).Cursor(), prefix: p.prefix()})
	}
	m.unions = append(m.unions, union)
}

// next returns the greatest position in all unions that is not above at. When the
// steps run out it returns a position from which a later call can go on.
func (m *intersection) next(at position) (position, bool) {
	for agreed := 0; agreed < len(m.unions); {
		for _, union := range m.unions {
			if m.steps <= 0 {
				m.exhausted = true
				return at, true
			}
			found, ok := m.greatest(union, at)
			if !ok {
				return at, false
			}
			if found == at {
				agreed++
			} else {
				at, agreed = found, 1
			}
			if agreed == len(m.unions) {
				break
			}
		}
	}
	return at, true
}

func (m *intersection) greatest(union []*sequence, at position) (position, bool) {
	var best position
	found := false
	for _, s := range union {
		if s.seek(at) {
			m.steps--
		}
		if s.valid && (!found || bytes.Compare(s.at[:], best[:]) > 0) {
			best, found = s.at, true
		}
	}
	return best, found
}

// sequence walks the positions of one posting downwards.
type sequence struct {
	cursor *bbolt.Cursor
	prefix []byte
	key    []byte
	at     position
	valid  bool // at is the greatest position not above the newest target
	done   bool // nothing is left below
}

// seek moves to the greatest position not above target, and reports whether it had
// to look. Targets only ever fall.
func (s *sequence) seek(target position) bool {
	if s.done || (s.valid && bytes.Compare(s.at[:], target[:]) <= 0) {
		return false
	}
	s.key = append(append(s.key[:0], s.prefix...), target[:]...)
	k, _ := s.cursor.Seek(s.key)
	switch {
	case k == nil:
		k, _ = s.cursor.Last()
	case !bytes.Equal(k, s.key):
		k, _ = s.cursor.Prev()
	}
	if len(k) != len(s.key) || !bytes.HasPrefix(k, s.prefix) {
		s.valid, s.done = false, true
		return true
	}
	copy(s.at[:], k[len(s.prefix):])
	s.valid = true
	return true
}

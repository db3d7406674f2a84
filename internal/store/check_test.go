package store

import (
	"strings"
	"testing"

	"github.com/lancemaster/lancemaster/internal/command"
	"github.com/lancemaster/lancemaster/internal/job"
)

func damage(t *testing.T, s *Store, f func(*Tx)) {
	t.Helper()
	tx, err := s.Begin()
	if err != nil {
		t.Fatal(err)
	}
	f(tx)
	pos, err := tx.Applied()
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(pos); err != nil {
		t.Fatal(err)
	}
}

// TestCheckFindsDamage damages a sound state in every way that a half-applied
// command could, one at a time.
func TestCheckFindsDamage(t *testing.T) {
	record := func(r *job.Record) []byte {
		data, err := command.EncodeRecord(r)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	open1 := pending(1)
	open1.RequestID = "req"
	_, closed2 := step(pending(2), notCommitted)
	event := job.Event{Job: 1, Index: 1, Term: 1}
	for _, tt := range []struct {
		name string
		do   func(*Tx)
		want string
	}{
		{"nothing", func(*Tx) {}, ""},
		{"posting gone", func(tx *Tx) { tx.delete(bucketPostings, statePosting(1).key(positionOf(open1))) }, "job 1 lacks its posting of kind 2"},
		{"posting too many", func(tx *Tx) { tx.put(bucketPostings, statePosting(5).key(positionOf(open1)), nil) }, "bucket postings has"},
		{"job gone", func(tx *Tx) { tx.delete(bucketJobs, jobKey(1)) }, "bucket postings has"},
		{"request gone", func(tx *Tx) { tx.delete(bucketRequests, requestKey("ann", "req")) }, "the request of job 1"},
		{"request elsewhere", func(tx *Tx) { tx.put(bucketRequests, requestKey("ann", "req"), jobKey(2)) }, "leads to job 2"},
		{"request too many", func(tx *Tx) { tx.put(bucketRequests, requestKey("bob", "req"), jobKey(1)) }, "bucket requests has"},
		{"closed gone", func(tx *Tx) { tx.delete(bucketClosed, closedKey(closed2)) }, "job 2 is not open but is not indexed as closed"},
		{"closed too many", func(tx *Tx) { tx.put(bucketClosed, closedKey(open1), nil) }, "bucket closed has"},
		{"event gone", func(tx *Tx) { tx.delete(bucketHistory, historyKey(1, 0)) }, "job 1 at revision 0 has 0 events"},
		{"event too many", func(tx *Tx) { tx.putEvent(job.Event{Job: 1, Revision: 1, To: 1, ToRefresh: 1}) }, "job 1 at revision 0 has 2 events"},
		{"event of another state", func(tx *Tx) {
			tx.delete(bucketWatch, watchKey(event))
			tx.putEvent(job.Event{Job: 1, Index: 1, Term: 1, To: 5, ToRefresh: 1})
		}, "its newest event says"},
		{"watch gone", func(tx *Tx) { tx.delete(bucketWatch, watchKey(event)) }, "not in the watch index"},
		{"watch too many", func(tx *Tx) { tx.put(bucketWatch, watchKey(job.Event{Job: 9}), nil) }, "bucket watch has"},
		{"dropped too many", func(tx *Tx) { tx.put(bucketDropped, jobKey(1), appendUint64(nil, 3)) }, "has dropped 3 events"},
		{"record moved on", func(tx *Tx) {
			r := open1.Clone()
			r.State = job.StateRunning
			tx.put(bucketJobs, jobKey(1), record(r))
		}, "job 1 lacks its posting of kind 2"},
		{"record elsewhere", func(tx *Tx) { tx.put(bucketJobs, jobKey(3), record(open1)) }, "is stored under key"},
		{"record damaged", func(tx *Tx) { tx.put(bucketJobs, jobKey(1), []byte("junk")) }, "damaged"},
		{"two owners", func(tx *Tx) {
			r := pending(3)
			r.Target = open1.Target
			tx.putJob(job.JobChange{New: r, Event: eventOf(nil, r)})
		}, "jobs 1 and 3 hold one fence"},
		{"next id", func(tx *Tx) { tx.Write(job.Position{}, admission(pending(1))) }, "job 2 exists but the next id is 2"},
		{"count", func(tx *Tx) { tx.addCount([]byte{1, 1}, 1) }, "2 jobs are counted as PENDING/NOT_REQUIRED"},
		{"count of none", func(tx *Tx) { tx.addCount([]byte{3, 3}, 1) }, "1 jobs are counted as COMMITTED/RUNNING"},
		{"count gone", func(tx *Tx) { tx.delete(bucketStates, []byte{1, 1}) }, "counts by state lack 1"},
		{"catalog", func(tx *Tx) { tx.put(bucketCatalogs, []byte("x"), []byte("junk")) }, "catalogs"},
		{"backend", func(tx *Tx) { tx.put(bucketBackends, backendKey(1), []byte("junk")) }, "backends"},
		{"member", func(tx *Tx) { tx.put(bucketMembers, []byte("a"), []byte("junk")) }, "members"},
		{"member elsewhere", func(tx *Tx) {
			putEntry(tx, bucketMembers, []byte("a"), "a", &job.Member{NodeID: "b"}, command.EncodeMember)
		}, `member "b" is not stored under its node id`},
		{"token", func(tx *Tx) { tx.put(bucketTokens, []byte("t"), []byte("junk")) }, "tokens"},
		{"token elsewhere", func(tx *Tx) {
			putEntry(tx, bucketTokens, []byte("t"), "t", &job.Token{Name: "u", Role: job.RoleRead}, command.EncodeToken)
		}, `token "u" is not stored under its name`},
		{"setting", func(tx *Tx) {
			data, err := command.EncodeSettingChange(job.SettingChange{Name: "s", New: "other"})
			if err != nil {
				t.Fatal(err)
			}
			tx.put(bucketSettings, []byte("s"), data)
		}, "setting s is not what its history ends with"},
		{"settings' count", func(tx *Tx) { tx.put(bucketMeta, metaSettingCount, appendUint64(nil, 9)) }, "bucket settings_history has"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := &writer{s: open(t)}
			closing, _ := step(pending(2), notCommitted)
			setting := job.Change{Settings: []job.SettingChange{{Name: "s", New: "v"}}}
			w.write(t, admission(open1), admission(pending(2)), closing, setting)
			damage(t, w.s, tt.do)
			err := w.s.Read((*Reader).Check)
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("Check finds %v in a sound state", err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("Check answers %v, which does not say %q", err, tt.want)
			}
		})
	}
}

package store

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/lancemaster/lancemaster/internal/command"
	"github.com/lancemaster/lancemaster/internal/job"
)

// maxFaults bounds what Check reports.
const maxFaults = 20

// checkup collects what Check finds.
type checkup struct {
	r      *Reader
	faults []error
	// How many entries each index must have, counted from the records.
	postings, closed, requests, events, dropped int
	fences                                      map[job.FenceKey]job.ID
	byState                                     map[[2]byte]int64 // jobs by the key of their count
}

func (c *checkup) fault(format string, args ...any) {
	if len(c.faults) < maxFaults {
		c.faults = append(c.faults, fmt.Errorf(format, args...))
	}
}

// Check reads everything and holds each index to the records: nothing missing,
// nothing left over, nothing half-applied. Its cost grows with the history; it is
// for tests and for an operator in doubt.
func (r *Reader) Check() error {
	c := &checkup{r: r, fences: map[job.FenceKey]job.ID{}, byState: map[[2]byte]int64{}}
	cluster, err := r.Cluster()
	if err != nil {
		return err
	}
	var last job.ID
	err = r.bucket(bucketJobs).ForEach(func(k, v []byte) error {
		rec, err := command.DecodeRecord(v)
		if err != nil {
			c.fault("job %x: %w", k, err)
			return nil
		}
		if !bytes.Equal(k, jobKey(rec.ID)) {
			c.fault("job %d is stored under key %x", rec.ID, k)
		}
		last = rec.ID
		c.record(rec)
		return nil
	})
	if err != nil {
		return err
	}
	if last >= cluster.NextJob && last != 0 {
		c.fault("job %d exists but the next id is %d", last, cluster.NextJob)
	}
	c.counts()
	c.states()
	c.others()
	return errors.Join(c.faults...)
}

// record looks for all that a record must have.
func (c *checkup) record(rec *job.Record) {
	c.byState[[2]byte(countKey(rec))]++
	for _, p := range postings(rec) {
		c.postings++
		if c.r.bucket(bucketPostings).Get(p.key(positionOf(rec))) == nil {
			c.fault("job %d lacks its posting of kind %d", rec.ID, p.kind)
		}
	}
	if !rec.Open() {
		c.closed++
		if c.r.bucket(bucketClosed).Get(closedKey(rec)) == nil {
			c.fault("job %d is not open but is not indexed as closed", rec.ID)
		}
	}
	if rec.RequestID != "" {
		c.requests++
		if id, found, err := c.r.Request(rec.Creator, rec.RequestID); err != nil || !found || id != rec.ID {
			c.fault("the request of job %d leads to job %d (%v)", rec.ID, id, err)
		}
	}
	if rec.HoldsFence() {
		if owner, held := c.fences[rec.Target.Fence()]; held {
			c.fault("jobs %d and %d hold one fence", owner, rec.ID)
		}
		c.fences[rec.Target.Fence()] = rec.ID
	}
	c.history(rec)
}

// history holds a job's events to its revision: the first and the last, no gap but
// the one that was dropped.
func (c *checkup) history(rec *job.Record) {
	events, dropped, err := c.r.History(rec.ID)
	if err != nil {
		c.fault("%w", err)
		return
	}
	c.events += len(events)
	if dropped > 0 {
		c.dropped++
	}
	const kept = job.HistoryFirst + job.HistoryLast
	all := int64(rec.Revision) + 1
	if want := max(0, all-kept); dropped != want {
		c.fault("job %d at revision %d has dropped %d events, not %d", rec.ID, rec.Revision, dropped, want)
	}
	if int64(len(events)) != all-dropped {
		c.fault("job %d at revision %d has %d events, not %d", rec.ID, rec.Revision, len(events), all-dropped)
		return
	}
	for n, e := range events {
		want := job.Revision(n)
		if n >= job.HistoryFirst {
			want += job.Revision(dropped)
		}
		if e.Job != rec.ID || e.Revision != want {
			c.fault("event %d of job %d is of job %d, revision %d", n, rec.ID, e.Job, e.Revision)
		}
		if c.r.bucket(bucketWatch).Get(watchKey(e)) == nil {
			c.fault("event %d of job %d is not in the watch index", e.Revision, rec.ID)
		}
	}
	// The refresh state of an UNKNOWN job's event is that of its late refresh.
	newest := events[len(events)-1]
	if newest.To != rec.State || (newest.ToRefresh != rec.Refresh.State && newest.ToRefresh != rec.LateRefresh.State) {
		c.fault("job %d is %s/%s, its newest event says %s/%s",
			rec.ID, rec.State, rec.Refresh.State, newest.To, newest.ToRefresh)
	}
}

// states holds the counts of jobs by state to the records.
func (c *checkup) states() {
	counts, err := c.r.StateCounts()
	if err != nil {
		c.fault("%w", err)
	}
	left := len(c.byState)
	for _, n := range counts {
		want := c.byState[[2]byte{byte(n.State), byte(n.Refresh)}]
		if n.Jobs != want {
			c.fault("%d jobs are counted as %s/%s, the records say %d", n.Jobs, n.State, n.Refresh, want)
		}
		if want > 0 {
			left--
		}
	}
	if left != 0 {
		c.fault("the counts by state lack %d pairs of states that jobs are in", left)
	}
}

// counts finds entries that no record accounts for.
func (c *checkup) counts() {
	settings, err := counter(c.r.bucket(bucketMeta).Get(metaSettingCount))
	if err != nil {
		c.fault("%w", err)
	}
	for bucket, want := range [bucketCount]int{
		bucketPostings: c.postings, bucketClosed: c.closed, bucketRequests: c.requests,
		bucketHistory: c.events, bucketWatch: c.events, bucketDropped: c.dropped,
		bucketSettingsHistory: int(settings),
	} {
		switch bucket {
		case bucketMeta, bucketJobs, bucketCatalogs, bucketBackends, bucketSettings, bucketStates, bucketMembers, bucketTokens:
			continue
		}
		have := 0
		cursor := c.r.bucket(bucket).Cursor()
		for k, _ := cursor.First(); k != nil; k, _ = cursor.Next() {
			have++
		}
		if have != want {
			c.fault("bucket %s has %d entries, the records account for %d", bucketNames[bucket], have, want)
		}
	}
}

// others decodes what is not a job.
func (c *checkup) others() {
	if _, err := c.r.Applied(); err != nil {
		c.fault("%w", err)
	}
	catalogs, err := c.r.Catalogs()
	if err != nil {
		c.fault("catalogs: %w", err)
	}
	for _, v := range catalogs {
		if c.r.bucket(bucketCatalogs).Get([]byte(v.Name)) == nil {
			c.fault("catalog %q is not stored under its name", v.Name)
		}
	}
	backends, err := c.r.Backends()
	if err != nil {
		c.fault("backends: %w", err)
	}
	for _, v := range backends {
		if c.r.bucket(bucketBackends).Get(backendKey(v.ID)) == nil {
			c.fault("backend %d is not stored under its id", v.ID)
		}
	}
	c.registry()
	settings, err := c.r.Settings()
	if err != nil {
		c.fault("settings: %w", err)
	}
	for _, v := range settings {
		if newest, err := c.r.SettingsHistory(v.Name, 1); err != nil || (len(newest) == 1 && newest[0].Change != v) {
			c.fault("setting %s is not what its history ends with (%v)", v.Name, err)
		}
	}
	if _, err := c.r.SettingsHistory("", MaxSettingsHistory+1); err != nil {
		c.fault("%w", err)
	}
}

// registry decodes the members and the access tokens.
func (c *checkup) registry() {
	members, err := c.r.Members()
	if err != nil {
		c.fault("members: %w", err)
	}
	for _, v := range members {
		if c.r.bucket(bucketMembers).Get([]byte(v.NodeID)) == nil {
			c.fault("member %q is not stored under its node id", v.NodeID)
		}
	}
	tokens, err := c.r.Tokens()
	if err != nil {
		c.fault("tokens: %w", err)
	}
	for _, v := range tokens {
		if c.r.bucket(bucketTokens).Get([]byte(v.Name)) == nil {
			c.fault("token %q is not stored under its name", v.Name)
		}
	}
}

package dispatch

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/refresh"
)

// Bounds on refreshes that run at once. A catalog's own bound keeps one whose
// refresher hangs from holding up the others.
const (
	maxRefreshesPerCatalog = 4
	maxRefreshes           = 64
)

// refreshes are the jobs that owe a refresh, as this term drives them. Guarded by
// run.mu.
type refreshes map[job.ID]*refreshItem

// refreshItem is one job's place in the rotation.
type refreshItem struct {
	turn      int64 // first in, first out; a failed attempt goes to the end
	running   bool
	notBefore time.Time
	// last is the newest attempt this term has begun; records that show less are
	// out of date.
	last int64
	// finish is the end of an attempt that is not journaled yet.
	finish    *job.RefreshFinish
	failures  int // of journaling
	lastError string
}

// owesRefresh reports whether a terminal job waits for its refresh, or an UNKNOWN
// one for the one attempt that a late result owes.
func owesRefresh(rec *job.Record) bool {
	if !rec.State.Terminal() {
		return false
	}
	if rec.State == job.StateUnknown {
		return rec.OwesLateRefresh()
	}
	switch rec.Refresh.State {
	case job.RefreshRequired, job.RefreshRunning, job.RefreshFailed:
		return true
	default:
		return false
	}
}

// refreshOf returns the refresh that a terminal job owes.
func refreshOf(rec *job.Record) job.Refresh {
	if rec.State == job.StateUnknown {
		return rec.LateRefresh
	}
	return rec.Refresh
}

// startRefreshes begins the refreshes that are due, in the order of the rotation,
// each in a goroutine of its own. It returns when the next one is due.
func (r *run) startRefreshes(s *state) time.Time {
	if len(s.refreshing) == 0 {
		return time.Time{}
	}
	now := time.Now()
	var due time.Time
	var starts []func()
	r.mu.Lock()
	queue := r.rotation(s, now)
	total, perCatalog := 0, make(map[string]int)
	for _, q := range queue {
		if q.item.running {
			total++
			perCatalog[q.rec.Target.Catalog]++
		}
	}
	for _, q := range queue {
		item, rec := q.item, q.rec
		if item.running || item.outOfDate(refreshOf(rec)) {
			continue
		}
		if now.Before(item.notBefore) {
			due = earliest(due, item.notBefore)
			continue
		}
		if total >= maxRefreshes || perCatalog[rec.Target.Catalog] >= maxRefreshesPerCatalog {
			continue // the end of one that runs wakes the next round
		}
		total++
		perCatalog[rec.Target.Catalog]++
		item.running = true
		catalog := s.catalogs[rec.Target.Catalog]
		starts = append(starts, func() { r.refresh(item, rec, catalog, s.settings.RefreshRetryInterval) })
	}
	r.mu.Unlock()
	for _, start := range starts {
		r.running.Go(start)
	}
	return due
}

type queued struct {
	rec  *job.Record
	item *refreshItem
}

// rotation returns the jobs that owe a refresh in their turn. Those seen for the
// first time line up in the order in which their outcomes came. r.mu is held.
func (r *run) rotation(s *state, now time.Time) []queued {
	queue := make([]queued, 0, len(s.refreshing))
	var fresh []*job.Record
	for _, rec := range s.refreshing {
		if item := r.refreshes[rec.ID]; item != nil {
			queue = append(queue, queued{rec, item})
		} else {
			fresh = append(fresh, rec)
		}
	}
	slices.SortStableFunc(fresh, func(a, b *job.Record) int { return cmp.Compare(outcomeAt(a), outcomeAt(b)) })
	for _, rec := range fresh {
		item := &refreshItem{notBefore: r.firstTry(rec, s.settings.RefreshRetryInterval, now)}
		r.refreshTurn++
		item.turn = r.refreshTurn
		r.refreshes[rec.ID] = item
		queue = append(queue, queued{rec, item})
	}
	slices.SortFunc(queue, func(a, b queued) int { return cmp.Compare(a.item.turn, b.item.turn) })
	return queue
}

func outcomeAt(rec *job.Record) job.Millis {
	if rec.Result != nil {
		return rec.Result.At
	}
	return rec.UpdatedAt
}

// firstTry returns when a refresh that this term has not tried is due: one that
// failed under another leader waits out its interval.
func (r *run) firstTry(rec *job.Record, retry time.Duration, now time.Time) time.Time {
	owed := refreshOf(rec)
	if owed.State != job.RefreshFailed || owed.LastFailure == nil {
		return now
	}
	if !r.d.cfg.ClockAgreement.AgreesWithMajority() {
		return now.Add(retry)
	}
	return now.Add(remaining(owed.LastFailure.At+job.Millis(retry.Milliseconds()), retry, r.d.wall(now)))
}

// outOfDate reports whether the record was read before the newest thing this term
// did about it.
func (i *refreshItem) outOfDate(owed job.Refresh) bool {
	if i.finish != nil {
		return false
	}
	return owed.Attempt < i.last || owed.Attempt == i.last && owed.State == job.RefreshRunning
}

// refresh makes one attempt, or journals the end of one that could not be.
func (r *run) refresh(item *refreshItem, rec *job.Record, catalog *job.Catalog, retry time.Duration) {
	finish := r.unjournaled(item)
	if finish == nil {
		attempt, err := r.beginRefresh(item, rec)
		if err != nil {
			r.refreshTrouble(item, nil, err)
			return
		}
		finish = r.tryRefresh(rec, catalog, attempt)
		if r.rounds.Err() != nil {
			return // the next term begins the attempt anew
		}
	}
	finish.Header = r.header()
	_, how, err := r.propose(r.sends, *finish)
	if how != applied && how != refused {
		r.refreshTrouble(item, finish, err)
		return
	}
	r.mu.Lock()
	item.running, item.finish, item.failures = false, nil, 0
	item.lastError = finish.Message
	switch {
	case how == refused:
		// The record has moved otherwise; look at it afresh, soon.
		item.last, item.notBefore = 0, time.Now().Add(firstBackoff)
	case finish.Failed:
		r.refreshTurn++
		item.turn = r.refreshTurn
		item.notBefore = time.Now().Add(retry)
	}
	r.mu.Unlock()
	r.wakeUp()
}

func (r *run) unjournaled(item *refreshItem) *job.RefreshFinish {
	r.mu.Lock()
	defer r.mu.Unlock()
	return item.finish
}

// beginRefresh journals the begin of an attempt and returns its number. One that
// the record shows begun, and nobody makes, is made now: the answer to its begin
// was lost.
func (r *run) beginRefresh(item *refreshItem, rec *job.Record) (int64, error) {
	owed := refreshOf(rec)
	number := owed.Attempt
	if owed.State != job.RefreshRunning {
		answer, how, err := r.propose(r.rounds, job.RefreshStart{
			Header: r.header(), Job: rec.ID, Expected: rec.Revision,
		})
		if how != applied {
			return 0, err
		}
		number = owed.Attempt + 1
		if answer.Job != nil {
			number = refreshOf(answer.Job).Attempt
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	item.last = number
	return number, nil
}

// tryRefresh runs the catalog's refresher once, within its time.
func (r *run) tryRefresh(rec *job.Record, catalog *job.Catalog, number int64) *job.RefreshFinish {
	finish := &job.RefreshFinish{Job: rec.ID, Attempt: number}
	var evidence string
	err, kind := errNoCatalog, otherKind
	if catalog != nil {
		kind = r.d.metrics.kind(string(catalog.Refresher.Kind))
		began := time.Now()
		evidence, err = RefreshOnce(r.rounds, r.d.cfg.Refreshers, catalog, rec, number)
		r.d.metrics.refreshDuration.WithLabelValues(kind).Observe(time.Since(began).Seconds())
	}
	if r.rounds.Err() != nil {
		return finish
	}
	if finish.Evidence = message(evidence); err == nil && finish.Evidence == "" {
		err = errNoEvidence
	}
	if err == nil {
		r.d.metrics.refreshes.WithLabelValues(kind, "done").Inc()
		return finish
	}
	finish.Evidence, finish.Failed, finish.Message = "", true, message(err.Error())
	r.d.metrics.refreshes.WithLabelValues(kind, "failed").Inc()
	r.log.Warn("a refresh failed", "job", rec.ID, "attempt", number, "error", finish.Message)
	return finish
}

// RefreshOnce runs a catalog's refresher once for a job's table, within the
// catalog's bound.
func RefreshOnce(
	ctx context.Context, refreshers *refresh.Registry, catalog *job.Catalog, rec *job.Record, number int64,
) (evidence string, err error) {
	timeout := refresh.DefaultTimeout
	if catalog.Refresher.TimeoutMS > 0 {
		timeout = time.Duration(catalog.Refresher.TimeoutMS) * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return refreshers.Refresh(ctx, specOf(catalog.Refresher), refresh.Attempt{
		Job: int64(rec.ID), Number: number, Catalog: catalog.Name, Database: rec.Target.Database,
		Table: rec.Target.Table, DatasetURI: rec.Target.Locator, DatasetVersion: rec.Snapshot.DatasetVersion,
	})
}

func specOf(from job.Refresher) refresh.Spec {
	return refresh.Spec{
		Kind: string(from.Kind), URL: from.URL, Frontends: from.Frontends, User: from.User,
		PasswordRef: from.PasswordRef, CARef: from.CARef, TLS: from.TLS,
	}
}

// refreshTrouble keeps an attempt's end, or its begin, for another try at the
// journal.
func (r *run) refreshTrouble(item *refreshItem, finish *job.RefreshFinish, err error) {
	r.mu.Lock()
	item.running, item.finish = false, finish
	item.failures++
	item.lastError = err.Error()
	item.notBefore = time.Now().Add(backoff(item.failures, maxSettleBackoff))
	r.mu.Unlock()
	r.log.Info("a refresh could not be journaled; it is tried again", "error", err)
	r.wakeUp()
}

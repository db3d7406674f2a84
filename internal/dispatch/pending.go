package dispatch

import (
	"fmt"
	"time"

	"github.com/lancemaster/lancemaster/internal/job"
)

// startDispatches goes through the PENDING jobs in order of their ids, past those
// that cannot go, and starts an attempt for each that can. It returns when a job
// that waits may go.
func (r *run) startDispatches(s *state) time.Time {
	if len(s.pending) == 0 {
		return time.Time{}
	}
	members := r.d.cfg.Membership.Members()
	now := time.Now()
	var starts []*attempt
	r.mu.Lock()
	if r.stopping {
		r.mu.Unlock()
		return time.Time{}
	}
	free := r.capacity(s, now)
	due := free.nextOther
	for _, rec := range s.pending {
		a, reason, again := r.consider(s, free, rec, members, now)
		r.remembered(rec.ID).reason = reason
		due = earliest(due, again)
		if a != nil {
			starts = append(starts, a)
		}
	}
	if free.tokens <= 0 {
		due = earliest(due, free.nextToken)
	}
	r.mu.Unlock()
	for _, a := range starts {
		r.running.Go(a.protocol)
	}
	return due
}

// retried begins what is said of a job that waits after an error.
const retried = "it is tried again after an error: "

var preparing = hold{HoldPreparing, "its secrets are being resolved"}

// consider decides about one PENDING job: an attempt to start, or why not and
// when that may change by itself. r.mu is held.
func (r *run) consider(
	s *state, free *capacity, rec *job.Record, members int, now time.Time,
) (*attempt, hold, time.Time) {
	st := r.remembered(rec.ID)
	catalog := s.catalogs[rec.Target.Catalog]
	switch {
	case r.attempting[rec.ID] || r.d.cfg.Sends.has(rec.ID):
		return nil, hold{HoldSending, "an attempt to send it is under way"}, time.Time{}
	case s.settings.DispatchPaused:
		return nil, hold{HoldPaused, "the setting dispatch.paused is true"}, time.Time{}
	case now.Before(st.notBefore):
		return nil, hold{HoldRetry, retried + st.lastError}, st.notBefore
	case catalog == nil:
		return nil, hold{HoldCatalog, fmt.Sprintf("its catalog %q does not exist", rec.Target.Catalog)}, time.Time{}
	}
	if rule := LocalRule(rec.Target.Locator, s.settings, members, len(s.backends)); rule != "" {
		return nil, hold{HoldLocal, rule}, time.Time{}
	}
	ready := st.prep.ready(catalog, now)
	if st.prep != nil && !st.prep.done {
		return nil, preparing, time.Time{}
	}
	if !ready {
		st.prep = nil
	}
	if res := r.reservations[rec.ID]; res != nil {
		free.give(res.backend)
		delete(r.reservations, rec.ID)
	}
	to, reason := free.take(s.settings.MaxInflightPerBackend)
	if to == nil {
		return nil, reason, time.Time{}
	}
	res := &reservation{backend: to.backend.ID}
	if !ready && needsSecrets(catalog) {
		if r.preparing >= maxPreparing {
			free.give(res.backend)
			return nil, hold{HoldPreparing, "the secrets of other jobs are being resolved"}, time.Time{}
		}
		res.until = now.Add(prepareReserve)
		r.reservations[rec.ID] = res
		r.beginPreparing(rec.ID, st, catalog)
		return nil, preparing, res.until
	}
	r.reservations[rec.ID] = res
	r.attempting[rec.ID] = true
	options := st.prep.take(catalog)
	st.prep = nil
	return &attempt{run: r, rec: rec, backend: to.backend, epoch: to.status.ProcessEpoch, options: options},
		hold{HoldSending, "it is being sent"}, time.Time{}
}

// LocalRule says why a job on a local dataset cannot go; empty when it can, or when
// its dataset is not local. Only where there is one master and one backend do both
// see the same files.
func LocalRule(locator string, settings job.Settings, members, backends int) string {
	if job.LocatorScheme(locator) != "file" {
		return ""
	}
	switch {
	case !settings.LocalDatasetsAllowed:
		return "its dataset is local (file:) and the setting local_datasets.allowed is false"
	case members != 1:
		return fmt.Sprintf("its dataset is local (file:), which needs exactly one master; there are %d", members)
	case backends != 1:
		return fmt.Sprintf("its dataset is local (file:), which needs exactly one registered backend; there are %d", backends)
	default:
		return ""
	}
}

// setBack makes a job wait after an error of its own, twice as long each time.
func (r *run) setBack(id job.ID, err string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	st := r.remembered(id)
	st.failures++
	st.lastError = err
	st.notBefore = time.Now().Add(backoff(st.failures, maxPrepareBackoff))
	st.reason = hold{HoldRetry, retried + err}
}

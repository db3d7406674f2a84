package explain

import (
	"fmt"

	"github.com/lancemaster/lancemaster/internal/dispatch"
	"github.com/lancemaster/lancemaster/internal/job"
)

// maxBackends bounds how many backends one explanation tells about.
const maxBackends = 32

// pending says what keeps a job from being sent: all that does, not only what the
// dispatcher met first.
func (x *explanation) pending() {
	x.holds()
	free := x.eligible()
	switch hold := x.memory.Hold; {
	case hold == dispatch.HoldSending:
		x.say(Sending, "", "an attempt to send it is under way")
	case hold == dispatch.HoldPreparing:
		x.say(Preparing, "", "%s", x.memory.Reason)
	case hold == dispatch.HoldRate:
		x.say(RateLimited, "wait, or raise the setting dispatch.max_per_round",
			"%d jobs were sent within the last %s, which is as many as the setting dispatch.max_per_round allows",
			x.settings.MaxPerRound, job.FormatDuration(x.settings.DispatchInterval))
	case hold == dispatch.HoldBackend && free:
		// Free by what is journaled, but reserved for jobs that are about to be sent.
		x.say(NoEligibleBackend, "", "%s", x.memory.Reason)
	}
	if len(x.reasons) == 0 {
		x.say(Waiting, "", "nothing holds it up; it is sent in the next round, at most %s from now",
			job.FormatDuration(x.settings.DispatchInterval))
	}
	if !x.settings.AdmissionEnabled {
		x.say(GateClosed, "", "admission is closed (admission.enabled is false%s); that keeps new jobs out and does not hold up this one, which is admitted",
			x.since("admission.enabled"))
	}
	x.say(FenceHeld, fmt.Sprintf("to give it up: lancemaster job cancel %d", x.rec.ID), "it holds the index name %s meanwhile", x.rec.Target.IndexKey)
}

// holds are the reasons that lie with the job.
func (x *explanation) holds() {
	if x.settings.DispatchPaused {
		next := "lancemaster settings set dispatch.paused=false"
		if x.quarantined {
			next = "the cluster was restored or recovered: reopen it first"
		}
		x.say(DispatchPaused, next,
			"dispatch is paused (dispatch.paused is true%s)", x.since("dispatch.paused"))
	}
	if x.memory.Hold == dispatch.HoldRetry {
		when := "at the next chance"
		if !x.memory.NextTry.IsZero() {
			when = fmt.Sprintf("in %s, at %s", span(x.memory.NextTry.Sub(x.now)), clock(x.memory.NextTry))
		}
		x.say(RetryLater, "see to what the error names; the job goes by itself then",
			"the last try failed: %s; it is tried again %s", x.memory.LastError, when)
	}
	if x.catalog == nil {
		x.say(CatalogMissing, "lancemaster catalog create "+x.rec.Target.Catalog,
			"its catalog %q does not exist", x.rec.Target.Catalog)
	}
	rule := dispatch.LocalRule(x.rec.Target.Locator, x.settings, x.e.cfg.Members(), len(x.backends))
	if rule != "" {
		next := "serve it from a store that all masters and backends see, or have one master and one backend"
		if !x.settings.LocalDatasetsAllowed {
			next = "lancemaster settings set local_datasets.allowed=true"
		}
		x.say(LocalDataset, next, "%s", rule)
	}
}

// eligible says of each backend why it takes no job, unless one does.
func (x *explanation) eligible() bool {
	if len(x.backends) == 0 {
		x.say(NoEligibleBackend, "register one: lancemaster backend add HOST", "no backend is registered")
		return false
	}
	unfit := make([]Reason, 0, len(x.backends))
	for _, b := range x.backends {
		r, ok := x.unfit(b)
		if ok {
			return true
		}
		unfit = append(unfit, r)
	}
	x.say(NoEligibleBackend, "see: lancemaster backend list", "none of the %d registered backends can take it now", len(x.backends))
	more := len(unfit) - maxBackends
	x.reasons = append(x.reasons, unfit[:min(len(unfit), maxBackends)]...)
	if more > 0 {
		x.say(NoEligibleBackend, "see: lancemaster backend list", "and %d more", more)
	}
	return false
}

// unfit says why a backend takes no job; true: it does.
func (x *explanation) unfit(b *job.Backend) (Reason, bool) {
	name := fmt.Sprintf("backend %d (%s)", b.ID, address(b))
	if b.State != job.BackendActive {
		return Reason{
			BackendDraining, fmt.Sprintf("%s is %s, since %s by %s", name, b.State, at(b.UpdatedAt), b.UpdatedBy),
			fmt.Sprintf("lancemaster backend undrain %d", b.ID),
		}, false
	}
	if silent := x.silent(b.ID); silent != "" {
		return Reason{BackendSilent, name + " " + silent, "see that it runs and that the leader can reach its heartbeat port"}, false
	}
	if held, limit := x.slots[b.ID], x.settings.MaxInflightPerBackend; held >= limit {
		return Reason{
			SlotsFull, fmt.Sprintf("%s: %d of %d slots are held", name, held, limit),
			fmt.Sprintf("see who holds them: lancemaster job list --open --backend %d; wait, or raise the setting dispatch.max_inflight_per_backend", b.ID),
		}, false
	}
	return Reason{}, true
}

// silent says why a backend counts as not alive; empty when it is alive.
func (x *explanation) silent(id job.BackendID) string {
	status, known := x.e.cfg.Liveness.Status(id)
	if known && status.Alive {
		return ""
	}
	text := "has answered no heartbeat of this leader yet"
	if known && !status.LastOK.IsZero() {
		text = fmt.Sprintf("has answered no heartbeat since %s, %s ago", clock(status.LastOK), span(x.now.Sub(status.LastOK)))
	}
	if known && status.LastError != "" {
		text += "; the last one failed: " + status.LastError
	}
	return text
}

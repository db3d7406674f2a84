package dispatch

import (
	"fmt"
	"strings"
	"time"

	"github.com/lancemaster/lancemaster/internal/backend"
	"github.com/lancemaster/lancemaster/internal/job"
)

// bucket holds dispatch.max_per_round tokens. A MarkRunning that was applied
// takes one, which comes back a dispatch.interval later: no interval, wherever it
// begins, sees more of them than the setting allows.
type bucket struct{ spent []time.Time }

// left returns the tokens that are there, and when the next one comes back.
func (b *bucket) left(now time.Time, settings job.Settings) (int, time.Time) {
	back := 0
	for back < len(b.spent) && now.Sub(b.spent[back]) >= settings.DispatchInterval {
		back++
	}
	b.spent = append(b.spent[:0], b.spent[back:]...)
	var next time.Time
	if len(b.spent) > 0 {
		next = b.spent[0].Add(settings.DispatchInterval)
	}
	return settings.MaxPerRound - len(b.spent), next
}

func (b *bucket) spend(now time.Time) { b.spent = append(b.spent, now) }

// reservation is a slot and a token that a job counts on before the journal says
// so. It holds nothing durable: MarkRunning decides.
type reservation struct {
	backend job.BackendID
	// until ends a reservation made while the job's secrets are being resolved, so
	// that a slow source of secrets holds up nobody. Zero: held until released.
	until time.Time
}

// release gives a job's reservation back. spent says that its MarkRunning was
// applied, so that the slot is held now and the token gone.
func (r *run) release(id job.ID, spent bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reservations[id] == nil {
		return
	}
	delete(r.reservations, id)
	if spent {
		r.tokens.spend(time.Now())
	}
}

// capacity is what one round may hand out.
type capacity struct {
	tokens    int
	nextToken time.Time
	nextOther time.Time // when a reservation ends by itself
	backends  []candidate
}

// candidate is one registered backend as this round sees it.
type candidate struct {
	backend *job.Backend
	status  backend.Status
	load    int // slots held and reserved
	unfit   string
	doubt   bool // to be asked after those that nothing speaks against
}

// capacity counts what is free: settings, held slots and reservations. r.mu is
// held.
func (r *run) capacity(s *state, now time.Time) *capacity {
	c := &capacity{}
	reserved := make(map[job.BackendID]int)
	for id, res := range r.reservations {
		if !res.until.IsZero() && !now.Before(res.until) {
			delete(r.reservations, id)
			continue
		}
		c.nextOther = earliest(c.nextOther, res.until)
		reserved[res.backend]++
	}
	c.tokens, c.nextToken = r.tokens.left(now, s.settings)
	c.tokens -= len(r.reservations)
	for _, b := range s.backends {
		status, known := r.d.cfg.Liveness.Status(b.ID)
		c.backends = append(c.backends, candidate{
			backend: b, status: status, load: s.slots[b.ID] + reserved[b.ID],
			unfit: unfit(b, status, known && status.Term == r.term), doubt: inDoubt(status, r.unreached[b.ID]),
		})
	}
	return c
}

// unfit says why a backend takes no job whatever its load; empty when it does.
func unfit(b *job.Backend, status backend.Status, known bool) string {
	switch {
	case b.State != job.BackendActive:
		return b.State.String()
	case !known || !status.Alive && status.LastError == "":
		return "has not answered a heartbeat lately"
	case !status.Alive:
		return "does not answer heartbeats: " + status.LastError
	default:
		return ""
	}
}

// before reports whether a backend is to be asked before another of a higher id.
func (b *candidate) before(other *candidate) bool {
	if b.doubt != other.doubt {
		return !b.doubt
	}
	return b.load <= other.load
}

// take chooses among the eligible backends one that is not in doubt where there is
// one, then the least loaded, then the lowest id, and counts the job on it. When there
// is none it says why.
func (c *capacity) take(limit int) (*candidate, hold) {
	if c.tokens <= 0 {
		return nil, hold{HoldRate, "dispatch.max_per_round jobs were sent within the last dispatch.interval"}
	}
	var best *candidate
	for i := range c.backends {
		b := &c.backends[i]
		if b.unfit == "" && b.load < limit && (best == nil || !best.before(b)) {
			best = b
		}
	}
	if best == nil {
		return nil, hold{HoldBackend, c.nobody(limit)}
	}
	best.load++
	c.tokens--
	return best, hold{}
}

// give takes back what take counted for a reservation on this backend.
func (c *capacity) give(id job.BackendID) {
	c.tokens++
	for i := range c.backends {
		if c.backends[i].backend.ID == id {
			c.backends[i].load--
		}
	}
}

// explained bounds how many backends one reason tells about.
const explained = 8

// nobody says, backend by backend, why there is no eligible one.
func (c *capacity) nobody(limit int) string {
	if len(c.backends) == 0 {
		return "no backend is registered"
	}
	var why []string
	for i, b := range c.backends {
		if i == explained {
			why = append(why, fmt.Sprintf("and %d more", len(c.backends)-explained))
			break
		}
		reason := b.unfit
		if reason == "" {
			reason = fmt.Sprintf("has %d of %d slots held or reserved", b.load, limit)
		}
		why = append(why, fmt.Sprintf("backend %d %s", b.backend.ID, reason))
	}
	return "no eligible backend: " + strings.Join(why, "; ")
}

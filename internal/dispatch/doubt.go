package dispatch

import (
	"slices"
	"time"

	"github.com/lancemaster/lancemaster/internal/backend"
	"github.com/lancemaster/lancemaster/internal/job"
)

// inDoubt reports whether an eligible backend is to be asked after those that nothing
// speaks against: its newest heartbeat failed, or a connection to it could not be made
// since its newest OK heartbeat was asked for. A backend that has just died is eligible
// for three intervals more, and every job that it is sent ends with a failed dial and
// frees its slot at once: by load alone it would be the first to be asked each time.
// unreached is when the newest such connection failed; zero: none did.
func inDoubt(status backend.Status, unreached time.Time) bool {
	return status.LastError != "" || !unreached.IsZero() && !status.OKAsked.After(unreached)
}

// couldNotReach notes that a connection to a backend could not be made just now.
func (r *run) couldNotReach(id job.BackendID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unreached[id] = time.Now()
}

// forgetBackends drops what is remembered of backends that are registered no more.
func (r *run) forgetBackends(registered []*job.Backend) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range r.unreached {
		if !slices.ContainsFunc(registered, func(b *job.Backend) bool { return b.ID == id }) {
			delete(r.unreached, id)
		}
	}
}

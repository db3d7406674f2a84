package explain

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/lancemaster/lancemaster/internal/backend"
	"github.com/lancemaster/lancemaster/internal/dispatch"
	"github.com/lancemaster/lancemaster/internal/job"
)

// State reads what has been applied on this node.
type State interface {
	Read(show func(*job.Live))
	// Settings returns for each setting the change that set it.
	Settings() ([]job.SettingChange, error)
	// History returns what is kept of a job's events, oldest first, and how many are not.
	History(id job.ID) ([]job.Event, int64, error)
}

// Dispatcher tells what the leader's dispatcher remembers of a job.
type Dispatcher interface {
	Explain(rec *job.Record) (dispatch.Explanation, bool)
}

// Liveness tells what the heartbeats of the present term know of a backend.
type Liveness interface {
	Status(id job.BackendID) (backend.Status, bool)
}

// Config is what an Explainer needs, all of it.
type Config struct {
	State      State
	Dispatcher Dispatcher
	Liveness   Liveness
	Members    func() int // of the Raft configuration
	// ReleasableIn returns how long it is until an UNKNOWN job can be force released.
	ReleasableIn func(*job.Record) time.Duration
	Now          func() time.Time
}

// Explainer explains jobs. It keeps no state of its own.
type Explainer struct{ cfg Config }

// New returns an Explainer.
func New(cfg Config) *Explainer { return &Explainer{cfg} }

// Explain says why a job is where it is: of one that has ended how it did, and of any
// what it waits for, what matters most first.
func (e *Explainer) Explain(rec *job.Record) []Reason {
	x := e.look(rec)
	switch rec.State {
	case job.StatePending:
		x.pending()
	case job.StateRunning:
		x.running()
	case job.StateUnknown:
		x.unknown()
	case job.StateCommitted, job.StateNotCommitted:
		x.outcome()
		x.known()
	}
	if !rec.Open() && !rec.OwesLateRefresh() {
		x.say(Closed, "", "it waits for nothing and holds nothing")
	}
	return x.reasons
}

// explanation is one explanation in the making, and what it is made from.
type explanation struct {
	e        *Explainer
	rec      *job.Record
	now      time.Time
	settings job.Settings
	// quarantined: the cluster was restored or recovered and not reopened.
	quarantined bool
	catalog     *job.Catalog
	backends    []*job.Backend
	slots       map[job.BackendID]int
	memory      dispatch.Explanation
	changes     map[string]job.SettingChange
	reasons     []Reason
}

func (e *Explainer) look(rec *job.Record) *explanation {
	x := &explanation{e: e, rec: rec, now: e.cfg.Now(), slots: map[job.BackendID]int{}, changes: map[string]job.SettingChange{}}
	e.cfg.State.Read(func(live *job.Live) {
		x.settings, x.quarantined = live.Settings(), live.Cluster().Quarantined
		x.catalog = live.Catalog(rec.Target.Catalog)
		x.backends = live.Backends()
		for _, b := range x.backends {
			x.slots[b.ID] = live.SlotsHeld(b.ID)
		}
	})
	x.memory, _ = e.cfg.Dispatcher.Explain(rec)
	// Who changed a setting is a courtesy: without it the rest is as true.
	if changes, err := e.cfg.State.Settings(); err == nil {
		for _, c := range changes {
			x.changes[c.Name] = c
		}
	}
	return x
}

func (x *explanation) say(code Code, next, format string, args ...any) {
	x.reasons = append(x.reasons, Reason{Code: code, Message: fmt.Sprintf(format, args...), Next: next})
}

// since says who put a setting to its value and when, where anybody did.
func (x *explanation) since(name string) string {
	c, ok := x.changes[name]
	if !ok || c.Old == "" {
		return ""
	}
	return fmt.Sprintf(", since %s by %s", at(c.At), c.Actor)
}

func at(m job.Millis) string { return clock(time.UnixMilli(int64(m))) }

func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// span is a duration as people read it: to the second, or to the millisecond below.
func span(d time.Duration) string {
	if d < 0 {
		d = 0
	}
	if d >= time.Second {
		return job.FormatDuration(d.Round(time.Second))
	}
	return job.FormatDuration(d.Round(time.Millisecond))
}

// shellQuoted writes a caller's text so that a shell reads it as one word: what is to
// be done next is copied from here.
func shellQuoted(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool {
		return !strings.ContainsRune("/:._-", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}) {
		return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
	}
	return text
}

func address(b *job.Backend) string {
	return net.JoinHostPort(b.Address.Host, strconv.Itoa(int(b.Address.BePort)))
}

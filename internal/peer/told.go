package peer

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// told remembers what has been logged, so that each fault is said once and not at every attempt. It is
// said again when it has lasted an hour, or has gone and come back.
type told struct {
	log *slog.Logger
	mu  sync.Mutex
	at  map[said]time.Time
}

// said is one thing that was logged: of whom, of which kind of connections, and what.
type said struct {
	who     string
	kind    Kind // empty: it did not get as far as that
	what    string
	byOther bool
}

const (
	// maxTold bounds the memory: beyond it nothing new is logged until something has grown old.
	maxTold   = 256
	sayAgain  = time.Hour
	maxLogged = 64 // bytes of a name that nobody has checked
)

func newTold(log *slog.Logger) *told {
	return &told{log: log, at: make(map[said]time.Time)}
}

// first says whether something is to be logged now.
func (t *told) first(s said) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if at, ok := t.at[s]; ok && now.Sub(at) < sayAgain {
		return false
	}
	if len(t.at) >= maxTold {
		for old, at := range t.at {
			if now.Sub(at) >= sayAgain {
				delete(t.at, old)
			}
		}
		if len(t.at) >= maxTold {
			return false
		}
	}
	t.at[s] = now
	return true
}

// refusal logs that one side refused a connection.
func (t *told) refusal(kind Kind, node, remote string, r *Refusal) {
	if len(node) > maxLogged {
		node = node[:maxLogged]
	}
	if !t.first(said{node, kind, string(r.Code), r.ByOther}) {
		return
	}
	text, level := "refused a connection between masters", slog.LevelWarn
	if r.ByOther {
		text = "another master refused this one"
	}
	if r.Passing() {
		level = slog.LevelInfo
	}
	t.log.Log(context.Background(), level, text, "node", node, "address", remote, "kind", string(kind), "code", string(r.Code), "reason", r.Message)
}

// outlived logs that a connection ends with its certificate. That is as it should be where the other side has
// a new one by now; where it has none, its next connection is refused, and that is warned of.
func (t *told) outlived(kind Kind, node, remote string, why error) {
	if t.first(said{who: node, kind: kind, what: "outlived"}) {
		t.log.Info("a connection between masters has outlived its certificate; it is made anew", "node", node, "address", remote, "kind", string(kind), "reason", why.Error())
	}
}

// failure logs that something that is no node connected, or one that cannot talk to this one.
func (t *told) failure(host, what, text string, err error) {
	if t.first(said{who: host, what: what}) {
		t.log.Warn(text, "with", host, "error", err.Error())
	}
}

// welcomed notes that all is well with a node's connections of a kind, so that a later fault is logged
// anew. A stranger that may call is not meant: it is refused as a member all the while.
func (t *told) welcomed(kind Kind, who ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for s := range t.at {
		if slices.Contains(who, s.who) && (s.kind == kind || s.kind == "") {
			delete(t.at, s)
		}
	}
}

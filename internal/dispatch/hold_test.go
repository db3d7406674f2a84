package dispatch

import (
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/internal/backend"
	"github.com/lancemaster/lancemaster/internal/job"
)

func TestLocalRule(t *testing.T) {
	allowed := job.Settings{LocalDatasetsAllowed: true}
	for _, c := range []struct {
		locator           string
		settings          job.Settings
		members, backends int
		holds             bool
	}{
		{"s3://b/t", job.Settings{}, 3, 5, false},
		{"file:///t", allowed, 1, 1, false},
		{"file:///t", job.Settings{}, 1, 1, true},
		{"file:///t", allowed, 2, 1, true},
		{"file:///t", allowed, 1, 2, true},
		{"file:///t", allowed, 1, 0, true},
	} {
		if rule := LocalRule(c.locator, c.settings, c.members, c.backends); (rule != "") != c.holds {
			t.Errorf("%+v: %q", c, rule)
		}
	}
}

// What holds a job up is told to programs too.
func TestTakeSaysWhatHolds(t *testing.T) {
	full := []candidate{{backend: &job.Backend{ID: 1, State: job.BackendActive}, status: backend.Status{Alive: true}, load: 2}}
	for _, c := range []struct {
		name string
		free capacity
		want Hold
	}{
		{"no token", capacity{tokens: 0, backends: full}, HoldRate},
		{"no backend", capacity{tokens: 1}, HoldBackend},
		{"no slot", capacity{tokens: 1, backends: full}, HoldBackend},
	} {
		if to, why := c.free.take(2); to != nil || why.code != c.want || why.text == "" {
			t.Errorf("%s: took %v, held by %+v", c.name, to, why)
		}
	}
	free := capacity{tokens: 1, backends: full}
	if to, why := free.take(3); to == nil || why != (hold{}) {
		t.Errorf("took %v, held by %+v", to, why)
	}
}

// A job that failed says why, and when it is
// tried again.
func TestExplainHold(t *testing.T) {
	r := &run{jobs: map[job.ID]*jobState{1: {lastError: "env:KEY is not set"}}, refreshes: refreshes{}}
	d := &Dispatcher{run: r}
	r.setBack(1, "env:KEY is not set")
	x, ok := d.Explain(&job.Record{ID: 1})
	if !ok || x.Hold != HoldRetry || x.LastError != "env:KEY is not set" || !x.NextTry.After(time.Now().Add(-time.Minute)) || x.NextTry.IsZero() {
		t.Errorf("explained %+v, %v", x, ok)
	}
	if _, ok := d.Explain(&job.Record{ID: 2}); ok {
		t.Error("a job that no round has seen is explained")
	}
}

package app_test

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/internal/app"
	"github.com/lancemaster/lancemaster/internal/await"
	"github.com/lancemaster/lancemaster/internal/client"
)

// lines is what a logger has written.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// take returns what was written since it was taken last.
func (l *lines) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.text.Reset()
	return l.text.String()
}

// An idle node writes nothing to its log, however often its services come round: here
// as often as in more than a minute of the defaults.
func TestAnIdleNodeIsQuiet(t *testing.T) {
	log := &lines{}
	d, err := app.StartDev(t.Context(), app.DevOptions{
		DataDir: filepath.Join(t.TempDir(), "data"), AdminListen: "127.0.0.1:0", ReportListen: "127.0.0.1:0", HTTPListen: "127.0.0.1:0",
		RaftListen: "127.0.0.1:0", StubListen: "127.0.0.1:0", StubHeartbeatListen: "127.0.0.1:0",
		Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop(t, d)
	c := dial(t, d)
	if _, err := c.SetSettings(t.Context(), []client.SettingValue{
		{Name: "backend.heartbeat_interval", Value: "200ms"}, {Name: "dispatch.interval", Value: "100ms"}, {Name: "retention.interval", Value: "1m"},
	}); err != nil {
		t.Fatal(err)
	}
	const heartbeats, rounds = `lancemaster_backend_heartbeats_total{result="ok"}`, "lancemaster_dispatch_round_duration_seconds_count"
	url := "http://" + d.Addrs().HTTP + "/metrics"
	beats, turns := count(t, url, heartbeats), count(t, url, rounds)
	comeRound := func(more float64) {
		t.Helper()
		if !await.Poll(20*time.Millisecond, wait, func() bool {
			return count(t, url, heartbeats) >= beats+more && count(t, url, rounds) >= turns+more
		}) {
			t.Fatal("the heartbeats or the rounds have stopped")
		}
	}
	comeRound(3)
	if log.take() == "" {
		t.Fatal("a start wrote nothing: this test sees no log")
	}
	// A machine that stands still for a moment makes the backend late, which is worth a
	// line. What an idle node writes by itself it writes every time.
	var noise string
	for try := 1; try <= 5; try++ {
		comeRound(3 + 15*float64(try))
		if noise = log.take(); noise == "" {
			return
		}
	}
	t.Errorf("an idle node wrote:\n%s", noise)
}

// count reads one series of a metrics page.
func count(t *testing.T, url, series string) float64 {
	t.Helper()
	m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(series) + ` (\S+)$`).FindStringSubmatch(scrape(t, url))
	if m == nil {
		t.Fatalf("the page has no %s", series)
	}
	v, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

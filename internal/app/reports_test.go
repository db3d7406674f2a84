package app_test

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lancemaster/lancemaster/internal/app"
	"github.com/lancemaster/lancemaster/internal/client"
)

// A leader whose report address is loopback says of each backend on another machine that it cannot report
// there: as it is registered, and whenever a term begins.
func TestABackendThatCannotReportIsWarnedOf(t *testing.T) {
	t.Parallel()
	log, dir := &lines{}, filepath.Join(t.TempDir(), "data")
	const warned, stranger = "is told to report to a loopback address", "host=0.0.0.1" // nobody's, and nothing is sent to it
	open := func() *app.Dev {
		d, err := app.StartDev(t.Context(), app.DevOptions{
			DataDir: dir, AdminListen: "127.0.0.1:0", ReportListen: "127.0.0.1:0", HTTPListen: "127.0.0.1:0",
			RaftListen: "127.0.0.1:0", StubListen: "127.0.0.1:0", StubHeartbeatListen: "127.0.0.1:0",
			Logger: slog.New(slog.NewTextHandler(log, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	d := open()
	if said := log.take(); strings.Contains(said, warned) {
		t.Errorf("the stub on this machine was warned of:\n%s", said)
	}
	if _, err := dial(t, d).AddBackend(t.Context(), client.NewBackend{Host: "0.0.0.1", Port: 9060, HeartbeatPort: 9050}); err != nil {
		t.Fatal(err)
	}
	if said := log.take(); strings.Count(said, warned) != 1 || !strings.Contains(said, stranger) {
		t.Errorf("when it is registered the log says\n%s", said)
	}
	stop(t, d)
	log.take()
	d = open()
	defer stop(t, d)
	if said := log.take(); strings.Count(said, warned) != 1 || !strings.Contains(said, stranger) {
		t.Errorf("when a term begins the log says\n%s", said)
	}
}

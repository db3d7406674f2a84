package app

import (
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/internal/backend"
)

// A backend is unheard until it has answered or failed to: then the leader knows whether a process is there.
func TestAnUnheardBackend(t *testing.T) {
	for name, tt := range map[string]struct {
		status backend.Status
		want   bool
	}{
		"was asked":    {backend.Status{FirstAsked: time.Now()}, true},
		"was missed":   {backend.Status{FirstAsked: time.Now(), Failures: 1, LastError: "connection refused"}, false},
		"has answered": {backend.Status{FirstAsked: time.Now(), LastOK: time.Now(), Alive: true, ProcessEpoch: 1}, false},
	} {
		if got := livenessOf(tt.status); got.Unheard != tt.want || got.Alive != tt.status.Alive || got.ProcessEpoch != tt.status.ProcessEpoch {
			t.Errorf("%s: %+v", name, got)
		}
	}
	monitor, err := backend.NewMonitor(backend.Config{Pinger: nobody{}, Reader: nobody{}})
	if err != nil {
		t.Fatal(err)
	}
	if got := (liveness{monitor}).Backend(7); !got.Unheard || got.Alive {
		t.Errorf("one that no heartbeat was sent to: %+v", got)
	}
}

type nobody struct {
	backend.Pinger
	backend.Reader
}

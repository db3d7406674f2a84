//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"testing"

	"github.com/lancemaster/lancemaster/gen-go/backend"
	"github.com/lancemaster/lancemaster/gen-go/report"
	"github.com/lancemaster/lancemaster/gen-go/shared"
	"github.com/lancemaster/lancemaster/internal/programs"
	"github.com/lancemaster/lancemaster/internal/scripted"
	"github.com/lancemaster/lancemaster/internal/thriftnet"
)

// scriptedBackend is a scripted backend of one test. When the test ends it holds the master to at most
// one send per job.
type scriptedBackend struct {
	*scripted.Backend
	t *testing.T
}

// newBackend starts a scripted backend that accepts everything and reports nothing.
func newBackend(t *testing.T) *scriptedBackend {
	t.Helper()
	return newBackendSpeaking(t, thriftnet.ClientConfig{})
}

// newBackendSpeaking starts one that serves and reports in the protocol of speak.
func newBackendSpeaking(t *testing.T, speak thriftnet.ClientConfig) *scriptedBackend {
	t.Helper()
	speak.Timeout = patience
	started, err := scripted.Start(scripted.Config{Name: "scripted", Speak: speak})
	if err != nil {
		t.Fatal(err)
	}
	b := &scriptedBackend{started, t}
	t.Cleanup(b.end)
	return b
}

func (b *scriptedBackend) end() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := b.Stop(ctx); err != nil {
		b.t.Errorf("stopping the scripted backend: %v", err)
	}
	for id, sends := range b.AllSends() {
		if len(sends) > 1 {
			b.t.Errorf("job %d was sent %d times", id, len(sends))
		}
	}
}

// expectSend waits for a job's dispatch.
func (b *scriptedBackend) expectSend(id int64) *backend.TLanceIndexJobDispatch {
	b.t.Helper()
	var d *backend.TLanceIndexJobDispatch
	programs.Eventually(b.t, patience, func() string {
		sends := b.SentTo(id)
		if len(sends) == 0 {
			return fmt.Sprintf("job %d was not sent", id)
		}
		d = sends[0]
		return ""
	})
	return d
}

// masterInfo waits for a heartbeat and returns the newest.
func (b *scriptedBackend) masterInfo() *backend.TMasterInfo {
	b.t.Helper()
	var info *backend.TMasterInfo
	programs.Eventually(b.t, patience, func() string {
		if info, _ = b.Master(); info == nil {
			return "the scripted backend got no heartbeat"
		}
		return ""
	})
	return info
}

// expectBeats waits for so many more heartbeats.
func (b *scriptedBackend) expectBeats(n int) {
	b.t.Helper()
	_, before := b.Master()
	programs.Eventually(b.t, patience, func() string {
		if _, now := b.Master(); now < before+n {
			return "the backend gets no heartbeats"
		}
		return ""
	})
}

// report makes a result report that must be answered OK, and returns what the answer says.
func (b *scriptedBackend) report(r *report.TLanceIndexJobReport) []string {
	b.t.Helper()
	b.masterInfo()
	status, err := b.TryResult(b.Context(), "", r)
	return b.answeredOK(status, err)
}

// terminated makes a termination report that must be answered OK, and returns what the answer says.
func (b *scriptedBackend) terminated(r *report.TLanceIndexJobTerminationReport) []string {
	b.t.Helper()
	b.masterInfo()
	status, err := b.TryTermination(b.Context(), "", r)
	return b.answeredOK(status, err)
}

func (b *scriptedBackend) answeredOK(status *shared.TStatus, err error) []string {
	b.t.Helper()
	if err != nil {
		b.t.Fatalf("the report failed: %v", err)
	}
	if status.StatusCode != shared.TStatusCode_OK {
		b.t.Fatalf("the report was answered %s %q, want OK", status.StatusCode, status.ErrorMsgs)
	}
	return status.ErrorMsgs
}

//go:build e2e

package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/gen-go/admin"
	"github.com/lancemaster/lancemaster/gen-go/shared"
	"github.com/lancemaster/lancemaster/internal/client"
	"github.com/lancemaster/lancemaster/internal/scripted"
)

// Settings are read, changed, reset, and remembered with who changed them, over a restart too.
func TestSettings(t *testing.T) {
	t.Parallel()
	m := startMaster(t)
	const name = "dispatch.execute_deadline"
	get := func() client.Setting {
		var all struct {
			Settings []client.Setting `json:"settings"`
		}
		m.cliJSON(&all, "settings", "list")
		for _, s := range all.Settings {
			if s.Name == name {
				return s
			}
		}
		t.Fatalf("settings list does not have %s", name)
		return client.Setting{}
	}
	if s := get(); s.Value != "1h" || s.Default != "1h" || s.Type != "duration" || s.Help == "" || strings.HasPrefix(s.ChangedBy, "unverified:") {
		t.Errorf("the untouched setting is %+v", s)
	}
	m.cliOK("settings", "set", name+"=90m")
	if s := get(); s.Value != "1h30m" || s.ChangedBy != actor || s.ChangedAt.IsZero() {
		t.Errorf("after 90m the setting is %+v, want 1h30m by %s", s, actor)
	}
	if out := m.cliOK("settings", "get", name); !strings.Contains(out, "1h30m") {
		t.Errorf("settings get printed %q", out)
	}
	m.cliOK("settings", "set", name+"=1m", "dispatch.max_per_round=3")
	m.kill()
	m.start()
	if s := get(); s.Value != "1m" {
		t.Errorf("after kill -9 the setting is %+v, want 1m", s)
	}
	m.cliOK("settings", "reset", name)
	if s := get(); s.Value != "1h" {
		t.Errorf("after the reset the setting is %+v", s)
	}
	var history struct {
		Changes []client.SettingChange `json:"changes"`
	}
	m.cliJSON(&history, "settings", "history", name)
	var got []string
	for _, c := range history.Changes {
		if c.Actor == "system" { // the formation journals every default
			continue
		}
		got = append(got, c.Old+">"+c.New)
		if c.Name != name || c.Actor != actor || c.At.IsZero() || c.RaftIndex == 0 {
			t.Errorf("a change is kept as %+v", c)
		}
	}
	if want := "1m>1h 1h30m>1m 1h>1h30m"; strings.Join(got, " ") != want {
		t.Errorf("the history is %q, want %q", got, want)
	}
	if len(history.Changes) > 0 && !history.Changes[0].Reset {
		t.Errorf("the newest change is no reset: %+v", history.Changes[0])
	}
}

// dispatch.paused holds jobs PENDING; the moment it is false they go, without waiting for a round.
func TestPaused(t *testing.T) {
	t.Parallel()
	m, b := withLocal(t)
	m.set("dispatch.interval", "1h")
	m.cliOK("settings", "set", "dispatch.paused=true")
	id := m.admit(createLocal(t, typed, "i"))
	b.expectBeats(3)
	if j := m.job(id); j.State != admin.TJobState_PENDING || len(b.SentTo(id)) != 0 {
		t.Fatalf("while paused the job became %s", j.State)
	}
	r := m.cli("job", "wait", "1", "--timeout", "200ms")
	if r.Code != 5 {
		t.Errorf("job wait that times out: want exit code 5, %s", r)
	}
	m.cliOK("settings", "set", "dispatch.paused=false")
	began := time.Now()
	b.report(scripted.ResultOf(b.expectSend(id), shared.TLanceIndexResultCode_NATIVE_OK))
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the job was sent %s after the pause", took)
	}
	m.untilDone(id)
	if r := m.cli("job", "wait", "1", "--timeout", "30s"); r.Code != 0 {
		t.Errorf("job wait on a COMMITTED job: want exit code 0, %s", r)
	}
	if r := m.cli("job", "wait", "1", "--for", "resolved", "--timeout", "30s"); r.Code != 0 {
		t.Errorf("job wait --for resolved: want exit code 0, %s", r)
	}
}

// A submitted job does not wait for a round either.
func TestSentAtOnce(t *testing.T) {
	t.Parallel()
	m, b := withLocal(t)
	m.set("dispatch.interval", "1h")
	for _, name := range []string{"a", "b"} {
		began := time.Now()
		b.expectSend(m.admit(createLocal(t, typed, name)))
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("job %s was sent after %s", name, took)
		}
	}
}

// An outcome that nobody knows: exit code 4, the fence held, and a terminal job that is not resolved.
func TestUnknown(t *testing.T) {
	t.Parallel()
	m, b := withLocal(t)
	b.Always(scripted.Answer{Cut: true})
	r := m.cli(append(createArgs(t, "i"), "--wait")...)
	if r.Code != 4 {
		t.Errorf("index create --wait: want exit code 4, %s", r)
	}
	if r := m.cli("job", "wait", "1", "--timeout", "30s"); r.Code != 4 || !strings.Contains(r.Stdout+r.Stderr, "UNKNOWN") {
		t.Errorf("job wait: want exit code 4 and the state, %s", r)
	}
	if r := m.cli("job", "wait", "1", "--for", "resolved", "--timeout", "200ms"); r.Code != 5 {
		t.Errorf("job wait --for resolved on an UNKNOWN job: want exit code 5, %s", r)
	}
	var j client.Job
	m.cliJSON(&j, "job", "show", "1")
	if j.State != client.StateUnknown || !j.FenceHeld || !j.SlotHeld || j.Result.Code != "NO_TRUSTED_RESULT" {
		t.Errorf("the job is %+v; want UNKNOWN, its fence and slot held", j)
	}
	checkRefused(t, m.cli(createArgs(t, "I")...), "FENCE_HELD", "job 1")
}

// A deadline that passes makes the outcome UNKNOWN and releases nothing.
func TestDeadline(t *testing.T) {
	t.Parallel()
	m, b := withLocal(t)
	r := createLocal(t, typed, "i")
	r.ExecuteDeadlineMs = ptr(int64(700))
	id := m.admit(r)
	d := b.expectSend(id)
	if left := time.Until(time.UnixMilli(d.DeadlineMs)); left > 2*time.Second {
		t.Errorf("the backend is given %s", left)
	}
	j := m.untilState(id, admin.TJobState_UNKNOWN)
	if !j.FenceHeld || !j.SlotHeld || j.Refresh.State != admin.TRefreshState_NOT_REQUIRED {
		t.Errorf("after its deadline the job holds fence %v, slot %v, refresh %s", j.FenceHeld, j.SlotHeld, j.Refresh.State)
	}
}

// Slots bound what a backend has at a time; the next job goes when one is proven free.
func TestSlots(t *testing.T) {
	t.Parallel()
	m, b := withLocal(t)
	first, second := m.admit(createLocal(t, typed, "a")), m.admit(createLocal(t, typed, "b"))
	b.expectSend(first)
	b.expectSend(second)
	third := m.admit(createLocal(t, typed, "c"))
	b.expectBeats(3)
	if j := m.job(third); j.State != admin.TJobState_PENDING {
		t.Fatalf("with both slots held the third job is %s", j.State)
	}
	b.terminated(scripted.TerminationOf(b.expectSend(first)))
	b.expectSend(third)
	if j := m.job(first); j.State != admin.TJobState_RUNNING || !j.FenceHeld {
		t.Errorf("a termination proof made the job %s, fence %v; want RUNNING, held", j.State, j.FenceHeld)
	}
	b.report(scripted.ResultOf(b.expectSend(first), shared.TLanceIndexResultCode_NATIVE_OK))
	m.untilDone(first)
}

//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lancemaster/lancemaster/gen-go/admin"
	"github.com/lancemaster/lancemaster/gen-go/shared"
	"github.com/lancemaster/lancemaster/internal/programs"
	"github.com/lancemaster/lancemaster/internal/scripted"
)

// explained is what `job explain -o json` prints.
type explained struct {
	Reasons []struct {
		Code    string `json:"code"`
		Message string `json:"message"`
		Next    string `json:"next_step"`
	} `json:"reasons"`
}

func (x explained) codes() string {
	var codes []string
	for _, r := range x.Reasons {
		codes = append(codes, r.Code)
	}
	return strings.Join(codes, " ")
}

func (m *master) explain(id int64) (x explained) {
	m.t.Helper()
	m.cliJSON(&x, "job", "explain", fmt.Sprint(id))
	return x
}

// refresher counts the refreshes that a catalog asks for.
func refresher(t *testing.T) (*admin.TRefresher, *atomic.Int64) {
	t.Helper()
	var asked atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(s.Close)
	return &admin.TRefresher{Kind: "http", URL: &s.URL}, &asked
}

// An UNKNOWN job from the lost answer to its end: it says what it holds, is released not too early and
// only once, and its late report changes nothing but is kept, and refreshed once. Meanwhile a watch
// follows it across a killed master.
func TestForceRelease(t *testing.T) {
	t.Parallel()
	m, b := withLocal(t)
	refresh, refreshed := refresher(t)
	m.putCatalog("watched", "", refresh)
	m.set("backend.rpc_timeout", "500ms")
	b.Always(scripted.Answer{Cut: true})
	create := createLocal(t, typed, "Lost_Vec")
	create.Catalog = ptr("watched")
	id := m.admit(create)
	d := b.expectSend(id)
	m.untilState(id, admin.TJobState_UNKNOWN)
	watch := launch(t, "lancemaster", []string{"LANCEMASTER_ADDR=" + m.admin}, "job", "watch", fmt.Sprint(id), "--until", "resolved", "-o", "json")
	watch.ExpectLine(`"to_state":"UNKNOWN"`)

	x := m.explain(id)
	for _, code := range []string{"OUTCOME_UNKNOWN", "FENCE_HELD", "TOO_EARLY", "SLOT_HELD", "BACKEND_ALIVE"} {
		if !strings.Contains(x.codes(), code) {
			t.Errorf("the explanation lacks %s: %+v", code, x)
		}
	}
	release := []string{"job", "force-release", fmt.Sprint(id), "--note", "the host was scrapped", "--yes"}
	if early := m.cli(release...); early.Code != 1 || !strings.Contains(early.Stderr, "TOO_EARLY") || !strings.Contains(early.Stderr, "next: ask again in ") {
		t.Errorf("too early: %s", early)
	}
	if refreshed.Load() != 0 {
		t.Error("the refresher was asked although it was too early")
	}

	m.kill()
	m.start()
	programs.Eventually(t, patience, func() string {
		r := m.cli(release...)
		switch {
		case r.Code == 0 && strings.Contains(r.Stderr, "warning: the old worker may still"):
			return ""
		case !strings.Contains(r.Stderr, "TOO_EARLY"):
			t.Fatalf("the release ended with %s", r)
		}
		return r.Stderr
	})
	m.cliOK(release...) // once more: a success that does nothing
	j := m.job(id)
	if j.State != admin.TJobState_UNKNOWN || j.IsOpen || j.ForceRelease.GetActor() != "unverified:"+clientName || refreshed.Load() != 1 {
		t.Errorf("released once: %v, %d refreshes", j, refreshed.Load())
	}
	checkWatch(t, watch, m.history(id))

	b.Always(scripted.Answer{})
	if next := m.admit(create); next == id { // the name is free
		t.Errorf("the second job has the first one's id %d", id)
	}
	m.untilAlive(1)
	b.report(scripted.ResultOf(d, shared.TLanceIndexResultCode_NATIVE_OK))
	j = m.until(id, func(j *admin.TJob) string {
		if j.LateRefresh == nil || j.LateRefresh.State != admin.TRefreshState_DONE {
			return fmt.Sprintf("the late result was not refreshed: %v", j.LateRefresh)
		}
		return ""
	})
	if j.State != admin.TJobState_UNKNOWN || len(j.LateResults) != 1 || j.FenceHeld || j.LateRefresh.Attempt != 1 || refreshed.Load() != 2 {
		t.Errorf("after the late report: %v, %d refreshes", j, refreshed.Load())
	}
	if codes := m.explain(id).codes(); !strings.Contains(codes, "FORCE_RELEASED") || !strings.Contains(codes, "LATE_RESULT") || strings.Contains(codes, "FENCE_HELD") {
		t.Errorf("the explanation is %s", codes)
	}
}

// checkWatch holds what a watch printed to the job's history: each step once, in order, across the
// death of a master.
func checkWatch(t *testing.T, watch *programs.Process, want []*admin.TJobEvent) {
	t.Helper()
	watch.Wait(patience)
	if code := watch.ExitCode(); code != 4 {
		t.Errorf("the watch of an UNKNOWN job ended with exit code %d, want 4", code)
	}
	var got []string
	for line := range strings.Lines(watch.Out()) {
		if !strings.HasPrefix(line, "{") {
			continue // of stderr: a master was away
		}
		var e struct {
			Index int64  `json:"raft_index"`
			Kind  string `json:"kind"`
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Errorf("the watch printed %q: %v", line, err)
		}
		got = append(got, fmt.Sprint(e.Index, " ", e.Kind))
	}
	var all []string
	for _, e := range want {
		all = append(all, fmt.Sprint(e.RaftIndex, " ", e.Kind))
	}
	if !slices.Equal(got, all) {
		t.Errorf("the watch printed\n%s\nthe history is\n%s", strings.Join(got, "\n"), strings.Join(all, "\n"))
	}
}

// The dispatcher says what holds a job up, and each remedy it names works.
func TestExplainPending(t *testing.T) {
	t.Parallel()
	m, b := withLocal(t)
	m.set("dispatch.paused", "true", "local_datasets.allowed", "true")
	id := m.admit(createLocal(t, typed, "idx"))
	if codes := m.explain(id).codes(); !strings.HasPrefix(codes, "DISPATCH_PAUSED") {
		t.Errorf("while dispatch is paused: %s", codes)
	}
	m.cliOK("backend", "drain", "1")
	m.cliOK("settings", "set", "dispatch.paused=false")
	if codes := m.explain(id).codes(); !strings.HasPrefix(codes, "NO_ELIGIBLE_BACKEND BACKEND_DRAINING") {
		t.Errorf("while the only backend drains: %s", codes)
	}
	m.cliOK("settings", "reset", "local_datasets.allowed")
	m.cliOK("backend", "undrain", "1")
	if codes := m.explain(id).codes(); !strings.HasPrefix(codes, "LOCAL_DATASET") {
		t.Errorf("while local datasets are not allowed: %s", codes)
	}
	m.set("local_datasets.allowed", "true")
	b.expectSend(id)
	m.untilState(id, admin.TJobState_RUNNING)
	if codes := m.explain(id).codes(); codes != "RUNNING DEADLINE BACKEND_ALIVE SLOT_HELD FENCE_HELD" {
		t.Errorf("while it runs: %s", codes)
	}
	if table := m.cliOK("settings", "list"); strings.Contains(table, "system") || !strings.Contains(table, "keep|unknown") {
		t.Errorf("the settings are shown as\n%s", table)
	}
}

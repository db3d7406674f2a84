package rpc

import (
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/gen-go/admin"
	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/job/jobtest"
)

// That every backend was restarted is not taken from an operator while one answers as the process that the
// lost masters sent to.
func TestReopenKnowsABackendOfBeforeTheQuarantine(t *testing.T) {
	b := newBench(t)
	ctx := t.Context()
	sent := b.running(t, "a")
	b.must(t, job.Quarantine{Header: b.head(), Incarnation: 2, Cause: "restored", Members: jobtest.Members("n1")})
	b.change(func() { b.now = b.now.Add(time.Minute) })
	yes := &admin.TReopenClusterRequest{Note: ptr("all restarted"), MastersStopped: ptr(true), BackendsRestarted: ptr(true)}

	b.live = BackendLiveness{Unheard: true}
	_, err := b.admin.ReopenCluster(ctx, yes)
	if e := refusal(t, err, admin.TAdminErrorCode_TOO_EARLY); !strings.Contains(e.Message, "has not heard yet which process of backend 1, b, answers") {
		t.Errorf("it says %s", e.Message)
	}

	b.live = BackendLiveness{Alive: true, ProcessEpoch: sent.Dispatch.ProcessEpoch}
	_, err = b.admin.ReopenCluster(ctx, yes)
	e := refusal(t, err, admin.TAdminErrorCode_INVALID)
	for _, want := range []string{"backend 1, b, was not restarted", "job 1 was sent"} {
		if !strings.Contains(e.Message, want) {
			t.Errorf("it does not say %q: %s", want, e.Message)
		}
	}
	if !strings.Contains(e.GetNextStep(), "restart it, or stop it") {
		t.Errorf("next: %q", e.GetNextStep())
	}
	// What is not confirmed is still said first.
	_, err = b.admin.ReopenCluster(ctx, &admin.TReopenClusterRequest{Note: ptr("x"), BackendsRestarted: ptr(true)})
	if e := refusal(t, err, admin.TAdminErrorCode_INVALID); !strings.Contains(e.Message, "it is not confirmed") {
		t.Errorf("it says %s", e.Message)
	}
	b.change(func() { b.listFails = errLost })
	if _, err := b.admin.ReopenCluster(ctx, yes); err == nil {
		t.Error("it was reopened though nobody could look at what was sent")
	}
	b.change(func() { b.listFails = nil })

	// One that was stopped is no worker any more, and another process is another one, however old: its clock
	// may be wrong, or the old masters long gone.
	for name, live := range map[string]BackendLiveness{
		"stopped":   {Alive: false, ProcessEpoch: sent.Dispatch.ProcessEpoch},
		"restarted": {Alive: true, ProcessEpoch: sent.Dispatch.ProcessEpoch - 1},
	} {
		b := newBench(t)
		b.running(t, "a")
		b.must(t, job.Quarantine{Header: b.head(), Incarnation: 2, Cause: "restored", Members: jobtest.Members("n1")})
		b.change(func() { b.now = b.now.Add(time.Minute) })
		b.live = live
		if _, err := b.admin.ReopenCluster(ctx, yes); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A job that waited long and was sent last is far back in the list, which goes by when jobs were made.
func TestReopenKnowsOfEveryOpenJob(t *testing.T) {
	for _, open := range []bool{false, true} {
		t.Run(fmt.Sprint("newer jobs are open ", open), func(t *testing.T) { reopenBehind(t, open) })
	}
}

// reopenBehind tries it with a page full of newer jobs.
func reopenBehind(t *testing.T, open bool) {
	b := newBench(t)
	for name, n := range map[string]int{
		"dispatch.max_inflight_per_backend": job.MaxPageLimit, "admission.max_unresolved_per_table": job.MaxPageLimit + 1,
		"admission.max_unresolved_per_catalog": job.MaxPageLimit + 1, "admission.max_unresolved_global": job.MaxPageLimit + 1,
	} {
		b.must(t, job.ChangeSettings{Header: b.head(), Values: []job.SettingValue{{Name: name, Value: strconv.Itoa(n)}}})
	}
	old := b.admit(t, "old", job.MutationCreate)
	for i := range job.MaxPageLimit {
		r := b.running(t, fmt.Sprint("newer-", i))
		switch {
		case !open:
			b.must(t, job.Complete{Header: b.head(), Identity: identity(r), Code: job.CodeResourceRejected, Proof: job.ProofNotEnqueued})
		case i == 0: // it goes on to hold its fence, and leaves its slot to the old one
			r = b.unknown(t, r)
			b.must(t, job.ReleaseSlot{Header: b.head(), Job: r.ID, Expected: r.Revision, Note: "host scrapped"})
		}
	}
	sent := b.must(t, job.MarkRunning{
		Header: b.head(), Job: old.ID, Expected: old.Revision, Backend: 1, ProcessEpoch: epoch + 1, InvocationID: "inv-old",
		SecretHash: sha256.Sum256([]byte(secret)), DeadlineAt: millis(b.master) + 3_600_000,
	}).Job
	b.must(t, job.Quarantine{Header: b.head(), Incarnation: 2, Cause: "restored", Members: jobtest.Members("n1")})
	b.change(func() { b.now = b.now.Add(time.Minute) })
	b.live = BackendLiveness{Alive: true, ProcessEpoch: sent.Dispatch.ProcessEpoch}
	_, err := b.admin.ReopenCluster(t.Context(), &admin.TReopenClusterRequest{Note: ptr("all restarted"), MastersStopped: ptr(true), BackendsRestarted: ptr(true)})
	if e := refusal(t, err, admin.TAdminErrorCode_INVALID); !strings.Contains(e.Message, "job 1 was sent") {
		t.Errorf("it says %s", e.Message)
	}
}

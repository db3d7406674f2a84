//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/gen-go/admin"
	"github.com/lancemaster/lancemaster/gen-go/backend"
	"github.com/lancemaster/lancemaster/gen-go/shared"
	"github.com/lancemaster/lancemaster/internal/await"
	"github.com/lancemaster/lancemaster/internal/programs"
	"github.com/lancemaster/lancemaster/internal/scripted"
	"github.com/lancemaster/lancemaster/internal/thriftnet"
)

// withRemote makes the master serve datasets that callers vouch for, through catalog "remote".
func withRemote(t *testing.T, more ...string) *master {
	t.Helper()
	m := startMaster(t, more...)
	m.set("admission.enabled", "true", "backend.heartbeat_interval", "200ms", "admission.max_unresolved_per_table", "1000",
		"admission.max_unresolved_per_catalog", "1000", "admission.max_unresolved_global", "1000")
	m.putCatalog("remote", "store", none())
	return m
}

func remote(n int) *admin.TSubmitRequest {
	return createRemote("remote", "s3://bucket/t", fmt.Sprintf("idx_%d", n))
}

// succeed is a backend that does its work at once.
func succeed(b *scriptedBackend) func(*backend.TLanceIndexJobDispatch) scripted.Answer {
	return func(d *backend.TLanceIndexJobDispatch) scripted.Answer {
		return scripted.Answer{Then: func(ctx context.Context) {
			b.ReportUntilTaken(ctx, nil, scripted.ResultOf(d, shared.TLanceIndexResultCode_NATIVE_OK))
		}}
	}
}

// One name and one request id, asked for by many at once, make one job.
func TestAtOnce(t *testing.T) {
	t.Parallel()
	m := withRemote(t)
	const callers = 16
	ask16 := func(request func(int) *admin.TSubmitRequest) (ids map[int64]int, refused int) {
		ids = map[int64]int{}
		var mu sync.Mutex
		var running sync.WaitGroup
		for n := range callers {
			running.Go(func() {
				answer, err := ask(m.admin, func(ctx context.Context, c *admin.AdminServiceClient) (*admin.TSubmitResponse, error) {
					return c.Submit(ctx, request(n))
				})
				mu.Lock()
				defer mu.Unlock()
				switch refusal := refusalOf(err); {
				case err == nil:
					ids[answer.Job.JobID]++
				case refusal != nil && refusal.Code == admin.TAdminErrorCode_FENCE_HELD:
					refused++
				default:
					t.Errorf("submitting: %s", describe(err))
				}
			})
		}
		running.Wait()
		return ids, refused
	}
	if ids, refused := ask16(func(n int) *admin.TSubmitRequest {
		return createRemote("remote", "s3://bucket/t", []string{"Name", "NAME", "name"}[n%3])
	}); len(ids) != 1 || refused != callers-1 {
		t.Errorf("one name was given to jobs %v, and refused %d times", ids, refused)
	}
	if ids, refused := ask16(func(int) *admin.TSubmitRequest {
		r := remote(1)
		r.RequestID = ptr("the same")
		return r
	}); len(ids) != 1 || refused != 0 {
		t.Errorf("one request id became jobs %v, and was refused %d times", ids, refused)
	}
	if jobs := m.list(admin.TListJobsRequest{}); len(jobs) != 2 {
		t.Errorf("there are jobs %v, want two", idsOf(jobs))
	}
}

// A backend that hangs keeps its slots and delays nobody else.
func TestHungBackend(t *testing.T) {
	t.Parallel()
	m := withRemote(t)
	hung, good := newBackend(t), newBackend(t)
	hung.Always(scripted.Answer{Held: hung.Context().Done()})
	good.OnSubmit(succeed(good))
	hungID, goodID := m.register(hung), m.register(good)
	const jobs = 12
	var ids []int64
	for n := range jobs {
		ids = append(ids, m.admit(remote(n)))
	}
	programs.Eventually(t, patience, func() string {
		done, running := 0, 0
		for _, j := range m.list(admin.TListJobsRequest{}) {
			switch {
			case j.State == admin.TJobState_COMMITTED && j.Dispatch.BackendID == goodID:
				done++
			case j.State == admin.TJobState_RUNNING && j.Dispatch.BackendID == hungID:
				running++
			}
		}
		if running > 2 {
			t.Fatalf("the hung backend has %d jobs, and two slots", running)
		}
		if done+running < jobs {
			return fmt.Sprintf("%d of %v are done, %d hang", done, ids, running)
		}
		return ""
	})
}

// dispatch.max_per_round bounds how many jobs are sent in one interval.
func TestBucket(t *testing.T) {
	t.Parallel()
	m := withRemote(t)
	m.set("dispatch.max_per_round", "3", "dispatch.interval", "1h", "dispatch.max_inflight_per_backend", "100", "dispatch.paused", "true")
	b := newBackend(t)
	m.register(b)
	for n := range 5 {
		m.admit(remote(n))
	}
	m.set("dispatch.paused", "false")
	programs.Eventually(t, patience, func() string {
		if n := len(b.AllSends()); n < 3 {
			return fmt.Sprintf("%d jobs were sent, want 3", n)
		}
		return ""
	})
	b.expectBeats(5)
	if n := len(b.AllSends()); n != 3 {
		t.Errorf("%d jobs were sent in one interval, want 3", n)
	}
}

// A job that cannot be prepared waits PENDING, by itself, and goes when it can.
func TestUnprepared(t *testing.T) {
	t.Parallel()
	m := withRemote(t)
	b := newBackend(t)
	b.OnSubmit(succeed(b))
	m.register(b)
	secret := filepath.Join(t.TempDir(), "secret")
	m.putCatalog("locked", "other", none(), &admin.TStorageOption{Key: "aws_secret_access_key", Ref: ptr("file:" + secret)})
	waits := m.admit(createRemote("locked", "s3://bucket/t", "waits"))
	m.untilMetric(`lancemaster_dispatches_total{class="unprepared"}`, 1)
	m.untilDone(m.admit(remote(1)))
	if j := m.job(waits); j.State != admin.TJobState_PENDING {
		t.Fatalf("the job that cannot be prepared is %s", j.State)
	}
	if err := os.WriteFile(secret, []byte("opened"), 0o600); err != nil {
		t.Fatal(err)
	}
	if d := b.expectSend(waits); d.StorageOptions["aws_secret_access_key"] != "opened" {
		t.Error("the secret did not reach the backend")
	}
	m.untilDone(waits)
}

// A PENDING job can be called off, and one that is under way cannot.
func TestCancel(t *testing.T) {
	t.Parallel()
	m := withRemote(t)
	m.set("dispatch.paused", "true")
	b := newBackend(t)
	m.register(b)
	id := m.admit(remote(1))
	m.cliOK("job", "cancel", fmt.Sprint(id))
	j := m.job(id)
	if j.State != admin.TJobState_NOT_COMMITTED || j.FenceHeld || j.IsOpen || j.Result_ == nil || j.Result_.Reason != "CANCELLED_BEFORE_DISPATCH" {
		t.Errorf("the cancelled job is %v", j)
	}
	if r := m.cli("job", "wait", fmt.Sprint(id)); r.Code != 3 {
		t.Errorf("job wait on a cancelled job: want exit code 3, %s", r)
	}
	m.set("dispatch.paused", "false")
	next := m.admit(remote(1))
	b.expectSend(next)
	m.untilState(next, admin.TJobState_RUNNING)
	checkRefused(t, m.cli("job", "cancel", fmt.Sprint(next)), "WRONG_STATE", "RUNNING")
	if n := len(b.SentTo(id)); n != 0 {
		t.Errorf("the cancelled job was sent")
	}
}

// An operator's word frees the slot of an UNKNOWN job, and nothing else of it.
func TestReleaseSlot(t *testing.T) {
	t.Parallel()
	m := withRemote(t)
	b := newBackend(t)
	b.Always(scripted.Answer{Cut: true})
	m.register(b)
	id := m.admit(remote(1))
	m.untilState(id, admin.TJobState_UNKNOWN)
	m.cliOK("job", "release-slot", fmt.Sprint(id), "--note", "the worker's machine is gone", "--yes")
	j := m.job(id)
	if j.SlotHeld || !j.FenceHeld || j.State != admin.TJobState_UNKNOWN || j.SlotRelease == nil || j.SlotRelease.Actor != actor {
		t.Errorf("after the release the job is %v", j)
	}
}

// A master that is suspended does not send late what it journaled before: what was sent was sent once.
func TestSuspended(t *testing.T) {
	t.Parallel()
	m := withRemote(t)
	m.set("dispatch.send_window", "200ms", "dispatch.max_inflight_per_backend", "1000", "dispatch.max_per_round", "1000")
	b := newBackend(t)
	b.OnSubmit(succeed(b))
	m.register(b)
	n := 0
	for range 5 {
		var running sync.WaitGroup
		for range 10 {
			n++
			r := remote(n)
			running.Go(func() {
				// The answer may come late; that it comes is what untilSettled counts.
				_, err := ask(m.admin, func(ctx context.Context, c *admin.AdminServiceClient) (*admin.TSubmitResponse, error) {
					return c.Submit(ctx, r)
				})
				if err != nil {
					t.Errorf("submitting %s: %s", r.GetIndexName(), describe(err))
				}
			})
		}
		await.Moment(time.Duration(n) * time.Millisecond) // somewhere in the middle
		m.proc.Signal(syscall.SIGSTOP)
		await.Moment(600 * time.Millisecond) // past the send window
		m.proc.Signal(syscall.SIGCONT)
		running.Wait()
	}
	programs.Eventually(t, patience, func() string {
		jobs := m.list(admin.TListJobsRequest{})
		for _, j := range jobs {
			if j.IsOpen {
				return fmt.Sprintf("job %d is still open: %v", j.JobID, j)
			}
			sent := len(b.SentTo(j.JobID))
			if sent > 1 || sent == 0 && j.State != admin.TJobState_NOT_COMMITTED || sent == 1 && j.State != admin.TJobState_COMMITTED {
				t.Errorf("job %d was sent %d times and is %s", j.JobID, sent, j.State)
			}
		}
		if len(jobs) != n {
			t.Errorf("there are %d jobs, want %d", len(jobs), n)
		}
		return ""
	})
}

// The other protocols that backends may speak.
func TestProtocols(t *testing.T) {
	t.Parallel()
	for name, speak := range map[string]thriftnet.ClientConfig{
		"compact":        {Protocol: thriftnet.Compact},
		"binary-framed":  {Framed: true},
		"compact-framed": {Protocol: thriftnet.Compact, Framed: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBackendSpeaking(t, speak)
			b.OnSubmit(succeed(b))
			m := withRemote(t, "--backend-protocol", name, "--report-protocol", name)
			m.register(b)
			m.untilDone(m.admit(remote(1)))
		})
	}
}

// A master that is told to stop while it starts does so.
func TestStopWhileStarting(t *testing.T) {
	t.Parallel()
	m := newMaster(t)
	for _, ms := range []int{20, 100, 400, 900, 1200} {
		after := time.Duration(ms) * time.Millisecond
		m.launch()
		await.Moment(after)
		if took := m.proc.TerminateAnyhow(); took > programs.StopLimit {
			t.Errorf("told to stop after %s, the master took %s", after, took)
		}
		if out := m.proc.Out(); strings.Contains(out, "level=ERROR") {
			t.Errorf("told to stop after %s, the master said\n%s", after, out)
		}
	}
	m.start()
}

package testcluster

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/gen-go/backend"
	"github.com/lancemaster/lancemaster/gen-go/shared"
	"github.com/lancemaster/lancemaster/internal/client"
	"github.com/lancemaster/lancemaster/internal/scripted"
)

// Seeds find what nobody thought of. These schedules are aimed instead: each makes the one moment in which
// a guard of the send protocol, or of reads, is all that keeps the promise. Taking that guard out of the
// product makes the test fail.

// scene is a cluster with one job that waits for a backend, and one backend that does whatever it is told
// and checks nothing.
type scene struct {
	*Cluster
	t       *testing.T
	backend *scripted.Backend
	job     int64

	mu    sync.Mutex
	alive func()         // nil: the backend answers no heartbeats; else what is done before the next is answered
	beats map[string]int // heartbeats that were answered, by the master that asked
}

// stage makes the scene under a leader.
func stage(t *testing.T, c *Cluster, leader *Master, deadline time.Duration) *scene {
	t.Helper()
	s := &scene{Cluster: c, t: t, beats: map[string]int{}}
	b, err := startScripted(c, 0, "b1", nil)
	if err != nil {
		t.Fatal(err)
	}
	s.backend = b
	t.Cleanup(func() {
		if err := b.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	b.OnHeartbeat(func(info *backend.TMasterInfo) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.alive == nil {
			return errors.New("not yet")
		}
		s.alive()
		s.alive = func() {}
		s.beats[info.NetworkAddress.Hostname]++
		return nil
	})
	api := s.client(1, leader)
	values := []client.SettingValue{
		{Name: "admission.enabled", Value: "true"}, {Name: "backend.heartbeat_interval", Value: "200ms"},
		{Name: "dispatch.send_window", Value: "10s"}, {Name: "backend.rpc_timeout", Value: "4s"},
	}
	if _, err := api.SetSettings(t.Context(), values); err != nil {
		t.Fatal(err)
	}
	if _, err := api.PutCatalog(t.Context(), client.Catalog{Name: noop, Refresher: client.Refresher{Kind: "none"}}); err != nil {
		t.Fatal(err)
	}
	at := client.NewBackend{Host: BackendAddr(0).String(), Port: b.BePort(), HeartbeatPort: b.HeartbeatPort()}
	if _, err := api.AddBackend(t.Context(), at); err != nil {
		t.Fatal(err)
	}
	answer, err := api.Submit(t.Context(), client.Submission{
		Catalog: noop, Database: "db", Table: "t", Dataset: "s3://bucket/t", IndexName: "by_id", Mutation: "CREATE", IndexType: "btree",
		Column: "id", ExecuteDeadline: deadline, Snapshot: &client.CallerSnapshot{DatasetVersion: 7, SchemaContract: idContract},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.job = answer.Job.ID
	return s
}

// client asks one master only.
func (s *scene) client(n int, m *Master) *client.Client {
	s.t.Helper()
	api, err := client.New(client.Config{
		Addresses: []string{m.AdminAddr()}, Dial: s.Net.Host(ClientAddr(n)).Dial, DialTimeout: time.Second, CallTimeout: 5 * time.Second,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = api.Close() }) // nothing is under way
	return api
}

// until waits for something that must come.
func (s *scene) until(what string, is func() bool) {
	s.t.Helper()
	if !Until(time.Minute, is) {
		s.t.Fatalf("it did not happen that %s", what)
	}
}

// seen is the job as a client sees it.
func (s *scene) seen(api *client.Client) *client.Job {
	s.t.Helper()
	j, err := api.Job(s.t.Context(), s.job)
	if err != nil {
		s.t.Fatal(err)
	}
	return j
}

// comesAlive has the backend answer heartbeats from the next one on, right before which something is done.
func (s *scene) comesAlive(before func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.alive = before
}

// beatsOf waits for two heartbeats of a master and what it makes of them.
func (s *scene) beatsOf(m *Master) {
	s.t.Helper()
	asked := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.beats[m.Addr.String()]
	}
	before := asked()
	s.until("the backend is asked", func() bool { return asked() >= before+3 })
}

// sent is how often the job has reached the backend.
func (s *scene) sent() int { return len(s.backend.SentTo(s.job)) }

// followers are the masters but one.
func (s *scene) followers(of *Master) (out []*Master) {
	for _, m := range s.Masters {
		if m != of {
			out = append(out, m)
		}
	}
	return out
}

// another waits until another master leads.
func (s *scene) another(than *Master) (next *Master) {
	s.t.Helper()
	s.until("another master leads", func() bool {
		for _, m := range s.followers(than) {
			if ok, _ := m.App().Ready(); ok {
				next = m
				return true
			}
		}
		return false
	})
	return next
}

// successor waits until another master leads beside one that believes that it does.
func (s *scene) successor(old *Master) (next, voter *Master) {
	s.t.Helper()
	next = s.another(old)
	for _, m := range s.followers(old) {
		if m != next {
			voter = m
		}
	}
	if ok, why := old.App().Ready(); !ok {
		s.t.Fatalf("the old leader does not believe any more that it leads: %s", why)
	}
	return next, voter
}

// believed runs a test with a leader that does not notice for long that the others have left it.
func believed(t *testing.T, f func(*scene, *Master)) {
	t.Helper()
	own := map[string]map[string]string{masterName(0): Believer()}
	formedAs(t, own, func(t *testing.T, c *Cluster, first *Master) {
		old := c.Masters[0]
		s := stage(t, c, first, time.Hour)
		if first != old {
			if _, err := s.client(2, first).TransferLeader(t.Context(), old.Name); err != nil {
				t.Fatal(err)
			}
		}
		s.until("the believer leads", func() bool { ok, _ := old.App().Ready(); return ok })
		f(s, old)
	})
}

// The barrier of reads: a leader that others have replaced without its knowing answers with nothing rather
// than with what was.
func TestReplacedLeaderShowsNothingOld(t *testing.T) {
	believed(t, func(s *scene, old *Master) {
		stale := s.client(3, old)
		if j := s.seen(stale); j.State != client.StatePending {
			s.t.Fatalf("the job is %s", j.State)
		}
		for _, m := range s.followers(old) {
			s.Net.Cut(old.Addr, m.Addr)
			s.Net.Cut(m.Addr, old.Addr)
		}
		next, _ := s.successor(old)
		if _, err := s.client(4, next).CancelJob(s.t.Context(), client.JobVerb{JobID: s.job}); err != nil {
			s.t.Fatal(err)
		}
		if j, err := stale.Job(s.t.Context(), s.job); err == nil {
			s.t.Errorf("the old leader shows the cancelled job as %s, revision %d", j.State, j.Revision)
		}
		if page, err := stale.Jobs(s.t.Context(), client.JobQuery{}); err == nil {
			s.t.Errorf("the old leader lists %d jobs", len(page.Jobs))
		}
	})
}

// The recheck after the dial: a machine that was suspended between journaling RUNNING and the write has
// outlived its permission, however its own clocks look.
func TestNothingIsSentAfterASuspend(t *testing.T) {
	formed(t, func(t *testing.T, c *Cluster, leader *Master) {
		s := stage(t, c, leader, time.Hour)
		s.comesAlive(func() { s.Net.Slow(leader.Addr, BackendAddr(0), time.Second) }) // the dial takes as long
		api := s.client(3, leader)
		s.until("the job is RUNNING", func() bool { return s.seen(api).State == client.StateRunning })
		if s.sent() != 0 {
			t.Fatal("the call was written before the suspend")
		}
		leader.Suspend(time.Minute)
		s.until("the job ends", func() bool { return s.seen(api).Terminal() || s.sent() > 0 })
		if j := s.seen(api); s.sent() != 0 || j.State != client.StateNotCommitted || j.Dispatch.Proof != "NOT_ENQUEUED" {
			t.Errorf("sent %d times; the job is %s, its proof %s", s.sent(), j.State, j.Dispatch.Proof)
		}
	})
}

// The latch: once a deadline has closed it, whoever still dials for the job writes nothing.
func TestNothingIsSentAfterTheDeadline(t *testing.T) {
	formed(t, func(t *testing.T, c *Cluster, leader *Master) {
		const deadline = 5 * time.Second
		s := stage(t, c, leader, deadline)
		s.comesAlive(func() { s.Net.Slow(leader.Addr, BackendAddr(0), deadline+time.Second) })
		api := s.client(3, leader)
		s.until("the job ends", func() bool { return s.seen(api).Terminal() || s.sent() > 0 })
		if j := s.seen(api); s.sent() != 0 || j.State != client.StateNotCommitted || j.Dispatch.Proof != "NOT_ENQUEUED" {
			t.Errorf("sent %d times; the job is %s, its proof %s", s.sent(), j.State, j.Dispatch.Proof)
		}
	})
}

// An orderly stop while a backend takes its time to answer a call: the job stays RUNNING, goes to nobody
// else, and ends by its report to the next leader.
func TestAnswerIsHeldAcrossAnOrderlyStop(t *testing.T) {
	formed(t, func(t *testing.T, c *Cluster, leader *Master) {
		s := stage(t, c, leader, time.Hour)
		held := make(chan struct{})
		s.backend.Always(scripted.Answer{Held: held})
		s.comesAlive(func() {})
		s.until("the job is sent", func() bool { return s.sent() == 1 })
		if err := leader.Stop(); err != nil {
			t.Error(err)
		}
		next := s.another(leader)
		api := s.client(3, next)
		if j := s.seen(api); j.State != client.StateRunning || !j.SlotHeld {
			t.Errorf("after the stop the job is %s, slot held %v", j.State, j.SlotHeld)
		}
		s.beatsOf(next)
		close(held)
		to := func() string { return next.at(reportPort) }
		s.backend.ReportUntilTaken(t.Context(), to, scripted.ResultOf(s.backend.SentTo(s.job)[0], shared.TLanceIndexResultCode_NATIVE_OK))
		s.until("the job ends", func() bool { return s.seen(api).Resolved() })
		if j := s.seen(api); j.State != client.StateCommitted || j.SlotHeld || s.sent() != 1 {
			t.Errorf("sent %d times; the job is %s, slot held %v", s.sent(), j.State, j.SlotHeld)
		}
	})
}

// An orderly stop before anything was written: nothing is, by this master or the next one.
func TestNothingIsSentAfterAnOrderlyStop(t *testing.T) {
	formed(t, func(t *testing.T, c *Cluster, leader *Master) {
		s := stage(t, c, leader, 5*time.Second)
		s.comesAlive(func() { s.Net.Slow(leader.Addr, BackendAddr(0), time.Second) })
		api := s.client(3, leader)
		s.until("the job is RUNNING", func() bool { return s.seen(api).State == client.StateRunning })
		if err := leader.Stop(); err != nil {
			t.Error(err)
		}
		api = s.client(4, s.another(leader))
		s.until("the job ends", func() bool { return s.seen(api).Terminal() })
		// The stopping master may have had the time to say so; otherwise nobody can.
		if j := s.seen(api); s.sent() != 0 || j.State == client.StateCommitted {
			t.Errorf("sent %d times; the job is %s, its proof %s", s.sent(), j.State, j.Dispatch.Proof)
		}
	})
}

// The wait for inherited jobs: a leader that was replaced before it heard that its MarkRunning is committed
// may hear so later, within the send window, and send. Two processes of the backend seen by the next
// leader meanwhile prove nothing: the second of them may be the one that the job goes to.
//
// Whether the followers have the entry when their answers are cut off is a matter of milliseconds, in which
// Raft's own traffic can be in the way; then there is nothing to see, and another cluster is tried.
func TestInheritedSlotWaitsForALateSend(t *testing.T) {
	const tries = 10
	for range tries {
		if sendsLate(t) || t.Failed() {
			return
		}
	}
	t.Errorf("in %d clusters there was no late send", tries)
}

// sendsLate says whether it came to a late send.
func sendsLate(t *testing.T) (came bool) {
	believed(t, func(s *scene, old *Master) {
		s.comesAlive(func() { // the old leader journals RUNNING right after this
			for _, m := range s.followers(old) {
				s.Net.Cut(m.Addr, old.Addr) // they hear and append, and nobody learns that they did
			}
		})
		next, voter := s.successor(old)
		api := s.client(3, next)
		s.until("the next leader has the job RUNNING", func() bool { return s.seen(api).State == client.StateRunning })
		s.beatsOf(next)
		if s.sent() > 0 {
			return // it was the next leader that marked it RUNNING
		}
		s.backend.Restart()
		s.beatsOf(next)
		if j := s.seen(api); s.sent() != 0 || !j.SlotHeld {
			s.t.Errorf("before the late send: sent %d times, slot held %v", s.sent(), j.SlotHeld)
		}
		s.Net.Cut(old.Addr, voter.Addr) // nothing new: the old leader only hears what was answered long ago
		s.Net.Mend(voter.Addr, old.Addr)
		if came = Until(2*time.Second, func() bool { return s.sent() == 1 }); !came {
			return
		}
		if j := s.seen(api); !j.SlotHeld {
			s.t.Errorf("the second process has the job, and its slot is free: %s", j.Dispatch.Proof)
		}
		s.Net.Heal()
		// What is said of a worker in the end is true: the process that took the job is gone.
		beatUntilFree := func() bool { return !s.seen(api).SlotHeld }
		if Until(20*time.Second, beatUntilFree) {
			s.t.Error("the slot is free while the process that has the job lives")
		}
		s.backend.Restart()
		s.until("the slot comes free", beatUntilFree)
		if s.sent() != 1 {
			s.t.Errorf("sent %d times", s.sent())
		}
	})
	return came
}

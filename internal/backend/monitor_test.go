package backend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"github.com/lancemaster/lancemaster/internal/await"
	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/job/jobtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fleet is a registry and the processes behind it.
type fleet struct {
	t       *testing.T
	started time.Time
	monitor *Monitor
	logs    *bytes.Buffer

	mu       sync.Mutex
	state    *jobtest.State
	behave   map[string]string // by host: ok, refused, no-start, error, hangs, late:DURATION
	epochs   map[string]int64
	requests []string
	changes  int
	last     job.HeartbeatRequest
}

func newFleet(t *testing.T, registerer prometheus.Registerer) *fleet {
	f := &fleet{
		t: t, started: time.Now(), state: jobtest.Formed(), logs: &bytes.Buffer{},
		behave: map[string]string{}, epochs: map[string]int64{},
	}
	m, err := NewMonitor(Config{
		Pinger: f, Reader: f, ReportHost: "master1", ReportPort: 9020, HTTPPort: 8030, Token: "s3cr3t-token",
		Changed: func() { f.mu.Lock(); f.changes++; f.mu.Unlock() }, Registerer: registerer,
		Logger: slog.New(slog.NewTextHandler(f.logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	if err != nil {
		t.Fatal(err)
	}
	f.monitor = m
	return f
}

func (f *fleet) Read(show func(*job.Live)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	show(f.state.Live)
}

func (f *fleet) apply(c job.Command) job.Answer {
	f.t.Helper()
	f.mu.Lock()
	change, refusal := f.state.Apply(c)
	f.mu.Unlock()
	if refusal != nil {
		f.t.Fatal(refusal)
	}
	f.monitor.Wake()
	return change.Answer
}

var header = job.Header{At: 1, Actor: "operator"}

func (f *fleet) add(host string) job.BackendID {
	f.t.Helper()
	f.mu.Lock()
	f.epochs[host] = 100
	f.mu.Unlock()
	return f.apply(job.AddBackend{Header: header, Address: job.Address{Host: host, BePort: 9060, HeartbeatPort: 9050}}).Backend.ID
}

func (f *fleet) set(host, behaviour string, epoch int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.behave[host], f.epochs[host] = behaviour, epoch
}

func (f *fleet) Heartbeat(ctx context.Context, a job.Address, r job.HeartbeatRequest) (job.HeartbeatReply, error) {
	f.mu.Lock()
	f.requests = append(f.requests, fmt.Sprintf("%s %s", time.Since(f.started), a.Host))
	f.last = r
	how := f.behave[a.Host]
	reply := job.HeartbeatReply{ProcessEpoch: f.epochs[a.Host], RemoteAddr: "10.0.0.1:9050", Version: "1"}
	f.mu.Unlock()
	switch kind, arg, _ := strings.Cut(how, ":"); kind {
	case "refused":
		return job.HeartbeatReply{Status: 6, Messages: []string{"not today"}}, nil
	case "no-start":
		reply.ProcessEpoch = 0
	case "no-address":
		reply.RemoteAddr = ""
	case "error":
		return job.HeartbeatReply{}, errors.New("connection refused")
	case "hangs":
		<-ctx.Done()
		return job.HeartbeatReply{}, ctx.Err()
	case "late": // an answer that its context does not stop
		d, err := time.ParseDuration(arg)
		if err != nil {
			f.t.Error(err)
		}
		await.Pass(d)
	}
	return reply, nil
}

func (f *fleet) start(term uint64) {
	f.t.Helper()
	if err := f.monitor.Start(context.Background(), term); err != nil {
		f.t.Fatal(err)
	}
	synctest.Wait()
}

func (f *fleet) status(id job.BackendID) Status {
	f.t.Helper()
	s, ok := f.monitor.Status(id)
	if !ok {
		f.t.Fatalf("nothing is known of backend %d", id)
	}
	return s
}

func advance(d time.Duration) {
	await.Pass(d)
	synctest.Wait()
}

func (f *fleet) asked() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	asked := f.requests
	f.requests = nil
	return asked
}

func bubble(t *testing.T, test func(*testing.T, *fleet)) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, nil)
		defer f.monitor.Stop()
		test(t, f)
	})
}

// TestPace: at once when a term starts or a backend is added, then every interval;
// each backend by itself.
func TestPace(t *testing.T) {
	bubble(t, func(t *testing.T, f *fleet) {
		f.add("be1")
		f.start(7)
		if got := f.asked(); fmt.Sprint(got) != "[0s be1]" {
			t.Errorf("asked at once: %v", got)
		}
		advance(7 * time.Second)
		two := f.add("be2")
		synctest.Wait()
		if got := f.asked(); fmt.Sprint(got) != "[5s be1 7s be2]" {
			t.Errorf("asked then: %v", got)
		}
		f.set("be1", "hangs", 100)
		f.asked()
		advance(10 * time.Second)
		if got := f.asked(); fmt.Sprint(got) != "[10s be1 12s be2 15s be1 17s be2]" {
			t.Errorf("asked while one hangs: %v", got)
		}
		f.apply(job.RemoveBackend{Header: header, Backend: two})
		f.apply(job.ChangeSettings{Header: header, Values: []job.SettingValue{{Name: "backend.heartbeat_interval", Value: "1s"}}})
		synctest.Wait()
		f.set("be1", "ok", 100)
		f.asked()
		advance(2500 * time.Millisecond)
		if got := f.asked(); fmt.Sprint(got) != "[18s be1 19s be1]" {
			t.Errorf("asked after a removal and a change of the interval: %v", got)
		}
		if _, ok := f.monitor.Status(two); ok {
			t.Error("a removed backend is known")
		}
	})
}

func TestRequest(t *testing.T) {
	bubble(t, func(t *testing.T, f *fleet) {
		id := f.add("be1")
		f.start(7)
		want := job.HeartbeatRequest{
			Backend: id, ClusterID: 1, Epoch: 1<<40 | 7, ReportHost: "master1", ReportPort: 9020, HTTPPort: 8030, Token: "s3cr3t-token",
		}
		if f.last != want {
			t.Error("the request is not what the contract says")
		}
		f.set("be1", "error", 100)
		advance(time.Minute)
		if strings.Contains(f.logs.String(), "s3cr3t") {
			t.Error("the token is in the log")
		}
	})
	if HeartbeatEpoch(2, 1) <= HeartbeatEpoch(1, 1<<40-1) {
		t.Error("a new incarnation does not raise the epoch")
	}
}

// TestAlive: an OK answer of this term within three intervals.
func TestAlive(t *testing.T) {
	bubble(t, func(t *testing.T, f *fleet) {
		id := f.add("be1")
		if _, ok := f.monitor.Status(id); ok {
			t.Error("a stopped monitor knows a backend")
		}
		f.start(1)
		s := f.status(id)
		if !s.Alive || s.ProcessEpoch != 100 || s.RemoteAddr != "10.0.0.1:9050" || s.Term != 1 || f.changes != 1 {
			t.Errorf("after an OK answer %+v, %d changes", s, f.changes)
		}
		f.set("be1", "error", 100)
		advance(15 * time.Second)
		if s := f.status(id); !s.Alive || s.LastError != "connection refused" {
			t.Errorf("15 s after the last OK answer %+v", s)
		}
		advance(time.Second)
		if f.status(id).Alive {
			t.Error("alive 16 s after the last OK answer")
		}
		f.set("be1", "ok", 100)
		advance(5 * time.Second)
		if s := f.status(id); !s.Alive || s.LastError != "" || f.changes != 2 {
			t.Errorf("back again %+v, %d changes", s, f.changes)
		}
		f.set("be1", "hangs", 100)
		f.monitor.Stop()
		f.start(2)
		if s := f.status(id); s.Alive || len(s.Observations) != 0 || s.Term != 2 {
			t.Errorf("a new term begins with what the old one saw: %+v", s)
		}
	})
}

// TestNotOK: none of these answers keeps a backend alive or is an observation.
func TestNotOK(t *testing.T) {
	for how, text := range map[string]string{
		"refused": "status 6: not today", "no-start": "be_start_time", "no-address": "be_start_time",
		"error": "connection refused", "hangs": "no answer in time", "late:5001ms": "no answer in time",
	} {
		t.Run(how, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fleet) {
				id := f.add("be1")
				f.set("be1", how, 100)
				f.start(1)
				advance(5500 * time.Millisecond)
				s := f.status(id)
				if s.Alive || len(s.Observations) != 0 || !strings.Contains(s.LastError, text) || f.changes != 0 {
					t.Errorf("%+v, %d changes", s, f.changes)
				}
			})
		})
	}
}

// TestAnswerAfterTheEnd: an answer that comes after Stop, or after its backend was
// removed, is not looked at, and Stop waits for it.
func TestAnswerAfterTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T, f *fleet) {
		f.add("be1")
		f.set("be1", "late:3s", 100)
		f.start(1)
		f.monitor.Stop()
		if took := time.Since(f.started); took != 3*time.Second {
			t.Errorf("Stop returned after %s with a heartbeat under way", took)
		}
		if f.changes != 0 {
			t.Error("an answer after the end was looked at")
		}
	})
}

// TestObservations: which process was asked when, as the proof needs it.
func TestObservations(t *testing.T) {
	bubble(t, func(t *testing.T, f *fleet) {
		id := f.add("be1")
		f.start(3)
		advance(5 * time.Second)
		f.set("be1", "late:2s", 100)
		advance(5 * time.Second) // asked at 10 s of process 100, answered at 12 s
		f.set("be1", "ok", 200)
		advance(6 * time.Second)
		got := f.status(id).Observations
		if len(got) != 2 || got[0].ProcessEpoch != 100 || got[1].ProcessEpoch != 200 {
			t.Fatalf("observed %+v", got)
		}
		if at := got[0].RequestedAt.Sub(f.started); at != 10*time.Second {
			t.Errorf("the last answer of process 100 was asked for at %s", at)
		}
		if at := got[1].RequestedAt.Sub(f.started); at != 15*time.Second || got[1].Term != 3 {
			t.Errorf("the answer of process 200 was asked for at %s in term %d", at, got[1].Term)
		}
		if f.changes != 2 {
			t.Errorf("%d changes for two processes", f.changes)
		}
		f.set("be1", "late:2s", 200)
		advance(7 * time.Second) // asked at 20 s, answered at 22 s
		f.set("be1", "error", 200)
		advance(5 * time.Second)
		if at := f.status(id).OKAsked.Sub(f.started); at != 20*time.Second {
			t.Errorf("the newest OK answer was asked for at %s", at)
		}
	})
}

// TestObserveKeepsWhatTheProofNeeds: of each address the two epochs asked for last,
// and few addresses.
func TestObserveKeepsWhatTheProofNeeds(t *testing.T) {
	var list []Observation
	for i := range 1000 {
		var isNew bool
		list, isNew = observe(list, Observation{
			ProcessEpoch: int64(i / 2), RemoteAddr: fmt.Sprint("addr", i/100), RequestedAt: time.Unix(int64(i), 0),
		})
		if isNew != (i%2 == 0) {
			t.Fatalf("answer %d is new: %v", i, isNew)
		}
		if len(list) > epochsPerAddress*maxAddresses {
			t.Fatalf("%d observations are kept", len(list))
		}
	}
	if n := len(list); n != epochsPerAddress*maxAddresses {
		t.Errorf("%d observations are kept", n)
	}
	newest, before := list[len(list)-1], list[len(list)-2]
	if newest.ProcessEpoch != 499 || newest.RequestedAt.Unix() != 999 || before.ProcessEpoch != 498 || before.RequestedAt.Unix() != 997 {
		t.Errorf("the newest are %+v and %+v", before, newest)
	}
}

func TestStartStop(t *testing.T) {
	bubble(t, func(t *testing.T, f *fleet) {
		for i := range 5 {
			f.add(fmt.Sprint("be", i))
		}
		f.set("be1", "hangs", 100)
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				for term := range uint64(20) {
					advanceBy := time.Duration(i) * time.Millisecond
					await.Pass(advanceBy)
					f.monitor.Wake()
					if err := f.monitor.Start(context.Background(), term); err != nil && !strings.Contains(err.Error(), "have not been stopped") {
						t.Error(err)
					}
					f.monitor.Statuses()
					f.monitor.Stop()
				}
			})
		}
		all.Wait()
		f.start(99)
		if got := f.monitor.Statuses(); len(got) != 5 || got[0].Backend != 1 || got[4].Backend != 5 {
			t.Errorf("statuses %+v", got)
		}
	})
}

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		f := newFleet(t, registry)
		defer f.monitor.Stop()
		for i, how := range []string{"ok", "refused", "no-start", "error", "hangs"} { // in order: ids are given so
			host := fmt.Sprint("be", i+1)
			f.add(host)
			f.set(host, how, 100)
		}
		f.start(1)
		advance(5500 * time.Millisecond)
		want := `# HELP lancemaster_backend_heartbeat_age_seconds Time since the backend last answered a heartbeat of this term with OK; if it never has, since it was first asked. Only on the leader. In the series of all others: the longest.
# TYPE lancemaster_backend_heartbeat_age_seconds gauge
lancemaster_backend_heartbeat_age_seconds{backend_id="1"} 0.5
lancemaster_backend_heartbeat_age_seconds{backend_id="2"} 5.5
lancemaster_backend_heartbeat_age_seconds{backend_id="3"} 5.5
lancemaster_backend_heartbeat_age_seconds{backend_id="4"} 5.5
lancemaster_backend_heartbeat_age_seconds{backend_id="5"} 5.5
# HELP lancemaster_backend_heartbeat_failures_total Heartbeats of this term that the backend did not answer with OK. Only on the leader.
# TYPE lancemaster_backend_heartbeat_failures_total counter
lancemaster_backend_heartbeat_failures_total{backend_id="1"} 0
lancemaster_backend_heartbeat_failures_total{backend_id="2"} 2
lancemaster_backend_heartbeat_failures_total{backend_id="3"} 2
lancemaster_backend_heartbeat_failures_total{backend_id="4"} 2
lancemaster_backend_heartbeat_failures_total{backend_id="5"} 1
# HELP lancemaster_backend_heartbeats_total Heartbeats asked of backends while leading, by result.
# TYPE lancemaster_backend_heartbeats_total counter
lancemaster_backend_heartbeats_total{result="error"} 2
lancemaster_backend_heartbeats_total{result="no_start_time"} 2
lancemaster_backend_heartbeats_total{result="ok"} 2
lancemaster_backend_heartbeats_total{result="refused"} 2
lancemaster_backend_heartbeats_total{result="timeout"} 1
# HELP lancemaster_backend_up 1 while the backend answers the leader's heartbeats, else 0. Only on the leader. In the series of all others: 1 while all of them do.
# TYPE lancemaster_backend_up gauge
lancemaster_backend_up{backend_id="1"} 1
lancemaster_backend_up{backend_id="2"} 0
lancemaster_backend_up{backend_id="3"} 0
lancemaster_backend_up{backend_id="4"} 0
lancemaster_backend_up{backend_id="5"} 0
`
		if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
			t.Error(err)
		}
		if _, err := NewMonitor(Config{Pinger: f, Reader: f, Registerer: registry}); err == nil {
			t.Error("the same metrics were registered twice")
		}
	})
}

// However many backends there are, the series stay few; the ones that are not told
// apart are still told of.
func TestMetricsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewPedanticRegistry()
		f := newFleet(t, registry)
		defer f.monitor.Stop()
		for i := range 200 {
			f.add(fmt.Sprint("be", i))
		}
		f.set("be150", "error", 100)
		f.start(1)
		advance(500 * time.Millisecond)
		for _, name := range []string{"up", "heartbeat_age_seconds", "heartbeat_failures_total"} {
			if n, err := testutil.GatherAndCount(registry, "lancemaster_backend_"+name); err != nil || n != MaxSeries+1 {
				t.Errorf("%d series of %s, %v", n, name, err)
			}
		}
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			for _, m := range family.GetMetric() {
				if m.GetLabel()[0].GetValue() != OtherBackends {
					continue
				}
				switch family.GetName() {
				case "lancemaster_backend_up":
					if m.GetGauge().GetValue() != 0 {
						t.Error("one of the others is down, and they count as up")
					}
				case "lancemaster_backend_heartbeat_failures_total":
					if m.GetCounter().GetValue() != 1 {
						t.Errorf("the others failed %v times", m.GetCounter().GetValue())
					}
				}
			}
		}
		f.monitor.Stop()
		if n, err := testutil.GatherAndCount(registry, "lancemaster_backend_up"); err != nil || n != 0 {
			t.Errorf("%d series after the term, %v", n, err)
		}
	})
}

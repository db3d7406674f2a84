//go:build faults

package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/gen-go/backend"
	"github.com/lancemaster/lancemaster/gen-go/shared"
	"github.com/lancemaster/lancemaster/internal/client"
	"github.com/lancemaster/lancemaster/internal/programs"
	"github.com/lancemaster/lancemaster/internal/scripted"
)

// busyTime is how long the disk is kept busy.
const busyTime = time.Minute

// TestBenchFailover has three masters on this machine with the defaults. A job is PENDING because its backend
// answers no heartbeats; the leader is killed, the backend answers again, and the next leader sends it.
// Nothing is asserted of how long that takes: it is printed.
func TestBenchFailover(t *testing.T) {
	runs := 20
	if text := os.Getenv("LANCEMASTER_FAULTS_RUNS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			t.Fatalf("LANCEMASTER_FAULTS_RUNS=%s is no positive number", text)
		}
		runs = n
	}
	c := formed(t)
	w := watchBackends(c)
	var detected, ready, sent, all []time.Duration
	for i := range runs {
		id := w.pending(i)
		leader := c.leader()
		w.deafen(false)
		began := time.Now()
		leader.proc.Kill()
		won, served, took := w.next(id)
		detected = append(detected, won.Sub(began))
		ready = append(ready, served.Sub(won))
		sent = append(sent, took.Sub(served))
		all = append(all, took.Sub(began))
		t.Logf("run %d: %s was killed, the job was sent after %s", i, leader.id, took.Sub(began).Round(time.Millisecond))
		leader.launch()
		c.untilWhole()
	}
	fmt.Printf("\nfailover, %d runs, three masters on one machine, from kill -9:\n", runs)
	for _, row := range []struct {
		what  string
		times []time.Duration
	}{
		{"until another has won the election", detected}, {"until its services work (first heartbeat)", ready},
		{"until a job is sent", sent}, {"in all", all},
	} {
		slices.Sort(row.times)
		at := func(share float64) time.Duration {
			return row.times[int(share*float64(len(row.times)-1)+0.5)].Round(time.Millisecond)
		}
		fmt.Printf("  %-42s min %-8s median %-8s p95 %-8s max %s\n", row.what, at(0), at(0.5), at(0.95), at(1))
	}
}

// watcher sees what backends get of the next leader.
type watcher struct {
	c *cluster

	mu    sync.Mutex
	deaf  bool
	epoch int64
	first time.Time           // the first heartbeat of the newest epoch
	sends map[int64]time.Time // by job
}

func watchBackends(c *cluster) *watcher {
	w := &watcher{c: c, sends: map[int64]time.Time{}}
	for _, b := range c.backends {
		b.OnHeartbeat(w.heartbeat)
		b.OnSubmit(func(d *backend.TLanceIndexJobDispatch) scripted.Answer {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.sends[d.JobID] = time.Now()
			return scripted.Answer{Then: func(ctx context.Context) {
				b.ReportUntilTaken(ctx, nil, scripted.ResultOf(d, shared.TLanceIndexResultCode_NATIVE_OK))
			}}
		})
	}
	return w
}

func (w *watcher) heartbeat(info *backend.TMasterInfo) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if info.Epoch > w.epoch {
		w.epoch, w.first = info.Epoch, time.Now()
	}
	if w.deaf {
		return errors.New("this backend is deaf")
	}
	return nil
}

func (w *watcher) deafen(deaf bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deaf = deaf
}

// pending submits a job that no backend can take.
func (w *watcher) pending(n int) (id int64) {
	t := w.c.t
	t.Helper()
	w.deafen(true)
	programs.Eventually(t, patience, func() string {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		all, err := w.c.api.Backends(ctx)
		if err != nil {
			return err.Error()
		}
		for _, b := range all {
			if b.Alive {
				return fmt.Sprintf("backend %d is alive", b.ID)
			}
		}
		return ""
	})
	w.c.ask("submitting", func(ctx context.Context, api *client.Client) error {
		s := newLoadSubmission(fmt.Sprintf("bench_%d", n))
		answer, err := api.Submit(ctx, s)
		if err == nil {
			id = answer.Job.ID
		}
		return err
	})
	return id
}

func newLoadSubmission(index string) client.Submission {
	return client.Submission{
		RequestID: "request-" + index, Catalog: catalogName, Database: "db", Table: "t", Dataset: "s3://bucket/bench", IndexName: index,
		Mutation: "CREATE", IndexType: "btree", Column: "id", Snapshot: &client.CallerSnapshot{DatasetVersion: 7, SchemaContract: idContract},
	}
}

// won is the line of the log with which a term begins.
var won = regexp.MustCompile(`(?m)^time=(\S+) .*msg="won the leadership"`)

// next waits until a job is sent, and tells when its sender won the election, first heartbeat and send.
func (w *watcher) next(job int64) (elected, served, sent time.Time) {
	t := w.c.t
	t.Helper()
	programs.Eventually(t, patience, func() string {
		w.mu.Lock()
		defer w.mu.Unlock()
		if sent, served = w.sends[job], w.first; sent.IsZero() {
			return fmt.Sprintf("job %d was not sent", job)
		}
		return ""
	})
	for _, n := range w.c.nodes {
		for _, line := range won.FindAllStringSubmatch(n.proc.Out(), -1) {
			if at, err := time.Parse(time.RFC3339Nano, line[1]); err == nil && at.After(elected) {
				elected = at
			}
		}
	}
	return elected, served, sent
}

// A disk that is kept busy must not make followers stand for election; how often they do is printed.
func TestBenchBusyDisk(t *testing.T) {
	c := formed(t)
	l := newLoad(c)
	l.start()
	l.until(5)
	before := c.leader().untilStatus("leading", func(s *client.Status) bool { return s.RaftState == "Leader" })
	acked := l.acked.Load()
	ctx, cancel := context.WithTimeout(context.Background(), busyTime)
	defer cancel()
	busy := filepath.Join(t.TempDir(), "busy")
	var written int
	for ctx.Err() == nil {
		out, err := exec.CommandContext(ctx, "dd", "if=/dev/zero", "of="+busy, "bs=1M", "count=64", "oflag=dsync").CombinedOutput()
		if err != nil && ctx.Err() == nil {
			t.Fatalf("dd: %v: %s", err, out)
		}
		written += 64
	}
	after := c.leader().untilStatus("leading", func(s *client.Status) bool { return s.RaftState == "Leader" })
	fmt.Printf("\nbusy disk: %d MiB were written and synced in %s beside the masters; %d submissions were acknowledged; the term went from %d to %d\n",
		written, busyTime, l.acked.Load()-acked, before.RaftTerm, after.RaftTerm)
	c.judge(l)
}

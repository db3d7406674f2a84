//go:build faults

package faults

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/internal/await"
	"github.com/lancemaster/lancemaster/internal/client"
	"github.com/lancemaster/lancemaster/internal/programs"
)

// Three masters that are started in whatever order, with pauses, and of which one is killed meanwhile,
// form one cluster.
func TestLifeFormation(t *testing.T) {
	t.Parallel()
	r := dice(t, "orders")
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		t.Run(fmt.Sprint(order), func(t *testing.T) {
			c := newCluster(t, 3)
			c.listMembers()
			for _, i := range order {
				c.nodes[i].launch()
				await.Moment(between(r, 0, time.Second))
			}
			victim := c.nodes[r.IntN(3)]
			victim.proc.Kill()
			await.Moment(between(r, 0, time.Second))
			victim.launch()
			c.untilWhole()
			id := c.nodes[0].untilStatus("formed", follows).ClusterID
			for _, n := range c.nodes {
				s := n.untilStatus("one of three voters", func(s *client.Status) bool { return follows(s) && s.Voters == 3 })
				if s.ClusterID != id || id <= 0 {
					t.Errorf("%s is of cluster %d, and %s of cluster %d", n.id, s.ClusterID, c.nodes[0].id, id)
				}
			}
		})
	}
}

// A disk that was wiped under a known name has no say until an operator says that the old one is gone;
// from then on it is the old one that is refused.
func TestLifeReplace(t *testing.T) {
	t.Parallel()
	c := formed(t)
	l := newLoad(c)
	l.start()
	l.until(5)
	victim := c.follower()
	victim.proc.Kill()
	old := victim.dir
	victim.dir += "-new"
	victim.launch()
	waits := func(s *client.Status) bool { return s.WaitingFor != "" && !s.Ready }
	s := victim.untilStatus("waiting", func(s *client.Status) bool { return waits(s) && strings.Contains(s.WaitingFor, "cluster replace") })
	t.Logf("%s waits for %s", victim.id, s.WaitingFor)
	l.until(3)
	c.change("replace", victim.id, "--yes")
	victim.untilStatus("voting", func(s *client.Status) bool { return follows(s) && s.Voters == 3 })
	l.until(3)

	victim.proc.Terminate()
	fresh := victim.dir
	victim.dir = old
	victim.launch()
	victim.proc.ExpectLine(`(?i)refused|not a member|another disk|replaced`)
	if victim.up() {
		if s, err := victim.status(); err == nil && follows(s) {
			t.Errorf("the replaced disk takes part: %+v", *s)
		}
		victim.proc.Kill()
	}
	victim.dir = fresh
	victim.launch()
	l.until(3)
	c.judge(l)
}

// One master grows to three under load, and nobody notices.
func TestLifeGrowth(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"serve", "dev"} {
		t.Run(how, func(t *testing.T) { grow(t, how) })
	}
}

func grow(t *testing.T, how string) {
	c := newCluster(t, 3)
	first := c.nodes[0]
	joining := c.nodes[1:]
	c.nodes = c.nodes[:1]
	if how == "dev" {
		first.id, first.dev = "dev", true // its own name
	}
	c.startAll()
	c.prepare()
	l := newLoad(c)
	l.start()
	l.until(5)
	id := first.untilStatus("leading", follows).ClusterID
	for _, n := range joining {
		n.flags = append(n.flags, "--cluster-join=true", "--cluster-id", fmt.Sprint(id))
		n.launch()
		n.untilStatus("waiting to be added", func(s *client.Status) bool { return s.WaitingFor != "" })
		c.change("add", n.id, n.raft())
		c.nodes = append(c.nodes, n)
		n.untilStatus("voting", func(s *client.Status) bool { return follows(s) && int(s.Voters) == len(c.nodes) })
		l.until(3)
	}
	l.noFailures()
	c.api = c.newClient()
	first.proc.Kill() // three bear the loss of one
	c.leader()
	first.dev = false
	first.launch()
	c.judge(l)
}

// A snapshot is restored on one disk while the others are lost: quarantine, until an operator has seen
// to old masters and backends, and then the others are added anew. What was acknowledged before the
// snapshot is there, and nothing is sent twice.
func TestLifeRestore(t *testing.T) {
	t.Parallel()
	c := formed(t)
	l := newLoad(c)
	l.start()
	l.until(10)
	backup := t.TempDir() + "/backup.lms"
	known := c.jobs()
	c.do("snapshot", "save", backup)
	l.until(10)
	l.stop()
	id := c.leader().untilStatus("leading", follows).ClusterID
	for _, n := range c.nodes {
		n.proc.Kill()
		n.dir += "-lost"
	}
	first := c.nodes[0]
	c.do("snapshot", "restore", backup, "--data-dir", first.dir, "--node-id", first.id, "--raft-advertise", first.raft(),
		"--expect-cluster-id", fmt.Sprint(id))
	all := c.nodes
	c.nodes = all[:1]
	first.flags = nil
	c.startAll()
	restored := time.Now()
	s := first.untilStatus("quarantined", func(s *client.Status) bool { return s.Quarantined })
	if s.ClusterID != id || s.Incarnation != 2 {
		t.Errorf("the restored cluster is %d, incarnation %d; want %d, 2", s.ClusterID, s.Incarnation, id)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	refused := l.next(dice(t, "refused"))
	if _, err := c.api.Submit(ctx, refused.Submission); !client.IsCode(err, "QUARANTINED") {
		t.Errorf("in quarantine a submission is answered %v", err)
	}
	after := c.jobs()
	for id, j := range known {
		if after[id].RequestID != j.RequestID || after[id].State == "PENDING" || after[id].State == "RUNNING" {
			t.Errorf("job %d was %s before the snapshot and is %+v after its restore", id, j.State, after[id])
		}
	}
	for _, b := range c.backends {
		b.Restart()
	}
	programs.Eventually(t, patience, func() string {
		out := cli(t, first.binary, c.admins(), "cluster", "reopen", "--note", "the fire is out", "--masters-stopped", "--backends-restarted")
		if out.Code == 0 {
			return ""
		}
		return "cluster reopen: " + out.String()
	})
	if took := time.Since(restored); took < 8*time.Second {
		t.Errorf("the cluster was reopened %s after it was restored", took)
	}
	c.set("admission.enabled", "true", "dispatch.paused", "false")
	for _, n := range all[1:] {
		n.flags = []string{"--cluster-join=true", "--cluster-id", fmt.Sprint(id)}
		n.launch()
		n.untilStatus("waiting to be added", func(s *client.Status) bool { return s.WaitingFor != "" })
		c.change("add", n.id, n.raft())
		c.nodes = append(c.nodes, n)
		n.untilStatus("voting", func(s *client.Status) bool { return follows(s) && int(s.Voters) == len(c.nodes) })
	}
	sent := c.recorder.SentJobs()
	for id, times := range sent {
		if times > 1 {
			t.Errorf("job %d was sent %d times", id, times)
		}
	}
	// From here on nothing may be lost; what is known of before is partly gone by now.
	c.recorder.Forget()
	l.forget()
	l.start()
	l.until(10)
	c.judge(l)
	for id := range c.recorder.SentJobs() {
		if sent[id] > 0 {
			t.Errorf("job %d was sent before the restore and again after it", id)
		}
	}
}

// do runs a command of the cluster's, which must succeed.
func (c *cluster) do(args ...string) {
	c.t.Helper()
	if out := cli(c.t, c.nodes[0].binary, c.admins(), args...); out.Code != 0 {
		c.t.Fatalf("lancemaster %q: %s", args, out)
	}
}

// change changes the members by a command, and repeats it while a leader is lost over it, which a busy machine
// brings about by itself: what was begun is finished then.
func (c *cluster) change(args ...string) {
	c.t.Helper()
	repeated := false
	programs.Eventually(c.t, patience, func() string {
		out := cli(c.t, c.nodes[0].binary, c.admins(), append([]string{"cluster"}, args...)...)
		switch {
		case out.Code == 0, repeated && strings.Contains(out.Stderr, "lancemaster: ALREADY_EXISTS:"):
			return ""
		case !slices.ContainsFunc([]string{client.CodeOutcomeUnknown, client.CodeNotLeader, client.CodeUnavailable, client.CodeTimeout},
			func(code string) bool { return strings.Contains(out.Stderr, "lancemaster: "+code+":") }):
			c.t.Fatalf("lancemaster cluster %q: %s", args, out)
		}
		repeated = true
		return fmt.Sprintf("lancemaster cluster %q: %s", args, out)
	})
}

// jobs lists all jobs by id.
func (c *cluster) jobs() map[int64]client.Job {
	c.t.Helper()
	out := map[int64]client.Job{}
	c.ask("listing jobs", func(ctx context.Context, api *client.Client) error {
		q := client.JobQuery{Limit: 1000}
		for {
			page, err := api.Jobs(ctx, q)
			if err != nil {
				return err
			}
			for _, j := range page.Jobs {
				out[j.ID] = j
			}
			if q.PageToken = page.NextPageToken; q.PageToken == "" {
				return nil
			}
		}
	})
	return out
}

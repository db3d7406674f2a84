//go:build faults

package faults

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/internal/client"
	"github.com/lancemaster/lancemaster/internal/oracle"
	"github.com/lancemaster/lancemaster/internal/programs"
	"github.com/lancemaster/lancemaster/internal/scripted"
)

// cluster is three masters, two backends, and what is known of what happened to them.
type cluster struct {
	t        *testing.T
	nodes    []*node
	backends []*scripted.Backend
	recorder *oracle.Recorder
	api      *client.Client
}

// newCluster prepares masters with these flags; none is started.
func newCluster(t *testing.T, n int, flags ...string) *cluster {
	t.Helper()
	c := &cluster{t: t, recorder: oracle.NewRecorder(nil)}
	dir := t.TempDir()
	for i, host := range newHosts(t, n) {
		id := fmt.Sprintf("m%d", i+1)
		c.nodes = append(c.nodes, &node{
			t: t, id: id, host: host, dir: filepath.Join(dir, id), binary: programs.Path(t, "lancemaster"), flags: append([]string(nil), flags...),
		})
	}
	c.api = c.newClient()
	return c
}

// formed starts a cluster of three, waits until it serves, and gives it catalogs, backends and settings.
func formed(t *testing.T, flags ...string) *cluster {
	t.Helper()
	c := newCluster(t, 3, flags...)
	c.listMembers()
	c.startAll()
	c.prepare()
	return c
}

// listMembers tells each node of all.
func (c *cluster) listMembers() {
	var list []string
	for _, n := range c.nodes {
		list = append(list, n.id+"="+n.raft())
	}
	for _, n := range c.nodes {
		n.setFlag("--cluster-members", strings.Join(list, ","))
	}
}

// setFlag sets a flag to a value for the next start.
func (n *node) setFlag(name, value string) {
	for i, f := range n.flags {
		if f == name {
			n.flags[i+1] = value
			return
		}
	}
	n.flags = append(n.flags, name, value)
}

func (c *cluster) startAll() {
	c.t.Helper()
	for _, n := range c.nodes {
		if !n.up() {
			n.launch()
		}
	}
	c.untilWhole()
}

// untilWhole waits until every node takes part.
func (c *cluster) untilWhole() {
	c.t.Helper()
	c.leader()
	for _, n := range c.nodes {
		n.untilStatus("taking part", follows)
	}
}

// leader waits for a master that leads and serves.
func (c *cluster) leader() *node {
	c.t.Helper()
	leader, missing := leaderAmong(c.nodes)
	if missing != "" {
		c.t.Fatalf("after %s: %s", patience, missing)
	}
	return leader
}

// leaderAmong waits for one of the nodes to lead and serve, or says how they are instead.
func leaderAmong(nodes []*node) (leader *node, missing string) {
	missing = programs.Await(patience, func() string {
		var seen []string
		leader = nil
		newest := int64(-1)
		for _, n := range nodes {
			if !n.up() {
				seen = append(seen, n.id+" is down")
				continue
			}
			s, err := n.status()
			if err != nil {
				seen = append(seen, fmt.Sprintf("%s: %v", n.id, err))
				continue
			}
			seen = append(seen, fmt.Sprintf("%s: %s, term %d, ready %v %s %s", n.id, s.RaftState, s.RaftTerm, s.Ready, s.NotReadyReason, s.WaitingFor))
			if s.RaftState == "Leader" && s.Ready && s.RaftTerm > newest {
				leader, newest = n, s.RaftTerm
			}
		}
		if leader == nil {
			return "nobody leads: " + strings.Join(seen, "; ")
		}
		return ""
	})
	return leader, missing
}

// others are the nodes besides one.
func (c *cluster) others(than *node) []*node {
	return slices.DeleteFunc(slices.Clone(c.nodes), func(n *node) bool { return n == than })
}

// follower is a node that does not lead.
func (c *cluster) follower() *node {
	c.t.Helper()
	leader := c.leader()
	for _, n := range c.nodes {
		if n != leader && n.up() {
			return n
		}
	}
	c.t.Fatal("there is no follower")
	return nil
}

func (c *cluster) admins() []string {
	var out []string
	for _, n := range c.nodes {
		out = append(out, n.admin())
	}
	return out
}

// newClient makes a client of all masters, closed with the test.
func (c *cluster) newClient() *client.Client {
	c.t.Helper()
	cl, err := client.New(client.Config{Addresses: c.admins(), Name: clientName, TLS: c.nodes[0].tls, DialTimeout: 2 * time.Second, CallTimeout: 20 * time.Second})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = cl.Close() }) // its connections are what closes
	return cl
}

// ask makes calls until one is answered by the cluster, for what is safe to repeat.
func (c *cluster) ask(what string, f func(context.Context, *client.Client) error) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := f(ctx, c.api); err != nil {
		c.t.Fatalf("%s: %v", what, err)
	}
}

// prepare gives a new cluster what load needs.
func (c *cluster) prepare() {
	c.t.Helper()
	c.prepareAt("127.0.0.1")
}

// prepareAt does it with backends at a host.
func (c *cluster) prepareAt(host string) {
	c.t.Helper()
	c.set("dispatch.max_inflight_per_backend", "1000", "dispatch.max_per_round", "10000", "admission.max_unresolved_per_table", "100000",
		"admission.max_unresolved_per_catalog", "100000", "admission.max_unresolved_global", "100000", "dispatch.interval", "500ms",
		"backend.heartbeat_interval", "500ms", "backend.rpc_timeout", "2s", "dispatch.execute_deadline", "30s", "refresh.retry_interval", "1s",
		"admission.enabled", "true")
	c.ask("creating the catalog", func(ctx context.Context, api *client.Client) error {
		_, err := api.PutCatalog(ctx, client.Catalog{Name: catalogName, Store: storeName, Refresher: client.Refresher{Kind: "none"}})
		return err
	})
	for i := range 2 {
		c.addBackend(fmt.Sprintf("b%d", i+1), host)
	}
}

// Where the load's datasets are.
const catalogName, storeName = "lake", "objects"

// addBackend starts a scripted backend and registers it.
func (c *cluster) addBackend(name, address string) *scripted.Backend {
	c.t.Helper()
	b, err := scripted.Start(scripted.Config{Name: name, Address: address, Recorder: c.recorder})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := b.Stop(ctx); err != nil {
			c.t.Errorf("stopping backend %s: %v", name, err)
		}
	})
	c.backends = append(c.backends, b)
	c.ask("adding a backend", func(ctx context.Context, api *client.Client) error {
		_, err := api.AddBackend(ctx, client.NewBackend{Host: address, Port: b.BePort(), HeartbeatPort: b.HeartbeatPort()})
		return err
	})
	programs.Eventually(c.t, patience, func() string {
		if b.ReportTo() == "" {
			return "backend " + name + " gets no heartbeats"
		}
		return ""
	})
	return b
}

func (c *cluster) set(nameValues ...string) {
	c.t.Helper()
	var values []client.SettingValue
	for pair := range slices.Chunk(nameValues, 2) {
		values = append(values, client.SettingValue{Name: pair[0], Value: pair[1]})
	}
	c.ask("changing settings", func(ctx context.Context, api *client.Client) error {
		_, err := api.SetSettings(ctx, values)
		return err
	})
}

// judge lets everything that can come to an end do so, stops the cluster, and has the oracle look at
// what there is.
func (c *cluster) judge(l *load) {
	c.t.Helper()
	c.startAll()
	l.settle()
	final := c.final()
	facts := c.recorder.Facts()
	for _, fault := range oracle.Check(facts, final) {
		c.t.Error(fault)
	}
	admitted, unknown := 0, 0
	for _, s := range facts.Submissions {
		if s.Job != nil {
			admitted++
		} else if s.Refused == "" {
			unknown++
		}
	}
	var unknownJobs int
	for _, j := range final.Jobs {
		if j.State == client.StateUnknown {
			unknownJobs++
		}
	}
	c.t.Logf("%d submissions, %d acknowledged, %d refused, %d without an answer; %d jobs, %d UNKNOWN; %d sends; %d reports; %d observations",
		len(facts.Submissions), admitted, len(facts.Submissions)-admitted-unknown, unknown, len(final.Jobs), unknownJobs, len(facts.Sends),
		len(facts.Reports), len(facts.Observations))
	if admitted == 0 || len(facts.Sends) == 0 || len(facts.Reports) == 0 {
		c.t.Error("the load did not reach the cluster; this run checked nothing")
	}
}

// final reads what there is, kills the nodes once all have applied the same, and opens their states.
func (c *cluster) final() oracle.Final {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	final, err := oracle.Read(ctx, c.api, c.recorder)
	if err != nil {
		c.t.Fatal(err)
	}
	applied := c.untilLevel()
	for _, n := range c.nodes {
		n.proc.Shoot()
	}
	for _, n := range c.nodes {
		n.proc.Kill()
		s, err := oracle.OpenState(n.id, n.state())
		if err != nil {
			c.t.Fatal(err)
		}
		final.Nodes = append(final.Nodes, s)
		if s.Applied != final.Nodes[0].Applied {
			c.t.Errorf("%s has applied entry %d and %s %d; all had applied %d before they were killed", s.Name, s.Applied, final.Nodes[0].Name,
				final.Nodes[0].Applied, applied)
		}
	}
	return final
}

// untilLevel waits until all nodes have applied the same for a while, and returns how far.
func (c *cluster) untilLevel() int64 {
	c.t.Helper()
	var level int64
	since := time.Time{}
	programs.Eventually(c.t, patience, func() string {
		applied, err := c.applied()
		if err != nil || applied != level {
			level, since = applied, time.Now()
			return fmt.Sprintf("the nodes do not come to rest: entry %d, %v", applied, err)
		}
		if time.Since(since) < 500*time.Millisecond {
			return "the nodes were at rest for a moment only"
		}
		return ""
	})
	return level
}

// applied is what every node has applied, if it is the same.
func (c *cluster) applied() (int64, error) {
	applied := int64(-1)
	for _, n := range c.nodes {
		s, err := n.status()
		switch {
		case err != nil:
			return 0, err
		case applied >= 0 && s.AppliedIndex != applied:
			return 0, errors.New("one is behind")
		}
		applied = s.AppliedIndex
	}
	return applied, nil
}

package client_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/internal/client"
	"github.com/lancemaster/lancemaster/internal/client/clienttest"
)

// clusterChanges are the calls that change the cluster.
var clusterChanges = map[string]func(context.Context, *client.Client) error{
	"addMember": func(ctx context.Context, c *client.Client) error {
		_, err := c.AddMember(ctx, "master-4", "10.0.0.4:9010")
		return err
	},
	"replaceMember": func(ctx context.Context, c *client.Client) error {
		_, err := c.ReplaceMember(ctx, "master-2", "")
		return err
	},
	"removeMember": func(ctx context.Context, c *client.Client) error { return c.RemoveMember(ctx, "master-2") },
	"transferLeader": func(ctx context.Context, c *client.Client) error {
		_, err := c.TransferLeader(ctx, "master-2")
		return err
	},
	"reopenCluster": func(ctx context.Context, c *client.Client) error {
		_, err := c.Reopen(ctx, client.Reopening{Note: "x", MastersStopped: true, BackendsRestarted: true})
		return err
	},
	"createToken": func(ctx context.Context, c *client.Client) error {
		_, err := c.CreateToken(ctx, "ci2", "submit")
		return err
	},
	"revokeToken": func(ctx context.Context, c *client.Client) error { return c.RevokeToken(ctx, "ci") },
}

// None of them is sent twice when its answer is lost, and each says how to find out.
func TestClusterChangesAreNotRepeated(t *testing.T) {
	for method, call := range clusterChanges {
		t.Run(method, func(t *testing.T) {
			first, second := clienttest.New(t), clienttest.New(t)
			first.Script(method, clienttest.Behavior{Drop: true, Served: true})
			c, _ := newClient(t, first.Addr(), second.Addr())
			e := theError(t, call(t.Context(), c), client.CodeOutcomeUnknown)
			if !strings.Contains(e.Next, "lancemaster ") || count(first) != 1 || count(second) != 0 {
				t.Errorf("sent %d and %d times; next: %q", count(first), count(second), e.Next)
			}
			if err := call(t.Context(), c); err != nil {
				t.Errorf("the next one: %v", err)
			}
			first.Script(method, notLeader(second.Addr())) // nothing was done there
			if err := call(t.Context(), c); err != nil || count(second) != 1 {
				t.Errorf("not redirected: %v", err)
			}
		})
	}
}

func TestClusterCalls(t *testing.T) {
	s := clienttest.New(t)
	c, _ := newClient(t, s.Addr())
	k, err := c.Cluster(t.Context())
	if err != nil || len(k.Members) != 3 || k.Node.NodeID != "master-1" || k.Quorum != 2 || len(k.Warnings) != 1 {
		t.Fatalf("the cluster is %+v, %v", k, err)
	}
	if m := k.Members[2]; m.LastContact != nil || m.ClockOffset != nil || m.ConfiguredAddress != "10.0.0.9:9010" {
		t.Errorf("the third member is %+v", m)
	}
	if m := k.Members[1]; m.LastContact == nil || time.Duration(*m.LastContact) != 40*time.Millisecond || time.Duration(*m.ClockOffset) != -1200*time.Millisecond {
		t.Errorf("the second member is %+v", m)
	}
	made, err := c.CreateToken(t.Context(), "ci2", "submit")
	if err != nil || made.Text != clienttest.Token || made.Name != "ci2" {
		t.Errorf("made %+v, %v", made, err)
	}
	list, err := c.Tokens(t.Context())
	if err != nil || len(list) != 2 || list[1].Role != "read" {
		t.Errorf("listed %+v, %v", list, err)
	}
	if _, err := c.TransferLeader(t.Context(), ""); err != nil {
		t.Error(err)
	}
	want := []string{"clusterStatus {}", `createToken {"name":"ci2","role":"submit"}`, "listTokens {}", "transferLeader {}"}
	if got := s.Requests(); !slices.Equal(got, want) {
		t.Errorf("asked %q", got)
	}
}

// A snapshot is read in parts, by way of whichever master answers.
func TestSnapshot(t *testing.T) {
	first, second := clienttest.New(t), clienttest.New(t)
	c, _ := newClient(t, first.Addr(), second.Addr())
	info, err := c.SnapshotBegin(t.Context())
	if err != nil || info.Size != int64(len(clienttest.Snapshot)) || info.NodeID != "master-1" || len(info.SHA256) != 64 {
		t.Fatalf("began %+v, %v", info, err)
	}
	first.Script("snapshotRead", clienttest.Behavior{Drop: true}, clienttest.Behavior{Drop: true})
	var got []byte
	for {
		part, err := c.SnapshotRead(t.Context(), info, int64(len(got)), 10<<20)
		if err != nil {
			t.Fatal(err)
		}
		if len(part) == 0 {
			break
		}
		got = append(got, part...)
	}
	if !bytes.Equal(got, clienttest.Snapshot) {
		t.Errorf("read %d bytes that are not the snapshot's", len(got))
	}
	if count(second) == 0 {
		t.Error("a part that was lost was not asked for again elsewhere")
	}
	if err := c.SnapshotEnd(t.Context(), info); err != nil {
		t.Error(err)
	}
	_, err = c.SnapshotRead(t.Context(), &client.SnapshotInfo{ID: "s-2"}, 0, 1)
	wantCode(t, err, "NOT_FOUND")
}

// A stale read is answered by the master that is asked, which says first how new its
// state is; the two are on one connection.
func TestStaleReads(t *testing.T) {
	s := clienttest.New(t)
	s.Follower("master-2", 58, 400)
	var told []client.Staleness
	c, err := client.New(client.Config{Addresses: []string{closedAddr(t), s.Addr()}, Name: "ada", Stale: func(s client.Staleness) { told = append(told, s) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if _, err := c.Job(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if len(told) != 1 || told[0].NodeID != "master-2" || told[0].AppliedIndex != 58 || told[0].Leader || told[0].Address != s.Addr() ||
		told[0].LastContact == nil || time.Duration(*told[0].LastContact) != 400*time.Millisecond {
		t.Errorf("told %+v", told)
	}
	if got := s.Requests(); !slices.Equal(got, []string{"status {}", `getJob {"job_id":1}`}) || s.Accepted() != 1 {
		t.Errorf("asked %q on %d connections", got, s.Accepted())
	}
	for _, who := range s.Callers() {
		if !strings.HasSuffix(who, ", stale") {
			t.Errorf("%q asks for the leader's state", who)
		}
	}
	s.Follower("master-2", 58, -1)
	if _, err := c.Jobs(t.Context(), client.JobQuery{}); err != nil || len(told) != 2 || told[1].LastContact != nil {
		t.Errorf("told %+v, %v", told, err)
	}
	// What was refused has no age, and what makes a change is not sent.
	if _, err := c.Job(t.Context(), 99); err == nil || len(told) != 2 {
		t.Errorf("told %+v, %v", told, err)
	}
	sent := count(s)
	for method, call := range clusterChanges {
		e := theError(t, call(t.Context(), c), client.CodeInvalid)
		if e.Next == "" || count(s) != sent {
			t.Errorf("%s was sent, or says nothing to do next: %v", method, e)
		}
	}
}

// The parts of one master's snapshot are asked of that master alone.
func TestStaleSnapshot(t *testing.T) {
	first, second := clienttest.New(t), clienttest.New(t)
	told := 0
	c, err := client.New(client.Config{Addresses: []string{first.Addr(), second.Addr()}, Name: "ada", Stale: func(client.Staleness) { told++ }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	c.SetPause((&pauses{}).pause)
	info, err := c.SnapshotBegin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	first.Always("snapshotRead", clienttest.Behavior{Drop: true})
	if _, err := c.SnapshotRead(t.Context(), info, 0, 1); err == nil || count(second) != 0 {
		t.Errorf("another master was asked %d times, %v", count(second), err)
	}
	if told != 1 {
		t.Errorf("told %d times whose state it is", told)
	}
}

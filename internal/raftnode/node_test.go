package raftnode

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

func TestSingleMemberKeepsWhatItAcknowledged(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "made", "data")
	fsm := &recorder{}
	config, _ := testConfig(t, "m1", dir, fsm)
	n := startSingle(t, config)
	var want []string
	last := uint64(0)
	for i := range 20 {
		want = append(want, fmt.Sprint("c", i))
		index := propose(t, n, want[i])
		if index <= last {
			t.Fatalf("index %d after %d", index, last)
		}
		last = index
	}
	if id, address := n.Leader(); id != "m1" || address != n.Addr() {
		t.Errorf("leader is %q at %q", id, address)
	}
	crashed := copyDir(t, dir) // the node goes on; this is what a kill would leave
	firstTerm := waitLead(t, n)
	stop(t, n)

	for name, dir := range map[string]string{"stopped": dir, "killed": crashed} {
		t.Run(name, func(t *testing.T) {
			again := &recorder{}
			config, _ := testConfig(t, "m1", dir, again)
			n := startSingle(t, config)
			ok(t, n.ReadBarrier(within(t)))
			if got := again.applied(); !slices.Equal(got, want) {
				t.Errorf("after the restart: %q", got)
			}
			if term, _ := n.Term(); term <= firstTerm {
				t.Errorf("term %d after term %d", term, firstTerm)
			}
			propose(t, n, "more")
		})
	}
}

func TestFilesAreTheOwnersOnly(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	config, _ := testConfig(t, "m1", dir, &recorder{})
	startSingle(t, config)
	for path, want := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, logFile): 0o600} {
		if got := must(os.Stat(path))(t).Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, not %o", path, got, want)
		}
	}
}

func TestSecondProcessIsRefused(t *testing.T) {
	t.Parallel()
	config, _ := testConfig(t, "m1", t.TempDir(), &recorder{})
	startSingle(t, config)
	config.LockTimeout = 50 * time.Millisecond
	_, err := New(config)
	if err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Fatalf("a second node on the same disk: %v", err)
	}
}

func TestConfigIsChecked(t *testing.T) {
	good, _ := testConfig(t, "m1", t.TempDir(), &recorder{})
	for name, spoil := range map[string]func(*Config){
		"member's id is empty":             func(c *Config) { c.ID = "" },
		"data directory is not named":      func(c *Config) { c.Dir = "" },
		"no state machine":                 func(c *Config) { c.FSM = nil },
		"nobody is named":                  func(c *Config) { c.Fatal = nil },
		"no address to listen on":          func(c *Config) { c.BindAddress = "" },
		"is not host:port":                 func(c *Config) { c.AdvertiseAddress = "nowhere" },
		"disk stall limit is negative":     func(c *Config) { c.DiskStallLimit = -1 },
		"LeaderLeaseTimeout":               func(c *Config) { c.LeaderLease = time.Minute },
		"needs an advertised address":      func(c *Config) { c.BindAddress = ":0" },
		"listen for other members":         func(c *Config) { c.BindAddress = "256.0.0.1:1" },
		"number of kept snapshots":         func(c *Config) { c.SnapshotRetain = -1 },
		"largest command size is negative": func(c *Config) { c.MaxCommandSize = -1 },
		"ElectionTimeout":                  func(c *Config) { c.ElectionTimeout = time.Millisecond },
		"make data directory":              func(c *Config) { c.Dir = os.Args[0] },
		"open raft log":                    func(c *Config) { c.Dir = damagedDir(t) },
	} {
		config := good
		spoil(&config)
		n, err := New(config)
		if err == nil {
			stop(t, n)
		}
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("want an error that says %q, got %v", name, err)
		}
	}
}

func damagedDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	ok(t, os.WriteFile(filepath.Join(dir, logFile), []byte(strings.Repeat("damaged", 10_000)), 0o600))
	return dir
}

func TestBootstrapRefuses(t *testing.T) {
	config, _ := testConfig(t, "m1", t.TempDir(), &recorder{})
	n := must(New(config))(t)
	t.Cleanup(func() { stop(t, n) })
	me := Server{ID: "m1", Address: "a:1", Voter: true}
	for name, members := range map[string][]Server{
		"not in the member list":     {{ID: "m2", Address: "a:1", Voter: true}},
		"needs an id and an address": {me, {ID: "m2", Voter: true}},
		"does not vote":              {me, {ID: "m2", Address: "b:1"}},
		`"m1" is listed twice`:       {me, {ID: "m1", Address: "b:1", Voter: true}},
		`"a:1" is listed twice`:      {me, {ID: "m2", Address: "a:1", Voter: true}},
	} {
		if err := n.Bootstrap(members); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("want an error that says %q, got %v", name, err)
		}
	}
	if must(n.HasState())(t) {
		t.Fatal("a refused formation has left something behind")
	}
	ok(t, n.Bootstrap([]Server{me}))
	if err := n.Bootstrap([]Server{me}); !errors.Is(err, ErrHasState) {
		t.Errorf("a second formation: %v", err)
	}
	ok(t, n.Start())
	if err := n.Start(); err == nil {
		t.Error("a second start is taken")
	}
	if err := n.Bootstrap([]Server{me}); err == nil {
		t.Error("formation after the start is taken")
	}
	if got := n.Servers(); !slices.Equal(got, []Server{me}) {
		t.Errorf("members are %v", got)
	}
}

// A crash between the two writes of a formation leaves a disk that either is still empty or starts.
func TestCrashDuringFormation(t *testing.T) {
	t.Parallel()
	crash := errors.New("crash")
	for after := range 3 {
		fake, left := newFakeStorage(), after
		fake.onCall(func(string) error {
			if left == 0 {
				return crash
			}
			left--
			return nil
		})
		config, _ := testConfig(t, "m1", "unused", &recorder{})
		config = config.withDefaults()
		n := must(newNode(config, fake.storage()))(t)
		err := n.Bootstrap([]Server{{ID: "m1", Address: n.Addr(), Voter: true}})
		if (err == nil) != (after >= 2) {
			t.Fatalf("formation with a crash after %d writes: %v", after, err)
		}
		stop(t, n)

		fake.onCall(nil)
		again, _ := startFake(t, fake, nil)
		propose(t, again, "works")
	}
}

func TestNodeWithoutMembersDoesNotLead(t *testing.T) {
	config, _ := testConfig(t, "m1", t.TempDir(), &recorder{})
	n := must(New(config))(t)
	t.Cleanup(func() { stop(t, n) })
	ok(t, n.Start())
	if _, _, err := n.Propose(within(t), []byte("x")); !errors.Is(err, ErrNotAppended) || !errors.Is(err, ErrNotLeader) {
		t.Errorf("propose: %v", err)
	}
	if err := n.ReadBarrier(within(t)); !errors.Is(err, ErrNotLeader) {
		t.Errorf("barrier: %v", err)
	}
	if s := n.Stats(); s.State != "Follower" || s.LastContact != -1 || s.LeaderID != "" {
		t.Errorf("stats: %+v", s)
	}
}

func TestBeforeStartAndAfterShutdown(t *testing.T) {
	t.Parallel()
	config, _ := testConfig(t, "m1", t.TempDir(), &recorder{})
	n := must(New(config))(t)
	check := func() {
		t.Helper()
		if _, _, err := n.Propose(within(t), []byte("x")); !errors.Is(err, ErrStopped) || !errors.Is(err, ErrNotAppended) {
			t.Errorf("propose: %v", err)
		}
		if err := n.ReadBarrier(within(t)); !errors.Is(err, ErrStopped) {
			t.Errorf("barrier: %v", err)
		}
		if err := n.TransferLeadership(within(t)); !errors.Is(err, ErrStopped) {
			t.Errorf("transfer: %v", err)
		}
		if term, leads := n.Term(); term != 0 || leads {
			t.Errorf("term %d, leads %v", term, leads)
		}
		if id, address := n.Leader(); id != "" || address != "" {
			t.Errorf("leader %q at %q", id, address)
		}
		if s := n.Stats(); s.State != "Shutdown" || s.LogFileSize == 0 {
			t.Errorf("stats: %+v", s)
		}
		if n.Servers() != nil {
			t.Error("members without a running node")
		}
	}
	check()
	runSingle(t, n)
	propose(t, n, "x")
	stop(t, n)
	check()
	stop(t, n)
	if err := n.Start(); !errors.Is(err, ErrStopped) {
		t.Errorf("start after shutdown: %v", err)
	}
}

func TestShutdownWithoutStart(t *testing.T) {
	config, _ := testConfig(t, "m1", t.TempDir(), &recorder{})
	n := must(New(config))(t)
	stop(t, n)
	stop(t, n)
}

func TestStats(t *testing.T) {
	t.Parallel()
	config, _ := testConfig(t, "m1", t.TempDir(), &recorder{})
	n := startSingle(t, config)
	index := propose(t, n, "x")
	s := n.Stats()
	term, _ := n.Term()
	if s.State != "Leader" || s.Term != term || s.LeaderID != "m1" || s.LastLogIndex != index ||
		s.CommitIndex != index || s.LastContact != 0 || s.LogFileSize == 0 || s.LastSnapshotIndex != 0 ||
		s.Members != 1 || s.Voters != 1 || !s.SnapshotTime.IsZero() || s.SnapshotSize != 0 {
		t.Errorf("stats: %+v", s)
	}
}

// A snapshot is taken and the log cut; the owner restores it when its own state is gone.
func TestSnapshotAndPrepare(t *testing.T) {
	dir := t.TempDir()
	fsm := &recorder{}
	config, _ := testConfig(t, "m1", dir, fsm)
	config.TrailingLogs = 1
	n := startSingle(t, config)
	for i := range 5 {
		propose(t, n, fmt.Sprint("c", i))
	}
	ok(t, n.raft.Snapshot().Error())
	if s := n.Stats(); s.LastSnapshotIndex == 0 || s.SnapshotSize == 0 || time.Since(s.SnapshotTime).Abs() > patience {
		t.Error("the snapshot is not in the stats")
	}
	propose(t, n, "after")
	stop(t, n)

	unfinishedDir := filepath.Join(dir, snapshotDir, "9-9-9"+unfinished)
	ok(t, os.Mkdir(unfinishedDir, 0o700))
	again := &recorder{}
	config, _ = testConfig(t, "m1", dir, again)
	prepared := 0
	config.Prepare = func(logs raft.LogStore, snapshots raft.SnapshotStore) error {
		prepared++
		list, err := snapshots.List()
		if err != nil || len(list) != 1 {
			return fmt.Errorf("snapshots %v: %w", list, err)
		}
		if first, err := logs.FirstIndex(); err != nil || first < 2 {
			return fmt.Errorf("the log begins at %d: %w", first, err)
		}
		_, from, err := snapshots.Open(list[0].ID)
		if err != nil {
			return err
		}
		return errors.Join(again.Restore(from), from.Close())
	}
	n = startSingle(t, config)
	ok(t, n.ReadBarrier(within(t)))
	if got := again.applied(); !slices.Equal(got, []string{"c0", "c1", "c2", "c3", "c4", "after"}) {
		t.Errorf("after the restart: %q", got)
	}
	if prepared != 1 {
		t.Errorf("prepared %d times", prepared)
	}
	if _, err := os.Stat(unfinishedDir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an unfinished snapshot is still there: %v", err)
	}
}

func TestPrepareCanRefuse(t *testing.T) {
	config, _ := testConfig(t, "m1", t.TempDir(), &recorder{})
	refusal := errors.New("the state is of another cluster")
	config.Prepare = func(raft.LogStore, raft.SnapshotStore) error { return refusal }
	n := must(New(config))(t)
	t.Cleanup(func() { stop(t, n) })
	if err := n.Start(); !errors.Is(err, refusal) {
		t.Fatalf("start: %v", err)
	}
}

// A log that does not reach back to the snapshot is an error of Start, not a panic.
func TestStartWithMissingSnapshot(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config, _ := testConfig(t, "m1", dir, &recorder{})
	config.TrailingLogs = 1
	n := startSingle(t, config)
	for i := range 5 {
		propose(t, n, fmt.Sprint("c", i))
	}
	ok(t, n.raft.Snapshot().Error())
	stop(t, n)
	for _, path := range snapshotFiles(t, dir) {
		ok(t, os.RemoveAll(path))
	}
	n = must(New(config))(t)
	t.Cleanup(func() { stop(t, n) })
	if err := n.Start(); err == nil || !strings.Contains(err.Error(), "newest snapshot") {
		t.Fatalf("start: %v", err)
	}
}

func TestShutdownIsBounded(t *testing.T) {
	t.Parallel()
	fsm := &recorder{}
	config, _ := testConfig(t, "m1", t.TempDir(), fsm)
	config.DrainTimeout = 10 * time.Millisecond
	n := startSingle(t, config)
	block := make(chan struct{})
	fsm.blockOn(block)

	// One is being applied, the others wait one by one in the state machine's queue when Raft stops.
	const commands = 20
	ended := make(chan error, commands)
	for i := range uint64(commands) {
		before := n.Stats().QueuedIndex
		go func() {
			_, _, err := n.Propose(context.Background(), fmt.Append(nil, i))
			ended <- err
		}()
		eventually(t, "the command is not committed", func() bool { return n.Stats().QueuedIndex > before })
	}
	barrier := make(chan error, 1)
	go func() { barrier <- n.ReadBarrier(context.Background()) }()

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := n.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("shutdown while the state machine hangs: %v", err)
	}
	close(block)
	stop(t, n)
	unanswered := 0
	for range commands {
		err := <-ended
		if errors.Is(err, ErrNotAppended) {
			t.Errorf("a command that was appended is said not to be: %v", err)
		}
		if err != nil {
			unanswered++
		}
	}
	if err := <-barrier; err == nil {
		t.Error("a barrier that was not applied has passed")
	}
	if unanswered == 0 {
		t.Error("every command was answered; the test has not seen what it is about")
	}
}

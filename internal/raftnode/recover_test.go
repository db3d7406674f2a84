package raftnode

import (
	"context"
	"encoding/json"
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

// alone is the list of a cluster that m1 goes on with by itself.
var alone = []Server{{ID: "m1", Address: "10.0.0.1:9010", Voter: true}}

// restoring is a configuration whose state machine has no disk of its own: it begins with the newest
// snapshot.
func restoring(t *testing.T, dir string) (Config, *recorder) {
	t.Helper()
	fsm := &recorder{}
	config, _ := testConfig(t, "m1", dir, fsm)
	config.LockTimeout = 50 * time.Millisecond
	config.Prepare = func(_ raft.LogStore, snapshots raft.SnapshotStore) error {
		list, err := snapshots.List()
		if err != nil || len(list) == 0 {
			return err
		}
		_, from, err := snapshots.Open(list[0].ID)
		if err != nil {
			return err
		}
		return errors.Join(fsm.Restore(from), from.Close())
	}
	return config, fsm
}

// lost makes the disk of a member whose quorum is lost: m1 has committed a and b and given m2 a vote,
// which is gone, and has c only in its own log.
func lost(t *testing.T, snapshot bool) (dir string) {
	t.Helper()
	dir = t.TempDir()
	config, _ := restoring(t, dir)
	config.TrailingLogs = 2
	config.LeaderLease, config.HeartbeatTimeout, config.ElectionTimeout = time.Second, time.Second, time.Second
	n := startSingle(t, config)
	propose(t, n, "a")
	propose(t, n, "b")
	ok(t, n.AddNonvoter(within(t), "m2", "127.0.0.1:1"))
	ok(t, n.ReadBarrier(within(t)))
	if snapshot {
		ok(t, n.raft.Snapshot().Error())
	}
	// The last thing that it can commit by itself.
	ok(t, n.AddVoter(within(t), "m2", "127.0.0.1:1"))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, _, err := n.Propose(ctx, []byte("c")); err == nil || errors.Is(err, ErrNotAppended) {
		t.Fatalf("a command without a quorum: %v", err)
	}
	stop(t, n)
	return dir
}

// goesOn checks that a node starts on a recovered disk, leads alone, and has everything.
func goesOn(t *testing.T, dir string) {
	t.Helper()
	config, fsm := restoring(t, dir)
	n := startSingle(t, config)
	if got := n.Servers(); !slices.Equal(got, alone) {
		t.Errorf("the members are %+v", got)
	}
	propose(t, n, "d")
	if got := fsm.applied(); !slices.Equal(got, []string{"a", "b", "c", "d"}) {
		t.Errorf("applied are %q", got)
	}
	// No list of before is left, in the log or in a snapshot, for one who joins to pass through.
	for i := must(n.logs.FirstIndex())(t); i <= must(n.logs.LastIndex())(t); i++ {
		var entry raft.Log
		ok(t, n.logs.GetLog(i, &entry))
		if entry.Type == raft.LogConfiguration {
			t.Errorf("entry %d is the list %v", i, raft.DecodeConfiguration(entry.Data))
		}
	}
	if list := must(n.snapshots.List())(t); len(list) != 1 || len(list[0].Configuration.Servers) != 1 {
		t.Errorf("the snapshots are %+v", list)
	}
	// And members come as ever.
	ok(t, n.AddNonvoter(within(t), "m2", "127.0.0.1:1"))
	stop(t, n)
	config, _ = restoring(t, dir)
	n = startSingle(t, config)
	if got := n.Servers(); len(got) != 2 {
		t.Errorf("started again, the members are %+v", got)
	}
	stop(t, n)
}

func TestRecover(t *testing.T) {
	for _, snapshot := range []bool{false, true} {
		t.Run(fmt.Sprintf("snapshot=%v", snapshot), func(t *testing.T) {
			t.Parallel()
			dir := lost(t, snapshot)
			if got := len(snapshotFiles(t, dir)); (got > 0) != snapshot {
				t.Fatalf("%d snapshots", got)
			}
			config, fsm := restoring(t, dir)
			ok(t, Recover(within(t), config, alone))
			if got := fsm.applied(); !slices.Equal(got, []string{"a", "b", "c"}) {
				t.Errorf("applied are %q", got)
			}
			before := snapshotFiles(t, dir)
			config, _ = restoring(t, dir)
			ok(t, Recover(within(t), config, alone))
			if again := snapshotFiles(t, dir); !slices.Equal(before, again) {
				t.Errorf("once more, the snapshots are %v and not %v", again, before)
			}
			goesOn(t, dir)
		})
	}
}

// Killed at any step, the node does not start until the recovery has ended, and it ends the same.
func TestRecoverAfterAKill(t *testing.T) {
	t.Parallel()
	for _, snapshot := range []bool{false, true} {
		dir := lost(t, snapshot)
		crashed := map[string]string{}
		config, _ := restoring(t, dir)
		config.recoverStep = func(name string) {
			crashed[fmt.Sprintf("%s %v", name, snapshot)] = copyDir(t, dir)
		}
		ok(t, Recover(within(t), config, alone))
		want := 5
		if snapshot {
			want = 6 // an older snapshot is removed
		}
		if len(crashed) != want {
			t.Errorf("the steps are %d, want %d", len(crashed), want)
		}
		for step, dir := range crashed {
			t.Run(step, func(t *testing.T) {
				t.Parallel()
				config, _ := restoring(t, dir)
				if _, err := New(config); !errors.Is(err, ErrRecovering) {
					t.Fatalf("in the middle of a recovery the node starts: %v", err)
				}
				ok(t, Recover(within(t), config, alone))
				goesOn(t, dir)
			})
		}
	}
}

// Another list than that of the run that was killed counts.
func TestRecoverWithAnotherList(t *testing.T) {
	t.Parallel()
	dir := lost(t, false)
	config, _ := restoring(t, dir)
	other := []Server{{ID: "m1", Address: "10.9.9.9:1", Voter: true}}
	ok(t, Recover(within(t), config, other))
	config, _ = restoring(t, dir)
	ok(t, Recover(within(t), config, alone))
	goesOn(t, dir)
}

// A snapshot of the same entry that seems to be newer, since the clock has gone back, does not win.
func TestRecoverAfterTheClockWentBack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config, _ := restoring(t, dir)
	n := startSingle(t, config)
	for _, command := range []string{"a", "b"} {
		propose(t, n, command)
	}
	ok(t, n.AddNonvoter(within(t), "m2", "127.0.0.1:1"))
	propose(t, n, "c")
	ok(t, n.raft.Snapshot().Error())
	stop(t, n)
	// It was taken in the year 2286.
	name := snapshotFiles(t, dir)[0]
	id := filepath.Base(name)
	later := id[:strings.LastIndexByte(id, '-')+1] + "9999999999999"
	path := filepath.Join(name, "meta.json")
	var meta map[string]any
	ok(t, json.Unmarshal(must(os.ReadFile(path))(t), &meta))
	meta["ID"] = later
	ok(t, os.WriteFile(path, must(json.Marshal(meta))(t), 0o600))
	ok(t, os.Rename(name, filepath.Join(dir, snapshotDir, later)))

	config, _ = restoring(t, dir)
	ok(t, Recover(within(t), config, alone))
	goesOn(t, dir)
}

func TestRecoverRefuses(t *testing.T) {
	t.Parallel()
	config, _ := restoring(t, t.TempDir())
	if err := Recover(within(t), config, alone); !errors.Is(err, ErrNoState) {
		t.Errorf("an empty directory: %v", err)
	}
	if files := must(os.ReadDir(config.Dir))(t); len(files) != 0 {
		t.Errorf("it holds %v now", files)
	}
	for _, servers := range [][]Server{nil, {{ID: "m2", Address: "x:1", Voter: true}}, {{ID: "m1", Address: "x:1"}}} {
		if err := Recover(within(t), config, servers); err == nil || errors.Is(err, ErrNoState) {
			t.Errorf("the list %v: %v", servers, err)
		}
	}

	config, _ = restoring(t, t.TempDir())
	n := startSingle(t, config)
	if err := Recover(within(t), config, alone); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a running node: %v", err)
	}
	stop(t, n)

	dir := lost(t, false)
	config, _ = restoring(t, dir)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Recover(gone, config, alone); !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
	// A hole in the log.
	disk := must(openStorage(config.withDefaults(), newRaftLogger(config.withDefaults().Logger)))(t)
	ok(t, disk.logs.DeleteRange(2, 2))
	ok(t, disk.close())
	if err := Recover(within(t), config, alone); err == nil || !strings.Contains(err.Error(), "entry 2") {
		t.Errorf("a hole: %v", err)
	}
	disk = must(openStorage(config.withDefaults(), newRaftLogger(config.withDefaults().Logger)))(t)
	if err := disk.checkRecovered(); err != nil {
		t.Errorf("refused, but it has begun: %v", err)
	}
	ok(t, disk.close())
}

// failing is a state machine that cannot apply an entry, like a build that is too old.
type failing struct{ *recorder }

func (f failing) Apply(entry *raft.Log) any {
	if string(entry.Data) == "c" {
		return errors.New("c is not known here")
	}
	return f.recorder.Apply(entry)
}

// A state machine that does not get to the end of the log keeps the recovery from ending, and another
// build can go on.
func TestRecoverWithAStateMachineThatFails(t *testing.T) {
	t.Parallel()
	dir := lost(t, true)
	config, fsm := restoring(t, dir)
	config.FSM = failing{fsm}
	if err := Recover(within(t), config, alone); err == nil || !strings.Contains(err.Error(), "c is not known here") {
		t.Fatalf("recovered: %v", err)
	}
	config, _ = restoring(t, dir)
	if _, err := New(config); !errors.Is(err, ErrRecovering) {
		t.Fatalf("the node starts: %v", err)
	}
	ok(t, Recover(within(t), config, alone))
	goesOn(t, dir)
}

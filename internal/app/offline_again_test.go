package app

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"

	"github.com/lancemaster/lancemaster/internal/job"
)

// appendNoop appends an entry of Raft's own to the log in a data directory, as a node that was started and
// did not get as far as its Quarantine.
func appendNoop(t *testing.T, dir string, at job.Position) (end job.Position) {
	t.Helper()
	log, err := raftboltdb.NewBoltStore(filepath.Join(dir, raftDir, "raft.db"))
	if err != nil {
		t.Fatal(err)
	}
	end = job.Position{Index: at.Index + 1, Term: at.Term + 1}
	if err := errors.Join(log.StoreLog(&raft.Log{Index: end.Index, Term: end.Term, Type: raft.LogNoop}), log.Close()); err != nil {
		t.Fatal(err)
	}
	return end
}

// wantOwed holds a directory to the incarnation that it owes and the address that its log has.
func wantOwed(t *testing.T, dir string, incarnation int64, address string) identity {
	t.Helper()
	id, err := readIdentity(dir)
	if err != nil {
		t.Fatal(err)
	}
	if id.Pending == nil || id.Pending.Incarnation != incarnation || id.Incarnation != incarnation {
		t.Fatalf("the identity is %+v, owed is %+v; want incarnation %d", id, id.Pending, incarnation)
	}
	o := Offline{DataDir: dir, NodeID: "m1"}
	if there, err := o.found(id); err != nil || there.Address != address {
		t.Errorf("its address is %q, %v; want %q", there.Address, err, address)
	}
	return id
}

// What a second run asks for and does not find is not passed over with a word of success.
func TestARestoreThatAsksForAnotherIsNotDone(t *testing.T) {
	file, sum, at := saveFile(t, testCluster, 3)
	dir := filepath.Join(t.TempDir(), "data")
	first := restored(t, restoreOptions(file, dir))
	before := fingerprint(t, dir)
	for name, tc := range map[string]struct {
		change func(*RestoreOptions)
		says   string
	}{
		"a higher incarnation": {func(o *RestoreOptions) { o.Incarnation = 9 }, "already, in incarnation 2 at 10.0.0.1:9010, not in incarnation 9; nothing was changed; with --replace"},
		"a lower incarnation":  {func(o *RestoreOptions) { o.Incarnation = 1 }, "not in incarnation 1; nothing was changed"},
		"another address":      {func(o *RestoreOptions) { o.Address = "10.9.9.9:1" }, "in incarnation 2 at 10.0.0.1:9010, not at 10.9.9.9:1; nothing was changed"},
		"both":                 {func(o *RestoreOptions) { o.Incarnation, o.Address = 9, "10.9.9.9:1" }, "not in incarnation 9 at 10.9.9.9:1; "},
		"what has been":        {func(o *RestoreOptions) { o.Replace, o.Incarnation = true, 1 }, "incarnation 1 has been"},
	} {
		o := restoreOptions(file, dir)
		tc.change(&o)
		if _, err := Restore(t.Context(), o); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: got %v, want %q", name, err, tc.says)
		}
	}
	if after := fingerprint(t, dir); after != before {
		t.Errorf("it changed\n%s\nto\n%s", before, after)
	}
	// What is there may be asked for by its number.
	o := restoreOptions(file, dir)
	o.Incarnation = 2
	if r := restored(t, o); !r.Already || r.InstanceID != first.InstanceID {
		t.Errorf("with its own incarnation: %+v", r)
	}
	// It is replaced where that is allowed, and asked about.
	var asked []OfflinePlan
	o.Confirm = func(p OfflinePlan) error { asked = append(asked, p); return nil }
	o.Replace, o.Incarnation = true, 9
	if r := restored(t, o); r.Already || r.NewIncarnation != 9 || r.KeptIn == "" || r.InstanceID == first.InstanceID {
		t.Errorf("replaced: %+v", r)
	}
	if len(asked) != 1 || asked[0].Again != 2 || asked[0].NewIncarnation != 9 || !asked[0].Replaces {
		t.Errorf("asked was %+v", asked)
	}
	wantOwed(t, dir, 9, "10.0.0.1:9010")
	o.Address, o.Incarnation = "10.0.0.7:9010", 0
	if r := restored(t, o); r.Already || r.NewIncarnation != 10 || r.Address != "10.0.0.7:9010" {
		t.Errorf("replaced at another address: %+v", r)
	}
	wantOwed(t, dir, 10, "10.0.0.7:9010")
	if stateHash(t, dir) != sum {
		t.Error("the restored state is another")
	}
	// Whatever is told of a run that changes nothing is on the disk.
	end := appendNoop(t, dir, at)
	r := restored(t, o)
	if !r.Already || r.NewIncarnation != 10 || r.Incarnation != testBefore || r.Index != end.Index || r.Term != end.Term || r.OpenJobs != 3 {
		t.Errorf("run again: %+v, the log ends at %+v", r, end)
	}
}

// A directory that is not whole is not what was restored, whatever its identity says.
func TestARestoreThatLostItsLogIsNotDone(t *testing.T) {
	file, _, _ := saveFile(t, testCluster, 1)
	for name, harm := range map[string]func(t *testing.T, dir string){
		"lost": remove(raftDir), "emptied": remove(filepath.Join(raftDir, "raft.db")), "damaged": damage(filepath.Join(raftDir, "raft.db")), "stateless": damage(stateFile),
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			o := restoreOptions(file, dir)
			restored(t, o)
			harm(t, dir)
			if _, err := Restore(t.Context(), o); err == nil || !strings.Contains(err.Error(), "with --replace ") {
				t.Errorf("got %v", err)
			}
			o.Replace = true
			if r := restored(t, o); r.Already || r.NewIncarnation != 3 {
				t.Errorf("replaced: %+v", r)
			}
			wantOwed(t, dir, 3, o.Address)
		})
	}
}

// A recovery has nothing to replace: it is done once more where a later incarnation is asked for.
func TestARecoveryInAnotherIncarnationIsDoneOnceMore(t *testing.T) {
	dir, _, _, want, end := lostMember(t)
	o := recoverOptions(dir)
	first, err := Recover(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	before := fingerprint(t, dir)
	for name, tc := range map[string]struct {
		incarnation int64
		address     string
		says        string
	}{
		"an incarnation that was": {1, o.Address, "already, in incarnation 2 at 10.0.0.1:9010, not in incarnation 1; nothing was changed; name a higher incarnation, 3, "},
		"another address":         {0, "10.9.9.9:1", "not at 10.9.9.9:1; nothing was changed; name a higher incarnation, 3, "},
		"another address, in it":  {2, "10.9.9.9:1", "not at 10.9.9.9:1; nothing was changed"},
		"an incarnation too far":  {5000, o.Address, "too far from 2"},
	} {
		o := recoverOptions(dir)
		o.Incarnation, o.Address = tc.incarnation, tc.address
		if _, err := Recover(t.Context(), o); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: got %v, want %q", name, err, tc.says)
		}
	}
	no := errors.New("the operator says no")
	o.Incarnation, o.Confirm = 9, func(OfflinePlan) error { return no }
	if _, err := Recover(t.Context(), o); !errors.Is(err, no) {
		t.Errorf("not confirmed: %v", err)
	}
	if after := fingerprint(t, dir); after != before {
		t.Errorf("it changed\n%s\nto\n%s", before, after)
	}
	var asked []OfflinePlan
	o.Confirm = func(p OfflinePlan) error { asked = append(asked, p); return nil }
	r, err := Recover(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Already || r.NewIncarnation != 9 || r.InstanceID == first.InstanceID || r.KeptIn != first.KeptIn+"-2" || len(asked) != 1 || asked[0].Again != 2 || asked[0].NewIncarnation != 9 {
		t.Errorf("once more: %+v, asked was %+v", r, asked)
	}
	id := wantOwed(t, dir, 9, o.Address)
	if !strings.HasPrefix(id.Pending.Cause, "recovered from the disk of node m1 alone, which ends at entry ") || stateHash(t, dir) != want {
		t.Errorf("owed is %+v", id.Pending)
	}
	if r, err = Recover(t.Context(), o); err != nil || !r.Already || r.NewIncarnation != 9 || r.InstanceID != id.InstanceID || r.Address != o.Address {
		t.Errorf("run again: %+v, %v", r, err)
	}
	// The address is another one when the incarnation is.
	o.Incarnation, o.Address = 10, "10.0.0.7:9010"
	if r, err = Recover(t.Context(), o); err != nil || r.Already {
		t.Errorf("at another address: %+v, %v", r, err)
	}
	wantOwed(t, dir, 10, "10.0.0.7:9010")
	o.Incarnation, o.Address = 12, "10.0.0.1:9010"
	if _, err = Recover(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	leadAlone(t, dir, end, wantOwed(t, dir, 12, "10.0.0.1:9010"))
}

// Of a restored directory too, which stays that of its file.
func TestARestoredNodeIsRecoveredInAnotherIncarnation(t *testing.T) {
	file, sum, at := saveFile(t, testCluster, 3)
	dir := filepath.Join(t.TempDir(), "data")
	restored(t, restoreOptions(file, dir))
	o := recoverOptions(dir)
	o.Incarnation = 4
	r, err := Recover(t.Context(), o)
	if err != nil || r.Already || r.NewIncarnation != 4 {
		t.Fatalf("got %+v, %v", r, err)
	}
	id := wantOwed(t, dir, 4, o.Address)
	if !strings.HasPrefix(id.Pending.Cause, "restored from a snapshot ") || stateHash(t, dir) != sum {
		t.Errorf("owed is %+v", id.Pending)
	}
	if r := restored(t, restoreOptions(file, dir)); !r.Already || r.NewIncarnation != 4 || r.InstanceID != id.InstanceID {
		t.Errorf("restored again: %+v", r)
	}
	leadAlone(t, dir, at, id)
}

// Killed at any step, one incarnation is owed or the other, each with all of the data.
func TestARecoveryDoneOnceMoreSurvivesKills(t *testing.T) {
	t.Parallel()
	lost, _, _, want, _ := lostMember(t)
	if _, err := Recover(t.Context(), recoverOptions(lost)); err != nil {
		t.Fatal(err)
	}
	turned := ""
	for at := 1; ; at++ {
		dir := copyOf(t, lost)
		step := killed(t, at, "recover", dir, "9")
		if err := settleDataDir(dir, func(string) {}); err != nil {
			t.Fatal(err)
		}
		id, err := readIdentity(dir)
		if err != nil || id.Pending == nil || stateHash(t, dir) != want {
			t.Fatalf("killed at step %d, %q, the identity is %+v, %v", at, step, id, err)
		}
		switch {
		case id.Pending.Incarnation == 9 && turned == "":
			turned = step
		case id.Pending.Incarnation == 2 && turned == "", id.Pending.Incarnation == 9:
		default:
			t.Errorf("killed at step %d, %q, it owes incarnation %d", at, step, id.Pending.Incarnation)
		}
		if again := killed(t, 1000, "recover", dir, "9"); again != "" {
			t.Fatalf("the operation is killed at %q", again)
		}
		wantOwed(t, dir, 9, "10.0.0.1:9010")
		if step == "" {
			break
		}
	}
	if turned != "move begun" {
		t.Errorf("the new content counts from %q on", turned)
	}
}

package raftnode

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
)

func testSeed(content string) Seed {
	return Seed{
		Index: 500, Term: 9, Servers: []Server{{ID: "m1", Address: "10.0.0.1:9010", Voter: true}},
		Write: func(w io.Writer) error { _, err := io.WriteString(w, content); return err },
	}
}

// A node on planted data leads alone, in a later term, and goes on behind the snapshot.
func TestAPlantedSnapshotIsGoneOnFrom(t *testing.T) {
	t.Parallel()
	fsm := &recorder{}
	config, _ := testConfig(t, "m1", t.TempDir(), fsm)
	config.Prepare = func(_ raft.LogStore, snapshots raft.SnapshotStore) error {
		list, err := snapshots.List()
		if err != nil || len(list) == 0 {
			return errors.Join(errors.New("no snapshot"), err)
		}
		_, from, err := snapshots.Open(list[0].ID)
		if err != nil {
			return err
		}
		return errors.Join(fsm.Restore(from), from.Close())
	}
	if _, _, err := config.End(); !errors.Is(err, ErrNoState) {
		t.Errorf("the end of an empty disk: %v", err)
	}
	if _, err := config.Members(); !errors.Is(err, ErrNoState) {
		t.Errorf("the members on an empty disk: %v", err)
	}
	ok(t, config.Plant(testSeed("a\nb")))
	if index, term, err := config.End(); err != nil || index != 500 || term != 9 {
		t.Errorf("planted, it ends at %d of %d, %v", index, term, err)
	}
	if members, err := config.Members(); err != nil || !slices.Equal(members, testSeed("").Servers) {
		t.Errorf("planted, its members are %+v, %v", members, err)
	}
	n := startSingle(t, config)
	if term := waitLead(t, n); term <= 9 {
		t.Errorf("it leads in term %d", term)
	}
	if index := propose(t, n, "c"); index <= 500 {
		t.Errorf("its log goes on at entry %d", index)
	}
	if got := fsm.applied(); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("applied are %q", got)
	}
	if got := n.Servers(); !slices.Equal(got, testSeed("").Servers) {
		t.Errorf("the members are %+v", got)
	}
	ok(t, n.AddNonvoter(t.Context(), "m2", "10.0.0.2:9010"))
	stop(t, n)
	added := append(testSeed("").Servers, Server{ID: "m2", Address: "10.0.0.2:9010"})
	if members, err := config.Members(); err != nil || !slices.Equal(members, added) {
		t.Errorf("with one more, its members are %+v, %v", members, err)
	}
	if index, term, err := config.End(); err != nil || index <= 500 || term <= 9 {
		t.Errorf("gone on from, it ends at %d of %d, %v", index, term, err)
	}
	// Planted again, what has happened since would be lost.
	if err := config.Plant(testSeed("x")); !errors.Is(err, ErrHasState) {
		t.Errorf("planted on it again: %v", err)
	}
	n = startSingle(t, config)
	if index := propose(t, n, "d"); index <= 501 {
		t.Errorf("started again, its log goes on at entry %d", index)
	}
}

func TestPlantRefuses(t *testing.T) {
	config, _ := testConfig(t, "m1", t.TempDir(), &recorder{})
	failing := errors.New("the disk is full")
	for says, change := range map[string]func(*Seed){
		"entry 0 of term 9":             func(s *Seed) { s.Index = 0 },
		"entry 500 of term 0":           func(s *Seed) { s.Term = 0 },
		"is not in the member list":     func(s *Seed) { s.Servers[0].ID = "m2" },
		"needs an id and an address":    func(s *Seed) { s.Servers[0].Address = "" },
		"the disk is full":              func(s *Seed) { s.Write = func(io.Writer) error { return failing } },
		`this node, "m1", is not in th`: func(s *Seed) { s.Servers = nil },
	} {
		seed := testSeed("a")
		change(&seed)
		if err := config.Plant(seed); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", says, err)
		}
	}
	// None of them left anything that counts.
	ok(t, config.Plant(testSeed("a")))
}

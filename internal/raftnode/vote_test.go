package raftnode

import (
	"errors"
	"slices"
	"testing"

	"github.com/hashicorp/raft"
)

// persistVote does what Raft does with a vote.
func persistVote(store raft.StableStore, term uint64, candidate string) error {
	if err := store.SetUint64(keyVoteTerm, term); err != nil {
		return err
	}
	return store.Set(keyVoteCandidate, []byte(candidate))
}

// Whenever a node ends while it stores a vote, the disk never pairs the new term with the former
// candidate: a node that found this would repeat, in the new term, a vote it never gave.
func TestCrashBetweenTheHalvesOfAVote(t *testing.T) {
	crash := errors.New("crash")
	for after, want := range []struct {
		term      uint64
		candidate string
	}{{4, "old"}, {4, "new"}, {5, "new"}} {
		fake := newFakeStorage()
		ok(t, persistVote(fake, 4, "old"))
		left := after
		fake.onCall(func(string) error {
			if left == 0 {
				return crash
			}
			left--
			return nil
		})
		err := persistVote(&voteOrder{StableStore: fake}, 5, "new")
		if (err == nil) != (after == 2) {
			t.Fatalf("storing a vote with a crash after %d writes: %v", after, err)
		}
		// The next process sees the disk only.
		disk := &voteOrder{StableStore: fake}
		term, candidate := must(disk.GetUint64(keyVoteTerm))(t), must(disk.Get(keyVoteCandidate))(t)
		if term != want.term || string(candidate) != want.candidate {
			t.Errorf("after a crash after %d writes the vote is %d for %q, not %d for %q",
				after, term, candidate, want.term, want.candidate)
		}
	}
}

func TestVoteReadsItsOwnWrites(t *testing.T) {
	fake := newFakeStorage()
	store := &voteOrder{StableStore: fake}
	if got := must(store.GetUint64(keyVoteTerm))(t); got != 0 {
		t.Errorf("the term of a vote never given reads as %d", got)
	}
	ok(t, store.SetUint64(keyVoteTerm, 7))
	if got := must(store.GetUint64(keyVoteTerm))(t); got != 7 {
		t.Errorf("the term just set reads as %d", got)
	}
	fake.onCall(func(string) error { return errors.New("disk full") })
	if store.Set(keyVoteCandidate, []byte("c")) == nil {
		t.Error("a failed write has passed")
	}
	fake.onCall(nil)
	if got := must(store.GetUint64(keyVoteTerm))(t); got != 0 {
		t.Errorf("the term of a vote that was not stored reads as %d", got)
	}
	ok(t, store.SetUint64([]byte("other"), 1))
	ok(t, store.Set([]byte("other2"), []byte("x")))
	if got := must(store.GetUint64([]byte("other")))(t); got != 1 {
		t.Errorf("another key reads as %d", got)
	}
}

// Raft itself still uses these keys: an election stores the term, then candidate before vote's term.
func TestElectionStoresCandidateFirst(t *testing.T) {
	t.Parallel()
	fake := newFakeStorage()
	startFake(t, fake, nil)
	var stored []string
	for _, call := range fake.recordedCalls() {
		if call == "set LastVoteCand" || call == "set LastVoteTerm" {
			stored = append(stored, call)
		}
	}
	if len(stored) < 2 || !slices.Equal(stored[:2], []string{"set LastVoteCand", "set LastVoteTerm"}) {
		t.Fatalf("an election stored %q", stored)
	}
	if term := must(fake.GetUint64(keyVoteTerm))(t); term == 0 {
		t.Error("no vote is stored")
	}
}

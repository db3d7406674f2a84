package raftnode

import (
	"bytes"
	"sync"

	"github.com/hashicorp/raft"
)

// The names under which Raft stores its term and its vote.
var (
	keyCurrentTerm   = []byte("CurrentTerm")
	keyVoteTerm      = []byte("LastVoteTerm")
	keyVoteCandidate = []byte("LastVoteCand")
)

// voteOrder stores the candidate of a vote before the vote's term. Raft stores the term first. A node
// that ends between its two writes would find, at its next start, the new term beside the candidate
// of its former vote; asked by that candidate in the new term, it would take the vote for given and
// repeat it, without comparing logs. The other order is harmless: a former term beside any candidate
// is of no use to anybody, since requests of former terms are refused.
type voteOrder struct {
	raft.StableStore

	mu   sync.Mutex
	held bool
	term uint64
}

// SetUint64 holds the vote's term back until its candidate is stored.
func (v *voteOrder) SetUint64(key []byte, value uint64) error {
	if !bytes.Equal(key, keyVoteTerm) {
		return v.StableStore.SetUint64(key, value)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.held, v.term = true, value
	return nil
}

// Set stores a value; after a vote's candidate, the term that was held back.
func (v *voteOrder) Set(key, value []byte) error {
	if !bytes.Equal(key, keyVoteCandidate) {
		return v.StableStore.Set(key, value)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	held := v.held
	v.held = false
	if err := v.StableStore.Set(key, value); err != nil {
		return err
	}
	if !held {
		return nil
	}
	return v.StableStore.SetUint64(keyVoteTerm, v.term)
}

// GetUint64 reads a value; of a vote's term, the one held back if there is one.
func (v *voteOrder) GetUint64(key []byte) (uint64, error) {
	if bytes.Equal(key, keyVoteTerm) {
		v.mu.Lock()
		defer v.mu.Unlock()
		if v.held {
			return v.term, nil
		}
	}
	return v.StableStore.GetUint64(key)
}

// absent says whether a stable store's error means that the key has no value. Raft itself knows it
// by this text only.
func absent(err error) bool {
	return err != nil && err.Error() == "not found"
}

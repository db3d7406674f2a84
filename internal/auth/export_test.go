package auth

import "github.com/lancemaster/lancemaster/internal/job"

// CountCompares counts the comparisons of hashes until undo is called.
func CountCompares() (count *int, undo func()) {
	n, was := 0, sameHash
	sameHash = func(a, b job.Hash) bool { n++; return was(a, b) }
	return &n, func() { sameHash = was }
}

// Bounds for tests.
const (
	FailBurst    = failBurst
	FailEvery    = failEvery
	MaxPeers     = maxPeers
	MaxWaits     = maxWaits
	MaxWaitsEach = maxWaitsEach
	CurrentWait  = currentWait
)

// Peers returns how many addresses are remembered.
func (a *Authenticator) Peers() int { return len(a.limiter.peers) }

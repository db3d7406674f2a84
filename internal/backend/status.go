package backend

import (
	"time"

	"github.com/lancemaster/lancemaster/internal/job"
)

// Status is what the monitor knows of one backend in its term. Times carry the
// monotonic clock.
type Status struct {
	Backend      job.BackendID
	Term         uint64
	Alive        bool      // an OK answer at most three intervals ago
	FirstAsked   time.Time // when this term's heartbeats of it began
	LastOK       time.Time // zero: none in this term
	OKAsked      time.Time // when the newest OK answer was asked for; zero: none in this term
	Failures     int64     // answers of this term that were not OK, and missing ones
	ProcessEpoch int64     // of the newest OK answer
	RemoteAddr   string    // the resolved IP:port of the newest OK answer
	Version      string
	LastError    string // of the newest answer, when that was not OK
	LastErrorAt  time.Time
	Observations []Observation
}

// Observation is one process that answered at one resolved address.
type Observation struct {
	ProcessEpoch int64
	RemoteAddr   string
	Term         uint64
	// RequestedAt is when the newest OK answer of this process was asked for, with
	// the monotonic clock.
	RequestedAt time.Time
}

// Bounds on what is kept: the proof needs two epochs of one address.
const (
	epochsPerAddress = 2
	maxAddresses     = 8
)

// observe merges an observation into a list that is ordered by RequestedAt, the
// newest last, and reports whether this process at this address is new to it.
func observe(list []Observation, o Observation) ([]Observation, bool) {
	kept := make([]Observation, 0, len(list)+1)
	known := false
	for _, old := range list {
		if old.ProcessEpoch == o.ProcessEpoch && old.RemoteAddr == o.RemoteAddr {
			known = true
			continue
		}
		kept = append(kept, old)
	}
	kept = append(kept, o)
	return trim(kept), !known
}

// trim drops, of each address, all but the epochs asked for last, and all
// addresses but the newest ones.
func trim(list []Observation) []Observation {
	epochs := make(map[string]int)
	keep := make([]bool, len(list))
	for i := len(list) - 1; i >= 0; i-- {
		addr := list[i].RemoteAddr
		if _, seen := epochs[addr]; !seen && len(epochs) == maxAddresses {
			continue
		}
		epochs[addr]++
		keep[i] = epochs[addr] <= epochsPerAddress
	}
	kept := list[:0]
	for i, o := range list {
		if keep[i] {
			kept = append(kept, o)
		}
	}
	return kept
}

package raftnode

import (
	"sync"

	"github.com/hashicorp/raft"
)

// leadership is the term this node leads, if it leads one.
type leadership struct {
	mu      sync.Mutex
	term    uint64 // the term led now, or 0
	noted   bool   // something has been noted
	ended   bool   // no term is ever led again
	changed chan struct{}
}

func newLeadership() *leadership {
	return &leadership{changed: make(chan struct{})}
}

// note says that the node leads term, or with 0 that it leads none.
func (l *leadership) note(term uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.setLocked(term)
}

// catchUp is note for the first thing noted, and does nothing afterwards.
func (l *leadership) catchUp(term uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.noted {
		l.setLocked(term)
	}
}

// end says that the node leads no term from now on.
func (l *leadership) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.setLocked(0)
	l.ended = true
}

func (l *leadership) setLocked(term uint64) {
	l.noted = true
	if l.ended || l.term == term {
		return
	}
	l.term = term
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *leadership) get() (term uint64, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.term, l.changed
}

// observe is called by Raft on the goroutine that changes its state, at that moment: the term of a
// new leader is exact here, and later may not be. It asks for no observation to be sent.
func (n *Node) observe(seen *raft.Observation) bool {
	if state, ok := seen.Data.(raft.RaftState); ok {
		if state == raft.Leader {
			n.leadership.note(seen.Raft.CurrentTerm())
		} else {
			n.leadership.note(0)
		}
	}
	return false
}

// watchLeadership makes observe known to Raft. Raft has been running for a moment then: should it
// lead already, that is made up for. A state read between two readings of one term belongs to that
// term, since Raft leaves a state before it takes a new term; what happens after the reading is
// observed.
func (n *Node) watchLeadership(r *raft.Raft) {
	r.RegisterObserver(raft.NewObserver(nil, false, n.observe))
	for {
		term := r.CurrentTerm()
		leads := r.State() == raft.Leader
		if r.CurrentTerm() != term {
			continue
		}
		if leads {
			n.leadership.catchUp(term)
		}
		return
	}
}

// Leadership returns the term this node leads, whether it leads one, and a channel that is closed at
// the next change. A node leads a term at most once: whoever sees another term than before knows
// that the one before was lost, whatever it missed in between.
func (n *Node) Leadership() (term uint64, leads bool, changed <-chan struct{}) {
	term, changed = n.leadership.get()
	return term, term != 0, changed
}

// Term returns the term this node leads and true, or the newest term it knows and false.
func (n *Node) Term() (term uint64, leads bool) {
	if term, _ = n.leadership.get(); term != 0 {
		return term, true
	}
	if r := n.running(); r != nil {
		return r.CurrentTerm(), false
	}
	return 0, false
}

// Leader returns the member that leads as far as this node knows, or two empty strings.
func (n *Node) Leader() (id, address string) {
	r := n.running()
	if r == nil {
		return "", ""
	}
	leaderAddress, leaderID := r.LeaderWithID()
	return string(leaderID), string(leaderAddress)
}

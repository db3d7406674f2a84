package raftnode

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/raft"
)

// AddNonvoter adds a member that gets the log and has no vote, or gives a member another address. A
// voter stays one.
//
// This and the other changes of the member list work on the leader only, one at a time, and return
// when the new list is committed. An error that wraps ErrNotAppended says that the list certainly
// stays as it was; together with ErrChanging, because another change is under way. After any other
// error the change may have been made, and may yet be: look at Servers when a leader has passed a
// barrier.
func (n *Node) AddNonvoter(ctx context.Context, id, address string) error {
	return n.change(ctx, "add "+id+" without a vote", func(list raft.Configuration) (bool, error) {
		at, ok := find(list, id)
		return !ok || at.Address != raft.ServerAddress(address), newMember(list, id, address)
	}, func(r *raft.Raft, index uint64, wait time.Duration) raft.IndexFuture {
		return r.AddNonvoter(raft.ServerID(id), raft.ServerAddress(address), index, wait)
	})
}

// AddVoter adds a member with a vote, gives a member the vote, or a voter another address.
func (n *Node) AddVoter(ctx context.Context, id, address string) error {
	return n.change(ctx, "add "+id+" with a vote", func(list raft.Configuration) (bool, error) {
		at, ok := find(list, id)
		wanted := ok && at.Suffrage == raft.Voter && at.Address == raft.ServerAddress(address)
		return !wanted, newMember(list, id, address)
	}, func(r *raft.Raft, index uint64, wait time.Duration) raft.IndexFuture {
		return r.AddVoter(raft.ServerID(id), raft.ServerAddress(address), index, wait)
	})
}

// Demote takes a member's vote. A leader that is demoted steps down.
func (n *Node) Demote(ctx context.Context, id string) error {
	return n.change(ctx, "take the vote of "+id, func(list raft.Configuration) (bool, error) {
		at, ok := find(list, id)
		if !ok {
			return false, fmt.Errorf("%w: %q", ErrNotMember, id)
		}
		return at.Suffrage == raft.Voter, lastVoter(list, id)
	}, func(r *raft.Raft, index uint64, wait time.Duration) raft.IndexFuture {
		return r.DemoteVoter(raft.ServerID(id), index, wait)
	})
}

// RemoveServer removes a member. A leader that is removed steps down when the list without it is
// committed; to hand over in order, transfer the leadership first. The removed node goes on running,
// so that its operator can ask it what happened, and knows itself as no member as soon as it has the
// new list; see the package's documentation for one that does not get it.
func (n *Node) RemoveServer(ctx context.Context, id string) error {
	return n.change(ctx, "remove "+id, func(list raft.Configuration) (bool, error) {
		if _, ok := find(list, id); !ok {
			return false, fmt.Errorf("%w: %q", ErrNotMember, id)
		}
		return true, lastVoter(list, id)
	}, func(r *raft.Raft, index uint64, wait time.Duration) raft.IndexFuture {
		return r.RemoveServer(raft.ServerID(id), index, wait)
	})
}

func find(list raft.Configuration, id string) (raft.Server, bool) {
	i := slices.IndexFunc(list.Servers, func(s raft.Server) bool { return s.ID == raft.ServerID(id) })
	if i < 0 {
		return raft.Server{}, false
	}
	return list.Servers[i], true
}

// newMember checks an entry of the member list before it is made.
func newMember(list raft.Configuration, id, address string) error {
	if id == "" || address == "" {
		return fmt.Errorf("a member needs an id and an address, not %q and %q", id, address)
	}
	for _, other := range list.Servers {
		if other.Address == raft.ServerAddress(address) && other.ID != raft.ServerID(id) {
			return fmt.Errorf("member %q has the address %s already", other.ID, address)
		}
	}
	return nil
}

// lastVoter refuses to leave nobody with a vote.
func lastVoter(list raft.Configuration, without string) error {
	for _, other := range list.Servers {
		if other.Suffrage == raft.Voter && other.ID != raft.ServerID(without) {
			return nil
		}
	}
	return fmt.Errorf("%w: %q; add another voter first", ErrLastVoter, without)
}

// change makes one change of the member list. check says whether there is anything to do, given the
// present list; begin hands the change to Raft, to be made only if the list is still of that index.
func (n *Node) change(ctx context.Context, what string, check func(raft.Configuration) (bool, error),
	begin func(r *raft.Raft, index uint64, wait time.Duration) raft.IndexFuture,
) error {
	refuse := func(err error) error { return fmt.Errorf("%s: %w: %w", what, ErrNotAppended, err) }
	r := n.running()
	if r == nil || !n.proposals.enter() {
		return refuse(ErrStopped)
	}
	select {
	case n.changing <- struct{}{}:
	default:
		n.proposals.leave()
		return refuse(ErrChanging)
	}
	release := func() {
		<-n.changing
		n.proposals.leave()
	}
	index, needed, err := n.checkChange(r, check)
	if err != nil || !needed {
		release()
		if err != nil {
			return refuse(err)
		}
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, n.config.BarrierTimeout,
		fmt.Errorf("%w: not committed within %s", ErrTimeout, n.config.BarrierTimeout))
	defer cancel()
	if err := ctx.Err(); err != nil {
		release()
		return refuse(context.Cause(ctx))
	}
	wait := n.config.EnqueueTimeout
	if deadline, ok := ctx.Deadline(); ok {
		wait = min(wait, max(time.Until(deadline), time.Millisecond))
	}
	done := make(chan error, 1)
	n.background.Go(func() {
		defer release()
		done <- n.await(begin(r, index, wait))
	})
	select {
	case err := <-done:
		return changeError(what, err)
	case <-n.disk.troubled:
		return changeError(what, n.disk.Err())
	case <-ctx.Done():
		return changeError(what, waitError(ctx, "the new member list"))
	}
}

// checkChange looks whether a change of the member list can and must be made.
func (n *Node) checkChange(r *raft.Raft, check func(raft.Configuration) (bool, error)) (index uint64, needed bool, err error) {
	if err := n.disk.Err(); err != nil {
		return 0, false, err
	}
	if _, leads := n.Term(); !leads {
		return 0, false, ErrNotLeader
	}
	// The index first: should the list change in between, Raft refuses the change, because the index
	// is not the newest.
	index, err = n.listIndex()
	if err != nil {
		return 0, false, err
	}
	if index > r.CommitIndex() {
		return 0, false, ErrChanging
	}
	// This future is answered when it is made: the library keeps a copy of the list.
	future := r.GetConfiguration()
	if err := future.Error(); err != nil {
		return 0, false, translate(err)
	}
	needed, err = check(future.Configuration())
	return index, needed, err
}

// listIndex returns where in the log the newest member list stands. The library's answer to this is
// always 0, so it is looked up: in the log, and behind its begin in the newest snapshot.
func (n *Node) listIndex() (uint64, error) {
	first, err := n.logs.FirstIndex()
	if err != nil {
		return 0, fmt.Errorf("look for the member list: %w", err)
	}
	last, err := n.logs.LastIndex()
	if err != nil {
		return 0, fmt.Errorf("look for the member list: %w", err)
	}
	var entry raft.Log
	for index := last; index >= first && index > 0; index-- {
		err := n.logs.GetLog(index, &entry)
		if errors.Is(err, raft.ErrLogNotFound) {
			break // the log's begin has been removed meanwhile
		}
		if err != nil {
			return 0, fmt.Errorf("look for the member list: %w", err)
		}
		if entry.Type == raft.LogConfiguration {
			return index, nil
		}
	}
	snapshots, err := n.snapshots.List()
	if err != nil || len(snapshots) == 0 {
		return 0, errors.Join(errors.New("the member list is neither in the log nor in a snapshot"), err)
	}
	return snapshots[0].ConfigurationIndex, nil
}

// changeError is what a change of the member list returns for Raft's answer.
func changeError(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case notAppended(err):
		return fmt.Errorf("%s: %w: %w", what, ErrNotAppended, translate(err))
	case strings.HasPrefix(err.Error(), "configuration changed since"):
		// The library has no name for it. The list it was checked against is not the newest.
		return fmt.Errorf("%s: %w: %w", what, ErrNotAppended, ErrChanging)
	default:
		return fmt.Errorf("%s: outcome unknown: %w", what, translate(err))
	}
}

// TransferLeadership hands the leadership to the member whose log is most complete, and returns when
// this node has ceased to lead. It fails when there is no other voter.
func (n *Node) TransferLeadership(ctx context.Context) error {
	return n.TransferLeadershipTo(ctx, "")
}

// TransferLeadershipTo hands the leadership to a member, which must have a vote, and returns when this
// node has ceased to lead; empty means the member whose log is most complete. Another member may win
// the election all the same: ask Leader. Nothing is done when this node leads and is the one meant.
func (n *Node) TransferLeadershipTo(ctx context.Context, id string) error {
	fail := func(err error) error { return fmt.Errorf("transfer leadership: %w", err) }
	r := n.running()
	if r == nil {
		return fail(ErrStopped)
	}
	begin := r.LeadershipTransfer
	if id != "" {
		if _, leads := n.Term(); !leads {
			return fail(ErrNotLeader)
		}
		if id == n.config.ID {
			return nil
		}
		future := r.GetConfiguration()
		if err := future.Error(); err != nil {
			return fail(translate(err))
		}
		to, ok := find(future.Configuration(), id)
		switch {
		case !ok:
			return fail(fmt.Errorf("%w: %q", ErrNotMember, id))
		case to.Suffrage != raft.Voter:
			return fail(fmt.Errorf("member %q has no vote; it gets one when it has caught up", id))
		}
		begin = func() raft.Future { return r.LeadershipTransferToServer(to.ID, to.Address) }
	}
	if !n.proposals.enter() {
		return fail(ErrStopped)
	}
	done := make(chan error, 1)
	n.background.Go(func() {
		defer n.proposals.leave()
		done <- n.await(begin())
	})
	select {
	case err := <-done:
		if err != nil {
			return fail(translate(err))
		}
		return nil
	case <-ctx.Done():
		return waitError(ctx, "the leadership to be transferred")
	}
}

package raftnode

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/raft"
)

// Errors that callers tell apart with errors.Is.
var (
	// ErrNotAppended says that a command is certainly not in the log and never will be: it may be
	// proposed again. Any other error of Propose leaves that open.
	ErrNotAppended = errors.New("not appended to the journal")
	// ErrNotLeader says that this node does not lead. Ask the leader.
	ErrNotLeader = errors.New("this node is not the leader")
	// ErrLeadershipLost says that this node ceased to lead while it waited. What it waited for may
	// have happened.
	ErrLeadershipLost = errors.New("leadership was lost meanwhile")
	// ErrBusy says that the leader took no command in time, or is handing over its leadership. Try
	// again.
	ErrBusy = errors.New("the leader takes no commands at the moment")
	// ErrTooLarge says that a command exceeds Config.MaxCommandSize.
	ErrTooLarge = errors.New("command too large for the journal")
	// ErrStopped says that the node has not been started, or is stopping, or has stopped.
	ErrStopped = errors.New("the raft node is not running")
	// ErrTimeout says that a bound of the node itself has passed.
	ErrTimeout = errors.New("the raft node did not answer in time")
	// ErrHasState says that formation was refused because the disk already belongs to a cluster.
	ErrHasState = errors.New("the disk already holds the state of a cluster")
	// ErrNoState says that a recovery was refused because the disk holds nothing to recover.
	ErrNoState = errors.New("the disk does not hold the state of a cluster; form one or join one instead")
	// ErrRecovering says that a recovery has begun on the disk and has not ended.
	ErrRecovering = errors.New("the recovery of this node has not ended; run it again, to its end, before the node is started")
	// ErrChanging says that another change of the member list is under way. Try again when it is done.
	ErrChanging = errors.New("another change of the members is under way")
	// ErrNotMember says that the member list does not have the member that is meant.
	ErrNotMember = errors.New("not a member of the cluster")
	// ErrLastVoter says that a change would leave nobody with a vote.
	ErrLastVoter = errors.New("the last member with a vote cannot lose it")
	// ErrDisk says that the node's disk has failed. The node goes no further; see Config.Fatal.
	ErrDisk = errors.New("the disk failed")
)

// translate puts this package's error in front of Raft's, and leaves what it does not know as it is.
func translate(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, raft.ErrNotLeader):
		return fmt.Errorf("%w (%w)", ErrNotLeader, err)
	case errors.Is(err, raft.ErrLeadershipLost):
		return fmt.Errorf("%w (%w)", ErrLeadershipLost, err)
	case errors.Is(err, raft.ErrEnqueueTimeout), errors.Is(err, raft.ErrLeadershipTransferInProgress):
		return fmt.Errorf("%w (%w)", ErrBusy, err)
	case errors.Is(err, raft.ErrRaftShutdown):
		return fmt.Errorf("%w (%w)", ErrStopped, err)
	default:
		return err
	}
}

// notAppended says whether Raft's answer to a command proves that it was not appended. In the
// library these three are given only before an entry gets its index: an entry that has one is
// answered with raft.ErrLeadershipLost when its leader steps down.
func notAppended(err error) bool {
	return errors.Is(err, raft.ErrNotLeader) ||
		errors.Is(err, raft.ErrEnqueueTimeout) ||
		errors.Is(err, raft.ErrLeadershipTransferInProgress)
}

// proposalError is what Propose returns for Raft's answer.
func proposalError(err error) error {
	switch {
	case err == nil:
		return nil
	case notAppended(err):
		return fmt.Errorf("%w: %w", ErrNotAppended, translate(err))
	default:
		return fmt.Errorf("outcome of the command unknown: %w", translate(err))
	}
}

// waitError is the error of a wait that the caller's context ended.
func waitError(ctx context.Context, what string) error {
	return fmt.Errorf("stopped waiting for %s: %w", what, context.Cause(ctx))
}

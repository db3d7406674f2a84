package raftnode

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

func TestNotAppendedIsSaidExactlyWhenItIsTrue(t *testing.T) {
	for _, err := range []error{raft.ErrNotLeader, raft.ErrEnqueueTimeout, raft.ErrLeadershipTransferInProgress} {
		if got := proposalError(err); !errors.Is(got, ErrNotAppended) || !errors.Is(got, err) {
			t.Errorf("%v becomes %v", err, got)
		}
	}
	for _, err := range []error{
		raft.ErrLeadershipLost, raft.ErrRaftShutdown, raft.ErrAbortedByRestore, raft.ErrLeader, raft.ErrNotVoter,
		raft.ErrNothingNewToSnapshot, raft.ErrUnsupportedProtocol, raft.ErrCantBootstrap,
		context.Canceled, context.DeadlineExceeded, errors.New("disk full"),
	} {
		if got := proposalError(err); errors.Is(got, ErrNotAppended) || !errors.Is(got, err) {
			t.Errorf("%v becomes %v", err, got)
		}
	}
	if proposalError(nil) != nil || translate(nil) != nil {
		t.Error("success becomes an error")
	}
	for raftErr, want := range map[error]error{
		raft.ErrNotLeader: ErrNotLeader, raft.ErrLeadershipLost: ErrLeadershipLost, raft.ErrEnqueueTimeout: ErrBusy,
		raft.ErrLeadershipTransferInProgress: ErrBusy, raft.ErrRaftShutdown: ErrStopped,
	} {
		if got := translate(raftErr); !errors.Is(got, want) {
			t.Errorf("%v becomes %v", raftErr, got)
		}
	}
}

func TestCommandSizeIsBounded(t *testing.T) {
	t.Parallel()
	config, _ := testConfig(t, "m1", t.TempDir(), &recorder{})
	config.MaxCommandSize = 10
	n := startSingle(t, config)
	propose(t, n, "0123456789")
	_, _, err := n.Propose(within(t), []byte("0123456789a"))
	if !errors.Is(err, ErrTooLarge) || !errors.Is(err, ErrNotAppended) {
		t.Errorf("a command that is too large: %v", err)
	}
}

func TestFollowerAppendsNothing(t *testing.T) {
	t.Parallel()
	c := startCluster(t, nil)
	eventually(t, "no member follows for long enough", func() bool {
		follower := c.nodes[(c.leader(t)+1)%3]
		_, _, proposed := follower.Propose(within(t), []byte("x"))
		read := follower.ReadBarrier(within(t))
		transferred := follower.TransferLeadership(within(t))
		if proposed == nil || read == nil || transferred == nil {
			return false // it has come to lead
		}
		if !errors.Is(proposed, ErrNotAppended) || !errors.Is(proposed, ErrNotLeader) {
			t.Errorf("propose on a follower: %v", proposed)
		}
		if !errors.Is(read, ErrNotLeader) || !errors.Is(transferred, ErrNotLeader) {
			t.Errorf("barrier and transfer on a follower: %v, %v", read, transferred)
		}
		return true
	})
}

// deaf is a transport whose member can be made not to replicate, and to go on with heartbeats.
type deaf struct {
	*raft.InmemTransport
	on *atomic.Bool
}

func (d deaf) AppendEntries(id raft.ServerID, to raft.ServerAddress, request *raft.AppendEntriesRequest,
	answer *raft.AppendEntriesResponse,
) error {
	if d.on.Load() && len(request.Entries) > 0 {
		return errors.New("lost on the way")
	}
	return d.InmemTransport.AppendEntries(id, to, request, answer)
}

// A leader that is cut off while a command is under way does not know what became of it.
func TestLeadershipLostMidwayIsAmbiguous(t *testing.T) {
	t.Parallel()
	var off atomic.Bool
	c := startCluster(t, func(below *raft.InmemTransport) raft.Transport {
		return deaf{below, &off}
	})
	lead := c.leader(t)
	before := c.nodes[lead].Stats().LastLogIndex
	off.Store(true)
	ended := make(chan error, 1)
	go func() {
		_, _, err := c.nodes[lead].Propose(context.Background(), []byte("maybe"))
		ended <- err
	}()
	eventually(t, "the command is not in the leader's log", func() bool { return c.nodes[lead].Stats().LastLogIndex > before })
	c.cut(lead)
	if err := <-ended; !errors.Is(err, ErrLeadershipLost) || errors.Is(err, ErrNotAppended) {
		t.Errorf("a command of a leader that was cut off: %v", err)
	}
	off.Store(false)
	propose(t, c.nodes[c.leader(t, lead)], "known")
	c.connect(lead)
	eventually(t, "the former leader does not catch up", func() bool {
		return slices.Equal(c.fsms[lead].applied(), []string{"known"})
	})
}

func TestTransferLeadership(t *testing.T) {
	t.Parallel()
	c := startCluster(t, nil)
	eventually(t, "the leadership is not transferred", func() bool {
		lead := c.nodes[c.leader(t)]
		before, leads := lead.Term()
		if !leads || lead.TransferLeadership(within(t)) != nil {
			return false
		}
		if term, leads := lead.Term(); leads && term == before {
			t.Error("the leader leads on")
		}
		return true
	})
	c.propose(t, "x")
}

func TestTransferAloneFails(t *testing.T) {
	t.Parallel()
	config, _ := testConfig(t, "m1", t.TempDir(), &recorder{})
	n := startSingle(t, config)
	if n.TransferLeadership(within(t)) == nil {
		t.Error("a single member has handed over to nobody")
	}
	propose(t, n, "still leads")
}

// Each of several callers gives up most of its commands and goes on at once; those of its commands
// that are applied are applied in the order of its calls, and none twice.
func TestCommandsOfOneCallerKeepTheirOrder(t *testing.T) {
	t.Parallel()
	fsm := &recorder{}
	config, _ := testConfig(t, "m1", t.TempDir(), fsm)
	n := startSingle(t, config)
	var callers sync.WaitGroup
	for caller := range 4 {
		callers.Go(func() {
			for i := range 1000 {
				ctx, cancel := context.WithCancel(t.Context())
				if i%20 != 0 {
					time.AfterFunc(time.Duration(i%4)*20*time.Microsecond, cancel)
				}
				_, _, err := n.Propose(ctx, fmt.Appendf(nil, "%d %d", caller, i))
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Errorf("propose: %v", err)
				}
				cancel()
			}
		})
	}
	callers.Wait()
	ok(t, n.ReadBarrier(within(t)))
	last := map[string]int{"0": -1, "1": -1, "2": -1, "3": -1}
	for _, command := range fsm.applied() {
		i := must(strconv.Atoi(command[2:]))(t)
		if i <= last[command[:1]] {
			t.Errorf("caller %s: command %d after %d", command[:1], i, last[command[:1]])
		}
		last[command[:1]] = i
	}
}

// A caller may use its bytes again once it has given up.
func TestProposalOwnsItsBytes(t *testing.T) {
	t.Parallel()
	fsm := &recorder{}
	fake := newFakeStorage()
	n, _ := startFake(t, fake, func(c *Config) { c.FSM = fsm })
	hang, reached := make(chan struct{}), make(chan struct{}, 10)
	fake.onCall(func(call string) error {
		if call == "append" {
			reached <- struct{}{}
			<-hang
		}
		return nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	data, ended := []byte("before"), make(chan error, 1)
	go func() {
		_, _, err := n.Propose(ctx, data)
		ended <- err
	}()
	<-reached
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) || errors.Is(err, ErrNotAppended) {
		t.Errorf("a command given up: %v", err)
	}
	copy(data, "after!")
	close(hang)
	eventually(t, "the command is not applied", func() bool { return slices.Equal(fsm.applied(), []string{"before"}) })
}

// Every kind of future that the node waits for can be made to end. Here Raft answers none of them: its
// own goroutine is busy with a write.
func TestFuturesCanBeEnded(t *testing.T) {
	t.Parallel()
	fake := newFakeStorage()
	n, _ := startFake(t, fake, nil)
	hang, reached := make(chan struct{}), make(chan struct{}, 10)
	defer close(hang)
	fake.onCall(func(call string) error {
		if call == "append" {
			reached <- struct{}{}
			<-hang
		}
		return nil
	})
	n.raft.Apply([]byte("first"), patience)
	<-reached
	ended := make(chan struct{})
	close(ended)
	for name, future := range map[string]raft.Future{
		"a command":  n.raft.Apply([]byte("x"), patience),
		"a barrier":  n.raft.Barrier(patience),
		"a transfer": n.raft.LeadershipTransfer(),
	} {
		endWith(future, ended)
		if err := future.Error(); !errors.Is(err, raft.ErrRaftShutdown) {
			t.Errorf("%s: %v", name, err)
		}
	}
	endWith(n.raft.LeadershipTransfer(), ended) // refused at once: answered already
}

func TestCallersWaitIsTheirs(t *testing.T) {
	t.Parallel()
	fsm := &recorder{}
	config, _ := testConfig(t, "m1", t.TempDir(), fsm)
	config.BarrierTimeout = 20 * time.Millisecond
	n := startSingle(t, config)
	block := make(chan struct{})
	fsm.blockOn(block)
	defer close(block)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, _, err := n.Propose(ctx, []byte("x")); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrNotAppended) {
		t.Errorf("propose: %v", err)
	}
	if err := n.ReadBarrier(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("barrier: %v", err)
	}
	if err := n.ReadBarrier(within(t)); !errors.Is(err, ErrTimeout) {
		t.Errorf("barrier: %v", err)
	}
}

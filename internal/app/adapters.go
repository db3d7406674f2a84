package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"github.com/lancemaster/lancemaster/internal/admission"
	"github.com/lancemaster/lancemaster/internal/backend"
	"github.com/lancemaster/lancemaster/internal/command"
	"github.com/lancemaster/lancemaster/internal/dispatch"
	"github.com/lancemaster/lancemaster/internal/explain"
	"github.com/lancemaster/lancemaster/internal/fsm"
	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/raftnode"
	"github.com/lancemaster/lancemaster/internal/refresh"
	"github.com/lancemaster/lancemaster/internal/release"
	"github.com/lancemaster/lancemaster/internal/rpc"
)

// This file fits packages together that do not know each other. Nothing here
// decides anything.

// rpcState shows the state machine to the Thrift services.
type rpcState struct{ *fsm.Machine }

func (s rpcState) Read(f func(rpc.View)) {
	s.Machine.Read(func(l *job.Live) { f(l) })
}

func (s rpcState) SettingsHistory(name string, limit int) ([]rpc.SettingChange, error) {
	entries, err := s.Machine.SettingsHistory(name, limit)
	if err != nil {
		return nil, err
	}
	out := make([]rpc.SettingChange, 0, len(entries))
	for _, e := range entries {
		out = append(out, rpc.SettingChange{Index: e.Index, SettingChange: e.Change})
	}
	return out, nil
}

// latches closes latches for the report service.
type latches struct{ *dispatch.Sends }

func (l latches) CloseLatch(id job.ID, invocationID string) { l.Close(id, invocationID) }

// liveness shows the heartbeats to the admin service.
type liveness struct{ monitor *backend.Monitor }

func (l liveness) Backend(id job.BackendID) rpc.BackendLiveness {
	s, ok := l.monitor.Status(id)
	if !ok {
		return rpc.BackendLiveness{Unheard: true, LastError: "no heartbeat was sent in this term yet"}
	}
	return livenessOf(s)
}

func livenessOf(s backend.Status) rpc.BackendLiveness {
	out := rpc.BackendLiveness{
		Unheard: s.LastOK.IsZero() && s.Failures == 0, Alive: s.Alive, ProcessEpoch: s.ProcessEpoch, LastError: s.LastError, Version: s.Version,
	}
	if !s.LastOK.IsZero() {
		out.LastOKAt = job.Millis(s.LastOK.UnixMilli())
	}
	return out
}

// sender dials backends for the dispatcher.
type sender struct{ *rpc.BackendClient }

func (s sender) Dial(ctx context.Context, at job.Address) (dispatch.Conn, error) {
	conn, err := s.BackendClient.Dial(ctx, at)
	if err != nil {
		return nil, err // not conn: a nil pointer in an interface is not nil
	}
	return conn, nil
}

// readBarrier returns once the state shows all that was acknowledged before. Raft
// answers a barrier that the state machine never saw: one that applies nothing any
// more would go on being read as if it were current.
func (a *App) readBarrier(ctx context.Context) error {
	if err := a.node.ReadBarrier(ctx); err != nil {
		return err
	}
	return a.machine.Err()
}

// barrier is the read barrier for the dispatcher.
type barrier struct{ a *App }

func (b barrier) Barrier(ctx context.Context) error { return b.a.readBarrier(ctx) }

// wallClock reads the wall clock.
type wallClock func() time.Time

func (w wallClock) Now() time.Time { return w() }

// readyWait is how long a request waits for this node to lead and serve. It
// covers a node's start, so that a client which comes a moment early is served.
const readyWait = 5 * time.Second

// leaderPoll is how often a follower that knows no leader looks for one: Raft tells
// nobody when it learns of one.
const leaderPoll = 20 * time.Millisecond

// leading makes requests wait until this node leads and has passed its barrier, or
// knows who leads.
type leading struct{ a *App }

// WaitLeader returns once this node leads and serves, or knows the leader.
func (l leading) WaitLeader(ctx context.Context) (rpc.Leader, error) {
	l.a.mu.Lock() // Start holds it: a request that comes while the node starts waits here
	manager, stopped := l.a.manager, l.a.stopping
	l.a.mu.Unlock()
	if manager == nil {
		return rpc.Leader{}, fmt.Errorf("%w: %w", rpc.ErrNotLeader, errStopped)
	}
	tick := time.NewTicker(leaderPoll)
	defer tick.Stop()
	for {
		changed := manager.Changed()
		if _, ok := manager.Ready(); ok {
			return rpc.Leader{Self: true}, nil
		}
		if id, _ := l.a.node.Leader(); id != "" && id != l.a.cfg.NodeID {
			return rpc.Leader{NodeID: id}, nil
		}
		select {
		case <-changed:
		case <-tick.C:
		case <-stopped:
			return rpc.Leader{}, fmt.Errorf("%w: %w", rpc.ErrNotLeader, errStopped)
		case <-ctx.Done():
			return rpc.Leader{}, fmt.Errorf("%w: %w", rpc.ErrNotLeader, context.Cause(ctx))
		}
	}
}

// waitSelf returns once this node leads and serves, and at once when another does.
func (l leading) waitSelf(ctx context.Context) error {
	leader, err := l.WaitLeader(ctx)
	if err == nil && !leader.Self {
		return fmt.Errorf("%w: the leader is %s", rpc.ErrNotLeader, leader.NodeID)
	}
	return err
}

// ReadBarrier makes what follows see all that was acknowledged before.
func (l leading) ReadBarrier(ctx context.Context) error {
	wait, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	if err := l.waitSelf(wait); err != nil {
		return err
	}
	err := l.a.readBarrier(ctx)
	if errors.Is(err, raftnode.ErrNotLeader) || errors.Is(err, raftnode.ErrLeadershipLost) {
		return fmt.Errorf("%w: %w", rpc.ErrNotLeader, err)
	}
	return err
}

// servingJournal takes commands from clients: only of a node that leads and has
// passed its barrier.
type servingJournal struct {
	leading leading
	journal *journal
}

func (s servingJournal) Propose(ctx context.Context, c job.Command) (job.Answer, error) {
	wait, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	if err := s.leading.waitSelf(wait); err != nil {
		return job.Answer{}, fmt.Errorf("%w: %w", job.ErrNotAppended, err)
	}
	return s.journal.Propose(ctx, c)
}

// requestJournal takes what a person asked for: a value that no command can hold is
// that request's fault, not a cluster that takes no changes.
type requestJournal struct{ servingJournal }

func (r requestJournal) Propose(ctx context.Context, c job.Command) (job.Answer, error) {
	answer, err := r.servingJournal.Propose(ctx, c)
	if bad, ok := errors.AsType[*command.InvalidError](err); ok {
		return job.Answer{}, &job.Refusal{Code: job.CodeInvalid, Message: bad.Err.Error(), Next: "correct the request and send it again"}
	}
	return answer, err
}

// watchedFSM puts the state machine's disk writes under the node's watch, so that
// a hung disk ends the process wherever it is noticed first.
type watchedFSM struct {
	*fsm.Machine
	watch *raftnode.DiskWatch
}

func (w watchedFSM) Apply(entry *raft.Log) any {
	defer w.watch.Begin("applying to the state file")()
	return w.Machine.Apply(entry)
}

func (w watchedFSM) ApplyBatch(entries []*raft.Log) []any {
	defer w.watch.Begin("applying to the state file")()
	return w.Machine.ApplyBatch(entries)
}

// submitter admits on a state no older than the request, so that a repeated
// request id is known and a dataset that needs nothing is judged by a leader.
type submitter struct {
	leading leading
	*admission.Service
}

func (s submitter) Submit(ctx context.Context, sub job.Submission) (job.SubmissionOutcome, error) {
	if err := s.leading.ReadBarrier(ctx); err != nil {
		return job.SubmissionOutcome{}, fmt.Errorf("%w: %w", job.ErrNotAppended, err)
	}
	return s.Service.Submit(ctx, sub)
}

// explainer puts explanations into the admin service's terms.
type explainer struct{ *explain.Explainer }

func (e explainer) Explain(rec *job.Record) []rpc.Reason {
	reasons := e.Explainer.Explain(rec)
	out := make([]rpc.Reason, 0, len(reasons))
	for _, r := range reasons {
		out = append(out, rpc.Reason{Code: string(r.Code), Message: r.Message, Next: r.Next})
	}
	return out
}

// refreshOnce runs a catalog's refresher for a force release.
func refreshOnce(registry *refresh.Registry) release.Refresher {
	return func(ctx context.Context, catalog *job.Catalog, rec *job.Record) error {
		_, err := dispatch.RefreshOnce(ctx, registry, catalog, rec, max(rec.Refresh.Attempt, rec.LateRefresh.Attempt)+1)
		return err
	}
}

package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/lancemaster/lancemaster/internal/job"
)

// startTerm is the first thing a new leader journals: the formation, if nobody
// has formed the cluster yet, a Quarantine that this node owes, its own
// registration where that is out of date, and the start of its term.
func (a *App) startTerm(ctx context.Context, term uint64) error {
	a.releaser.TermBegan(a.members.Members() > 1) // what others journaled is applied
	if err := a.formOrCheck(ctx); err != nil {
		return err
	}
	if err := a.payQuarantine(ctx); err != nil {
		return err
	}
	if err := a.members.EnsureRegistered(ctx); err != nil {
		return err
	}
	_, err := a.journal.Propose(ctx, a.later(job.TermStart{Header: a.header(), Term: term}))
	if job.IsCode(err, job.CodeStaleTerm) {
		// Nothing but this very start can have journaled this term: an earlier try
		// whose answer was lost.
		var last uint64
		a.machine.Read(func(l *job.Live) { last = l.Cluster().LastTerm })
		if last == term {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("cannot start term %d: %w", term, err)
	}
	a.warnOfAllReports()
	return a.afterTermStart(ctx)
}

// header is what this node's own commands carry.
func (a *App) header() job.Header {
	return job.Header{At: job.Millis(a.now().UnixMilli()), Actor: job.ActorSystem}
}

// formOrCheck journals the formation where there was none, and refuses to lead
// another cluster than the configured one.
func (a *App) formOrCheck(ctx context.Context) error {
	if a.formed().ClusterID != 0 {
		if err := a.checkClusterID(); err != nil {
			return a.fail(err)
		}
		return nil
	}
	form := a.members.Form()
	if _, err := a.journal.Propose(ctx, form); err != nil && !job.IsCode(err, job.CodeAlreadyFormed) {
		return fmt.Errorf("cannot form the cluster: %w", err)
	}
	a.log.Info("cluster formed", "cluster_id", form.ClusterID, "members", len(form.Members))
	return nil
}

// payQuarantine journals the Quarantine that a restored or recovered data
// directory owes, before anything else of this incarnation. One for each
// incarnation in between, so that the job ids jump past those of all of them.
func (a *App) payQuarantine(ctx context.Context) error {
	owed := a.identity.get().Pending
	if owed == nil {
		return nil
	}
	journaled := false
	for {
		now := a.formed().Incarnation
		if now >= owed.Incarnation {
			break
		}
		_, err := a.journal.Propose(ctx, job.Quarantine{
			Header: a.header(), Incarnation: now + 1,
			Cause: owed.Cause, Members: a.members.Survivor(),
		})
		if err != nil && a.formed().Incarnation == now {
			return fmt.Errorf("cannot journal the quarantine: %w", err)
		}
		journaled = true
	}
	if journaled {
		a.log.Warn("the cluster is in quarantine: jobs that were not settled are UNKNOWN, admission is closed and dispatch paused until an operator reopens it",
			"incarnation", owed.Incarnation, "cause", owed.Cause)
	}
	return a.identity.change(func(id *identity) { id.Pending = nil })
}

// formed is the cluster's record as applied here.
func (a *App) formed() (c job.Cluster) {
	a.machine.Read(func(l *job.Live) { c = l.Cluster() })
	return c
}

// checkClusterID refuses data of another cluster than the configured one. The
// state tells it at the opening, unless this node has not learned of the formation yet.
func (a *App) checkClusterID() error {
	formed := a.formed().ClusterID
	if a.cfg.ClusterID == 0 || formed == 0 || formed == a.cfg.ClusterID {
		return nil
	}
	return fmt.Errorf("cluster.id is %d, but the data in %s is of cluster %d: correct cluster.id or data_dir", a.cfg.ClusterID, a.cfg.DataDir, formed)
}

// fail reports a fault that the node must not survive and returns it.
func (a *App) fail(err error) error {
	select {
	case a.fatal <- err:
	default: // the first one counts
	}
	return err
}

var errStopped = errors.New("the node is stopped")

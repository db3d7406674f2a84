package app

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/lancemaster/lancemaster/internal/command"
	"github.com/lancemaster/lancemaster/internal/job"
)

// startTerm is the first thing a new leader journals: the formation, if nobody
// has formed the cluster yet, and the start of its term.
func (a *App) startTerm(ctx context.Context, term uint64) error {
	var cluster job.Cluster
	a.machine.Read(func(l *job.Live) { cluster = l.Cluster() })
	header := job.Header{At: job.Millis(time.Now().UnixMilli()), Actor: job.ActorSystem}
	if cluster.ClusterID == 0 {
		form := job.Form{Header: header, ClusterID: a.cfg.ClusterID, Level: command.MaxLevel, Settings: job.DefaultSettings(),
			Members: []job.Member{{NodeID: a.identity.NodeID, InstanceID: a.identity.InstanceID, Address: a.node.Addr()}}}
		if form.ClusterID == 0 {
			form.ClusterID = randomClusterID()
		}
		if _, err := a.journal.Propose(ctx, form); err != nil && !job.IsCode(err, job.CodeAlreadyFormed) {
			return fmt.Errorf("cannot form the cluster: %w", err)
		}
		a.log.Info("cluster formed", "cluster_id", form.ClusterID)
	} else if err := a.checkClusterID(); err != nil {
		return a.fail(err)
	}
	_, err := a.journal.Propose(ctx, job.TermStart{Header: header, Term: term})
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
	return nil
}

// checkClusterID refuses data of another cluster than the configured one. The
// state tells it at the opening, unless this node has not learned of the formation yet.
func (a *App) checkClusterID() error {
	var formed int32
	a.machine.Read(func(l *job.Live) { formed = l.Cluster().ClusterID })
	if a.cfg.ClusterID == 0 || formed == 0 || formed == a.cfg.ClusterID {
		return nil
	}
	return fmt.Errorf("cluster.id is %d, but the data in %s is of cluster %d: correct cluster.id or data_dir", a.cfg.ClusterID, a.cfg.DataDir, formed)
}

// randomClusterID chooses a positive 31-bit id. Backends keep the first id that
// they hear and refuse others, so two clusters must not have the same by chance.
func randomClusterID() int32 {
	var b [4]byte
	for {
		_, _ = rand.Read(b[:]) // never fails, see crypto/rand
		if id := int32(binary.BigEndian.Uint32(b[:]) & math.MaxInt32); id > 0 {
			return id
		}
	}
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

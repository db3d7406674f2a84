package app

import (
	"path/filepath"
	"time"

	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lancemaster/lancemaster/internal/admission"
	"github.com/lancemaster/lancemaster/internal/fsm"
	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/leader"
	"github.com/lancemaster/lancemaster/internal/metrics"
	"github.com/lancemaster/lancemaster/internal/raftnode"
)

// The metrics are defined beside the code that moves them; here they are registered,
// once each, as the parts of the node come to be.

// registerNode registers what a node tells of itself, leader or not.
func (a *App) registerNode() {
	a.registry.MustRegister(
		metrics.NewState(passed{a.machine, a.node}, a.now),
		metrics.NewDisk(a.cfg.DataDir, filepath.Join(a.cfg.DataDir, stateFile)),
		a.node.Collector(),
	)
}

// passed is the state with the position up to which everything is applied. Reads put
// barriers into the log that the state machine is never told of: without them a
// cluster that is only read would look as if it fell behind.
type passed struct {
	*fsm.Machine
	node interface{ Stats() raftnode.Stats }
}

// Applied returns that position.
func (p passed) Applied() job.Position {
	at := p.Machine.Applied()
	at.Index = max(at.Index, p.node.Stats().PassedIndex)
	return at
}

// registerServers registers the two Thrift servers and the admission behind one.
func (a *App) registerServers(submissions *admission.Service) {
	a.registry.MustRegister(a.report.Collector(), a.admin.Collector(), submissions.Collector())
}

func (a *App) registerLeading(m *leader.Manager) { a.registry.MustRegister(m.Collector()) }

// timedFSM measures how long applying takes.
type timedFSM struct {
	raft.BatchingFSM
	duration prometheus.Histogram
}

func newTimedFSM(below raft.BatchingFSM, r prometheus.Registerer) timedFSM {
	duration := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "lancemaster_state_apply_duration_seconds",
		Help:    "Time to apply one batch of committed commands to the state file, durably.",
		Buckets: prometheus.ExponentialBuckets(0.0005, 2, 15),
	})
	r.MustRegister(duration)
	return timedFSM{BatchingFSM: below, duration: duration}
}

// ApplyBatch applies a batch, and counts the time that it takes.
func (f timedFSM) ApplyBatch(entries []*raft.Log) []any {
	defer func(began time.Time) { f.duration.Observe(time.Since(began).Seconds()) }(time.Now())
	return f.BatchingFSM.ApplyBatch(entries)
}

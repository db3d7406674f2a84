package raftnode

import (
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"
)

// events counts what Stats cannot tell: what has happened since the start, and which
// members do not answer a leader. Its methods may be called on nil, and by several
// goroutines.
type events struct {
	leaderChanges prometheus.Counter
	snapshots     *prometheus.CounterVec
	appends       prometheus.Histogram

	mu     sync.Mutex
	silent map[raft.ServerID]bool
}

func newEvents() *events {
	e := &events{
		leaderChanges: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "lancemaster_raft_leader_changes_total",
			Help: "Leaders that this node has learned of since its start, itself among them.",
		}),
		snapshots: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lancemaster_raft_snapshots_total",
			Help: "Snapshots that this node has written, its own and those received from a leader, by result.",
		}, []string{"result"}),
		appends: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "lancemaster_raft_log_append_duration_seconds",
			Help:    "Duration of one durable write of entries to this node's log.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 15),
		}),
		silent: make(map[raft.ServerID]bool),
	}
	for _, result := range []string{snapshotWritten, snapshotFailed} {
		e.snapshots.WithLabelValues(result)
	}
	return e
}

const (
	snapshotWritten = "written"
	snapshotFailed  = "failed"
)

// observe is called by Raft on the goroutine that makes the observation, and asks
// for none to be sent.
func (e *events) observe(seen *raft.Observation) bool {
	switch data := seen.Data.(type) {
	case raft.LeaderObservation:
		if data.LeaderID != "" {
			e.leaderChanges.Inc()
		}
	case raft.RaftState: // what is known of the others is a leader's knowledge of its term
		e.mu.Lock()
		clear(e.silent)
		e.mu.Unlock()
	case raft.FailedHeartbeatObservation:
		e.setSilent(data.PeerID, true)
	case raft.ResumedHeartbeatObservation:
		e.setSilent(data.PeerID, false)
	case raft.PeerObservation:
		if data.Removed {
			e.setSilent(data.Peer.ID, false)
		}
	}
	return false
}

func (e *events) setSilent(id raft.ServerID, silent bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if silent {
		e.silent[id] = true
	} else {
		delete(e.silent, id)
	}
}

// silentAmong counts the voters that do not answer.
func (e *events) silentAmong(servers []Server) (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range servers {
		if s.Voter && e.silent[raft.ServerID(s.ID)] {
			n++
		}
	}
	return n
}

func (e *events) appended(took time.Duration) {
	if e != nil {
		e.appends.Observe(took.Seconds())
	}
}

func (e *events) snapshotEnded(result string) {
	if e != nil {
		e.snapshots.WithLabelValues(result).Inc()
	}
}

// roles are the values of the label role.
var roles = []string{"follower", "candidate", "leader", "shutdown"}

// collector exports what the node says of itself, read at each scrape.
type collector struct {
	n *Node

	role, term, known, contact                 *prometheus.Desc
	silent                                     *prometheus.Desc
	last, commit, logSize                      *prometheus.Desc
	snapshotIndex, snapshotTime, snapshotBytes *prometheus.Desc
}

// Collector exports the node's metrics; the owner registers it once.
func (n *Node) Collector() prometheus.Collector {
	d := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("lancemaster_raft_"+name, help, labels, nil)
	}
	return &collector{
		n:       n,
		role:    d("role", "1 for the role this node has in Raft, 0 for the others.", "role"),
		term:    d("term", "Newest Raft term this node knows."),
		known:   d("leader_known", "1 while this node knows who leads, else 0."),
		contact: d("last_contact_seconds", "Time since this node last heard from the leader; 0 on the leader. Missing if it never has."),
		silent:  d("voters_unreachable", "On the leader: voters that do not answer its heartbeats. 0 elsewhere."),
		last:    d("last_log_index", "Raft index of the newest entry in this node's log, committed or not."),
		commit:  d("commit_index", "Raft index of the newest entry that this node knows to be committed."),
		logSize: d("log_size_bytes", "Size of the file of the log; free pages inside it are used again."),

		snapshotIndex: d("snapshot_index", "Raft index that the newest snapshot on this node reaches; 0 if there is none."),
		snapshotTime:  d("snapshot_timestamp_seconds", "Unix time at which the newest snapshot on this node was begun; 0 if there is none."),
		snapshotBytes: d("snapshot_size_bytes", "Size of the newest snapshot on this node; 0 if there is none."),
	}
}

// Describe names the metrics.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		c.role, c.term, c.known, c.contact, c.silent, c.last, c.commit, c.logSize,
		c.snapshotIndex, c.snapshotTime, c.snapshotBytes,
	} {
		ch <- d
	}
	e := c.n.events
	for _, of := range []prometheus.Collector{e.leaderChanges, e.snapshots, e.appends} {
		of.Describe(ch)
	}
}

// Collect reads the node's state.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	truth := map[bool]float64{true: 1}
	s := c.n.Stats()
	for _, role := range roles {
		gauge(c.role, truth[role == strings.ToLower(s.State)], role)
	}
	gauge(c.term, float64(s.Term))
	gauge(c.known, truth[s.LeaderID != ""])
	if s.LastContact >= 0 {
		gauge(c.contact, s.LastContact.Seconds())
	}
	silent := 0
	if s.State == raft.Leader.String() { // elsewhere the end of a term may have left something behind
		silent = c.n.events.silentAmong(c.n.Servers())
	}
	gauge(c.silent, float64(silent))
	gauge(c.last, float64(s.LastLogIndex))
	gauge(c.commit, float64(s.CommitIndex))
	gauge(c.logSize, float64(s.LogFileSize))
	gauge(c.snapshotIndex, float64(s.LastSnapshotIndex))
	began := 0.0
	if !s.SnapshotTime.IsZero() {
		began = float64(s.SnapshotTime.UnixMilli()) / 1000
	}
	gauge(c.snapshotTime, began)
	gauge(c.snapshotBytes, float64(s.SnapshotSize))
	e := c.n.events
	for _, of := range []prometheus.Collector{e.leaderChanges, e.snapshots, e.appends} {
		of.Collect(ch)
	}
}

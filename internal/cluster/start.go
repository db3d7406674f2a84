package cluster

import (
	"fmt"

	"github.com/lancemaster/lancemaster/internal/raftnode"
)

// raftPhase says whether Raft may have written to the disk.
type raftPhase int

const (
	raftNotStarted raftPhase = iota
	raftStarting
	raftRuns
)

// alone says whether this node needs nobody's word to start Raft.
func (c *Cluster) alone() bool {
	return c.written.Load() || !c.cfg.Join && len(c.cfg.Founders) <= 1 && c.cfg.Disk.Standing().ClusterID == 0
}

// checkStanding refuses to go on with a disk that is another cluster's than the configured one. A
// plan that was not carried out yet is replaced instead.
func (c *Cluster) checkStanding() error {
	s := c.cfg.Disk.Standing()
	taken := c.written.Load() || s.RegisteredAt != 0
	if !taken || s.ClusterID == 0 || c.cfg.ClusterID == 0 || s.ClusterID == c.cfg.ClusterID {
		return nil
	}
	return fmt.Errorf("cluster.id is %d, but this data directory belongs to cluster %d; correct cluster.id, or give the node an empty data directory",
		c.cfg.ClusterID, s.ClusterID)
}

// begin starts Raft, after the first member list where this node founds a cluster of one.
func (c *Cluster) begin() error {
	if !c.written.Load() {
		formed, err := c.bootstrap([]Member{{ID: c.cfg.NodeID, Address: c.cfg.Address}})
		if err != nil {
			return err
		}
		if !formed {
			c.log.Info("another cluster took this node in before it founded its own")
		}
	}
	return c.startRaft()
}

// bootstrap writes the first member list, unless another cluster has taken this node in meanwhile.
// From here on this disk is the cluster's, and a plan of anybody else is refused.
func (c *Cluster) bootstrap(members []Member) (bool, error) {
	var servers []raftnode.Server
	for _, m := range members {
		servers = append(servers, raftnode.Server{ID: m.ID, Address: m.Address, Voter: true})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hasAccepted() {
		return false, nil
	}
	c.written.Store(true) // also if it fails: nobody knows what the disk holds then
	if err := c.cfg.Raft.Bootstrap(servers); err != nil {
		return false, err
	}
	return true, nil
}

func (c *Cluster) startRaft() error {
	c.setWaiting("")
	c.mu.Lock()
	c.raft = raftStarting // it may give a vote before Start returns
	c.mu.Unlock()
	if err := c.cfg.Raft.Start(); err != nil {
		return err
	}
	c.mu.Lock()
	c.raft = raftRuns
	c.mu.Unlock()
	if why := c.Waiting(); why != "" {
		c.log.Info("waiting", "why", why)
	}
	return nil
}

// empty says whether this node's disk holds nothing of any cluster: no log and no vote.
func (c *Cluster) empty() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.emptyLocked()
}

// emptyLocked is empty with the lock held. Where nobody can tell, it is not.
func (c *Cluster) emptyLocked() bool {
	if c.written.Load() {
		return false
	}
	if c.raft == raftNotStarted {
		return true
	}
	stats := c.cfg.Raft.Stats()
	if c.raft == raftStarting || stats.State == stateShutdown {
		return false
	}
	if stats.LastLogIndex != 0 || stats.LastSnapshotIndex != 0 || stats.Term != 0 {
		c.written.Store(true)
		return false
	}
	return true
}

// stateShutdown is the state of a Raft node that does not run, which then knows nothing of its disk.
const stateShutdown = "Shutdown"

// Waiting says what keeps this node from taking part, as it can follow "it is waiting:"; empty when it takes part.
func (c *Cluster) Waiting() string {
	c.mu.Lock()
	waiting, phase := c.waiting, c.raft
	c.mu.Unlock()
	if waiting != "" || phase != raftRuns || len(c.cfg.Raft.Servers()) > 0 || c.cfg.Raft.Stats().State == stateShutdown {
		return waiting
	}
	s := c.standing()
	if s.RegisteredAt != 0 {
		return fmt.Sprintf("for the leader of cluster %d, which has taken it in, to send its journal; if it does not come, run `lancemaster cluster add %s %s` again",
			s.ClusterID, c.cfg.NodeID, c.cfg.Address)
	}
	if len(c.cfg.Founders) == 0 {
		return fmt.Sprintf("for the founders of cluster %d, to which this node has agreed; give it the cluster.members that it had", s.ClusterID)
	}
	return fmt.Sprintf("for member %s, which has the smallest id, to form cluster %d, to which this node has agreed", c.cfg.Founders[0].ID, s.ClusterID)
}

// forming says whether this node does not take part yet.
func (c *Cluster) forming() bool {
	c.mu.Lock()
	running := c.raft == raftRuns
	c.mu.Unlock()
	return !running || c.Waiting() != ""
}

func (c *Cluster) setWaiting(why string) {
	c.mu.Lock()
	changed := c.waiting != why
	c.waiting = why
	c.mu.Unlock()
	if changed && why != "" {
		c.log.Info("waiting", "why", why)
	}
}

package cluster

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/lancemaster/lancemaster/internal/peer"
)

// plan is what the founders agree on before the first member list is written.
type plan struct {
	ClusterID int32             `json:"cluster_id"`
	Founders  []Member          `json:"founders"`
	Instances map[string]string `json:"instances"` // every founder's disk
}

// takePart brings an empty node into a cluster: it forms one with the other founders, or waits to
// be taken in. It returns when Raft runs.
func (c *Cluster) takePart(ctx context.Context) error {
	standing := c.cfg.Disk.Standing()
	switch {
	case standing.ClusterID != 0 && !(c.coordinates() && standing.RegisteredAt == 0):
		// A plan or an invitation was stored before: the leader will come.
	case c.cfg.Join:
		c.setWaiting(fmt.Sprintf("being added to cluster %d; run `lancemaster cluster add %s %s` against one of its masters",
			c.cfg.ClusterID, c.cfg.NodeID, c.cfg.Address))
		if !c.waitAccepted(ctx) {
			return nil
		}
	default:
		formed, err := c.agree(ctx)
		if err != nil || !formed {
			return err
		}
	}
	return c.startRaft()
}

func (c *Cluster) waitAccepted(ctx context.Context) bool {
	select {
	case <-c.accepted:
		return true
	case <-ctx.Done():
		return false
	}
}

// coordinates says whether this node is the one that writes the first member list.
func (c *Cluster) coordinates() bool {
	return !c.cfg.Join && len(c.cfg.Founders) > 0 && c.cfg.Founders[0].ID == c.cfg.NodeID
}

// agree waits until the founders agree; the coordinator then forms the cluster, and the others wait
// for its word. False means that ctx ended.
func (c *Cluster) agree(ctx context.Context) (bool, error) {
	tick := time.NewTicker(formInterval)
	defer tick.Stop()
	for {
		if _, obstacles := c.obstacles(); len(obstacles) > 0 {
			c.setWaiting(strings.Join(obstacles, "; "))
		} else if !c.coordinates() {
			c.setWaiting(fmt.Sprintf("member %s, which has the smallest id, to form the cluster", c.cfg.Founders[0].ID))
		} else if formed, err := c.found(ctx); formed || err != nil {
			return formed, err
		}
		select {
		case <-ctx.Done():
			return false, nil
		case <-c.accepted:
			return true, nil
		case <-c.peers.next():
		case <-tick.C:
		}
	}
}

// obstacles are the reasons why the founders do not agree, as this node sees them.
func (c *Cluster) obstacles() (seen []sighting, obstacles []string) {
	obstacle := func(format string, args ...any) { obstacles = append(obstacles, fmt.Sprintf(format, args...)) }
	configured := c.cfg.ClusterID
	for _, f := range c.cfg.Founders {
		if f.ID == c.cfg.NodeID {
			continue
		}
		s := c.peers.get(f.ID)
		switch {
		case s.err != "":
			obstacle("member %s at %s: %s", f.ID, f.Address, s.err)
			continue
		case !s.fresh():
			obstacle("member %s at %s has not answered yet", f.ID, f.Address)
			continue
		case !s.status.Empty:
			obstacle("member %s belongs to cluster %d already, and this disk is empty: if the disk of %s was replaced, run `lancemaster cluster replace %s`; else restore its data directory",
				f.ID, s.identity.ClusterID, c.cfg.NodeID, c.cfg.NodeID)
		case s.status.Join:
			obstacle("member %s is set to join a cluster (cluster.join), not to found one", f.ID)
		case !slices.Equal(s.status.Founders, c.cfg.Founders):
			obstacle("member %s has another member list (%s) than this node (%s); make cluster.members the same on all",
				f.ID, listed(s.status.Founders), listed(c.cfg.Founders))
		case s.status.ClusterID != 0 && configured != 0 && s.status.ClusterID != configured:
			obstacle("member %s has cluster.id %d, and others have %d; make it the same on all", f.ID, s.status.ClusterID, configured)
		}
		if configured == 0 {
			configured = s.status.ClusterID
		}
		seen = append(seen, s)
	}
	return seen, obstacles
}

func listed(members []Member) string {
	if len(members) == 0 {
		return "none"
	}
	var items []string
	for _, m := range members {
		items = append(items, m.ID+"="+m.Address)
	}
	return strings.Join(items, ",")
}

// found forms the cluster: it plans, has every founder store the plan, and writes the first member
// list. False without an error means that somebody was not as planned; nothing is lost by trying
// again.
func (c *Cluster) found(ctx context.Context) (bool, error) {
	seen, obstacles := c.obstacles()
	if len(obstacles) > 0 {
		return false, nil
	}
	standing := c.cfg.Disk.Standing()
	p := plan{ClusterID: standing.ClusterID, Founders: c.cfg.Founders, Instances: map[string]string{c.cfg.NodeID: c.cfg.InstanceID}}
	if c.cfg.ClusterID != 0 {
		p.ClusterID = c.cfg.ClusterID
	}
	for _, s := range seen {
		p.Instances[s.member.ID] = s.identity.InstanceID
		if s.status.ClusterID != 0 {
			p.ClusterID = s.status.ClusterID
		}
	}
	if p.ClusterID == 0 {
		p.ClusterID = RandomID()
	}
	if err := c.keep(p); err != nil {
		return false, err
	}
	payload, err := json.Marshal(p)
	if err != nil {
		return false, fmt.Errorf("cannot write the plan of formation: %w", err)
	}
	for _, s := range seen {
		call, cancel := context.WithTimeout(ctx, pollTimeout)
		_, _, err := c.caller.Call(call, s.member.ID, s.member.Address, methodForm, payload)
		cancel()
		if err != nil {
			c.setWaiting(fmt.Sprintf("member %s did not agree to form the cluster: %v", s.member.ID, err))
			return false, nil
		}
	}
	if formed, err := c.bootstrap(c.cfg.Founders); !formed || err != nil {
		return false, err
	}
	c.log.Info("the founding members agree; the cluster forms", "cluster_id", p.ClusterID, "members", listed(c.cfg.Founders))
	return true, nil
}

// keep stores a plan durably.
func (c *Cluster) keep(p plan) error {
	standing := Standing{ClusterID: p.ClusterID, Incarnation: 1, Instances: p.Instances}
	had := c.cfg.Disk.Standing()
	if had.ClusterID == standing.ClusterID && had.RegisteredAt == 0 && maps.Equal(had.Instances, standing.Instances) {
		return nil
	}
	return c.cfg.Disk.SetStanding(standing)
}

// onForm stores the coordinator's plan on an empty founder.
func (c *Cluster) onForm(_ context.Context, from peer.Identity, payload []byte) ([]byte, error) {
	var p plan
	if err := json.Unmarshal(payload, &p); err != nil {
		return nil, errors.New("the plan of formation cannot be read")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !c.emptyLocked():
		return nil, fmt.Errorf("%s belongs to a cluster already", c.cfg.NodeID)
	case c.cfg.Join:
		return nil, fmt.Errorf("%s is set to join a cluster, not to found one", c.cfg.NodeID)
	case !slices.Equal(p.Founders, c.cfg.Founders):
		return nil, fmt.Errorf("%s has another member list: %s", c.cfg.NodeID, listed(c.cfg.Founders))
	case len(c.cfg.Founders) == 0 || from.NodeID != c.cfg.Founders[0].ID || c.coordinates():
		return nil, fmt.Errorf("%s takes the plan only of the member with the smallest id", c.cfg.NodeID)
	case p.Instances[c.cfg.NodeID] != c.cfg.InstanceID || p.Instances[from.NodeID] != from.InstanceID:
		return nil, errors.New("the plan is for other disks")
	case p.ClusterID <= 0 || c.cfg.ClusterID != 0 && c.cfg.ClusterID != p.ClusterID:
		return nil, fmt.Errorf("cluster id %d is not what %s is configured for", p.ClusterID, c.cfg.NodeID)
	}
	if err := c.keep(p); err != nil {
		c.log.Error("the plan of formation could not be stored", "error", err.Error())
		return nil, errors.New("the plan could not be stored")
	}
	c.acceptLocked()
	return []byte("{}"), nil
}

// invitation is what the leader tells an empty node that it takes in.
type invitation struct {
	ClusterID    int32             `json:"cluster_id"`
	Incarnation  int64             `json:"incarnation"`
	RegisteredAt uint64            `json:"registered_at"`
	Instances    map[string]string `json:"instances"`
}

// onJoin stores an invitation on an empty node.
func (c *Cluster) onJoin(_ context.Context, from peer.Identity, payload []byte) ([]byte, error) {
	var in invitation
	if err := json.Unmarshal(payload, &in); err != nil {
		return nil, errors.New("the invitation cannot be read")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	had := c.cfg.Disk.Standing()
	switch {
	case from.ClusterID != in.ClusterID || in.ClusterID <= 0 || in.Instances[c.cfg.NodeID] != c.cfg.InstanceID:
		return nil, errors.New("the invitation is for another node")
	case had.ClusterID == in.ClusterID && had.RegisteredAt == in.RegisteredAt && in.RegisteredAt != 0:
		return []byte("{}"), nil // the answer was lost
	case !c.emptyLocked():
		return nil, fmt.Errorf("%s belongs to a cluster already", c.cfg.NodeID)
	case c.cfg.ClusterID != 0 && c.cfg.ClusterID != in.ClusterID:
		return nil, fmt.Errorf("%s is configured for cluster %d, not %d; correct cluster.id", c.cfg.NodeID, c.cfg.ClusterID, in.ClusterID)
	}
	err := c.cfg.Disk.SetStanding(Standing(in))
	if err != nil {
		c.log.Error("the invitation into the cluster could not be stored", "error", err.Error())
		return nil, errors.New("the invitation could not be stored")
	}
	c.log.Info("taken into the cluster", "cluster_id", in.ClusterID, "by", from.NodeID)
	c.acceptLocked()
	return []byte("{}"), nil
}

// emptyLocked is empty with the lock held.
func (c *Cluster) emptyLocked() bool {
	if c.hasState {
		return false
	}
	if !c.started {
		return true
	}
	stats := c.cfg.Raft.Stats()
	return stats.LastLogIndex == 0 && stats.LastSnapshotIndex == 0 && stats.Term == 0
}

func (c *Cluster) acceptLocked() {
	select {
	case <-c.accepted:
	default:
		close(c.accepted)
	}
}

// RandomID chooses a positive 31-bit cluster id. Backends keep the first id that they hear and
// refuse others, so two clusters must not have the same by chance.
func RandomID() int32 {
	var b [4]byte
	for {
		_, _ = rand.Read(b[:]) // never fails, see crypto/rand
		if id := int32(binary.BigEndian.Uint32(b[:]) & math.MaxInt32); id > 0 {
			return id
		}
	}
}

func compareIDs(a, b string) int { return strings.Compare(a, b) }

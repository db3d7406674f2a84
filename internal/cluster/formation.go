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

	"github.com/lancemaster/lancemaster/internal/job"
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
	switch {
	case c.standing().ClusterID != 0:
		// A plan or an invitation was stored before: the leader will come.
	case c.cfg.Join:
		c.setWaiting(fmt.Sprintf("to be added to cluster %d: run `lancemaster cluster add %s %s` against one of its masters",
			c.cfg.ClusterID, c.cfg.NodeID, c.cfg.Address))
		select {
		case <-c.accepted:
		case <-ctx.Done():
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

// hasAccepted says whether a plan or an invitation was stored since the start.
func (c *Cluster) hasAccepted() bool {
	select {
	case <-c.accepted:
		return true
	default:
		return false
	}
}

// acceptLocked tells takePart that a plan or an invitation was stored.
func (c *Cluster) acceptLocked() {
	if !c.hasAccepted() {
		close(c.accepted)
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
		changed := c.peers.next()
		if _, obstacles := c.obstacles(); len(obstacles) > 0 {
			c.object(strings.Join(obstacles, "; "))
		} else if !c.coordinates() {
			c.object("")
			c.setWaiting(fmt.Sprintf("for member %s, which has the smallest id, to form the cluster", c.cfg.Founders[0].ID))
		} else if formed, err := c.found(ctx); formed || err != nil {
			return formed, err
		}
		select {
		case <-ctx.Done():
			return false, nil
		case <-c.accepted:
			c.object("")
			return true, nil
		case <-changed:
		case <-tick.C:
		}
	}
}

// object notes why this founder does not agree, for its operator and for the coordinator.
func (c *Cluster) object(why string) {
	c.mu.Lock()
	c.objection = why
	c.mu.Unlock()
	if why != "" {
		c.setWaiting(why)
	}
}

// obstacles are the reasons why the founders do not agree, as this node sees them.
func (c *Cluster) obstacles() (seen []sighting, obstacles []string) {
	obstacle := func(format string, args ...any) { obstacles = append(obstacles, fmt.Sprintf(format, args...)) }
	configured := c.cfg.ClusterID
	formed := map[int32][]string{} // by cluster, those who are of it
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
		case !s.status.Empty || s.identity.RegisteredAt != 0:
			formed[s.identity.ClusterID] = append(formed[s.identity.ClusterID], f.ID)
		case s.status.Join:
			obstacle("member %s is set to join a cluster (cluster.join), not to found one", f.ID)
		case !slices.Equal(s.status.Founders, c.cfg.Founders):
			obstacle("member %s has another member list (%s) than this node (%s); make cluster.members the same on all",
				f.ID, listed(s.status.Founders), listed(c.cfg.Founders))
		case s.status.ClusterID != 0 && configured != 0 && s.status.ClusterID != configured:
			obstacle("member %s has cluster.id %d, and others have %d; make it the same on all", f.ID, s.status.ClusterID, configured)
		case c.coordinates() && s.status.Objection != "":
			obstacle("member %s does not agree yet: %s", f.ID, s.status.Objection)
		}
		if configured == 0 {
			configured = s.status.ClusterID
		}
		seen = append(seen, s)
	}
	for _, id := range slices.Sorted(maps.Keys(formed)) {
		obstacle("this disk is empty, and %s of cluster %d already: if the disk of %s was replaced, run `lancemaster cluster replace %s`; if it is no member any more, run `lancemaster cluster add %s %s`; else start it with the disk that it had",
			are(formed[id]), id, c.cfg.NodeID, c.cfg.NodeID, c.cfg.NodeID, c.cfg.Address)
	}
	return seen, obstacles
}

// are names members before what they are.
func are(ids []string) string {
	if len(ids) == 1 {
		return "member " + ids[0] + " is"
	}
	return "members " + strings.Join(ids, ", ") + " are"
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
	p := c.plan(seen)
	if kept, err := c.keepOwn(p); !kept || err != nil {
		return false, err
	}
	payload, err := json.Marshal(p)
	if err != nil {
		return false, fmt.Errorf("cannot write the plan of formation: %w", err)
	}
	for _, s := range seen {
		ask, cancel := context.WithTimeout(ctx, askTime)
		_, _, err := c.call(ask, s.member.ID, s.member.Address, methodForm, payload)
		cancel()
		if err != nil {
			if ctx.Err() == nil {
				c.setWaiting(fmt.Sprintf("for member %s to agree to form the cluster: %v", s.member.ID, err))
			}
			return false, nil
		}
	}
	if formed, err := c.bootstrap(c.cfg.Founders); !formed || err != nil {
		return false, err
	}
	c.log.Info("the founding members agree; the cluster forms", "cluster_id", p.ClusterID, "members", listed(c.cfg.Founders))
	return true, nil
}

// plan makes the plan of what was seen of the other founders. The id of an earlier plan is kept where
// nobody's configuration has another.
func (c *Cluster) plan(seen []sighting) plan {
	p := plan{
		ClusterID: c.cfg.Disk.Standing().ClusterID, Founders: c.cfg.Founders,
		Instances: map[string]string{c.cfg.NodeID: c.cfg.InstanceID},
	}
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
	return p
}

// keepOwn stores the coordinator's own plan, unless another cluster has taken this node in meanwhile.
func (c *Cluster) keepOwn(p plan) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hasAccepted() {
		return false, nil
	}
	_, err := c.keepLocked(p)
	return err == nil, err
}

// keepLocked stores a plan durably, and says whether it is another than the one that was there.
func (c *Cluster) keepLocked(p plan) (changed bool, err error) {
	had := c.cfg.Disk.Standing()
	if had.ClusterID == p.ClusterID && had.RegisteredAt == 0 && maps.Equal(had.Instances, p.Instances) {
		return false, nil
	}
	return true, c.cfg.Disk.SetStanding(Standing{ClusterID: p.ClusterID, Incarnation: job.FirstIncarnation, Instances: p.Instances})
}

// onForm stores the coordinator's plan on an empty founder.
func (c *Cluster) onForm(_ context.Context, from peer.Identity, payload []byte) ([]byte, error) {
	var p plan
	if err := json.Unmarshal(payload, &p); err != nil {
		return nil, errors.New("the plan of formation cannot be read")
	}
	changed, err := c.acceptPlan(from, p)
	if err != nil {
		return nil, err
	}
	if changed {
		c.recheck() // of connections that the plan before allowed
	}
	return []byte("{}"), nil
}

func (c *Cluster) acceptPlan(from peer.Identity, p plan) (changed bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.checkPlanLocked(from, p); err != nil {
		return false, err
	}
	if changed, err = c.keepLocked(p); err != nil {
		c.log.Error("the plan of formation could not be stored", "error", err.Error())
		return false, fmt.Errorf("%s could not store the plan; see its log", c.cfg.NodeID)
	}
	if changed {
		c.log.Info("agreed to form the cluster", "cluster_id", p.ClusterID, "coordinator", from.NodeID)
	}
	c.acceptLocked()
	return changed, nil
}

func (c *Cluster) checkPlanLocked(from peer.Identity, p plan) error {
	switch {
	case !c.emptyLocked(), c.cfg.Disk.Standing().RegisteredAt != 0:
		return fmt.Errorf("%s belongs to a cluster already", c.cfg.NodeID)
	case c.cfg.Join:
		return fmt.Errorf("%s is set to join a cluster (cluster.join), not to found one", c.cfg.NodeID)
	case !slices.Equal(p.Founders, c.cfg.Founders):
		return fmt.Errorf("%s has another member list: %s", c.cfg.NodeID, listed(c.cfg.Founders))
	case len(c.cfg.Founders) == 0 || from.NodeID != c.cfg.Founders[0].ID || c.coordinates():
		return fmt.Errorf("%s takes the plan only of the member with the smallest id", c.cfg.NodeID)
	case p.Instances[c.cfg.NodeID] != c.cfg.InstanceID || p.Instances[from.NodeID] != from.InstanceID:
		return errors.New("the plan is for other disks")
	case c.objection != "":
		return fmt.Errorf("%s does not agree yet: %s", c.cfg.NodeID, c.objection)
	case p.ClusterID <= 0 || c.cfg.ClusterID != 0 && c.cfg.ClusterID != p.ClusterID:
		return fmt.Errorf("cluster id %d is not what %s is configured for", p.ClusterID, c.cfg.NodeID)
	}
	for _, f := range c.cfg.Founders {
		if p.Instances[f.ID] == "" {
			return fmt.Errorf("the plan does not name the disk of %s", f.ID)
		}
	}
	return nil
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

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/lancemaster/lancemaster/internal/peer"
)

// invitation is what the leader tells an empty node that it takes in: the members as they are when
// the node is registered, or later.
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
	if err := c.acceptInvitation(from, in); err != nil {
		return nil, err
	}
	c.recheck()
	return []byte("{}"), nil
}

func (c *Cluster) acceptInvitation(from peer.Identity, in invitation) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	had, empty := c.cfg.Disk.Standing(), c.emptyLocked()
	if err := c.checkInvitation(from, in); err != nil {
		return err
	}
	same := had.ClusterID == in.ClusterID && had.RegisteredAt == in.RegisteredAt
	switch {
	case same && (!empty || maps.Equal(had.Instances, in.Instances)):
		c.acceptLocked()
		return nil // the answer was lost
	case !empty:
		return fmt.Errorf("%s belongs to a cluster already", c.cfg.NodeID)
	}
	if err := c.cfg.Disk.SetStanding(Standing(in)); err != nil {
		c.log.Error("the invitation into the cluster could not be stored", "error", err.Error())
		return fmt.Errorf("%s could not store the invitation; see its log", c.cfg.NodeID)
	}
	c.log.Info("taken into the cluster", "cluster_id", in.ClusterID, "by", from.NodeID)
	c.acceptLocked()
	return nil
}

func (c *Cluster) checkInvitation(from peer.Identity, in invitation) error {
	founder := slices.ContainsFunc(c.cfg.Founders, func(m Member) bool { return m.ID == from.NodeID })
	switch {
	case from.ClusterID != in.ClusterID || in.ClusterID <= 0 || in.Incarnation <= 0 || in.RegisteredAt == 0 ||
		in.Instances[c.cfg.NodeID] != c.cfg.InstanceID || in.Instances[from.NodeID] != from.InstanceID:
		return errors.New("the invitation is for another node")
	case c.cfg.ClusterID != 0 && c.cfg.ClusterID != in.ClusterID:
		return fmt.Errorf("%s is configured for cluster %d, not %d; correct cluster.id", c.cfg.NodeID, c.cfg.ClusterID, in.ClusterID)
	case !c.cfg.Join && c.cfg.ClusterID == 0 && !founder:
		return fmt.Errorf("%s is set to found a cluster with others than %s; give it cluster.join: true and cluster.id: %d, or the present cluster.members",
			c.cfg.NodeID, from.NodeID, in.ClusterID)
	}
	return nil
}

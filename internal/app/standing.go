package app

import (
	"sync"

	"github.com/lancemaster/lancemaster/internal/cluster"
)

// identityStore keeps the node's identity, in memory and in its data directory.
type identityStore struct {
	dir string

	mu sync.Mutex
	id identity
}

func (s *identityStore) get() identity {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id
}

// change stores a changed identity durably before anybody sees it.
func (s *identityStore) change(change func(*identity)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := s.id
	change(&id)
	if err := writeIdentity(s.dir, id); err != nil {
		return err
	}
	s.id = id
	return nil
}

// Standing is what this node remembers of its place in the cluster.
func (s *identityStore) Standing() cluster.Standing {
	id := s.get()
	return cluster.Standing{ClusterID: id.ClusterID, Incarnation: id.Incarnation, RegisteredAt: id.RegisteredAt, Instances: id.Instances}
}

// SetStanding stores it.
func (s *identityStore) SetStanding(standing cluster.Standing) error {
	return s.change(func(id *identity) {
		id.ClusterID, id.Incarnation = standing.ClusterID, standing.Incarnation
		id.RegisteredAt, id.Instances = standing.RegisteredAt, standing.Instances
	})
}

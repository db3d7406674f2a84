package app

import (
	"sync"

	"github.com/lancemaster/lancemaster/internal/cluster"
)

// identityStore keeps the node's identity, in memory and in its data directory.
type identityStore struct {
	dir   string
	write func(dir string, id identity) error

	writing sync.Mutex // held through a write to the disk; guards nothing that is read

	mu sync.Mutex
	id identity
}

func (s *identityStore) get() identity {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id
}

// change stores a changed identity durably before anybody sees it. Readers do not
// wait for the disk: each connection between masters asks for the identity.
func (s *identityStore) change(change func(*identity)) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	id := s.get()
	change(&id)
	if err := s.write(s.dir, id); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
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

package app

import (
	"errors"
	"testing"

	"github.com/lancemaster/lancemaster/internal/cluster"
)

// Every connection between masters asks who this node is: a disk that hangs while
// the identity is written must not keep the answer back.
func TestReadersOfTheIdentityDoNotWaitForTheDisk(t *testing.T) {
	writing, release := make(chan struct{}), make(chan error)
	s := &identityStore{id: identity{NodeID: "m1", InstanceID: "i"}, write: func(string, identity) error {
		close(writing)
		return <-release
	}}
	stored := make(chan error, 1)
	go func() { stored <- s.SetStanding(cluster.Standing{ClusterID: 7, Incarnation: 1}) }()
	<-writing
	if got := s.Standing().ClusterID; got != 0 {
		t.Errorf("it shows cluster %d before that is durable", got)
	}
	release <- nil
	if err := <-stored; err != nil || s.Standing().ClusterID != 7 {
		t.Errorf("%v, %+v", err, s.Standing())
	}
}

// What could not be stored has not happened.
func TestAnIdentityThatCannotBeStoredDoesNotChange(t *testing.T) {
	broken := errors.New("disk full")
	s := &identityStore{id: identity{NodeID: "m1"}, write: func(string, identity) error { return broken }}
	if err := s.SetStanding(cluster.Standing{ClusterID: 7}); !errors.Is(err, broken) || s.Standing().ClusterID != 0 {
		t.Errorf("%v, %+v", err, s.Standing())
	}
}

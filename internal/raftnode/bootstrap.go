package raftnode

import (
	"errors"
	"fmt"

	"github.com/hashicorp/raft"
)

// Server is one member of the cluster.
type Server struct {
	ID      string
	Address string
	Voter   bool
}

// firstIndex and firstTerm are where the first member list stands, on every founding member's disk.
const (
	firstIndex = 1
	firstTerm  = 1
)

// HasState says whether the disk belongs to a cluster already: it holds a log, a snapshot, or a term.
// To be called before Start.
func (n *Node) HasState() (bool, error) {
	has, err := raft.HasExistingState(n.logs, n.stable, n.snapshots)
	if err != nil {
		return false, fmt.Errorf("look for raft state in %s: %w", n.config.Dir, err)
	}
	return has, nil
}

// Bootstrap writes the first member list to an empty disk. Every founding member does this, with the
// same list in the same order, before Start; all of them vote. It refuses a disk that belongs to a
// cluster with ErrHasState.
func (n *Node) Bootstrap(members []Server) error {
	if n.running() != nil {
		return errors.New("form a cluster: the node has been started already; form it before the start")
	}
	list, err := n.firstMembers(members)
	if err != nil {
		return fmt.Errorf("form a cluster: %w", err)
	}
	has, err := n.HasState()
	if err != nil {
		return fmt.Errorf("form a cluster: %w", err)
	}
	if has {
		return fmt.Errorf("form a cluster: %w: %s; start without a member list, or with an empty data directory", ErrHasState, n.config.Dir)
	}
	// The entry first: with the term first, a crash between the two would leave a disk that counts
	// as used and has no members.
	entry := &raft.Log{
		Index: firstIndex, Term: firstTerm,
		Type: raft.LogConfiguration, Data: raft.EncodeConfiguration(list),
	}
	if err := n.logs.StoreLog(entry); err != nil {
		return fmt.Errorf("form a cluster: store the member list: %w", err)
	}
	return n.finishBootstrap()
}

// finishBootstrap stores the first term where the first member list stands without one: the end of
// Bootstrap, made up for if the process ended in the middle.
func (n *Node) finishBootstrap() error {
	term, err := n.stable.GetUint64(keyCurrentTerm)
	if err != nil && !absent(err) {
		return fmt.Errorf("read raft's term: %w", err)
	}
	last, err := n.logs.LastIndex()
	if err != nil {
		return fmt.Errorf("read raft's log: %w", err)
	}
	if term != 0 || last != firstIndex {
		return nil
	}
	if err := n.stable.SetUint64(keyCurrentTerm, firstTerm); err != nil {
		return fmt.Errorf("form a cluster: store the first term: %w", err)
	}
	return nil
}

// firstMembers checks a first member list.
func (n *Node) firstMembers(members []Server) (raft.Configuration, error) {
	var list raft.Configuration
	ids, addresses, self := map[string]bool{}, map[string]bool{}, false
	for _, member := range members {
		switch {
		case member.ID == "" || member.Address == "":
			return list, fmt.Errorf("a member needs an id and an address, not %q and %q", member.ID, member.Address)
		case !member.Voter:
			return list, fmt.Errorf("founding member %q does not vote; let it join later", member.ID)
		case ids[member.ID]:
			return list, fmt.Errorf("member %q is listed twice", member.ID)
		case addresses[member.Address]:
			return list, fmt.Errorf("address %q is listed twice", member.Address)
		}
		ids[member.ID], addresses[member.Address] = true, true
		self = self || member.ID == n.config.ID
		list.Servers = append(list.Servers, raft.Server{
			Suffrage: raft.Voter, ID: raft.ServerID(member.ID), Address: raft.ServerAddress(member.Address),
		})
	}
	if !self {
		return list, fmt.Errorf("this node, %q, is not in the member list", n.config.ID)
	}
	return list, nil
}

// Servers returns the newest member list this node has seen, committed or not.
func (n *Node) Servers() []Server {
	r := n.running()
	if r == nil {
		return nil
	}
	// This future is answered when it is made: the library keeps a copy of the list.
	future := r.GetConfiguration()
	if future.Error() != nil {
		return nil
	}
	return serversOf(future.Configuration())
}

func serversOf(list raft.Configuration) (servers []Server) {
	for _, server := range list.Servers {
		servers = append(servers, Server{
			ID: string(server.ID), Address: string(server.Address), Voter: server.Suffrage == raft.Voter,
		})
	}
	return servers
}

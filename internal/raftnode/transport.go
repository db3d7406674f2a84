package raftnode

import (
	"github.com/hashicorp/raft"
)

// quietTransport is a transport without the two shortcuts that are not safe or not worth it.
type quietTransport struct {
	raft.Transport
}

// SetHeartbeatHandler does nothing, so that heartbeats are handled like every other request, on
// Raft's own goroutine. See the package's documentation.
func (quietTransport) SetHeartbeatHandler(func(raft.RPC)) {}

// AppendEntriesPipeline refuses: one request at a time is in flight to a member.
func (quietTransport) AppendEntriesPipeline(raft.ServerID, raft.ServerAddress) (raft.AppendPipeline, error) {
	return nil, raft.ErrPipelineReplicationNotSupported
}

// Close closes the transport below, if it can be closed.
func (q quietTransport) Close() error {
	if closer, ok := q.Transport.(raft.WithClose); ok {
		return closer.Close()
	}
	return nil
}

// preVoteTransport is a quietTransport over one that knows pre-votes. Raft finds out by the type.
type preVoteTransport struct {
	quietTransport
	raft.WithPreVote
}

// closingTransport is what quiet returns.
type closingTransport interface {
	raft.Transport
	raft.WithClose
}

// quiet wraps a transport. Of the optional interfaces Raft asks for WithPreVote and WithClose, and
// both are kept; WithPeers is for tests, which hold the transport below.
func quiet(below raft.Transport) closingTransport {
	wrapped := quietTransport{below}
	if voter, ok := below.(raft.WithPreVote); ok {
		return preVoteTransport{wrapped, voter}
	}
	return wrapped
}

// memberAddresses gives Raft's transport the configured addresses.
type memberAddresses struct {
	self     raft.ServerID
	address  raft.ServerAddress
	of       func(id string) (string, bool)
	fallback error
}

// ServerAddr returns the address to dial, or an error to use the member list's.
func (m memberAddresses) ServerAddr(id raft.ServerID) (raft.ServerAddress, error) {
	if id == m.self {
		return m.address, nil
	}
	if address, ok := m.of(string(id)); ok {
		return raft.ServerAddress(address), nil
	}
	return "", m.fallback
}

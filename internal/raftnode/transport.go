package raftnode

import (
	"io"
	"strings"

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

// namedTransport tells the stream below whom it is to reach: it dials "ID@host:port". It does the same
// with this member's address in requests, which is what a voter stores: a vote kept by address alone
// would count for another member that has been given that address since.
type namedTransport struct {
	*raft.NetworkTransport
	addressOf func(id string) (string, bool) // nil: the member list has the addresses
}

func named(id raft.ServerID, address raft.ServerAddress) raft.ServerAddress {
	return raft.ServerAddress(string(id) + "@" + string(address))
}

// target returns where a member is to be dialled.
func (t namedTransport) target(id raft.ServerID, listed raft.ServerAddress) raft.ServerAddress {
	if t.addressOf != nil {
		if address, ok := t.addressOf(string(id)); ok {
			listed = raft.ServerAddress(address)
		}
	}
	return named(id, listed)
}

// AppendEntries sends entries, or a heartbeat.
func (t namedTransport) AppendEntries(id raft.ServerID, target raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	return t.NetworkTransport.AppendEntries(id, t.target(id, target), args, resp)
}

// RequestVote asks for a vote.
func (t namedTransport) RequestVote(id raft.ServerID, target raft.ServerAddress, args *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	return t.NetworkTransport.RequestVote(id, t.target(id, target), args, resp)
}

// RequestPreVote asks whether a vote would be given.
func (t namedTransport) RequestPreVote(id raft.ServerID, target raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	return t.NetworkTransport.RequestPreVote(id, t.target(id, target), args, resp)
}

// InstallSnapshot sends a snapshot.
func (t namedTransport) InstallSnapshot(id raft.ServerID, target raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	return t.NetworkTransport.InstallSnapshot(id, t.target(id, target), args, resp, data)
}

// TimeoutNow asks a member to take over the leadership.
func (t namedTransport) TimeoutNow(id raft.ServerID, target raft.ServerAddress, args *raft.TimeoutNowRequest, resp *raft.TimeoutNowResponse) error {
	return t.NetworkTransport.TimeoutNow(id, t.target(id, target), args, resp)
}

// EncodePeer returns what others are told of this member's address.
func (t namedTransport) EncodePeer(id raft.ServerID, address raft.ServerAddress) []byte {
	return []byte(named(id, address))
}

// DecodePeer returns the address in what another member tells of its own.
func (t namedTransport) DecodePeer(told []byte) raft.ServerAddress {
	return raft.ServerAddress(unnamed(string(told)))
}

// unnamed returns the address in "ID@host:port", or all of it where there is no id.
func unnamed(address string) string {
	return address[strings.LastIndexByte(address, '@')+1:]
}

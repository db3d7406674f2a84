package clienttest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/lancemaster/lancemaster/gen-go/admin"
)

// clusterState is the cluster's part of the world: three members, one of them out of
// reach, two tokens, and a snapshot.
type clusterState struct {
	members  []*admin.TClusterMember
	tokens   []*admin.TToken
	warnings []string
	voters   int32
}

// Snapshot is what snapshotRead gives, in parts.
var Snapshot = []byte(strings.Repeat("all that is known, ", 200_000))

// Token is the text of every token that the server creates.
const Token = "lm_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"

func newCluster() clusterState {
	return clusterState{
		members: []*admin.TClusterMember{
			{
				NodeID: "master-1", InstanceID: "1f0c", Address: "10.0.0.1:9010", Voter: true, Leader: true, ThisNode: true, Reachable: true,
				AppliedIndex: 61, Version: "v0.1.0", Level: 1, MaxLevel: 1, AdminAddress: "10.0.0.1:9021", ReportAddress: "10.0.0.1:9020",
				HTTPAddress: "10.0.0.1:8030", State: "leader",
			},
			{
				NodeID: "master-2", InstanceID: "2a9e", Address: "10.0.0.2:9010", Voter: true, Reachable: true, LastContactMs: 40, AppliedIndex: 60,
				Version: "v0.1.0", Level: 1, MaxLevel: 1, ClockOffsetMs: ptr(int64(-1200)), AdminAddress: "10.0.0.2:9021",
				ReportAddress: "10.0.0.2:9020", HTTPAddress: "10.0.0.2:8030", State: "voter",
			},
			{
				NodeID: "master-3", InstanceID: "37bd", Address: "10.0.0.3:9010", ConfiguredAddress: ptr("10.0.0.9:9010"), LastContactMs: -1,
				AppliedIndex: 12, Version: "v0.1.0", Level: 1, MaxLevel: 1, LastError: ptr("dial tcp 10.0.0.3:9010: connection refused"),
				State: "catching up",
			},
		},
		tokens: []*admin.TToken{
			{Name: "ci", Role: "submit", CreatedAtMs: at(100), CreatedBy: "unverified:ada"},
			{Name: "dashboards", Role: "read", CreatedAtMs: at(200), CreatedBy: "ci"},
		},
		voters:   2,
		warnings: []string{"with 2 voters no voter may be lost: add a third"},
	}
}

// Alone makes the cluster one of this server alone, which tells this HTTP address.
func (s *Server) Alone(httpAddress string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st, m := *s.w.status, *s.w.cluster.members[0]
	st.AdminAddress, st.HTTPAddress = s.Addr(), httpAddress
	m.AdminAddress, m.HTTPAddress = s.Addr(), httpAddress
	s.w.status, s.w.cluster.members, s.w.cluster.warnings, s.w.cluster.voters = &st, []*admin.TClusterMember{&m}, nil, 1
}

// ReportsAt makes the leader tell backends to report to an address.
func (s *Server) ReportsAt(address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	members := slices.Clone(s.w.cluster.members)
	leader := *members[0]
	leader.ReportAddress, members[0] = address, &leader
	s.w.cluster.members = members
}

// AddToken adds an access token.
func (s *Server) AddToken(name, role string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.w.cluster.tokens = append(s.w.cluster.tokens, &admin.TToken{Name: name, Role: role, CreatedAtMs: at(300), CreatedBy: "unverified:ada"})
}

// Follower makes the status that of a follower that heard from its leader some
// milliseconds ago.
func (s *Server) Follower(nodeID string, appliedIndex, lastContactMs int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := *s.w.status
	st.NodeID, st.RaftState, st.AppliedIndex, st.LastContactMs = nodeID, "Follower", appliedIndex, &lastContactMs
	s.w.status = &st
}

// OfCluster makes the status that of a master of another cluster.
func (s *Server) OfCluster(id int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := *s.w.status
	st.ClusterID = id
	s.w.status = &st
}

// Leaderless makes the status that of a follower that knows no leader.
func (s *Server) Leaderless() {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := *s.w.status
	st.RaftState, st.LeaderID, st.LeaderAdminAddress, st.Ready = "Follower", nil, nil, false
	s.w.status = &st
}

func (w *world) member(id string) (*admin.TClusterMember, error) {
	for _, m := range w.cluster.members {
		if m.NodeID == id {
			return m, nil
		}
	}
	return nil, refuse(admin.TAdminErrorCode_NOT_FOUND, fmt.Sprintf("there is no member %q", id), "see: lancemaster cluster status")
}

func (h *handler) ClusterStatus(_ context.Context, r *admin.TListRequest) (*admin.TClusterStatusResponse, error) {
	w, done, err := h.begin(r, &r.Ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	return &admin.TClusterStatusResponse{Node: w.status, Members: w.cluster.members, Voters: w.cluster.voters, Quorum: w.cluster.voters/2 + 1, Warnings: w.cluster.warnings}, nil
}

func (h *handler) AddMember(_ context.Context, r *admin.TAddMemberRequest) (*admin.TClusterMember, error) {
	_, done, err := h.begin(r, &r.Ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	return &admin.TClusterMember{
		NodeID: r.GetNodeID(), InstanceID: "4c11", Address: r.GetAddress(), Reachable: true, Version: "v0.1.0", Level: 1, MaxLevel: 1, State: "catching up",
	}, nil
}

func (h *handler) RemoveMember(_ context.Context, r *admin.TMemberRequest) (*admin.TRemoveResponse, error) {
	w, done, err := h.begin(r, &r.Ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	_, err = w.member(r.GetNodeID())
	return &admin.TRemoveResponse{}, err
}

func (h *handler) ReplaceMember(_ context.Context, r *admin.TReplaceMemberRequest) (*admin.TClusterMember, error) {
	w, done, err := h.begin(r, &r.Ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	m, err := w.member(r.GetNodeID())
	if err != nil {
		return nil, err
	}
	replaced := *m
	replaced.InstanceID = "4c11"
	if r.Address != nil {
		replaced.Address = *r.Address
	}
	return &replaced, nil
}

func (h *handler) TransferLeader(_ context.Context, r *admin.TTransferLeaderRequest) (*admin.TTransferLeaderResponse, error) {
	_, done, err := h.begin(r, &r.Ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	if r.NodeID != nil {
		return &admin.TTransferLeaderResponse{NewLeader_: *r.NodeID}, nil
	}
	return &admin.TTransferLeaderResponse{NewLeader_: "master-2"}, nil
}

func (h *handler) ReopenCluster(_ context.Context, r *admin.TReopenClusterRequest) (*admin.TReopenClusterResponse, error) {
	w, done, err := h.begin(r, &r.Ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	return &admin.TReopenClusterResponse{Node: w.status}, nil
}

func (h *handler) SnapshotBegin(_ context.Context, r *admin.TSnapshotBeginRequest) (*admin.TSnapshotInfo, error) {
	w, done, err := h.begin(r, &r.Ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	sum := sha256.Sum256(Snapshot)
	return &admin.TSnapshotInfo{
		ID: "s-1", SizeBytes: int64(len(Snapshot)), Sha256: hex.EncodeToString(sum[:]), RaftIndex: 61, RaftTerm: 4, ClusterID: w.status.ClusterID,
		Incarnation: 1, FeatureLevel: 1, Jobs: 7, CreatedAtMs: at(500), NodeID: &w.status.NodeID,
	}, nil
}

func (h *handler) SnapshotRead(_ context.Context, r *admin.TSnapshotReadRequest) (*admin.TSnapshotReadResponse, error) {
	_, done, err := h.begin(r, &r.Ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	if r.GetID() != "s-1" {
		return nil, refuse(admin.TAdminErrorCode_NOT_FOUND, fmt.Sprintf("there is no snapshot %q here", r.GetID()), "begin a new one")
	}
	rest := Snapshot[min(max(r.GetOffset(), 0), int64(len(Snapshot))):]
	return &admin.TSnapshotReadResponse{Data: rest[:min(len(rest), int(r.GetLimit()))]}, nil
}

func (h *handler) SnapshotEnd(_ context.Context, r *admin.TSnapshotEndRequest) (*admin.TSnapshotEndResponse, error) {
	_, done, err := h.begin(r, &r.Ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	return &admin.TSnapshotEndResponse{}, nil
}

func (h *handler) CreateToken(_ context.Context, r *admin.TCreateTokenRequest) (*admin.TCreateTokenResponse, error) {
	_, done, err := h.begin(r, &r.Ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	return &admin.TCreateTokenResponse{Token: Token, Info: &admin.TToken{
		Name: r.GetName(), Role: r.GetRole(), CreatedAtMs: at(500), CreatedBy: "unverified:ada",
	}}, nil
}

func (h *handler) ListTokens(_ context.Context, r *admin.TListRequest) (*admin.TListTokensResponse, error) {
	w, done, err := h.begin(r, &r.Ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	return &admin.TListTokensResponse{Tokens: w.cluster.tokens}, nil
}

func (h *handler) RevokeToken(_ context.Context, r *admin.TRevokeTokenRequest) (*admin.TRemoveResponse, error) {
	w, done, err := h.begin(r, &r.Ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	for _, t := range w.cluster.tokens {
		if t.Name == r.GetName() {
			return &admin.TRemoveResponse{}, nil
		}
	}
	return nil, refuse(admin.TAdminErrorCode_NOT_FOUND, fmt.Sprintf("there is no token %q", r.GetName()),
		"see: lancemaster token list; one in the file of a master's admin.tokens_file is none of the cluster's: take it out of that file")
}

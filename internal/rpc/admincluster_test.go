package rpc

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/gen-go/admin"
	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/job/jobtest"
)

// cluster is a fake of the cluster's verbs and of its snapshots.
type cluster struct {
	did    []string
	status ClusterStatus
	err    error
	data   []byte
}

func (k *cluster) note(format string, args ...any) {
	k.did = append(k.did, fmt.Sprintf(format, args...))
}

func (k *cluster) Members(context.Context) (ClusterStatus, error) { return k.status, k.err }

func (k *cluster) AddMember(_ context.Context, actor, id, address string) (Member, error) {
	k.note("%s adds %s at %s", actor, id, address)
	return Member{NodeID: id, Address: address, LastContact: Never, State: "catching up"}, k.err
}

func (k *cluster) RemoveMember(_ context.Context, actor, id string) error {
	k.note("%s removes %s", actor, id)
	return k.err
}

func (k *cluster) ReplaceMember(_ context.Context, actor, id, address string) (Member, error) {
	k.note("%s replaces %s at %q", actor, id, address)
	return Member{NodeID: id}, k.err
}

func (k *cluster) TransferLeader(_ context.Context, actor, id string) (string, error) {
	k.note("%s hands over to %q", actor, id)
	return "n2", k.err
}

func (k *cluster) Begin(context.Context) (SnapshotInfo, error) {
	return SnapshotInfo{ID: "s1", Size: int64(len(k.data)), SHA256: sha256.Sum256(k.data), RaftIndex: 7, RaftTerm: 2, ClusterID: 9, Jobs: 3}, k.err
}

func (k *cluster) Read(_ context.Context, id string, offset int64, limit int) ([]byte, error) {
	k.note("reads %s from %d, %d at most", id, offset, limit)
	if offset >= int64(len(k.data)) {
		return nil, k.err
	}
	rest := k.data[offset:]
	return rest[:min(limit, len(rest))], k.err
}

func (k *cluster) Release(id string) { k.note("ends %s", id) }

func newCluster(b *bench) *cluster {
	k := &cluster{data: []byte("a whole state")}
	b.admin.cfg.Cluster, b.admin.cfg.Snapshots = k, k
	return k
}

func TestClusterVerbs(t *testing.T) {
	b := newBench(t)
	k := newCluster(b)
	ctx, who := t.Context(), &admin.TRequestContext{ClientName: ptr("joe")}
	added, err := b.admin.AddMember(ctx, &admin.TAddMemberRequest{Ctx: who, NodeID: ptr("n4"), Address: ptr("m4:9010")})
	if err != nil || added.NodeID != "n4" || added.LastContactMs != -1 || added.State != "catching up" || added.ClockOffsetMs != nil {
		t.Errorf("added %v, %v", added, err)
	}
	if _, err := b.admin.ReplaceMember(ctx, &admin.TReplaceMemberRequest{Ctx: who, NodeID: ptr("n4")}); err != nil {
		t.Error(err)
	}
	if _, err := b.admin.RemoveMember(ctx, &admin.TMemberRequest{Ctx: who, NodeID: ptr("n4")}); err != nil {
		t.Error(err)
	}
	moved, err := b.admin.TransferLeader(ctx, &admin.TTransferLeaderRequest{Ctx: who})
	if err != nil || moved.NewLeader_ != "n2" {
		t.Errorf("handed over to %v, %v", moved, err)
	}
	want := []string{
		"unverified:joe adds n4 at m4:9010", `unverified:joe replaces n4 at ""`, "unverified:joe removes n4", `unverified:joe hands over to ""`,
	}
	if !slices.Equal(k.did, want) {
		t.Errorf("did %q", k.did)
	}
	// What the cluster refuses is told; what it lost is unknown.
	for err, code := range map[error]admin.TAdminErrorCode{
		&job.Refusal{Code: job.CodeInUse, Message: "too few would be left"}: admin.TAdminErrorCode_IN_USE,
		errLost: admin.TAdminErrorCode_OUTCOME_UNKNOWN,
	} {
		k.err = err
		_, got := b.admin.RemoveMember(ctx, &admin.TMemberRequest{NodeID: ptr("n4")})
		if e := refusal(t, got, code); code == admin.TAdminErrorCode_OUTCOME_UNKNOWN && !strings.Contains(e.GetNextStep(), "cluster status") {
			t.Errorf("next: %q", e.GetNextStep())
		}
	}
	b.admin.cfg.Cluster, b.admin.cfg.Snapshots = nil, nil
	_, err = b.admin.RemoveMember(ctx, &admin.TMemberRequest{NodeID: ptr("n4")})
	wantCode(t, err, admin.TAdminErrorCode_UNAVAILABLE)
	_, err = b.admin.SnapshotBegin(ctx, &admin.TSnapshotBeginRequest{})
	wantCode(t, err, admin.TAdminErrorCode_UNAVAILABLE)
}

func TestClusterStatus(t *testing.T) {
	b := newBench(t)
	k := newCluster(b)
	offset := -1500 * time.Millisecond
	b.status = NodeStatus{NodeID: "n1", InstanceID: "i1", LastContact: Never, MaxLevel: 2, WaitingFor: "n3", QuarantineCause: "restored", QuarantinedAt: 5}
	k.status = ClusterStatus{
		Voters: 2, Quorum: 2, Warnings: []string{"two voters are worse than one"},
		Members: []Member{
			{NodeID: "n1", InstanceID: "i1", Self: true, Leader: true, Voter: true, Reachable: true, State: "leader"},
			{NodeID: "n2", Voter: true, LastContact: 1200 * time.Millisecond, ClockOffset: &offset, LastError: "connection refused", ConfiguredAddress: "m2:9010"},
		},
	}
	got, err := b.admin.ClusterStatus(t.Context(), &admin.TListRequest{})
	if err != nil {
		t.Fatal(err)
	}
	n := got.Node
	if n.GetInstanceID() != "i1" || n.GetLastContactMs() != -1 || n.GetMaxLevel() != 2 || n.GetWaitingFor() != "n3" || n.GetQuarantineCause() != "restored" || n.GetQuarantinedAtMs() != 5 {
		t.Errorf("the node is %v", n)
	}
	m := got.Members[1]
	if got.Quorum != 2 || got.FailuresTolerated != 0 || len(got.Warnings) != 1 || !got.Members[0].ThisNode || m.ThisNode ||
		m.LastContactMs != 1200 || m.GetClockOffsetMs() != -1500 || m.GetLastError() != "connection refused" || m.GetConfiguredAddress() != "m2:9010" {
		t.Errorf("the cluster is %v", got)
	}
}

func TestSnapshotsOverTheWire(t *testing.T) {
	b := newBench(t)
	k := newCluster(b)
	info, err := b.admin.SnapshotBegin(t.Context(), &admin.TSnapshotBeginRequest{})
	sum := sha256.Sum256(k.data)
	if err != nil || info.ID != "s1" || info.SizeBytes != 13 || info.Sha256 != hex.EncodeToString(sum[:]) || info.RaftIndex != 7 || info.GetNodeID() != "n1" {
		t.Fatalf("began %v, %v", info, err)
	}
	barriers := b.barrierCount()
	part, err := b.admin.SnapshotRead(t.Context(), &admin.TSnapshotReadRequest{ID: &info.ID, Offset: ptr(int64(2)), Limit: ptr(int32(5))})
	if err != nil || string(part.Data) != "whole" {
		t.Errorf("read %v, %v", part, err)
	}
	part, err = b.admin.SnapshotRead(t.Context(), &admin.TSnapshotReadRequest{ID: &info.ID, Offset: ptr(int64(13))})
	if err != nil || part.Data == nil || len(part.Data) != 0 {
		t.Errorf("read past the end: %v, %v", part, err)
	}
	if _, err := b.admin.SnapshotEnd(t.Context(), &admin.TSnapshotEndRequest{ID: &info.ID}); err != nil {
		t.Error(err)
	}
	if b.barrierCount() != barriers {
		t.Error("reading a snapshot's bytes costs a barrier")
	}
	if want := []string{"reads s1 from 2, 5 at most", fmt.Sprintf("reads s1 from 13, %d at most", MaxSnapshotChunk), "ends s1"}; !slices.Equal(k.did, want) {
		t.Errorf("did %q", k.did)
	}
	for name, r := range map[string]*admin.TSnapshotReadRequest{
		"no id": {}, "a negative offset": {ID: ptr("s1"), Offset: ptr(int64(-1))}, "a large limit": {ID: ptr("s1"), Limit: ptr(int32(MaxSnapshotChunk + 1))},
	} {
		if _, err := b.admin.SnapshotRead(t.Context(), r); err == nil {
			t.Errorf("%s: answered", name)
		} else {
			wantCode(t, err, admin.TAdminErrorCode_INVALID)
		}
	}
}

// A token is shown once. What is kept of it is a hash, and what is logged is nothing.
func TestTokens(t *testing.T) {
	b := newBench(t)
	ctx := t.Context()
	made, err := b.admin.CreateToken(ctx, &admin.TCreateTokenRequest{Name: ptr("ci"), Role: ptr("submit")})
	if err != nil || !strings.HasPrefix(made.Token, TokenPrefix) || len(made.Token) != len(TokenPrefix)+43 || made.Info.Role != "submit" || made.Info.CreatedBy != "unverified:anonymous" {
		t.Fatalf("made %v, %v", made.Info, err)
	}
	b.Read(func(v View) {
		if kept := v.Tokens(); len(kept) != 1 || kept[0].Hash != sha256.Sum256([]byte(made.Token)) {
			t.Errorf("kept %+v", kept)
		}
	})
	listed, err := b.admin.ListTokens(ctx, &admin.TListRequest{})
	if err != nil || len(listed.Tokens) != 1 || listed.Tokens[0].Name != "ci" || listed.Tokens[0].CreatedAtMs == 0 {
		t.Errorf("listed %v, %v", listed, err)
	}
	_, err = b.admin.CreateToken(ctx, &admin.TCreateTokenRequest{Name: ptr("ci"), Role: ptr("read")})
	wantCode(t, err, admin.TAdminErrorCode_ALREADY_EXISTS)
	for name, r := range map[string]*admin.TCreateTokenRequest{"no name": {Role: ptr("read")}, "no role": {Name: ptr("x")}, "no such role": {Name: ptr("x"), Role: ptr("root")}} {
		if _, err := b.admin.CreateToken(ctx, r); err == nil {
			t.Errorf("%s: made one", name)
		} else {
			wantCode(t, err, admin.TAdminErrorCode_INVALID)
		}
	}
	for _, name := range []string{"", "system", "system ", "sys\u200btem", "\u202eci", " ci", "ci ", "unverified:ada", strings.Repeat("n", maxClientName+1)} {
		if _, err := b.admin.CreateToken(ctx, &admin.TCreateTokenRequest{Name: &name, Role: ptr("read")}); err == nil {
			t.Errorf("made a token called %q", name)
		} else {
			wantCode(t, err, admin.TAdminErrorCode_INVALID)
		}
	}
	other, err := b.admin.CreateToken(ctx, &admin.TCreateTokenRequest{Name: ptr("other"), Role: ptr("admin")})
	if err != nil || other.Token == made.Token {
		t.Errorf("made the same one twice, %v", err)
	}
	if _, err := b.admin.RevokeToken(ctx, &admin.TRevokeTokenRequest{Name: ptr("ci")}); err != nil {
		t.Error(err)
	}
	_, err = b.admin.RevokeToken(ctx, &admin.TRevokeTokenRequest{Name: ptr("ci")})
	wantCode(t, err, admin.TAdminErrorCode_NOT_FOUND)
	b.lose = errLost
	_, err = b.admin.CreateToken(ctx, &admin.TCreateTokenRequest{Name: ptr("third"), Role: ptr("admin")})
	if e := refusal(t, err, admin.TAdminErrorCode_OUTCOME_UNKNOWN); !strings.Contains(e.GetNextStep(), "revoke") {
		t.Errorf("next: %q", e.GetNextStep())
	}
	if strings.Contains(b.log.String(), TokenPrefix) {
		t.Error("a token was logged")
	}
}

func TestReopen(t *testing.T) {
	b := newBench(t)
	ctx := t.Context()
	yes := &admin.TReopenClusterRequest{Note: ptr("all restarted"), MastersStopped: ptr(true), BackendsRestarted: ptr(true)}
	_, err := b.admin.ReopenCluster(ctx, yes)
	wantCode(t, err, admin.TAdminErrorCode_WRONG_STATE)
	b.must(t, job.Quarantine{Header: b.head(), Incarnation: 2, Cause: "restored", Members: jobtest.Members("n1")})
	_, err = b.admin.ReopenCluster(ctx, yes)
	wantCode(t, err, admin.TAdminErrorCode_TOO_EARLY)
	b.change(func() { b.now = b.now.Add(time.Minute) })
	for _, r := range []*admin.TReopenClusterRequest{
		{Note: ptr("x"), MastersStopped: ptr(true)}, {Note: ptr("x"), BackendsRestarted: ptr(true)}, {MastersStopped: ptr(true), BackendsRestarted: ptr(true)},
	} {
		_, err := b.admin.ReopenCluster(ctx, r)
		wantCode(t, err, admin.TAdminErrorCode_INVALID)
	}
	if got, err := b.admin.ReopenCluster(ctx, yes); err != nil || got.Node.NodeID != "n1" {
		t.Errorf("reopened %v, %v", got, err)
	}
}

package app_test

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/internal/await"
	"github.com/lancemaster/lancemaster/internal/client"
)

// The leader is removed by way of a follower: it hands over first, which must not make the follower
// give the request up, and with its connection the leader's work on it.
func TestTheLeaderIsRemovedByWayOfAFollower(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*wait)
	defer cancel()
	n := &names{bound: map[string]string{}}
	var masters []*master
	for i := range 3 {
		m := &master{names: n, number: i + 1, dir: filepath.Join(t.TempDir(), "data")}
		masters = append(masters, m)
		t.Cleanup(func() { m.stop(t) })
		m.start(t, nil)
	}
	leader, followers := leaderOf(ctx, t, masters)
	c := clientOf(t, followers[0])
	id := []string{"m1", "m2", "m3"}[leader.number-1]
	if err := c.RemoveMember(ctx, id); err != nil {
		t.Fatal(err)
	}
	state, err := c.Cluster(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if len(state.Members) != 2 || slices.ContainsFunc(state.Members, func(m client.Member) bool { return m.NodeID == id }) {
		t.Errorf("after %s was removed the members are %+v", id, state.Members)
	}
	// What was removed says so, and does not pass for one that stands by. It may have been cut off before it heard
	// of its removal; then the others tell it.
	await.Until(t, time.Minute, "the removed master does not say that it was removed", func() bool {
		ready, reason := leader.Ready()
		return !ready && (strings.Contains(reason, "no member any more: stop it") ||
			strings.Contains(reason, " refuses this master (UNKNOWN_MEMBER): ") && strings.Contains(reason, "it was never added, or was removed"))
	})
}

// leaderOf waits until one of the masters leads and the others are its peers.
func leaderOf(ctx context.Context, t *testing.T, masters []*master) (leader *master, followers []*master) {
	t.Helper()
	all := clientOf(t, masters...)
	var state *client.Cluster
	var err error
	if !await.Poll(50*time.Millisecond, time.Minute, func() bool {
		state, err = all.Cluster(ctx)
		if err != nil || slices.ContainsFunc(state.Members, func(m client.Member) bool { return !m.Reachable }) {
			return false
		}
		for i, m := range masters {
			if ready, _ := m.Ready(); ready {
				leader, followers = m, slices.Delete(slices.Clone(masters), i, i+1)
				return true
			}
		}
		return false
	}) {
		t.Fatalf("no leader with all its peers: %+v, %v", state, err)
	}
	return leader, followers
}

package cluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestManyFaultsOfFormation crashes, wipes, cuts off and restarts founders at random, also several at
// once. Whatever happens, no second cluster comes of the list, and when the faults end there is one
// that works, with every disk that was lost since replaced by the operator.
func TestManyFaultsOfFormation(t *testing.T) {
	seeds := 150
	if testing.Short() {
		seeds = 20
	}
	early := 0
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				if faults(t, w, rand.New(rand.NewPCG(uint64(seed), 4))) {
					early++
				}
			})
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if early == 0 || early == seeds {
		t.Errorf("%d of %d clusters formed while there were faults: the test does not say much", early, seeds)
	}
}

// faults is one run. It says whether the cluster formed before the faults had ended.
func faults(t *testing.T, w *world, source *rand.Rand) (early bool) {
	var one sync.Mutex
	below := func(n int) int {
		one.Lock()
		defer one.Unlock()
		return source.IntN(n)
	}
	ids := []string{"a", "b", "c"}
	nodes := w.founders(ids...)
	w.fault = func(n *node, step string, after bool) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if step == "bootstrap" && !after && w.state.Cluster().ClusterID != 0 {
			t.Errorf("%s forms a second cluster", n.id)
		}
		if !strings.HasPrefix(step, "propose") && below(12) == 0 {
			if strings.HasPrefix(step, "call") {
				return errors.New("lost")
			}
			n.crash()
			return errCrashed
		}
		return nil
	}
	for _, n := range nodes {
		n.start()
	}
	for range 4 + below(12) {
		n := w.nodes[ids[below(3)]]
		switch below(6) {
		case 0:
			n.restart()
		case 1, 2:
			n.stop()
			if below(2) == 0 && w.keepsAMajority(n) {
				w.machine(n.id)
				w.nodes[n.id].start()
			} else {
				n.restart()
			}
		case 3:
			w.mu.Lock()
			w.cut[[2]string{n.id, ids[below(3)]}] = true
			w.mu.Unlock()
		case 4:
			w.mu.Lock()
			clear(w.cut)
			w.mu.Unlock()
		}
		w.pass(time.Duration(below(2000)) * time.Millisecond)
	}
	w.mu.Lock()
	early = w.state.Cluster().ClusterID != 0
	w.fault = func(n *node, step string, after bool) error {
		if step == "bootstrap" && !after && early {
			t.Errorf("%s forms a second cluster", n.id)
		}
		return nil
	}
	clear(w.cut)
	w.mu.Unlock()
	for i, id := range ids {
		nodes[i] = w.nodes[id].restart()
	}
	for range 3 { // the operator does what a refused disk says
		w.pass(3 * time.Second)
		for _, n := range nodes {
			if leader := w.nodes[w.leaderID()]; leader != nil && strings.Contains(n.Waiting(), "run `lancemaster cluster replace "+n.id+"`") {
				if _, err := leader.ReplaceMember(within(t), "ops", n.id, ""); err != nil {
					t.Log(err)
				}
			}
		}
	}
	w.until("one cluster that works", formed(nodes...))
	return early
}

// keepsAMajority says whether a cluster whose first member list is on some disk still has its quorum
// without another disk: beyond that it is lost, and nobody can know what it was.
func (w *world) keepsAMajority(lost *node) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	var expected map[string]string
	for _, n := range w.nodes {
		if n != lost && len(n.servers) > 0 && expected == nil {
			expected = n.standing.Instances
		}
	}
	if expected == nil {
		return w.state.Cluster().ClusterID == 0
	}
	left := 0
	for _, n := range w.nodes {
		want := expected[n.id]
		if m := w.state.Member(n.id); m != nil {
			want = m.InstanceID
		}
		if n != lost && n.instance == want {
			left++
		}
	}
	return left >= 2
}

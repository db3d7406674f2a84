package cluster

import (
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/internal/peer"
)

func TestOneMasterAgreesWithItself(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		n := w.machine("a")
		c := n.make()
		if c.AgreesWithMajority() {
			t.Error("agrees before there is a cluster")
		}
		n.start()
		w.pump()
		if !n.AgreesWithMajority() {
			t.Error("a master alone does not agree with itself")
		}
		ok(t, n.AddNonvoter(within(t), "b", "b.example:9010"))
		if !n.AgreesWithMajority() {
			t.Error("a member that never voted counts")
		}
		ok(t, n.AddVoter(within(t), "b", "b.example:9010"))
		if n.AgreesWithMajority() {
			t.Error("one of two agrees alone")
		}
	})
}

func TestClocks(t *testing.T) {
	for name, tt := range map[string]struct {
		members int
		ahead   map[string]time.Duration
		down    []string
		want    bool
	}{
		"three":                      {members: 3, want: true},
		"one is down":                {members: 3, down: []string{"b"}, want: true},
		"two are down":               {members: 3, down: []string{"b", "c"}, want: false},
		"one is hours ahead":         {members: 3, ahead: map[string]time.Duration{"b": 5 * time.Hour}, want: true},
		"one is hours behind":        {members: 3, ahead: map[string]time.Duration{"b": -5 * time.Hour}, want: true},
		"one is off, one is down":    {members: 3, ahead: map[string]time.Duration{"b": 5 * time.Hour}, down: []string{"c"}, want: false},
		"this one is ahead":          {members: 3, ahead: map[string]time.Duration{"a": 61 * time.Second}, want: false},
		"this one is behind":         {members: 3, ahead: map[string]time.Duration{"a": -61 * time.Second}, want: false},
		"this one is a little ahead": {members: 3, ahead: map[string]time.Duration{"a": 59 * time.Second}, want: true},
		"both others are off alike":  {members: 3, ahead: map[string]time.Duration{"b": time.Hour, "c": time.Hour}, want: false},
		"two":                        {members: 2, want: true},
		"one of two is down":         {members: 2, down: []string{"b"}, want: false},
		"one of two is off":          {members: 2, ahead: map[string]time.Duration{"b": -2 * time.Minute}, want: false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				nodes := w.cluster([]string{"a", "b", "c"}[:tt.members]...)
				for id, ahead := range tt.ahead {
					w.mu.Lock()
					w.nodes[id].clock = ahead
					w.mu.Unlock()
				}
				for _, id := range tt.down {
					w.nodes[id].stop()
				}
				w.pass(maxSampleAge + 3*time.Second)
				if got := nodes[0].AgreesWithMajority(); got != tt.want {
					t.Errorf("agrees: %v", got)
				}
			})
		})
	}
}

// A step of this node's own clock shows at once, before the others are asked again, in either
// direction; and a reading is believed for half a minute, not longer.
func TestAStepOfThisNodesClock(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		nodes := w.cluster("a", "b", "c")
		a := nodes[0]
		w.pass(time.Second)
		for _, step := range []time.Duration{3 * time.Hour, -3 * time.Hour} {
			w.mu.Lock()
			a.clock = step
			w.mu.Unlock()
			if a.AgreesWithMajority() {
				t.Errorf("agrees after a step of %s", step)
			}
			difference, known := a.clockDifference(a.peers.get("b"))
			if !known || (difference-step).Abs() > time.Second {
				t.Errorf("%s ahead of b after a step of %s", difference, step)
			}
		}
		w.mu.Lock()
		a.clock = 0
		w.mu.Unlock()
		if !a.AgreesWithMajority() {
			t.Error("does not agree when the clock is right again")
		}
		nodes[1].stop()
		nodes[2].stop()
		w.pass(maxSampleAge - 5*time.Second)
		if !a.AgreesWithMajority() {
			t.Error("a reading of a moment ago does not count")
		}
		w.pass(10 * time.Second)
		if a.AgreesWithMajority() {
			t.Error("an old reading counts")
		}
	})
}

// A reading took time, and is no more certain than that. Whoever is not the registered member says
// nothing of the members' clocks.
func TestReadingsThatDoNotCount(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a := w.cluster("a", "b")[0]
		put := func(change func(*sighting)) {
			s := sighting{
				member: Member{ID: "b"}, identity: peer.Identity{NodeID: "b", InstanceID: "disk-b"},
				status: status{WallMillis: time.Now().Add(59 * time.Second).UnixMilli()}, at: time.Now(), middle: time.Now(),
			}
			change(&s)
			a.peers.mu.Lock()
			a.peers.seen["b"] = s
			a.peers.mu.Unlock()
		}
		for name, tt := range map[string]struct {
			change func(*sighting)
			want   bool
		}{
			"within a minute": {func(*sighting) {}, true},
			"too uncertain":   {func(s *sighting) { s.uncertain = 2 * time.Second }, false},
			"another disk":    {func(s *sighting) { s.identity.InstanceID = "other" }, false},
			"never heard":     {func(s *sighting) { s.at = time.Time{} }, false},
			"nonsense":        {func(s *sighting) { s.status.WallMillis = 1 << 62 }, false},
			"negative":        {func(s *sighting) { s.status.WallMillis = -1 << 62 }, false},
		} {
			if put(tt.change); a.AgreesWithMajority() != tt.want {
				t.Errorf("%s: agrees: %v", name, !tt.want)
			}
		}
	})
}

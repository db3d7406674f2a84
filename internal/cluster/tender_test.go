package cluster

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lancemaster/lancemaster/internal/await"
	"github.com/lancemaster/lancemaster/internal/raftnode"
)

// adding is a cluster of one with b just added.
func (w *world) adding() (a, b *node) {
	w.t.Helper()
	a, b = w.cluster("a")[0], w.joiner("b")
	_, err := a.AddMember(within(w.t), "ops", "b", b.address)
	ok(w.t, err)
	w.until("b to be heard", func() bool { return a.reachable("b") && b.Identity().RegisteredAt > 0 })
	return a, b
}

// tend is a round of the leader's, in a term that has lasted for long.
func (n *node) tend(ctx context.Context) error { return n.Cluster.tend(ctx, time.Time{}) }

func TestOnlyACaughtUpMemberGetsItsVote(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.adding()
		w.mu.Lock()
		w.state.Position.Index += 1000
		w.mu.Unlock()
		votes := func() bool { return slices.Contains(w.voters(), "b") }
		for name, lag := range map[string]uint64{"far behind": 500, "too far behind": catchUpLag + 1} {
			w.mu.Lock()
			b.lag = lag
			w.mu.Unlock()
			w.pass(2 * time.Second)
			if ok(t, a.tend(within(t))); votes() {
				t.Fatalf("b votes %s", name)
			}
		}
		w.mu.Lock()
		b.lag = catchUpLag
		w.mu.Unlock()
		w.pass(2 * time.Second)
		b.stop()
		w.until("b to be missed", func() bool { return !a.reachable("b") })
		if ok(t, a.tend(within(t))); votes() {
			t.Fatal("b votes while it is down")
		}
		b = b.restart()
		w.mu.Lock()
		b.lag = catchUpLag
		w.mu.Unlock()
		w.until("b to be heard", func() bool { return a.reachable("b") && a.peers.get("b").status.Leader == "a" })
		if ok(t, a.tend(within(t))); !votes() {
			t.Error("b does not vote though it has caught up")
		}
	})
}

// In a young journal everything is among the newest entries: a member that has none of them must not
// count as having caught up.
func TestAMemberWithoutItsOwnRegistrationHasNotCaughtUp(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.cluster("a")[0], w.joiner("b")
		_, err := a.AddMember(within(t), "ops", "b", b.address)
		ok(t, err)
		// b answers calls, but Raft's entries do not arrive: nothing is pumped.
		for range 5 {
			await.Pass(time.Second)
			ok(t, a.tend(within(t)))
		}
		if !a.reachable("b") {
			t.Error("b was not heard")
		}
		if slices.Contains(w.voters(), "b") {
			t.Error("b votes and has nothing of the journal")
		}
		w.pass(2 * time.Second)
		ok(t, a.tend(within(t)))
		if !slices.Contains(w.voters(), "b") {
			t.Error("b does not vote though it has caught up")
		}
	})
}

// A journal that grows by more entries between two looks than a new member may lack does not keep it from its vote.
func TestABusyJournalKeepsNobodyFromItsVote(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, _ := w.adding()
		end := make(chan struct{})
		var growing sync.WaitGroup
		defer growing.Wait()
		defer close(end)
		growing.Go(func() {
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-end:
					return
				case <-tick.C:
				}
				w.mu.Lock()
				w.state.Position.Index += 10
				w.mu.Unlock()
			}
		})
		w.pass(3 * time.Second)
		for range 5 {
			await.Pass(900 * time.Millisecond)
			ok(t, a.tend(within(t)))
		}
		if !slices.Contains(w.voters(), "b") {
			t.Error("b follows closely and was not given its vote")
		}
	})
}

// A leader that has just been elected after a restart knows of nothing that is committed until the first entry of
// its term is. An answer to what it asked before that says nothing of how far behind somebody is.
func TestWhoWasAskedBeforeTheTermsFirstCommitHasNotCaughtUp(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.adding()
		set := func(change func()) {
			w.mu.Lock()
			defer w.mu.Unlock()
			change()
		}
		w.until("b to have its own registration", func() bool { return a.peers.get("b").status.Applied > 0 })
		set(func() {
			w.state.Position.Index += 100000
			b.lag, a.uncommitted = 99000, w.state.Position.Index
		})
		a.peers.ask(t.Context(), Member{ID: "b", Address: b.address})
		if s := a.peers.get("b"); !s.fresh() || s.commit != 0 || s.status.Leader != "a" {
			t.Fatalf("of b is known %+v", s)
		}
		set(func() { a.uncommitted, b.hangs = 0, true }) // no other answer comes before the first round
		tender := a.Tender()
		ok(t, tender.Start(t.Context(), 2))
		defer tender.Stop()
		votes := func() bool { return slices.Contains(w.voters(), "b") }
		w.pass(1500 * time.Millisecond)
		if s := a.peers.get("b"); !s.fresh() || s.commit != 0 {
			t.Fatalf("of b is known %+v", s)
		}
		if votes() {
			t.Fatal("b was given its vote for an answer of before the term")
		}
		set(func() { b.hangs = false })
		w.pass(5 * time.Second)
		if !a.reachable("b") || votes() {
			t.Fatalf("b, far behind: reachable %v, votes %v", a.reachable("b"), votes())
		}
		set(func() { b.lag = 0 })
		w.until("b to vote in a journal that does not grow", votes)
	})
}

func TestCaughtUp(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.adding()
		w.mu.Lock()
		at := w.state.Member("b").RegisteredAt
		w.mu.Unlock()
		since := time.Now()
		asked := since.Add(time.Second)
		seen := func(applied uint64, leader string) sighting {
			return sighting{member: Member{ID: b.id}, asked: asked, status: status{Applied: applied, Leader: leader}}
		}
		before := seen(at+5, "a")
		before.asked = since
		for name, tt := range map[string]struct {
			seen   sighting
			commit uint64
			want   bool
		}{
			"all":                    {seen(at+5, "a"), at + 5, true},
			"all but the newest":     {seen(at, "a"), at + catchUpLag, true},
			"one less":               {seen(at, "a"), at + catchUpLag + 1, false},
			"no command since":       {sighting{member: Member{ID: b.id}, asked: asked, status: status{Applied: at, Passed: at + 5000, Leader: "a"}}, at + 5000, true},
			"not its registration":   {seen(at-1, "a"), at, false},
			"follows another leader": {seen(at+5, "c"), at + 5, false},
			"follows nobody":         {seen(at+5, ""), at + 5, false},
			"asked before the term":  {before, 0, false},
			"not registered":         {sighting{member: Member{ID: "z"}, asked: asked, status: status{Applied: at, Leader: "a"}}, at, false},
		} {
			tt.seen.commit = tt.commit
			if got := a.caughtUp(tt.seen, since); got != tt.want {
				t.Errorf("%s: %v", name, got)
			}
		}
	})
}

// A question of this term that was not answered leaves what is known of before it, with the time at which it was asked.
func TestWhoDidNotAnswerInTheTermGetsNoVote(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, _ := w.adding()
		w.until("b to have its own registration", func() bool { return a.peers.get("b").status.Applied > 0 })
		since := time.Now()
		await.Pass(time.Millisecond)
		seen := a.peers.get("b")
		seen.asked, seen.commit, seen.err = time.Now(), 0, "timeout"
		if !a.caughtUp(seen, since) {
			t.Fatal("what is known of before would do")
		}
		server, _ := a.listed("b")
		if changed, err := a.tendMember(within(t), server, seen, since); changed || err != nil || slices.Contains(w.voters(), "b") {
			t.Errorf("changed %v, %v; voters %q", changed, err, w.voters())
		}
		seen.err = ""
		if changed, err := a.tendMember(within(t), server, seen, since); !changed || err != nil || !slices.Contains(w.voters(), "b") {
			t.Errorf("an answer of this term: changed %v, %v; voters %q", changed, err, w.voters())
		}
	})
}

func TestAnotherDiskGetsNoVote(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.adding()
		b.stop()
		b = w.machine("b").start()
		w.pass(3 * time.Second)
		if s := a.peers.get("b"); !s.fresh() || s.identity.InstanceID != b.instance {
			t.Error("the other disk was not heard")
		}
		ok(t, a.tend(within(t)))
		if slices.Contains(w.voters(), "b") || a.reachable("b") {
			t.Error("another disk than the registered one counts")
		}
	})
}

func TestAddressesAreKeptCurrent(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		nodes := w.cluster("a", "b", "c")
		a, b := nodes[0], nodes[1]
		moved := b.rebooted()
		moved.address, moved.founders = "b2.example:9010", nil
		moved.start()
		w.until("b to be missed", func() bool { return !a.reachable("b") })
		w.mu.Lock()
		a.configured = map[string]string{"b": "b2.example:9010"} // as a reload brings
		nodes[2].configured = map[string]string{}                // its configuration names nobody
		w.mu.Unlock()
		w.until("b to be heard", func() bool { return a.reachable("b") })
		// One change at a time: the registry first.
		ok(t, a.tend(within(t)))
		server, _ := a.listed("b")
		if got := w.state.Member("b").Address; got != "b2.example:9010" || server.Address != "b.example:9010" {
			t.Errorf("registered at %s, in Raft at %s", got, server.Address)
		}
		ok(t, a.tend(within(t)))
		if server, _ = a.listed("b"); server.Address != "b2.example:9010" || !server.Voter {
			t.Errorf("in Raft %+v", server)
		}
		if !strings.Contains(a.log.String(), "a member's address has changed") {
			t.Error("not logged")
		}
		before := w.state.Position
		for range 3 {
			ok(t, a.tend(within(t)))
		}
		if w.state.Position != before {
			t.Error("tending a cluster that is well writes to the journal")
		}
		// c learns of it by the registry alone.
		if got, _ := nodes[2].MemberAddress("b"); got != "b2.example:9010" {
			t.Errorf("c reaches b at %s", got)
		}
	})
}

// Addresses may change hands. Raft's list takes each once, so there a swap has to wait; the registry
// counts before it.
func TestAddressesThatAreSwapped(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		nodes := w.cluster("a", "b", "c")
		a := nodes[0]
		b, c := nodes[1].rebooted(), nodes[2].rebooted()
		b.address, c.address = c.address, b.address
		b.founders, c.founders = nil, nil
		b.start()
		c.start()
		w.mu.Lock()
		a.configured = map[string]string{"b": b.address, "c": c.address}
		w.leader = "a"
		w.mu.Unlock()
		w.until("both to be heard", func() bool {
			return a.peers.get("b").status.Address == b.address && a.peers.get("c").status.Address == c.address
		})
		for range 5 {
			ok(t, a.tend(within(t)))
		}
		if w.state.Member("b").Address != b.address || w.state.Member("c").Address != c.address {
			t.Errorf("registered: b at %s, c at %s", w.state.Member("b").Address, w.state.Member("c").Address)
		}
		// One that moves away makes room.
		ok(t, a.AddVoter(within(t), "c", "c9.example:9010"))
		ok(t, a.tend(within(t)))
		if server, _ := a.listed("b"); server.Address != b.address {
			t.Errorf("in Raft b is at %s", server.Address)
		}
	})
}

func TestALoopbackAddressIsNotRecorded(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		nodes := w.cluster("a", "b", "c")
		a := nodes[0]
		b := nodes[1].rebooted()
		b.told, b.founders, b.join = "127.0.0.1:9010", nil, true
		b.start()
		w.until("b to be heard", func() bool { return a.peers.get("b").status.Address == "127.0.0.1:9010" && a.reachable("b") })
		// c has moved at the same time, and is not kept waiting.
		c := nodes[2].rebooted()
		c.address, c.founders = "c2.example:9010", nil
		c.start()
		w.mu.Lock()
		a.configured = map[string]string{"c": c.address}
		w.mu.Unlock()
		w.until("c to be heard", func() bool { return a.peers.get("c").status.Address == c.address && a.reachable("c") })
		if err := a.tend(within(t)); err != nil && !strings.Contains(err.Error(), "member b: it advertises 127.0.0.1:9010, which the other members cannot reach") {
			t.Errorf("tended with %v", err)
		}
		if got := w.state.Member("b").Address; got != "b.example:9010" {
			t.Errorf("b is recorded at %s", got)
		}
		if got := w.state.Member("c").Address; got != "c2.example:9010" {
			t.Errorf("c is recorded at %s", got)
		}
		if err := a.tend(within(t)); err != nil {
			t.Error(err)
		}
		if err := a.tend(within(t)); err == nil || !strings.Contains(err.Error(), "correct its raft.advertise") {
			t.Errorf("tended with %v", err)
		}
		// Nor does b record it of itself when it leads.
		w.pump()
		w.lead("b")
		ok(t, b.EnsureRegistered(within(t)))
		if got := w.state.Member("b").Address; got != "b.example:9010" {
			t.Errorf("b has recorded itself at %s", got)
		}
	})
}

func TestEnsureRegistered(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a := w.cluster("a", "b", "c")[0]
		before := w.state.Position
		ok(t, a.EnsureRegistered(within(t)))
		if w.state.Position != before {
			t.Error("journaled what is there")
		}
		moved := a.rebooted()
		moved.address, moved.founders = "a2.example:9010", nil
		moved.start()
		w.pump()
		w.lead("a")
		w.mu.Lock()
		moved.follows = true
		w.mu.Unlock()
		ok(t, moved.EnsureRegistered(within(t)))
		if got := w.state.Member("a").Address; got != "a2.example:9010" {
			t.Errorf("registered at %s", got)
		}
		w.nodes["b"].stop()
		w.nodes["c"].stop()
		w.lead("a")
		ok(t, moved.Stop(within(t))) // nobody reads the configuration any more
		moved.cfg.InstanceID = "another"
		if err := moved.EnsureRegistered(within(t)); err == nil || !strings.Contains(err.Error(), "it must not lead") {
			t.Errorf("another disk leads: %v", err)
		}
		if got := moved.Survivor(); len(got) != 1 || got[0].NodeID != "a" || got[0].InstanceID != "another" || got[0].Address != "a2.example:9010" {
			t.Errorf("survivor %+v", got)
		}
	})
}

func TestTheLevelIsRaisedWhenAllSupportIt(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		nodes := w.cluster("a", "b", "c")
		level := func() int32 { return w.state.Cluster().Level }
		tend := func() {
			t.Helper()
			ok(t, w.nodes[w.leaderID()].tend(within(t)))
		}
		if tend(); level() != 1 {
			t.Fatalf("level %d", level())
		}
		for i, n := range nodes { // a rolling upgrade
			next := n.rebooted()
			next.maxLevel = 2
			next.start()
			nodes[i] = next
			w.until("all to be heard", func() bool {
				l := w.nodes[w.leaderID()]
				if l == nil {
					return false
				}
				for _, n := range nodes {
					if n.id != l.id && (!l.reachable(n.id) || l.peers.get(n.id).identity.MaxLevel != n.maxLevel) {
						return false
					}
				}
				return formed(nodes...)()
			})
			if i < 2 {
				if tend(); level() != 1 {
					t.Fatalf("level %d with a member that knows 1", level())
				}
			}
		}
		leader := w.nodes[w.leaderID()]
		last := nodes[0]
		if last == leader {
			last = nodes[1]
		}
		last.stop()
		w.until("a member to be missed", func() bool { return !leader.reachable(last.id) })
		if tend(); level() != 1 {
			t.Fatalf("level %d though %s was not heard", level(), last.id)
		}
		last.restart()
		w.until("it to be heard", func() bool { return leader.reachable(last.id) })
		if tend(); level() != 2 {
			t.Errorf("level %d", level())
		}
		before := w.state.Position
		if tend(); w.state.Position != before {
			t.Error("raised again")
		}
		if got := leader.Identity().Level; got != 2 {
			t.Errorf("the leader says level %d", got)
		}
	})
}

// At formation only what was heard counts.
func TestTheFirstLevel(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		nodes := w.founders("a", "b", "c")
		nodes[0].maxLevel, nodes[1].maxLevel, nodes[2].maxLevel = 3, 2, 4
		for _, n := range nodes {
			n.start()
		}
		w.until("a cluster", formed(nodes...))
		if got := w.state.Cluster().Level; got != 2 {
			t.Errorf("level %d", got)
		}
		nodes[2].stop()
		w.until("c to be missed", func() bool { return !nodes[0].reachable("c") })
		if form := nodes[0].Form(); form.Level != 1 || len(form.Members) != 3 {
			t.Errorf("level %d with %d members when one was not heard", form.Level, len(form.Members))
		}
		// The members are those of the first list, also when the configuration says otherwise by now.
		nodes[1].stop()
		ok(t, nodes[0].Stop(within(t))) // nobody reads the configuration any more
		nodes[0].cfg.Founders = nil
		if form := nodes[0].Form(); len(form.Members) != 3 || form.Members[1].InstanceID != "disk-b" || form.ClusterID != nodes[0].standing.ClusterID {
			t.Errorf("%+v", form)
		}
	})
	w := newWorld(t)
	one := w.machine("a")
	one.clusterID = 12
	one.make()
	ok(t, one.begin())
	if form := one.Form(); form.ClusterID != 12 || len(form.Members) != 1 || form.Members[0].InstanceID != "disk-a" || form.Level != 1 {
		t.Errorf("%+v", form)
	}
	one.cfg.ClusterID = 0
	if form := one.Form(); form.ClusterID <= 0 {
		t.Errorf("%+v", form)
	}
}

func TestTheTenderRunsWhileTheTermLasts(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, _ := w.adding()
		tender := a.Tender()
		ok(t, tender.Start(t.Context(), 2))
		if err := tender.Start(t.Context(), 2); err == nil {
			t.Error("started twice")
		}
		w.until("b to vote", func() bool { return slices.Contains(w.voters(), "b") })
		tender.Stop()
		tender.Stop()
		a.tendFails(w, t, tender)
	})
	for i := range 50 { // and stops at any moment
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			n := w.machine("a").start()
			w.pump()
			tender := n.Tender()
			ctx, cancel := context.WithCancel(t.Context())
			ok(t, tender.Start(ctx, 1))
			await.Pass(time.Duration(i) * 70 * time.Millisecond)
			if i%2 == 0 {
				cancel()
			}
			tender.Stop()
			cancel()
			w.stopAll()
		})
	}
}

// A round that fails is logged once, and tried again.
func (n *node) tendFails(w *world, t *testing.T, tender *Tender) {
	t.Helper()
	const text = "tending the membership failed; it is tried again"
	w.mu.Lock()
	w.fault = func(_ *node, step string, after bool) error {
		if step == "voter b" && !after {
			return raftnode.ErrBusy
		}
		return nil
	}
	n.servers[1].Voter = false
	w.mu.Unlock()
	ok(t, tender.Start(t.Context(), 3))
	w.pass(5 * time.Second)
	if got := strings.Count(n.log.String(), text); got != 1 {
		t.Errorf("logged %d times", got)
	}
	n.verbs <- struct{}{} // an operator's change: the tender keeps away
	w.mu.Lock()
	w.fault = nil
	w.mu.Unlock()
	w.pass(3 * time.Second)
	if slices.Contains(w.voters(), "b") {
		t.Error("a change was made beside another")
	}
	<-n.verbs
	w.until("b to vote", func() bool { return slices.Contains(w.voters(), "b") })
	tender.Stop()
}

func TestTheMembersAreAskedOneQuestionAtATime(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a := w.cluster("a", "b", "c")[0]
		w.mu.Lock()
		w.nodes["b"].hangs = true
		w.mu.Unlock()
		w.until("b to be missed", func() bool { return !a.reachable("b") })
		if s := a.peers.get("b"); !strings.Contains(s.err, "deadline") || s.at.IsZero() {
			t.Errorf("of b is known %+v", s)
		}
		if !a.reachable("c") {
			t.Error("a member that hangs hides another")
		}
		a.peers.hurry()
		a.peers.hurry()
		w.mu.Lock()
		w.nodes["b"].hangs = false
		w.mu.Unlock()
		w.until("b to be heard", func() bool { return a.reachable("b") })
		if r, heard := a.ReportAddresses("b"); !heard || r.AdminAddress != "b:9021" {
			t.Errorf("b says %+v", r)
		}
		ok(t, a.RemoveMember(within(t), "ops", "b"))
		w.pass(3 * time.Second)
		if _, heard := a.ReportAddresses("b"); heard {
			t.Error("what was heard of a removed member is kept")
		}
	})
}

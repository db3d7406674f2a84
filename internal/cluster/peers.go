package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/peer"
	"github.com/lancemaster/lancemaster/internal/raftnode"
)

// How often the other masters are asked, how long an answer may take, and how old the last one may
// be for a master to count as reachable.
const (
	pollInterval = time.Second
	formInterval = 250 * time.Millisecond // while a cluster forms
	pollTimeout  = 2 * time.Second
	freshFor     = 5 * time.Second
)

// status is what one master tells another of itself.
type status struct {
	Report
	Address     string `json:"address"`
	RaftState   string `json:"raft_state"`
	Term        uint64 `json:"term"`
	Leader      string `json:"leader"`
	Applied     uint64 `json:"applied"`
	Passed      uint64 `json:"passed"` // see raftnode.Stats.PassedIndex
	Commit      uint64 `json:"commit"`
	LastLog     uint64 `json:"last_log,omitempty"` // the newest entry on its disk
	WallMillis  int64  `json:"wall_ms"`
	LastContact int64  `json:"last_contact_ms"` // since the leader was heard; -1 never

	// For formation and joining.
	Empty     bool     `json:"empty"`
	Join      bool     `json:"join,omitempty"`
	ClusterID int32    `json:"configured_cluster_id,omitempty"`
	Founders  []Member `json:"founders,omitempty"`
	Waiting   string   `json:"waiting,omitempty"`
	Fenced    bool     `json:"fenced,omitempty"`    // see Cluster.fenced
	Objection string   `json:"objection,omitempty"` // why this founder does not agree yet

	// Refuses is why this master takes the one that asks for no member: it answers it, and does not hear its Raft.
	Refuses *peer.Refusal `json:"refuses,omitempty"`
}

func (c *Cluster) status() status {
	raft := c.cfg.Raft.Stats()
	s := status{
		Report: c.cfg.Report(), Address: c.cfg.Address, RaftState: raft.State, Term: raft.Term, Leader: raft.LeaderID,
		Applied: c.cfg.State.Applied().Index, Passed: raft.PassedIndex, Commit: raft.CommitIndex, LastLog: raft.LastLogIndex,
		WallMillis: c.cfg.Now().UnixMilli(), LastContact: contactMillis(raft),
		Empty: c.empty(), Join: c.cfg.Join, ClusterID: c.cfg.ClusterID, Founders: c.cfg.Founders, Waiting: c.Waiting(), Fenced: c.fenced(),
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.Objection = c.objection
	return s
}

func contactMillis(s raftnode.Stats) int64 {
	if s.LastContact < 0 {
		return -1
	}
	return s.LastContact.Milliseconds()
}

// sighting is the last that was heard of another master.
type sighting struct {
	member   Member
	identity peer.Identity
	status   status
	asked    time.Time // when the newest question went out that was answered or failed
	commit   uint64    // what this node knew to be committed when the newest question went out that was answered
	at       time.Time // when it was heard, by the monotonic clock; zero: never
	// middle is when the answer was made, by our clock, give or take uncertain.
	middle    time.Time
	uncertain time.Duration
	err       string        // why the last try failed; empty when it did not
	refusal   *peer.Refusal // why one side takes the other for no member
}

// fresh says whether the master answered lately.
func (s sighting) fresh() bool { return !s.at.IsZero() && time.Since(s.at) <= freshFor && s.err == "" }

// peers asks the other masters how they are.
type peers struct {
	c *Cluster

	mu      sync.Mutex
	seen    map[string]sighting
	asking  map[string]bool
	changed chan struct{} // closed at the next answer or failure
	// soon makes the next round come at once.
	soon       chan struct{}
	refreshing refreshing
}

func newPeers(c *Cluster) *peers {
	return &peers{c: c, seen: map[string]sighting{}, asking: map[string]bool{}, changed: make(chan struct{}), soon: make(chan struct{}, 1)}
}

// run asks each master in turn until ctx ends, and returns when no question is under way.
func (p *peers) run(ctx context.Context) {
	var asking sync.WaitGroup
	defer asking.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	registered := p.c.disks()
	removed := farewell{c: p.c}
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-p.soon:
		}
		if now := p.c.disks(); !maps.Equal(now, registered) {
			registered = now
			p.c.recheck() // a disk that was removed or replaced must not go on talking to Raft here
		}
		removed.look()
		others := p.c.others()
		p.forget(others)
		for _, m := range others {
			if !p.begin(m.ID) {
				continue
			}
			asking.Go(func() { p.ask(ctx, m) })
		}
		interval := pollInterval
		if p.c.forming() {
			interval = formInterval
		}
		timer.Reset(interval)
	}
}

// disks are the members' disks as registered, by node id.
func (c *Cluster) disks() map[string]string {
	disks := map[string]string{}
	c.cfg.State.Read(func(l *job.Live) {
		for _, m := range l.Members() {
			disks[m.NodeID] = m.InstanceID
		}
	})
	return disks
}

// begin marks that a master is being asked, unless it is already.
func (p *peers) begin(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asking[id] {
		return false
	}
	p.asking[id] = true
	return true
}

// ask asks one master. An answer counts as of when it was given, whichever of two comes last.
func (p *peers) ask(ctx context.Context, m Member) {
	before := p.question()
	s, identity, err := p.c.askStatus(ctx, m.ID, m.Address)
	p.mu.Lock()
	delete(p.asking, m.ID)
	p.mu.Unlock()
	p.learn(m, before, s, identity, err)
}

// question is what there was when one went out.
type question struct {
	at     time.Time
	commit uint64
}

func (p *peers) question() question {
	return question{at: time.Now(), commit: p.c.cfg.Raft.Stats().CommitIndex}
}

// learn keeps what a question that went out before came to, now.
func (p *peers) learn(m Member, q question, s status, identity peer.Identity, err error) {
	before, after := q.at, time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	last := p.seen[m.ID]
	if last.asked.After(before) {
		return // somebody asked later, and has been answered
	}
	last.member, last.asked = m, before
	if err != nil {
		last.err, last.refusal = err.Error(), nil
		errors.As(err, &last.refusal)
	} else {
		rtt := after.Sub(before)
		last = sighting{member: m, identity: identity, status: s, asked: before, commit: q.commit, at: after, middle: before.Add(rtt / 2), uncertain: rtt / 2}
		if last.refusal = s.Refuses; last.refusal != nil {
			last.refusal.ByOther = true
		}
	}
	p.seen[m.ID] = last
	close(p.changed)
	p.changed = make(chan struct{})
}

// askAll asks every master now and returns when each has answered or limit has passed. A change of the
// membership goes by what is so now: a master that died a moment ago must not count for a quorum.
func (p *peers) askAll(ctx context.Context, limit time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var asking sync.WaitGroup
	for _, m := range p.c.others() {
		asking.Go(func() { p.ask(ctx, m) })
	}
	asking.Wait()
}

// forget drops what is known of those who are not asked any more.
func (p *peers) forget(others []Member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id := range p.seen {
		if !slices.ContainsFunc(others, func(m Member) bool { return m.ID == id }) {
			delete(p.seen, id)
		}
	}
}

func (p *peers) get(id string) sighting {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen[id]
}

func (p *peers) next() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changed
}

// hurry makes the next round come at once.
func (p *peers) hurry() {
	select {
	case p.soon <- struct{}{}:
	default:
	}
}

// askStatus asks one master how it is.
func (c *Cluster) askStatus(ctx context.Context, id, address string) (s status, identity peer.Identity, err error) {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	raw, identity, err := c.call(ctx, id, address, methodStatus, nil)
	if err != nil {
		return s, identity, err
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return s, identity, fmt.Errorf("%s answered with something that is no status: %w", address, err)
	}
	return s, identity, nil
}

// ReportAddresses returns what a master says of where it serves; false when it was not heard.
func (c *Cluster) ReportAddresses(id string) (Report, bool) {
	s := c.peers.get(id)
	return s.status.Report, !s.at.IsZero()
}

// Silent says that a master was asked in vain when it was asked last: it hangs, is gone, or the way to
// it is cut. It is false of one that is not asked.
func (c *Cluster) Silent(id string) bool { return c.peers.get(id).err != "" }

// CatchUp asks the leader how far it is, and returns once this node's state machine has applied as much. A leader
// that serves has passed its barrier and applies a command before it acknowledges it, so its state shows all that
// was acknowledged before the question; of one that does not serve yet nobody can tell.
func (c *Cluster) CatchUp(ctx context.Context, leader string) error {
	address, ok := c.MemberAddress(leader)
	if !ok {
		return fmt.Errorf("%s has no address here", leader)
	}
	s, _, err := c.askStatus(ctx, leader, address)
	if err != nil {
		return err
	}
	if s.Leader != leader {
		return fmt.Errorf("%s does not lead any more", leader)
	}
	if !s.Ready {
		return fmt.Errorf("%s does not serve as the leader yet", leader)
	}
	// Not by what Raft has passed on: of that, a batch may still be at work.
	return poll(ctx, func() bool { return c.cfg.State.Applied().Index >= s.Applied })
}

// LeaderIndex is the newest entry that the leader of a term has told of lately, and false while it has told
// none. A follower's own commit index says nothing of how far behind it is: that is 0 after its start, and
// never beyond what it has. Nor does that of a leader which has committed nothing in its term yet; its log
// ends no earlier than all that was ever committed.
func (c *Cluster) LeaderIndex(id string, term uint64) (index uint64, told bool) {
	s := c.peers.get(id)
	if s.at.IsZero() || time.Since(s.at) > freshFor || s.status.Leader != id || s.status.Term != term {
		return 0, false
	}
	return max(s.status.Commit, s.status.LastLog), true
}

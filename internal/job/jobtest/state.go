// Package jobtest holds a whole state of lancemaster in memory, for tests: it
// applies commands to job.Live and keeps what Live does not, the history. It is
// as pure as job itself and imported by tests only.
package jobtest

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/lancemaster/lancemaster/internal/job"
)

// State is everything that a state file holds. It is a job.View.
type State struct {
	*job.Live
	// Records are all jobs, open or not.
	Records map[job.ID]*job.Record
	// Events are each job's transitions, oldest first, none dropped.
	Events map[job.ID][]job.Event
	// Changes are the changes of settings, oldest first.
	Changes []job.SettingChange
	// Position is that of the newest command.
	Position job.Position

	requests map[request]job.ID
}

type request struct{ creator, id string }

// New returns an empty state, before formation.
func New() *State {
	return &State{
		Live:     job.NewLive(),
		Records:  map[job.ID]*job.Record{},
		Events:   map[job.ID][]job.Event{},
		Position: job.Position{Term: 1},
		requests: map[request]job.ID{},
	}
}

// Formed returns a state after a formation with the default settings.
func Formed() *State {
	s := New()
	if _, refusal := s.Apply(job.Form{
		Header: job.Header{At: 1, Actor: job.ActorSystem}, ClusterID: 1, Level: 1, Settings: job.DefaultSettings(),
		Members: Members("master-1"),
	}); refusal != nil {
		panic(refusal.Error()) // the defaults form a cluster
	}
	return s
}

// Members makes members of node ids, as a formation or a quarantine brings them.
// Instance id and address follow from the node id.
func Members(nodeIDs ...string) []job.Member {
	members := make([]job.Member, 0, len(nodeIDs))
	for _, id := range nodeIDs {
		members = append(members, job.Member{NodeID: id, InstanceID: "instance-" + id, Address: id + ".example:9010"})
	}
	slices.SortFunc(members, func(a, b job.Member) int { return cmp.Compare(a.NodeID, b.NodeID) })
	return members
}

// Apply applies a command at the next position of the log. A refused command
// takes a position too and changes nothing else.
func (s *State) Apply(c job.Command) (job.Change, *job.Refusal) {
	s.Position.Index++
	change, refusal := job.Apply(s, s.Position, c)
	if refusal == nil {
		s.Write(change)
	}
	return change, refusal
}

// Write takes over a change.
func (s *State) Write(c job.Change) {
	for _, j := range c.Jobs {
		if j.New == nil {
			delete(s.Records, j.Old.ID)
			delete(s.Events, j.Old.ID)
			delete(s.requests, request{j.Old.Creator, j.Old.RequestID})
			continue
		}
		s.Records[j.New.ID] = j.New
		s.Events[j.New.ID] = append(s.Events[j.New.ID], *j.Event)
		if j.New.RequestID != "" {
			s.requests[request{j.New.Creator, j.New.RequestID}] = j.New.ID
		}
	}
	s.Changes = append(s.Changes, c.Settings...)
	s.Live.Apply(c)
}

// Job returns a job, open or not, or nil.
func (s *State) Job(id job.ID) *job.Record { return s.Records[id] }

// Request returns the job that this creator admitted under this request id.
func (s *State) Request(creator, id string) (job.ID, bool) {
	j, ok := s.requests[request{creator, id}]
	return j, ok
}

// Closed lists up to limit jobs that are not open and were closed before a time,
// the one closed longest ago first.
func (s *State) Closed(before job.Millis, limit int) []job.ID {
	closed := []*job.Record{}
	for _, r := range s.All() {
		if !r.Open() && r.ClosedAt < before {
			closed = append(closed, r)
		}
	}
	slices.SortStableFunc(closed, func(a, b *job.Record) int { return cmp.Compare(a.ClosedAt, b.ClosedAt) })
	ids := []job.ID{}
	for _, r := range closed[:min(limit, len(closed))] {
		ids = append(ids, r.ID)
	}
	return ids
}

// All returns every job, ascending.
func (s *State) All() []*job.Record {
	all := make([]*job.Record, 0, len(s.Records))
	//order: sorted below
	for _, r := range s.Records {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b *job.Record) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// Rebuilt returns a Live built from what a state file would hold, as a master does
// when it starts.
func (s *State) Rebuilt() (*job.Live, error) {
	live := job.NewLive()
	live.LoadCluster(s.Cluster())
	for _, v := range s.SettingValues() {
		if err := live.LoadSetting(v); err != nil {
			return nil, fmt.Errorf("setting %s: %w", v.Name, err)
		}
	}
	for _, c := range s.Catalogs() {
		live.LoadCatalog(c)
	}
	for _, b := range s.Backends() {
		live.LoadBackend(b)
	}
	for _, m := range s.Members() {
		live.LoadMember(m)
	}
	for _, t := range s.Tokens() {
		live.LoadToken(t)
	}
	for _, r := range s.All() {
		live.LoadJob(r)
	}
	return live, nil
}

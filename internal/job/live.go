package job

import "slices"

// Live is what a master holds in memory: every job that holds something or owes a
// late refresh, the indexes over them, and the small replicated tables. Its size
// follows the open jobs and never the history. It answers all of View but what
// concerns closed jobs.
//
// Live is not safe for concurrent use; whoever owns it guards it. The values it
// hands out are immutable.
type Live struct {
	cluster  Cluster
	settings Settings

	jobs map[ID]*Record
	// all, pending, running and refresh are ids, ascending.
	all, pending, running, refresh idSet

	fences              map[FenceKey]ID
	unresolvedInCatalog map[string]int
	unresolvedAtTable   map[TableKey]int
	openInCatalog       map[string]int
	slots               map[BackendID]int
	states              map[State]int

	catalogs map[string]*Catalog
	backends map[BackendID]*Backend
	ports    map[hostPort]BackendID
	members  map[string]*Member // by node id
	tokens   map[string]*Token  // by name
}

type hostPort struct {
	host string
	port int32
}

// NewLive returns the memory of an empty state, with the settings' defaults.
func NewLive() *Live {
	settings, _ := NewSettings(nil) // the defaults alone are never refused
	return &Live{
		settings:            settings,
		jobs:                map[ID]*Record{},
		fences:              map[FenceKey]ID{},
		unresolvedInCatalog: map[string]int{},
		unresolvedAtTable:   map[TableKey]int{},
		openInCatalog:       map[string]int{},
		slots:               map[BackendID]int{},
		states:              map[State]int{},
		catalogs:            map[string]*Catalog{},
		backends:            map[BackendID]*Backend{},
		ports:               map[hostPort]BackendID{},
		members:             map[string]*Member{},
		tokens:              map[string]*Token{},
	}
}

// Apply follows a Change that has been written.
func (l *Live) Apply(c Change) {
	for _, j := range c.Jobs {
		if j.Old != nil {
			l.dropJob(j.Old)
		}
		if j.New != nil {
			l.LoadJob(j.New)
		}
	}
	if c.Cluster != nil {
		l.cluster = *c.Cluster
	}
	for _, s := range c.Settings {
		// A Change carries canonical values of known settings.
		_ = setSetting(&l.settings, s.Name, s.New)
	}
	if c.Catalog != nil {
		setEntry(l.catalogs, c.Catalog.Name, c.Catalog.New)
	}
	if c.Backend != nil {
		l.setBackend(c.Backend.ID, c.Backend.New)
	}
	for _, m := range c.Members {
		setEntry(l.members, m.NodeID, m.New)
	}
	if c.Token != nil {
		setEntry(l.tokens, c.Token.Name, c.Token.New)
	}
}

// LoadCluster takes the cluster's record, when the memory is rebuilt.
func (l *Live) LoadCluster(c Cluster) { l.cluster = c }

// LoadSetting takes a setting, when the memory is rebuilt. A setting or value that
// this build does not know is an error: the state was written by a newer one.
func (l *Live) LoadSetting(s SettingValue) error {
	if refusal := setSetting(&l.settings, s.Name, s.Value); refusal != nil {
		return refusal
	}
	return nil
}

// LoadCatalog takes a catalog, when the memory is rebuilt.
func (l *Live) LoadCatalog(c *Catalog) { setEntry(l.catalogs, c.Name, c) }

// LoadBackend takes a backend, when the memory is rebuilt.
func (l *Live) LoadBackend(b *Backend) { l.setBackend(b.ID, b) }

// LoadMember takes a member, when the memory is rebuilt.
func (l *Live) LoadMember(m *Member) { setEntry(l.members, m.NodeID, m) }

// LoadToken takes an access token, when the memory is rebuilt.
func (l *Live) LoadToken(t *Token) { setEntry(l.tokens, t.Name, t) }

// LoadJob takes a job, when the memory is rebuilt. One that holds nothing and owes
// no late refresh is not kept.
func (l *Live) LoadJob(r *Record) {
	if !r.Live() {
		return
	}
	l.jobs[r.ID] = r
	l.count(r, 1)
	l.all.add(r.ID)
	switch {
	case r.State == StatePending:
		l.pending.add(r.ID)
	case r.State == StateRunning:
		l.running.add(r.ID)
	case r.awaitsRefresh():
		l.refresh.add(r.ID)
	}
	if r.HoldsFence() {
		l.fences[r.Target.Fence()] = r.ID
	}
}

func (l *Live) dropJob(old *Record) {
	r := l.jobs[old.ID]
	if r == nil {
		return
	}
	delete(l.jobs, r.ID)
	l.count(r, -1)
	l.all.remove(r.ID)
	l.pending.remove(r.ID)
	l.running.remove(r.ID)
	l.refresh.remove(r.ID)
	if r.HoldsFence() {
		delete(l.fences, r.Target.Fence())
	}
}

// count keeps the counters of what is held; a counter at zero leaves the map.
func (l *Live) count(r *Record, by int) {
	tally(l.states, r.State, by)
	if r.HoldsFence() {
		tally(l.unresolvedInCatalog, r.Target.Catalog, by)
		tally(l.unresolvedAtTable, r.Target.TableKey(), by)
	}
	if r.Open() {
		tally(l.openInCatalog, r.Target.Catalog, by)
	}
	if r.HoldsSlot() {
		tally(l.slots, r.Dispatch.BackendID, by)
	}
}

func tally[K comparable](counts map[K]int, key K, by int) {
	if counts[key] += by; counts[key] == 0 {
		delete(counts, key)
	}
}

// setEntry puts a table's entry, or deletes it where there is none any more.
func setEntry[V any](table map[string]*V, name string, v *V) {
	if v == nil {
		delete(table, name)
		return
	}
	table[name] = v
}

func (l *Live) setBackend(id BackendID, b *Backend) {
	if old := l.backends[id]; old != nil {
		for _, p := range old.Address.ports() {
			delete(l.ports, p)
		}
		delete(l.backends, id)
	}
	if b == nil {
		return
	}
	l.backends[id] = b
	for _, p := range b.Address.ports() {
		l.ports[p] = id
	}
}

func (a Address) ports() [2]hostPort {
	host := hostKey(a.Host)
	return [2]hostPort{{host, a.BePort}, {host, a.HeartbeatPort}}
}

// Live reports whether the job belongs in a master's memory: it holds something,
// or owes a late refresh.
func (r *Record) Live() bool { return r.Open() || r.OwesLateRefresh() }

// awaitsRefresh reports whether a terminal job's refresh is still to be done.
func (r *Record) awaitsRefresh() bool {
	switch r.State {
	case StateCommitted, StateNotCommitted:
		return r.HoldsFence()
	case StateUnknown:
		return r.OwesLateRefresh()
	default:
		return false
	}
}

// idSet is a set of ids, ascending. Ids grow, so adding is at the end as a rule;
// elsewhere the rest of a short array of numbers moves by one.
type idSet []ID

func (s *idSet) add(id ID) {
	if i, found := slices.BinarySearch(*s, id); !found {
		*s = slices.Insert(*s, i, id)
	}
}

func (s *idSet) remove(id ID) {
	if i, found := slices.BinarySearch(*s, id); found {
		*s = slices.Delete(*s, i, i+1)
	}
	if len(*s) == 0 {
		*s = nil // an emptied set is a new one's equal
	}
}

package job

import (
	"cmp"
	"maps"
	"slices"
)

// Cluster returns the cluster's own record; ClusterID is 0 before formation.
func (l *Live) Cluster() Cluster { return l.cluster }

// Settings returns the settings in force: the defaults before formation.
func (l *Live) Settings() Settings { return l.settings }

// SettingValues returns the settings in force in canonical spelling, sorted by name.
func (l *Live) SettingValues() []SettingValue { return l.settings.Values() }

// Job returns a job that is open or owes a late refresh, or nil.
func (l *Live) Job(id ID) *Record { return l.jobs[id] }

// FenceOwner returns the job that holds this fence.
func (l *Live) FenceOwner(k FenceKey) (ID, bool) {
	id, held := l.fences[k]
	return id, held
}

// Unresolved counts the jobs that hold a fence.
func (l *Live) Unresolved() int { return len(l.fences) }

// UnresolvedInCatalog counts the jobs of a catalog that hold a fence.
func (l *Live) UnresolvedInCatalog(name string) int { return l.unresolvedInCatalog[name] }

// UnresolvedAtTable counts the jobs of a dataset that hold a fence.
func (l *Live) UnresolvedAtTable(k TableKey) int { return l.unresolvedAtTable[k] }

// OpenInCatalog counts the open jobs of a catalog.
func (l *Live) OpenInCatalog(name string) int { return l.openInCatalog[name] }

// OpenJobs lists the jobs that are open or owe a late refresh, ascending.
func (l *Live) OpenJobs() []ID { return slices.Clone(l.all) }

// SlotsHeld counts the slots held on a backend.
func (l *Live) SlotsHeld(id BackendID) int { return l.slots[id] }

// Catalog returns a catalog by name, or nil.
func (l *Live) Catalog(name string) *Catalog { return l.catalogs[name] }

// Backend returns a backend by id, or nil.
func (l *Live) Backend(id BackendID) *Backend { return l.backends[id] }

// BackendAt returns the backend that claims either port of an address.
func (l *Live) BackendAt(a Address) (BackendID, bool) {
	for _, p := range a.ports() {
		if id, taken := l.ports[p]; taken {
			return id, true
		}
	}
	return 0, false
}

// Catalogs returns the catalogs, sorted by name.
func (l *Live) Catalogs() []*Catalog {
	return slices.SortedFunc(maps.Values(l.catalogs), func(a, b *Catalog) int { return cmp.Compare(a.Name, b.Name) })
}

// Backends returns the backends, sorted by id.
func (l *Live) Backends() []*Backend {
	return slices.SortedFunc(maps.Values(l.backends), func(a, b *Backend) int { return cmp.Compare(a.ID, b.ID) })
}

// Members returns the registered members, sorted by node id.
func (l *Live) Members() []*Member {
	return slices.SortedFunc(maps.Values(l.members), func(a, b *Member) int { return cmp.Compare(a.NodeID, b.NodeID) })
}

// Member returns a member by node id, or nil.
func (l *Live) Member(nodeID string) *Member { return l.members[nodeID] }

// Tokens returns the access tokens, sorted by name.
func (l *Live) Tokens() []*Token {
	return slices.SortedFunc(maps.Values(l.tokens), func(a, b *Token) int { return cmp.Compare(a.Name, b.Name) })
}

// Token returns an access token by name, or nil.
func (l *Live) Token(name string) *Token { return l.tokens[name] }

// Jobs returns the jobs that are open or owe a late refresh, ascending.
func (l *Live) Jobs() []*Record { return l.records(l.all) }

// Pending returns the PENDING jobs, ascending.
func (l *Live) Pending() []*Record { return l.records(l.pending) }

// Running returns the RUNNING jobs, ascending.
func (l *Live) Running() []*Record { return l.records(l.running) }

// RefreshQueue returns the terminal jobs whose refresh, or late refresh, is still
// to be done, ascending.
func (l *Live) RefreshQueue() []*Record { return l.records(l.refresh) }

// StateCounts counts the jobs that are open or owe a late refresh by state; every
// state has an entry.
func (l *Live) StateCounts() map[State]int {
	counts := make(map[State]int, len(stateNames))
	for s := StatePending; s <= StateUnknown; s++ {
		counts[s] = l.states[s]
	}
	return counts
}

func (l *Live) records(ids idSet) []*Record {
	records := make([]*Record, len(ids))
	for i, id := range ids {
		records[i] = l.jobs[id]
	}
	return records
}

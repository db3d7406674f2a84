package job

// View is what a transition may read: the state before its command. Records and
// other values behind pointers belong to the state; a transition copies before
// it writes.
type View interface {
	// Cluster returns the cluster's own record; ClusterID is 0 before formation.
	Cluster() Cluster
	// Settings returns the settings in force.
	Settings() Settings
	// Job returns the job with this id, open or not, or nil.
	Job(ID) *Record
	// Request returns the job that this creator admitted under this request id.
	Request(creator, requestID string) (ID, bool)
	// FenceOwner returns the job that holds this fence.
	FenceOwner(FenceKey) (ID, bool)
	// Unresolved counts the jobs that hold a fence: in all, of a catalog, of a table.
	Unresolved() int
	UnresolvedInCatalog(name string) int
	UnresolvedAtTable(TableKey) int
	// OpenInCatalog counts the open jobs of a catalog.
	OpenInCatalog(name string) int
	// OpenJobs lists the jobs that are open or owe a late refresh, ascending.
	OpenJobs() []ID
	// SlotsHeld counts the slots held on a backend.
	SlotsHeld(BackendID) int
	// Catalog returns a catalog by name, or nil.
	Catalog(name string) *Catalog
	// Backend returns a backend by id, or nil.
	Backend(BackendID) *Backend
	// BackendAt returns the backend that claims either port of an address.
	BackendAt(Address) (BackendID, bool)
	// Members returns the registered members, sorted by node id.
	Members() []*Member
	// Member returns a member by node id, or nil.
	Member(nodeID string) *Member
	// Tokens returns the access tokens, sorted by name.
	Tokens() []*Token
	// Token returns an access token by name, or nil.
	Token(name string) *Token
	// Closed lists up to limit jobs that are not open and were closed before a
	// time, the one closed longest ago first.
	Closed(before Millis, limit int) []ID
}

// Position is where in the Raft log a command stands.
type Position struct{ Index, Term uint64 }

// Change is what a command does to the state. An empty Change is a success that
// writes nothing.
type Change struct {
	Jobs     []JobChange
	Cluster  *Cluster // the new value, nil when unchanged
	Settings []SettingChange
	Catalog  *CatalogChange
	Backend  *BackendChange
	Members  []MemberChange // sorted by node id
	Token    *TokenChange
	Answer   Answer
}

// JobChange replaces one job's record. A job stands at most once in a Change.
type JobChange struct {
	Old   *Record // nil at admission
	New   *Record // nil when removed
	Event *Event  // nil when removed
}

// CatalogChange replaces one catalog; New is nil when it is removed.
type CatalogChange struct {
	Name     string
	Old, New *Catalog
}

// BackendChange replaces one backend; New is nil when it is removed.
type BackendChange struct {
	ID       BackendID
	Old, New *Backend
}

// MemberChange replaces one member; New is nil when it is removed.
type MemberChange struct {
	NodeID   string
	Old, New *Member
}

// TokenChange replaces one access token; New is nil when it is removed.
type TokenChange struct {
	Name     string
	Old, New *Token
}

// SettingChange is one changed setting, kept as the settings' history.
type SettingChange struct {
	Name  string
	Old   string // empty at formation
	New   string
	At    Millis
	Actor string
	Reset bool
}

// Answer is what the proposer of a command is told on success.
type Answer struct {
	Job *Record // the job's record after the command
	// Existing says that the command found its work done: a known request id, a
	// job already released. Nothing was written.
	Existing bool
	Backend  *Backend
	Catalog  *Catalog
	Member   *Member
	Token    *Token
	Count    int // jobs touched by TermStart, Quarantine, RemoveResolved
}

// Cluster is the cluster's own replicated record.
type Cluster struct {
	laterCluster
	ClusterID     int32 // positive; 0 before formation
	FormedAt      Millis
	Incarnation   int64 // 1 at formation, one more with each Quarantine
	Level         int32 // the feature level in force
	NextJob       ID
	NextBackend   BackendID
	LastTerm      uint64 // the newest term that began
	Quarantined   bool   // set by Quarantine until an operator reopens
	QuarantinedAt Millis // of the newest Quarantine, as are the cause and the reopening
	// QuarantineCause is what the quarantine follows.
	QuarantineCause string
	ReopenedAt      Millis // 0 until reopened
	ReopenedBy      string
	ReopenNote      string
}

// Member is a registered master. Its node id names it for good; its instance id
// names the data directory with which it joined.
type Member struct {
	NodeID     string
	InstanceID string
	Address    string // host:port, where other masters reach it
	// RegisteredAt is the Raft index of the command that registered this instance. A
	// change of address leaves it, and the two below, as they are.
	RegisteredAt uint64
	AddedAt      Millis
	AddedBy      string
}

// Token is an access token. Its text is known to its holder alone.
type Token struct {
	Name      string
	Role      Role
	Hash      Hash // SHA-256 of the token's text
	CreatedAt Millis
	CreatedBy string
}

// Option is one storage option of a catalog: a literal value, or a reference
// (file:PATH or env:NAME) that each master resolves when it sends.
type Option struct {
	Key   string
	Value string // literal; empty when Ref is set
	Ref   string // reference; empty when Value is set
}

// Refresher says how a catalog's metadata is refreshed.
type Refresher struct {
	Kind        RefresherKind
	URL         string   // http: where to POST
	Frontends   []string // doris: host:port, tried in order
	User        string   // doris
	PasswordRef string   // doris, http (bearer token): file:PATH or env:NAME
	CARef       string   // file:PATH of a CA bundle; empty: the system's
	TLS         bool     // doris: TLS towards the frontends
	TimeoutMS   int64    // of one attempt; 0 means the default, 30 s
}

// Catalog is a named place where datasets live.
type Catalog struct {
	Name      string
	Store     string   // explicit store identity; empty: derived, see StoreFor
	Options   []Option // sorted by key, no duplicates
	Refresher Refresher
	Revision  int64 // 1 at creation, one more with each change
	CreatedAt Millis
	UpdatedAt Millis
	UpdatedBy string
}

// Address is where a backend listens.
type Address struct {
	Host          string
	BePort        int32
	HeartbeatPort int32
}

// Label is one label of a backend.
type Label struct{ Key, Value string }

// Backend is a registered backend. Its address never changes.
type Backend struct {
	ID        BackendID
	Address   Address
	State     BackendState
	Labels    []Label // sorted by key, no duplicates
	CreatedAt Millis
	UpdatedAt Millis
	UpdatedBy string
}

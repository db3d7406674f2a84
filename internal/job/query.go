package job

// Bounds on the pages of a list.
const (
	DefaultPageLimit = 100
	MaxPageLimit     = 1000
)

// Query selects jobs, the newest first. A zero field does not restrict.
type Query struct {
	States        []State
	RefreshStates []RefreshState
	Open          *bool // holds a fence or a slot
	Unresolved    *bool // holds its fence
	Catalog       string
	Database      string
	Table         string
	Locator       string // normalized
	IndexKey      string // normalized
	Backend       BackendID
	Since         Millis // created at or after
	Until         Millis // created before
	Limit         int    // 1..MaxPageLimit
	// PageToken continues after the page that returned it; empty begins at the newest job.
	PageToken string
}

// Page is one page of jobs.
type Page struct {
	Jobs []*Record
	Next string // the token of the next page; empty on the last
}

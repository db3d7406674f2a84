package job

// Submission is a request to mutate an index, as the caller made it.
type Submission struct {
	Actor       string // who asks; becomes the job's creator
	RequestID   string // optional; makes the submission safe to repeat
	Catalog     string
	Database    string
	Table       string
	DatasetURI  string
	IndexName   string
	Mutation    Mutation
	IfNotExists bool
	IfExists    bool
	IndexType   string // any case; ivf_pq, btree, bitmap
	Column      string
	Properties  []Property // in the order given, repeated keys included
	// ExecuteDeadline in milliseconds; 0 asks for the default.
	ExecuteDeadline int64
	DryRun          bool
	CallerSnapshot  *CallerSnapshot
}

// Property is one property of an index as the caller wrote it.
type Property struct{ Key, Value string }

// CallerSnapshot is what a caller knows of a dataset that the master cannot read.
type CallerSnapshot struct {
	DatasetVersion  int64
	SchemaContract  string // empty for DROP
	StoredIndexName string // for REPLACE and DROP; empty: the name as given
}

// SubmissionOutcome says what became of a submission.
type SubmissionOutcome struct {
	Kind   SubmissionKind
	Job    *Record // admitted, or existing; for a dry run the record as it would be, with id 0
	Detail string  // why there is nothing to do
	Advice []Advice
}

// SubmissionKind is the kind of a SubmissionOutcome.
type SubmissionKind uint8

// The kinds of outcomes; a refusal is an error instead.
const (
	SubmissionAdmitted SubmissionKind = 1
	SubmissionExisting SubmissionKind = 2
	SubmissionNoop     SubmissionKind = 3
	SubmissionDryRun   SubmissionKind = 4
)

// Advice is a refusal that a dry run foresees.
type Advice struct {
	Code    Code
	Message string
}

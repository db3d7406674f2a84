//go:build nextlevel

package job

// Level 2 of this build is not the level 2 of any release. It has one new command
// and one new field of a command and of a record, which is what upgrades are tested
// with.

// laterTermStart is what level 2 adds to TermStart.
type laterTermStart struct {
	Version string // of the leader's build; may be empty
}

// laterCluster is what level 2 adds to the cluster's record.
type laterCluster struct {
	LeaderVersion string // of the newest term's leader
}

// Annotate adds an operator's note to a job's history.
type Annotate struct {
	Header
	Job  ID
	Note string
}

// Name is the journal's name of the command.
func (Annotate) Name() string { return "ANNOTATE" }

// EventAnnotated is the event of Annotate.
const EventAnnotated EventKind = "ANNOTATED"

// LevelOf returns the lowest feature level that knows all that a command or a
// record holds.
func LevelOf(v any) int32 {
	later := false
	switch v := v.(type) {
	case Annotate:
		later = true
	case TermStart:
		later = v.Version != ""
	case Cluster:
		later = v.LeaderVersion != ""
	case Event:
		later = v.Kind == EventAnnotated
	}
	if later {
		return 2
	}
	return 1
}

// inCluster is what the cluster's record keeps of it.
func (t laterTermStart) inCluster() laterCluster { return laterCluster{LeaderVersion: t.Version} }

func applyLater(v View, p Position, c Command) (Change, *Refusal) {
	if c, ok := c.(Annotate); ok {
		return annotate(v, p, c)
	}
	return Change{}, unknownCommand(c)
}

// annotate changes nothing of a job but its revision.
func annotate(v View, p Position, c Annotate) (Change, *Refusal) {
	if refusal := checkNote("the note", c.Note); refusal != nil {
		return Change{}, refusal
	}
	r, refusal := find(v, c.Job)
	if refusal != nil {
		return Change{}, refusal
	}
	return one(transition(r, p, c.Header, EventAnnotated, firstLine(c.Note), func(*Record) {})), nil
}

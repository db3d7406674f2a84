package fsm

import (
	"fmt"
	"math/rand/v2"

	"github.com/hashicorp/raft"
	"pgregory.net/rapid"

	"github.com/lancemaster/lancemaster/internal/command"
	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/job/jobtest"
)

// chooser is where a journal's choices come from: rapid, which can shrink them, or
// a seed, with which two processes make the same journal.
type chooser interface{ below(n int) int }

type rapidly struct{ t *rapid.T }

func (r rapidly) below(n int) int { return rapid.IntRange(0, n-1).Draw(r.t, "choice") }

type seeded struct{ r *rand.Rand }

func (s seeded) below(n int) int { return s.r.IntN(n) }

func newSeeded(seed uint64) seeded { return seeded{rand.New(rand.NewPCG(seed, 1))} }

// author writes a journal of commands, most of which apply. It keeps the state that
// they lead to in a model of its own, which knows no files.
type author struct {
	choose chooser
	model  *jobtest.State
	now    job.Millis
	opened int // how many of the opening commands are written
	ids    []job.ID
	// calm journals are never quarantined: after a Quarantine no job is admitted, and
	// a long journal would try little.
	calm bool
	// later journals hold what a build that is a level ahead can write.
	later bool
}

func newAuthor(c chooser) *author {
	_, long := c.(seeded)
	// What a seed makes is the same in all builds.
	later := mayBeLater && !long && c.below(2) == 0
	return &author{choose: c, model: jobtest.New(), now: 1_000_000, calm: long, later: later}
}

// written is one entry of the journal and what the model says about it.
type written struct {
	entry   *raft.Log
	command job.Command // nil for an entry that is no command
	change  job.Change
	refusal *job.Refusal
}

// next writes one entry.
func (a *author) next() written {
	if a.choose.below(12) == 0 {
		a.model.Position.Index++
		return written{entry: &raft.Log{
			Index: a.model.Position.Index, Term: a.model.Position.Term, Type: raft.LogConfiguration, Data: []byte("members"),
		}}
	}
	a.now += job.Millis(a.choose.below(3))
	c := a.command()
	change, refusal := a.model.Apply(c)
	for _, j := range change.Jobs {
		if j.Old == nil {
			a.ids = append(a.ids, j.New.ID)
		}
	}
	data, err := command.Encode(c)
	if err != nil {
		panic(fmt.Sprintf("%+v: %v", c, err))
	}
	pos := a.model.Position
	return written{
		entry:   &raft.Log{Index: pos.Index, Term: pos.Term, Type: raft.LogCommand, Data: data},
		command: c, change: change, refusal: refusal,
	}
}

func (a *author) head() job.Header {
	return job.Header{At: a.now, Actor: []string{"ann", "bob", "an"}[a.choose.below(3)]}
}

func (a *author) command() job.Command {
	opening := []job.Command{
		job.Form{Header: a.head(), ClusterID: 7, Level: 1, Settings: job.DefaultSettings(), Members: jobtest.Members("master-1")},
		a.set("admission.enabled", "true"),
		a.set("admission.max_unresolved_per_table", "100"),
		a.catalog("c0"),
		a.backend(1),
	}
	if a.opened < len(opening) {
		a.opened++
		return opening[a.opened-1]
	}
	if a.later {
		if c := a.laterCommand(); c != nil {
			return c
		}
	}
	switch n := a.choose.below(100); {
	case n < 30:
		return a.admit()
	case n < 85 && len(a.ids) > 0:
		return a.aboutJob()
	case n < 90:
		return job.RemoveResolved{Header: a.head(), Before: a.now - job.Millis(a.choose.below(20)), Limit: int32(a.choose.below(4) + 1)}
	default:
		return a.aboutCluster()
	}
}

func (a *author) set(name, value string) job.Command {
	return job.ChangeSettings{Header: a.head(), Values: []job.SettingValue{{Name: name, Value: value}}}
}

func (a *author) catalog(name string) job.Command {
	var revision int64
	if c := a.model.Catalog(name); c != nil {
		revision = c.Revision
	}
	return job.PutCatalog{Header: a.head(), Expected: revision, Catalog: job.Catalog{
		Name: name, Refresher: job.Refresher{Kind: job.RefresherNone},
	}}
}

func (a *author) backend(n int) job.Command {
	return job.AddBackend{Header: a.head(), Address: job.Address{Host: fmt.Sprint("b", n), BePort: 9060, HeartbeatPort: 9050}}
}

func (a *author) aboutCluster() job.Command {
	switch n := a.choose.below(30); {
	case n >= 20:
		return a.aboutRegistry(n)
	case n < 4:
		a.model.Position.Term++
		return job.TermStart{Header: a.head(), Term: a.model.Position.Term}
	case n < 7:
		return a.catalog(fmt.Sprint("c", a.choose.below(3)))
	case n < 9:
		return job.RemoveCatalog{Header: a.head(), Catalog: fmt.Sprint("c", a.choose.below(3))}
	case n < 12:
		return a.backend(a.choose.below(3))
	case n < 13:
		return job.RemoveBackend{Header: a.head(), Backend: job.BackendID(a.choose.below(4))}
	case n < 15:
		return job.SetBackendState{Header: a.head(), Backend: job.BackendID(a.choose.below(4)), State: job.BackendState(a.choose.below(2) + 1)}
	case n < 19:
		return a.set("dispatch.max_per_round", fmt.Sprint(a.choose.below(50)))
	default:
		c := job.Quarantine{
			Header: a.head(), Incarnation: a.model.Cluster().Incarnation, Cause: "restored",
			Members: jobtest.Members("master-1", fmt.Sprint("m", a.choose.below(3))),
		}
		if a.choose.below(4) == 0 && !a.calm {
			c.Incarnation++
		}
		return c
	}
}

// aboutRegistry is about members, tokens and the end of a quarantine.
func (a *author) aboutRegistry(n int) job.Command {
	node, name := fmt.Sprint("m", a.choose.below(3)), fmt.Sprint("t", a.choose.below(3))
	switch {
	case n < 24:
		c := job.PutMember{
			Header: a.head(), NodeID: node, InstanceID: fmt.Sprint(node, "-", a.choose.below(2)),
			Address: fmt.Sprint(node, ":", a.choose.below(2)+1),
		}
		if m := a.model.Member(node); m != nil && a.choose.below(2) == 0 {
			c.Replaces = m.InstanceID
		}
		return c
	case n < 25:
		return job.RemoveMember{Header: a.head(), NodeID: node}
	case n < 27:
		return job.PutToken{Header: a.head(), Token: name, Role: job.Role(a.choose.below(4) + 1), Hash: job.Hash{byte(a.choose.below(9) + 1)}}
	case n < 28:
		return job.RemoveToken{Header: a.head(), Token: name}
	}
	if a.model.Cluster().Quarantined {
		a.now += job.Millis(job.MaxSendWindow.Milliseconds())
	}
	return job.Reopen{Header: a.head(), Note: "all restarted", MastersStopped: true, BackendsRestarted: true}
}

func (a *author) admit() job.Command {
	locator := fmt.Sprint("file:///data/", a.choose.below(3))
	catalog := fmt.Sprint("c", a.choose.below(2))
	name := fmt.Sprint("Idx", a.choose.below(6))
	c := job.Admit{
		Header: a.head(),
		Target: job.Target{
			Catalog: catalog, Store: job.StoreFor(a.model.Catalog(catalog), locator), Database: "db", Table: fmt.Sprint("t", a.choose.below(2)),
			Provider: job.Provider, Locator: locator, IndexName: name, IndexKey: job.NormalizeIndexName(name),
		},
		Spec:     job.Spec{Mutation: job.MutationDrop, IfExists: a.choose.below(2) == 0, ExecuteDeadline: 1000, MaxNumPartitions: 9, MaxNumSubVectors: 9},
		Snapshot: job.Snapshot{DatasetVersion: 1, Source: job.SnapshotCaller},
	}
	if n := a.choose.below(12); n < 8 {
		c.RequestID, c.RequestHash = fmt.Sprint("n", n), job.Hash{byte(a.choose.below(2) + 1)}
	}
	return c
}

// aboutJob moves one job on, mostly in a way that its state allows.
func (a *author) aboutJob() job.Command {
	id := a.ids[a.choose.below(len(a.ids))]
	r := a.model.Job(id)
	if r == nil {
		return job.Cancel{Header: a.head(), Job: id}
	}
	expected := r.Revision
	if a.choose.below(15) == 0 {
		expected++
	}
	state := r.State
	if a.choose.below(15) == 0 {
		state = job.State(a.choose.below(5) + 1)
	}
	switch state {
	case job.StatePending:
		return a.aboutPending(r, expected)
	case job.StateRunning:
		return a.aboutRunning(r)
	default:
		return a.aboutTerminal(r, expected)
	}
}

func (a *author) aboutPending(r *job.Record, expected job.Revision) job.Command {
	switch a.choose.below(8) {
	case 0:
		return job.Cancel{Header: a.head(), Job: r.ID, Expected: expected}
	case 1:
		return job.RejectBeforeDispatch{Header: a.head(), Job: r.ID, Expected: expected, Message: "too large"}
	}
	return job.MarkRunning{
		Header: a.head(), Job: r.ID, Expected: expected, Backend: job.BackendID(a.choose.below(3) + 1), ProcessEpoch: 77,
		InvocationID: fmt.Sprint("inv-", r.ID), SecretHash: job.Hash{1}, DeadlineAt: a.now + 1000,
	}
}

func identity(r *job.Record) job.Identity {
	return job.Identity{
		Job: r.ID, Revision: r.Dispatch.Revision, InvocationID: r.Dispatch.InvocationID, ProcessEpoch: r.Dispatch.ProcessEpoch,
	}
}

func (a *author) proof() job.Proof {
	return []job.Proof{job.ProofNone, job.ProofChildReaped, job.ProofNeverLaunched, job.ProofProcessEpochGone}[a.choose.below(4)]
}

func (a *author) code() job.ResultCode {
	return []job.ResultCode{
		job.CodeNativeOK, job.CodeNativeOK, job.CodeNoTrustedResult, job.CodeNativeIO, job.CodeResourceRejected,
		job.CodeNativeNotFound, job.CodeNativeCommitConflict,
	}[a.choose.below(7)]
}

func (a *author) aboutRunning(r *job.Record) job.Command {
	if a.choose.below(4) == 0 {
		return a.termination(r)
	}
	return job.Complete{Header: a.head(), Identity: identity(r), Code: a.code(), Message: "done", Proof: a.proof()}
}

func (a *author) termination(r *job.Record) job.Command {
	return job.RecordTermination{
		Header: a.head(), Identity: identity(r), Backend: r.Dispatch.BackendID, Proof: a.proof(),
	}
}

func (a *author) aboutTerminal(r *job.Record, expected job.Revision) job.Command {
	switch a.choose.below(8) {
	case 0:
		return a.termination(r)
	case 1:
		return job.ReleaseSlot{Header: a.head(), Job: r.ID, Expected: expected, Note: "seen dead"}
	case 2:
		return job.ForceRelease{Header: a.head(), Job: r.ID, Expected: expected, Note: "host burnt", Warning: job.ForceReleaseWarning}
	case 3:
		return job.RecordLateResult{Header: a.head(), Identity: identity(r), Code: a.code(), Message: "late", Proof: a.proof()}
	case 4, 5:
		return job.RefreshStart{Header: a.head(), Job: r.ID, Expected: expected}
	}
	attempt := max(r.Refresh.Attempt, r.LateRefresh.Attempt)
	if a.choose.below(3) == 0 {
		return job.RefreshFinish{Header: a.head(), Job: r.ID, Attempt: attempt, Failed: true, Message: "no answer"}
	}
	return job.RefreshFinish{Header: a.head(), Job: r.ID, Attempt: attempt, Evidence: "answered"}
}

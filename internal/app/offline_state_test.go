package app

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/lancemaster/lancemaster/internal/command"
	"github.com/lancemaster/lancemaster/internal/fsm"
	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/job/jobtest"
)

const (
	testCluster = 7
	testTerm    = 3
	// testBefore is the incarnation of a fresh test state.
	testBefore = job.FirstIncarnation
)

// author writes commands to a state machine as Raft would.
type author struct {
	t       *testing.T
	machine *fsm.Machine
	index   uint64
	jobs    int64
}

// newState makes a state file with a formed cluster, a catalog, a backend, a changed setting and jobs.
func newState(t *testing.T, path string, cluster int32, jobs int) *author {
	t.Helper()
	a := openState(t, path)
	head := job.Header{At: 1000, Actor: "ann"}
	a.apply(
		job.Form{Header: head, ClusterID: cluster, Level: 1, Settings: job.DefaultSettings(), Members: jobtest.Members("m1", "m2", "m3")},
		job.ChangeSettings{Header: head, Values: []job.SettingValue{
			{Name: "admission.enabled", Value: "true"}, {Name: "admission.max_unresolved_global", Value: "50000"},
		}},
		job.ChangeSettings{Header: head, Values: []job.SettingValue{{Name: "admission.max_unresolved_per_catalog", Value: "50000"}}},
		job.ChangeSettings{Header: head, Values: []job.SettingValue{{Name: "admission.max_unresolved_per_table", Value: "50000"}}},
		job.PutCatalog{Header: head, Catalog: job.Catalog{
			Name: "lake", Store: "s3", Options: []job.Option{{Key: "aws_region", Value: "eu-1"}}, Refresher: job.Refresher{Kind: job.RefresherNone},
		}},
		job.AddBackend{Header: head, Address: job.Address{Host: "10.0.0.7", BePort: 9060, HeartbeatPort: 9050}},
	)
	a.admit(jobs)
	return a
}

func openState(t *testing.T, path string) *author {
	t.Helper()
	m, err := fsm.Open(fsm.Config{Path: path, Fatal: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return &author{t: t, machine: m, index: m.Applied().Index}
}

func (a *author) close() {
	a.t.Helper()
	if err := a.machine.Close(); err != nil {
		a.t.Fatal(err)
	}
}

// entries encodes commands as the log's next.
func (a *author) entries(commands ...job.Command) []*raft.Log {
	a.t.Helper()
	entries := make([]*raft.Log, 0, len(commands))
	for _, c := range commands {
		data, err := command.Encode(c)
		if err != nil {
			a.t.Fatal(err)
		}
		a.index++
		entries = append(entries, &raft.Log{Index: a.index, Term: testTerm, Type: raft.LogCommand, Data: data})
	}
	return entries
}

func (a *author) apply(commands ...job.Command) {
	a.t.Helper()
	for i, response := range a.machine.ApplyBatch(a.entries(commands...)) {
		r, ok := response.(*fsm.Result)
		if !ok || r.Err != nil || r.Refusal != nil {
			a.t.Fatalf("command %d of %T... is answered by %+v", i, commands[0], response)
		}
	}
}

// admissions are commands that each make a PENDING job.
func (a *author) admissions(n int) []job.Command {
	var commands []job.Command
	for range n {
		a.jobs++
		name := fmt.Sprint("i", a.index, "-", a.jobs)
		commands = append(commands, job.Admit{
			Header: job.Header{At: job.Millis(2000 + a.jobs), Actor: "ann"},
			Target: job.Target{
				Catalog: "lake", Store: "s3", Database: "db", Table: "items", Provider: job.Provider,
				Locator: "s3://bucket/items.lance", IndexName: name, IndexKey: name,
			},
			Spec:     job.Spec{Mutation: job.MutationDrop, ExecuteDeadline: 1000, MaxNumPartitions: 1, MaxNumSubVectors: 1},
			Snapshot: job.Snapshot{DatasetVersion: 1, Source: job.SnapshotCaller},
		})
	}
	return commands
}

func (a *author) admit(n int) {
	a.t.Helper()
	for n > 0 {
		batch := min(n, 500)
		a.apply(a.admissions(batch)...)
		n -= batch
	}
}

func stateIn(dir string) string { return filepath.Join(dir, stateFile) }

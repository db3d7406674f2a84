//go:build nextlevel

package command

import (
	"github.com/lancemaster/lancemaster/gen-go/journalnext"
	"github.com/lancemaster/lancemaster/internal/job"
)

// MaxLevel is the highest feature level this build can read and write. This build
// is for testing upgrades; see package job.
const MaxLevel int32 = 2

// amend replaces the rows of the commands that level 2 gives a field, and adds those
// of its own.
func amend(table []kind) []kind {
	for i, k := range table {
		if k.name == (job.TermStart{}).Name() {
			table[i] = row(k.number, k.name, putTermStart2, getTermStart2, (*checker).termStart2)
		}
	}
	annotate := row(60000, job.Annotate{}.Name(), putAnnotate, getAnnotate, (*checker).annotate)
	annotate.level = 2
	return append(table, annotate)
}

func init() {
	clusterKind = row(clusterKind.number, clusterKind.name, putCluster2, getCluster2, (*checker).cluster2)
}

func putTermStart2(c job.TermStart) *journalnext.TTermStart {
	t := putTermStart(c)
	return &journalnext.TTermStart{Header: t.Header, Term: t.Term, Version: c.Version}
}

func getTermStart2(_ *reader, t *journalnext.TTermStart) job.TermStart {
	c := job.TermStart{Header: getHeader(t.Header), Term: unbits(t.Term)}
	c.Version = t.Version
	return c
}

func (c *checker) termStart2(v job.TermStart) {
	c.termStart(v)
	c.text("version", v.Version, job.MaxName)
}

func putCluster2(c job.Cluster) *journalnext.TClusterRecord {
	t := putCluster(c)
	return &journalnext.TClusterRecord{
		ClusterID: t.ClusterID, FormedAtMs: t.FormedAtMs, Incarnation: t.Incarnation, Level: t.Level,
		NextJobID: t.NextJobID, NextBackendID: t.NextBackendID, LastTerm: t.LastTerm,
		Quarantined: t.Quarantined, QuarantinedAtMs: t.QuarantinedAtMs, QuarantineCause: t.QuarantineCause,
		ReopenedAtMs: t.ReopenedAtMs, ReopenedBy: t.ReopenedBy, ReopenNote: t.ReopenNote,
		LeaderVersion: c.LeaderVersion,
	}
}

func getCluster2(_ *reader, t *journalnext.TClusterRecord) job.Cluster {
	c := job.Cluster{
		ClusterID: t.ClusterID, FormedAt: job.Millis(t.FormedAtMs), Incarnation: t.Incarnation, Level: t.Level,
		NextJob: job.ID(t.NextJobID), NextBackend: job.BackendID(t.NextBackendID), LastTerm: unbits(t.LastTerm),
		Quarantined: t.Quarantined, QuarantinedAt: job.Millis(t.QuarantinedAtMs), QuarantineCause: t.QuarantineCause,
		ReopenedAt: job.Millis(t.ReopenedAtMs), ReopenedBy: t.ReopenedBy, ReopenNote: t.ReopenNote,
	}
	c.LeaderVersion = t.LeaderVersion
	return c
}

func (c *checker) cluster2(v job.Cluster) {
	c.cluster(v)
	c.text("leader version", v.LeaderVersion, maxStored)
}

func putAnnotate(c job.Annotate) *journalnext.TAnnotate {
	return &journalnext.TAnnotate{Header: putHeader(c.Header), JobID: int64(c.Job), Note: c.Note}
}

func getAnnotate(_ *reader, t *journalnext.TAnnotate) job.Annotate {
	return job.Annotate{Header: getHeader(t.Header), Job: job.ID(t.JobID), Note: t.Note}
}

func (c *checker) annotate(v job.Annotate) {
	c.header(v.Header)
	c.text("note", v.Note, job.MaxNote)
}

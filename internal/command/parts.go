package command

import (
	"fmt"

	"github.com/lancemaster/lancemaster/gen-go/journal"
	"github.com/lancemaster/lancemaster/internal/job"
)

// reader collects the first fault of a conversion from the wire that the domain
// type could not express: a number that does not fit, a hash of a wrong length.
type reader struct{ err error }

func (r *reader) hash(name string, b []byte) job.Hash {
	var h job.Hash
	switch len(b) {
	case 0:
	case len(h):
		copy(h[:], b)
	default:
		if r.err == nil {
			r.err = fmt.Errorf("%s is %d bytes long, not %d", name, len(b), len(h))
		}
	}
	return h
}

// putHash leaves a zero hash out.
func putHash(h job.Hash) []byte {
	if h == (job.Hash{}) {
		return nil
	}
	return h[:]
}

// number narrows an enum's number, which Thrift reads as any 32 bits.
func number[E ~uint8, T ~int64](r *reader, name string, v T) E {
	if v < 0 || v > 255 {
		if r.err == nil {
			r.err = fmt.Errorf("%s has no value %d", name, v)
		}
		return 0
	}
	return E(v)
}

// mapped converts a list; an empty one becomes nil in both directions, so that a
// value and its copy are deeply equal.
func mapped[A, B any](list []A, f func(A) B) []B {
	if len(list) == 0 {
		return nil
	}
	out := make([]B, 0, len(list))
	for _, v := range list {
		out = append(out, f(v))
	}
	return out
}

func same(s string) string { return s }

func putHeader(h job.Header) *journal.THeader {
	return &journal.THeader{AtMs: int64(h.At), Actor: h.Actor}
}

func getHeader(t *journal.THeader) job.Header {
	return job.Header{At: job.Millis(t.AtMs), Actor: t.Actor}
}

func putTarget(t job.Target) *journal.TTarget {
	return &journal.TTarget{
		Catalog: t.Catalog, Store: t.Store, DatabaseName: t.Database, TableName: t.Table,
		Provider: t.Provider, Locator: t.Locator, IndexName: t.IndexName, IndexKey: t.IndexKey,
	}
}

func getTarget(t *journal.TTarget) job.Target {
	return job.Target{
		Catalog: t.Catalog, Store: t.Store, Database: t.DatabaseName, Table: t.TableName,
		Provider: t.Provider, Locator: t.Locator, IndexName: t.IndexName, IndexKey: t.IndexKey,
	}
}

func putSpec(s job.Spec) *journal.TSpec {
	return &journal.TSpec{
		Mutation: journal.TMutation(s.Mutation), IfNotExists: s.IfNotExists, IfExists: s.IfExists,
		IndexType: string(s.IndexType), Column: s.Column, PropertiesJSON: s.PropertiesJSON,
		MaxNumPartitions: s.MaxNumPartitions, MaxNumSubVectors: s.MaxNumSubVectors,
		ExecuteDeadlineMs: s.ExecuteDeadline,
	}
}

func getSpec(r *reader, t *journal.TSpec) job.Spec {
	return job.Spec{
		Mutation:    number[job.Mutation](r, "mutation", t.Mutation),
		IfNotExists: t.IfNotExists, IfExists: t.IfExists,
		IndexType: job.IndexType(t.IndexType), Column: t.Column, PropertiesJSON: t.PropertiesJSON,
		MaxNumPartitions: t.MaxNumPartitions, MaxNumSubVectors: t.MaxNumSubVectors,
		ExecuteDeadline: t.ExecuteDeadlineMs,
	}
}

func putSnapshot(s job.Snapshot) *journal.TSnapshot {
	return &journal.TSnapshot{
		DatasetVersion: s.DatasetVersion, SchemaContractJSON: s.SchemaContract,
		Source: journal.TSnapshotSource(s.Source),
	}
}

func getSnapshot(r *reader, t *journal.TSnapshot) job.Snapshot {
	return job.Snapshot{
		DatasetVersion: t.DatasetVersion, SchemaContract: t.SchemaContractJSON,
		Source: number[job.SnapshotSource](r, "snapshot source", t.Source),
	}
}

func putIdentity(i job.Identity) *journal.TIdentity {
	return &journal.TIdentity{
		JobID: int64(i.Job), DispatchRevision: int64(i.Revision),
		InvocationID: i.InvocationID, ProcessEpoch: i.ProcessEpoch,
	}
}

func getIdentity(t *journal.TIdentity) job.Identity {
	return job.Identity{
		Job: job.ID(t.JobID), Revision: job.Revision(t.DispatchRevision),
		InvocationID: t.InvocationID, ProcessEpoch: t.ProcessEpoch,
	}
}

func putSettingValue(v job.SettingValue) *journal.TSettingValue {
	return &journal.TSettingValue{Name: v.Name, Value: v.Value}
}

func getSettingValue(t *journal.TSettingValue) job.SettingValue {
	return job.SettingValue{Name: t.Name, Value: t.Value}
}

func putOption(o job.Option) *journal.TOption {
	return &journal.TOption{Key: o.Key, Value: o.Value, Ref: o.Ref}
}

func getOption(t *journal.TOption) job.Option {
	return job.Option{Key: t.Key, Value: t.Value, Ref: t.Ref}
}

func putLabel(l job.Label) *journal.TLabel { return &journal.TLabel{Key: l.Key, Value: l.Value} }

func getLabel(t *journal.TLabel) job.Label { return job.Label{Key: t.Key, Value: t.Value} }

func putAddress(a job.Address) *journal.TAddress {
	return &journal.TAddress{Host: a.Host, BePort: a.BePort, HeartbeatPort: a.HeartbeatPort}
}

func getAddress(t *journal.TAddress) job.Address {
	return job.Address{Host: t.Host, BePort: t.BePort, HeartbeatPort: t.HeartbeatPort}
}

func putRefresher(r job.Refresher) *journal.TRefresher {
	return &journal.TRefresher{
		Kind: string(r.Kind), URL: r.URL, Frontends: mapped(r.Frontends, same), User: r.User,
		PasswordRef: r.PasswordRef, CaRef: r.CARef, TLS: r.TLS, TimeoutMs: r.TimeoutMS,
	}
}

func getRefresher(t *journal.TRefresher) job.Refresher {
	return job.Refresher{
		Kind: job.RefresherKind(t.Kind), URL: t.URL, Frontends: mapped(t.Frontends, same), User: t.User,
		PasswordRef: t.PasswordRef, CARef: t.CaRef, TLS: t.TLS, TimeoutMS: t.TimeoutMs,
	}
}

package client

import (
	"fmt"

	"github.com/lancemaster/lancemaster/gen-go/admin"
	"github.com/lancemaster/lancemaster/gen-go/shared"
)

// enumName names a number; one that a newer master knows stays readable.
func enumName(name string, n int64) string {
	if name == "" || name == "<UNSET>" {
		return fmt.Sprintf("unknown(%d)", n)
	}
	return name
}

func stateName(s admin.TJobState) string       { return enumName(s.String(), int64(s)) }
func refreshName(s admin.TRefreshState) string { return enumName(s.String(), int64(s)) }

func jobOf(w *admin.TJob) *Job {
	j := &Job{
		ID: w.JobID, State: stateName(w.State), Revision: w.Revision, Creator: w.Creator, RequestID: w.RequestID,
		CreatedAt: timeOf(w.CreatedAtMs), UpdatedAt: timeOf(w.UpdatedAtMs), ResolvedAt: timeOf(w.ResolvedAtMs),
		ClosedAt: timeOf(w.ClosedAtMs), Quarantined: timeOf(w.QuarantinedAtMs),
		Dispatch:     dispatchOf(w.Dispatch),
		Result:       resultOf(w.Result_),
		LateRefresh:  refreshOf(w.LateRefresh),
		ForceRelease: releaseOf(w.ForceRelease),
		SlotRelease:  releaseOf(w.SlotRelease),
		FenceHeld:    w.FenceHeld, SlotHeld: w.SlotHeld, Open: w.IsOpen,
	}
	if r := refreshOf(w.Refresh); r != nil {
		j.Refresh = *r
	}
	for _, r := range w.LateResults {
		j.LateResults = append(j.LateResults, *resultOf(r))
	}
	if t := w.Target; t != nil {
		j.Target = Target{
			Catalog: t.Catalog, Store: t.Store, Database: t.DatabaseName, Table: t.TableName,
			Provider: t.Provider, Locator: t.Locator, IndexName: t.IndexName, IndexKey: t.IndexKey,
		}
	}
	if s := w.Spec; s != nil {
		j.Intent = Intent{
			Mutation: enumName(s.Mutation.String(), int64(s.Mutation)), IfNotExists: s.IfNotExists, IfExists: s.IfExists,
			IndexType: s.IndexType, Column: s.Column, Properties: s.PropertiesJSON,
			MaxNumPartitions: s.MaxNumPartitions, MaxNumSubVectors: s.MaxNumSubVectors,
			ExecuteDeadline: durationOf(s.ExecuteDeadlineMs),
		}
	}
	if s := w.Snapshot; s != nil {
		j.Snapshot = Snapshot{DatasetVersion: s.DatasetVersion, SchemaContract: s.SchemaContractJSON, Source: s.Source}
	}
	return j
}

func dispatchOf(w *admin.TJobDispatch) *Dispatch {
	if w == nil {
		return nil
	}
	d := &Dispatch{
		BackendID: w.BackendID, ProcessEpoch: w.ProcessEpoch, Revision: w.DispatchRevision, InvocationID: w.InvocationID,
		StartedAt: timeOf(w.StartedAtMs), DeadlineAt: timeOf(w.DeadlineAtMs),
		SlotHeld: w.SlotHeld, Proof: w.Proof, ProofAt: timeOf(w.ProofAtMs),
	}
	for _, e := range w.Evidence {
		d.Evidence = append(d.Evidence, Evidence{Proof: e.Proof, At: timeOf(e.AtMs)})
	}
	return d
}

func refreshOf(w *admin.TJobRefresh) *Refresh {
	if w == nil {
		return nil
	}
	return &Refresh{
		State: refreshName(w.State), Attempt: w.Attempt, StartedAt: timeOf(w.StartedAtMs), FinishedAt: timeOf(w.FinishedAtMs),
		Evidence: w.Evidence, LastFailureAt: timeOf(w.GetLastFailureAtMs()), LastFailure: w.GetLastFailure(),
		NextRetryAt: timeOf(w.GetNextRetryAtMs()),
	}
}

func resultOf(w *admin.TJobResult_) *Result {
	if w == nil {
		return nil
	}
	return &Result{Code: w.Code, Reason: w.Reason, Message: w.Message, ExternalMetadataAdvanced: w.ExternalMetadataAdvanced, At: timeOf(w.AtMs)}
}

func releaseOf(w *admin.TJobRelease) *Release {
	if w == nil {
		return nil
	}
	return &Release{Actor: w.Actor, At: timeOf(w.AtMs), Note: w.Note, Warning: w.Warning}
}

func eventOf(w *admin.TJobEvent) Event {
	e := Event{
		JobID: w.JobID, Revision: w.Revision, RaftIndex: w.RaftIndex, RaftTerm: w.RaftTerm, At: timeOf(w.AtMs),
		Actor: w.Actor, Kind: w.Kind, ToState: stateName(w.ToState), ToRefresh: refreshName(w.ToRefresh), Reason: w.Reason,
	}
	if w.FromState != nil {
		e.FromState = stateName(*w.FromState)
	}
	if w.FromRefresh != nil {
		e.FromRefresh = refreshName(*w.FromRefresh)
	}
	return e
}

func submissionWire(s Submission, m shared.TLanceIndexMutationType) *admin.TSubmitRequest {
	w := &admin.TSubmitRequest{
		RequestID: optional(s.RequestID), Catalog: optional(s.Catalog), DatabaseName: optional(s.Database),
		TableName: optional(s.Table), DatasetURI: optional(s.Dataset), IndexName: &s.IndexName, Mutation: &m,
		IndexType: optional(s.IndexType), Column: optional(s.Column),
	}
	if s.IfNotExists {
		w.IfNotExists = ptr(true)
	}
	if s.IfExists {
		w.IfExists = ptr(true)
	}
	if s.DryRun {
		w.DryRun = ptr(true)
	}
	for _, p := range s.Properties {
		w.Properties = append(w.Properties, &admin.TProperty{Key: p.Key, Value: p.Value})
	}
	if s.ExecuteDeadline != 0 {
		w.ExecuteDeadlineMs = ptr(s.ExecuteDeadline.Milliseconds())
	}
	if k := s.Snapshot; k != nil {
		w.CallerSnapshot = &admin.TCallerSnapshot{
			DatasetVersion: k.DatasetVersion, SchemaContractJSON: optional(k.SchemaContract), StoredIndexName: optional(k.StoredIndexName),
		}
	}
	return w
}

func submittedOf(w *admin.TSubmitResponse) *Submitted {
	out := &Submitted{Outcome: enumName(w.Outcome.String(), int64(w.Outcome)), Detail: w.GetDetail()}
	if w.Job != nil {
		out.Job = jobOf(w.Job)
	}
	if w.WouldAdmit != nil {
		out.WouldAdmit = jobOf(w.WouldAdmit)
	}
	for _, a := range w.Advice {
		out.Advice = append(out.Advice, Advice{Code: enumName(a.Code.String(), int64(a.Code)), Message: a.Message})
	}
	return out
}

func datasetOf(w *admin.TInspectDatasetResponse) *Dataset {
	d := &Dataset{
		Locator: w.Locator, Version: w.Version, At: timeOf(w.TimestampMs), Column: w.GetColumn(), SchemaContract: w.GetSchemaContractJSON(),
		Fields: []DatasetField{}, Indexes: []DatasetIndex{}, Fences: []DatasetFence{},
	}
	for _, f := range w.Fields {
		d.Fields = append(d.Fields, DatasetField{ID: f.ID, ParentID: f.ParentID, Name: f.Name, Type: f.LogicalType, Nullable: f.Nullable})
	}
	for _, x := range w.Indexes {
		d.Indexes = append(d.Indexes, DatasetIndex{
			Name: x.Name, Key: x.IndexKey, Type: x.IndexType, Columns: append([]string{}, x.Columns...), DatasetVersion: x.DatasetVersion,
			Metric: x.GetMetric(), NumBits: x.GetNumBits(), NumSubVectors: x.GetNumSubVectors(), UUID: x.UUID, CreatedAt: timeOf(x.CreatedAtMs),
		})
	}
	for _, f := range w.Fences {
		d.Fences = append(d.Fences, DatasetFence{Key: f.IndexKey, JobID: f.JobID, Store: f.Store})
	}
	return d
}

func catalogOf(w *admin.TCatalog) *Catalog {
	c := &Catalog{
		Name: w.Name, Store: w.GetStore(), Options: []StorageOption{}, Revision: w.Revision,
		CreatedAt: timeOf(w.CreatedAtMs), UpdatedAt: timeOf(w.UpdatedAtMs), UpdatedBy: w.UpdatedBy,
		OpenJobs: w.OpenJobs, UnresolvedJobs: w.UnresolvedJobs,
	}
	for _, o := range w.Options {
		c.Options = append(c.Options, StorageOption{Key: o.Key, Value: o.GetValue(), Ref: o.GetRef()})
	}
	if r := w.Refresher; r != nil {
		c.Refresher = Refresher{
			Kind: r.Kind, URL: r.GetURL(), Frontends: append([]string(nil), r.Frontends...), User: r.GetUser(),
			PasswordRef: r.GetPasswordRef(), CARef: r.GetCaRef(), TLS: r.GetTLS(), Timeout: durationOf(r.GetTimeoutMs()),
		}
	}
	return c
}

func refresherWire(r Refresher) *admin.TRefresher {
	w := &admin.TRefresher{
		Kind: r.Kind, URL: optional(r.URL), Frontends: r.Frontends, User: optional(r.User),
		PasswordRef: optional(r.PasswordRef), CaRef: optional(r.CARef),
	}
	if r.TLS {
		w.TLS = ptr(true)
	}
	if r.Timeout != 0 {
		w.TimeoutMs = ptr(timeMillis(r.Timeout))
	}
	return w
}

func timeMillis(d Duration) int64 { return int64(d) / 1e6 }

func backendOf(w *admin.TBackend) *Backend {
	b := &Backend{
		ID: w.BackendID, Host: w.Host, Port: w.BePort, HeartbeatPort: w.HeartbeatPort, State: w.State, Labels: []Label{},
		CreatedAt: timeOf(w.CreatedAtMs), UpdatedAt: timeOf(w.UpdatedAtMs), UpdatedBy: w.UpdatedBy, SlotsHeld: w.SlotsHeld,
		Alive: w.Alive, ProcessEpoch: w.GetProcessEpoch(), LastOKAt: timeOf(w.GetLastOkAtMs()), LastError: w.GetLastError(),
		Version: w.GetVersion(),
	}
	for _, l := range w.Labels {
		b.Labels = append(b.Labels, Label{Key: l.Key, Value: l.Value})
	}
	return b
}

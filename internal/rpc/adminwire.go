package rpc

import (
	"time"

	"github.com/lancemaster/lancemaster/gen-go/admin"
	"github.com/lancemaster/lancemaster/gen-go/shared"
	"github.com/lancemaster/lancemaster/internal/job"
)

// retryInterval is the time after which a failed refresh is tried again.
func (a *Admin) retryInterval() (d time.Duration) {
	a.cfg.State.Read(func(v View) { d = v.Settings().RefreshRetryInterval })
	return d
}

func (a *Admin) wireJob(r *job.Record) *admin.TJob { return wireJob(r, a.retryInterval()) }

// wireJob shows a record. The hash of the invocation's secret stays inside.
func wireJob(r *job.Record, retry time.Duration) *admin.TJob {
	if r == nil {
		return nil
	}
	j := &admin.TJob{
		JobID: int64(r.ID), Creator: r.Creator, RequestID: r.RequestID, Revision: int64(r.Revision),
		CreatedAtMs: int64(r.CreatedAt), UpdatedAtMs: int64(r.UpdatedAt), ResolvedAtMs: int64(r.ResolvedAt),
		Target: &admin.TJobTarget{
			Catalog: r.Target.Catalog, Store: r.Target.Store, DatabaseName: r.Target.Database, TableName: r.Target.Table,
			Provider: r.Target.Provider, Locator: r.Target.Locator, IndexName: r.Target.IndexName, IndexKey: r.Target.IndexKey,
		},
		Spec: &admin.TJobSpec{
			Mutation: shared.TLanceIndexMutationType(r.Spec.Mutation), IfNotExists: r.Spec.IfNotExists, IfExists: r.Spec.IfExists,
			IndexType: string(r.Spec.IndexType), Column: r.Spec.Column, PropertiesJSON: r.Spec.PropertiesJSON,
			MaxNumPartitions: r.Spec.MaxNumPartitions, MaxNumSubVectors: r.Spec.MaxNumSubVectors,
			ExecuteDeadlineMs: r.Spec.ExecuteDeadline,
		},
		Snapshot: &admin.TJobSnapshot{
			DatasetVersion: r.Snapshot.DatasetVersion, SchemaContractJSON: r.Snapshot.SchemaContract, Source: r.Snapshot.Source.String(),
		},
		State: admin.TJobState(r.State), Refresh: wireRefresh(r.Refresh, retry), LateResults: []*admin.TJobResult_{},
		FenceHeld: r.HoldsFence(), SlotHeld: r.HoldsSlot(), IsOpen: r.Open(),
		QuarantinedAtMs: int64(r.QuarantinedAt), ClosedAtMs: int64(r.ClosedAt),
		ForceRelease: wireRelease(r.ForceRelease), SlotRelease: wireRelease(r.SlotRelease),
	}
	if r.Dispatch.Dispatched() {
		j.Dispatch = wireDispatch(r.Dispatch)
	}
	if res := r.Result; res != nil {
		j.Result_ = wireResult(res.Code, res.Reason, res.Message, res.MetadataAdvanced, res.At)
	}
	for _, l := range r.LateResults {
		j.LateResults = append(j.LateResults, wireResult(l.Code, 0, l.Message, l.MetadataAdvanced, l.At))
	}
	if r.LateRefresh.State.Valid() && r.LateRefresh.State != job.RefreshNotRequired {
		j.LateRefresh = wireRefresh(r.LateRefresh, 0) // it is tried once
	}
	return j
}

func wireDispatch(d job.Dispatch) *admin.TJobDispatch {
	w := &admin.TJobDispatch{
		BackendID: int64(d.BackendID), ProcessEpoch: d.ProcessEpoch, DispatchRevision: int64(d.Revision), InvocationID: d.InvocationID,
		StartedAtMs: int64(d.StartedAt), DeadlineAtMs: int64(d.DeadlineAt), SlotHeld: d.SlotHeld,
		Proof: job.ProofNone.String(), ProofAtMs: int64(d.ProofAt), Evidence: []*admin.TJobEvidence{},
	}
	if d.Proof.Valid() {
		w.Proof = d.Proof.String()
	}
	for _, e := range d.Evidence {
		w.Evidence = append(w.Evidence, &admin.TJobEvidence{Proof: e.Proof.String(), AtMs: int64(e.At)})
	}
	return w
}

// wireRefresh shows a refresh; without a retry interval none follows a failed one.
func wireRefresh(r job.Refresh, retry time.Duration) *admin.TJobRefresh {
	w := &admin.TJobRefresh{
		State: admin.TRefreshState(r.State), Attempt: r.Attempt, StartedAtMs: int64(r.StartedAt), FinishedAtMs: int64(r.FinishedAt),
		Evidence: r.Evidence,
	}
	if !r.State.Valid() {
		w.State = admin.TRefreshState_NOT_REQUIRED
	}
	if f := r.LastFailure; f != nil {
		at := int64(f.At)
		w.LastFailureAtMs, w.LastFailure = &at, &f.Message
		if r.State == job.RefreshFailed && retry > 0 {
			next := at + retry.Milliseconds()
			w.NextRetryAtMs = &next
		}
	}
	return w
}

func wireResult(code job.ResultCode, reason job.Reason, message string, advanced bool, at job.Millis) *admin.TJobResult_ {
	w := &admin.TJobResult_{Message: message, ExternalMetadataAdvanced: advanced, AtMs: int64(at)}
	if code.Valid() {
		w.Code = code.String()
	}
	if reason.Valid() {
		w.Reason = reason.String()
	}
	return w
}

func wireRelease(r *job.Release) *admin.TJobRelease {
	if r == nil {
		return nil
	}
	return &admin.TJobRelease{Actor: r.Actor, AtMs: int64(r.At), Note: r.Note, Warning: r.Warning}
}

func wireEvent(e *job.Event) *admin.TJobEvent {
	w := &admin.TJobEvent{
		JobID: int64(e.Job), Revision: int64(e.Revision), RaftIndex: int64(e.Index), RaftTerm: int64(e.Term),
		AtMs: int64(e.At), Actor: e.Actor, Kind: string(e.Kind), ToState: admin.TJobState(e.To),
		ToRefresh: admin.TRefreshState(e.ToRefresh), Reason: e.Reason,
	}
	if e.From.Valid() {
		from := admin.TJobState(e.From)
		w.FromState = &from
	}
	if e.FromRefresh.Valid() {
		from := admin.TRefreshState(e.FromRefresh)
		w.FromRefresh = &from
	}
	return w
}

func (a *Admin) wireOutcome(o job.SubmissionOutcome) *admin.TSubmitResponse {
	w := &admin.TSubmitResponse{Outcome: admin.TSubmitOutcome(o.Kind), Detail: optional(o.Detail)}
	switch o.Kind {
	case job.SubmissionAdmitted, job.SubmissionExisting:
		w.Job = a.wireJob(o.Job)
	case job.SubmissionDryRun:
		w.WouldAdmit = a.wireJob(o.Job)
		w.Advice = []*admin.TAdvice{}
		for _, advice := range o.Advice {
			w.Advice = append(w.Advice, &admin.TAdvice{Code: admin.TAdminErrorCode(advice.Code), Message: advice.Message})
		}
	case job.SubmissionNoop:
	}
	return w
}

func (a *Admin) wireCatalog(c *job.Catalog) (w *admin.TCatalog) {
	a.cfg.State.Read(func(v View) { w = wireCatalog(v, c) })
	return w
}

func wireCatalog(v View, c *job.Catalog) *admin.TCatalog {
	r := c.Refresher
	w := &admin.TCatalog{
		Name: c.Name, Store: optional(c.Store), Options: []*admin.TStorageOption{}, Revision: c.Revision,
		CreatedAtMs: int64(c.CreatedAt), UpdatedAtMs: int64(c.UpdatedAt), UpdatedBy: c.UpdatedBy,
		OpenJobs: int64(v.OpenInCatalog(c.Name)), UnresolvedJobs: int64(v.UnresolvedInCatalog(c.Name)),
		Refresher: &admin.TRefresher{
			Kind: string(r.Kind), URL: optional(r.URL), Frontends: r.Frontends, User: optional(r.User),
			PasswordRef: optional(r.PasswordRef), CaRef: optional(r.CARef), TimeoutMs: optionalMillis(job.Millis(r.TimeoutMS)),
		},
	}
	if r.TLS {
		w.Refresher.TLS = &r.TLS
	}
	for _, o := range c.Options {
		option := &admin.TStorageOption{Key: o.Key}
		if o.Ref != "" {
			option.Ref = &o.Ref
		} else {
			option.Value = &o.Value
		}
		w.Options = append(w.Options, option)
	}
	return w
}

func (a *Admin) wireBackend(b *job.Backend) *admin.TBackend {
	var slots int
	a.cfg.State.Read(func(v View) { slots = v.SlotsHeld(b.ID) })
	w := wireBackend(b, slots)
	a.addLiveness(w)
	return w
}

func wireBackend(b *job.Backend, slots int) *admin.TBackend {
	w := &admin.TBackend{
		BackendID: int64(b.ID), Host: b.Address.Host, BePort: b.Address.BePort, HeartbeatPort: b.Address.HeartbeatPort,
		State: b.State.String(), Labels: []*admin.TLabel{}, CreatedAtMs: int64(b.CreatedAt), UpdatedAtMs: int64(b.UpdatedAt),
		UpdatedBy: b.UpdatedBy, SlotsHeld: int64(slots),
	}
	for _, l := range b.Labels {
		w.Labels = append(w.Labels, &admin.TLabel{Key: l.Key, Value: l.Value})
	}
	return w
}

// addLiveness adds what this leader's heartbeats say.
func (a *Admin) addLiveness(w *admin.TBackend) {
	l := a.cfg.Liveness.Backend(job.BackendID(w.BackendID))
	w.Alive, w.LastError, w.Version = l.Alive, optional(l.LastError), optional(l.Version)
	w.ProcessEpoch, w.LastOkAtMs = optionalMillis(job.Millis(l.ProcessEpoch)), optionalMillis(l.LastOKAt)
}

func wireInspection(in Inspection) *admin.TInspectDatasetResponse {
	w := &admin.TInspectDatasetResponse{
		Locator: in.Locator, Version: in.Version, TimestampMs: int64(in.At), Column: optional(in.Column),
		SchemaContractJSON: optional(in.SchemaContract), Fields: []*admin.TDatasetField{}, Indexes: []*admin.TDatasetIndex{},
		Fences: []*admin.TDatasetFence{},
	}
	for _, f := range in.Fields {
		w.Fields = append(w.Fields, &admin.TDatasetField{
			ID: f.ID, ParentID: f.ParentID, Name: f.Name, LogicalType: f.LogicalType, Nullable: f.Nullable,
		})
	}
	for _, i := range in.Indexes {
		w.Indexes = append(w.Indexes, &admin.TDatasetIndex{
			Name: i.Name, IndexKey: i.Key, IndexType: i.Type, Columns: append([]string{}, i.Columns...), DatasetVersion: i.DatasetVersion,
			Metric: optional(i.Metric), NumBits: optionalInt32(i.NumBits), NumSubVectors: optionalInt32(i.NumSubVectors),
			UUID: i.UUID, CreatedAtMs: int64(i.CreatedAt),
		})
	}
	for _, f := range in.Fences {
		w.Fences = append(w.Fences, &admin.TDatasetFence{IndexKey: f.IndexKey, JobID: int64(f.Job), Store: f.Store})
	}
	return w
}

package command

import (
	"github.com/lancemaster/lancemaster/gen-go/journal"
	"github.com/lancemaster/lancemaster/internal/job"
)

func putRecord(r *job.Record) *journal.TJobRecord {
	return &journal.TJobRecord{
		JobID: int64(r.ID), Creator: r.Creator, RequestID: r.RequestID, RequestHash: putHash(r.RequestHash),
		Revision: int64(r.Revision), CreatedAtMs: int64(r.CreatedAt), UpdatedAtMs: int64(r.UpdatedAt),
		ResolvedAtMs: int64(r.ResolvedAt), ClosedAtMs: int64(r.ClosedAt),
		Target: putTarget(r.Target), Spec: putSpec(r.Spec), Snapshot: putSnapshot(r.Snapshot),
		Dispatch: putDispatch(r.Dispatch), State: journal.TState(r.State), Refresh: putRefresh(r.Refresh),
		Result_: putResult(r.Result), LateResults: mapped(r.LateResults, putLateResult),
		LateRefresh: putRefresh(r.LateRefresh), QuarantinedAtMs: int64(r.QuarantinedAt),
		ForceRelease: putRelease(r.ForceRelease), SlotRelease: putRelease(r.SlotRelease),
	}
}

func getRecord(r *reader, t *journal.TJobRecord) *job.Record {
	return &job.Record{
		ID: job.ID(t.JobID), Creator: t.Creator, RequestID: t.RequestID,
		RequestHash: r.hash("request hash", t.RequestHash),
		Revision:    job.Revision(t.Revision), CreatedAt: job.Millis(t.CreatedAtMs), UpdatedAt: job.Millis(t.UpdatedAtMs),
		ResolvedAt: job.Millis(t.ResolvedAtMs), ClosedAt: job.Millis(t.ClosedAtMs),
		Target: getTarget(t.Target), Spec: getSpec(r, t.Spec), Snapshot: getSnapshot(r, t.Snapshot),
		Dispatch: getDispatch(r, t.Dispatch), State: number[job.State](r, "state", t.State),
		Refresh: getRefresh(r, t.Refresh), Result: getResult(r, t.Result_),
		LateResults:   mapped(t.LateResults, func(l *journal.TLateResult_) job.LateResult { return getLateResult(r, l) }),
		LateRefresh:   getRefresh(r, t.LateRefresh),
		QuarantinedAt: job.Millis(t.QuarantinedAtMs),
		ForceRelease:  getRelease(t.ForceRelease), SlotRelease: getRelease(t.SlotRelease),
	}
}

// putDispatch leaves out the dispatch of a job that was never sent.
func putDispatch(d job.Dispatch) *journal.TDispatch {
	if dispatchIsZero(d) {
		return nil
	}
	return &journal.TDispatch{
		BackendID: int64(d.BackendID), ProcessEpoch: d.ProcessEpoch, DispatchRevision: int64(d.Revision),
		InvocationID: d.InvocationID, SecretHash: putHash(d.SecretHash),
		StartedAtMs: int64(d.StartedAt), DeadlineAtMs: int64(d.DeadlineAt),
		SlotHeld: d.SlotHeld, Proof: journal.TProof(d.Proof), ProofAtMs: int64(d.ProofAt),
		Evidence: mapped(d.Evidence, func(e job.Evidence) *journal.TEvidence {
			return &journal.TEvidence{Proof: journal.TProof(e.Proof), AtMs: int64(e.At)}
		}),
	}
}

// dispatchIsZero looks at every field: a job's dispatch must come back as it was
// even where a transition filled in less, or more, than is expected today.
func dispatchIsZero(d job.Dispatch) bool {
	return d.BackendID == 0 && d.ProcessEpoch == 0 && d.Revision == 0 && d.InvocationID == "" &&
		d.SecretHash == job.Hash{} && d.StartedAt == 0 && d.DeadlineAt == 0 && !d.SlotHeld &&
		d.Proof == 0 && d.ProofAt == 0 && len(d.Evidence) == 0
}

func getDispatch(r *reader, t *journal.TDispatch) job.Dispatch {
	if t == nil {
		return job.Dispatch{}
	}
	return job.Dispatch{
		BackendID: job.BackendID(t.BackendID), ProcessEpoch: t.ProcessEpoch, Revision: job.Revision(t.DispatchRevision),
		InvocationID: t.InvocationID, SecretHash: r.hash("secret hash", t.SecretHash),
		StartedAt: job.Millis(t.StartedAtMs), DeadlineAt: job.Millis(t.DeadlineAtMs),
		SlotHeld: t.SlotHeld, Proof: number[job.Proof](r, "termination proof", t.Proof), ProofAt: job.Millis(t.ProofAtMs),
		Evidence: mapped(t.Evidence, func(e *journal.TEvidence) job.Evidence {
			return job.Evidence{Proof: number[job.Proof](r, "termination proof", e.Proof), At: job.Millis(e.AtMs)}
		}),
	}
}

func putRefresh(f job.Refresh) *journal.TRefresh {
	t := &journal.TRefresh{
		State: journal.TRefreshState(f.State), Attempt: f.Attempt, StartedAtMs: int64(f.StartedAt),
		FinishedAtMs: int64(f.FinishedAt), Evidence: f.Evidence,
	}
	if f.LastFailure != nil {
		t.LastFailure = &journal.TFailure{AtMs: int64(f.LastFailure.At), Message: f.LastFailure.Message}
	}
	return t
}

func getRefresh(r *reader, t *journal.TRefresh) job.Refresh {
	f := job.Refresh{
		State: number[job.RefreshState](r, "refresh state", t.State), Attempt: t.Attempt,
		StartedAt: job.Millis(t.StartedAtMs), FinishedAt: job.Millis(t.FinishedAtMs), Evidence: t.Evidence,
	}
	if t.LastFailure != nil {
		f.LastFailure = &job.Failure{At: job.Millis(t.LastFailure.AtMs), Message: t.LastFailure.Message}
	}
	return f
}

func putResult(r *job.Result) *journal.TResult_ {
	if r == nil {
		return nil
	}
	return &journal.TResult_{
		Code: journal.TResultCode(r.Code), Reason: journal.TReason(r.Reason), Message: r.Message,
		MetadataAdvanced: r.MetadataAdvanced, AtMs: int64(r.At),
	}
}

func getResult(r *reader, t *journal.TResult_) *job.Result {
	if t == nil {
		return nil
	}
	return &job.Result{
		Code:   number[job.ResultCode](r, "result code", t.Code),
		Reason: number[job.Reason](r, "completion reason", t.Reason), Message: t.Message,
		MetadataAdvanced: t.MetadataAdvanced, At: job.Millis(t.AtMs),
	}
}

func putLateResult(l job.LateResult) *journal.TLateResult_ {
	return &journal.TLateResult_{
		Code: journal.TResultCode(l.Code), Message: l.Message, MetadataAdvanced: l.MetadataAdvanced, AtMs: int64(l.At),
	}
}

func getLateResult(r *reader, t *journal.TLateResult_) job.LateResult {
	return job.LateResult{
		Code: number[job.ResultCode](r, "late result code", t.Code), Message: t.Message,
		MetadataAdvanced: t.MetadataAdvanced, At: job.Millis(t.AtMs),
	}
}

func putRelease(r *job.Release) *journal.TRelease {
	if r == nil {
		return nil
	}
	return &journal.TRelease{Actor: r.Actor, AtMs: int64(r.At), Note: r.Note, Warning: r.Warning}
}

func getRelease(t *journal.TRelease) *job.Release {
	if t == nil {
		return nil
	}
	return &job.Release{Actor: t.Actor, At: job.Millis(t.AtMs), Note: t.Note, Warning: t.Warning}
}

func putEvent(e job.Event) *journal.TJobEvent {
	return &journal.TJobEvent{
		JobID: int64(e.Job), Revision: int64(e.Revision), RaftIndex: bits(e.Index), RaftTerm: bits(e.Term),
		AtMs: int64(e.At), Actor: e.Actor, Kind: string(e.Kind),
		FromState: journal.TState(e.From), ToState: journal.TState(e.To),
		FromRefresh: journal.TRefreshState(e.FromRefresh), ToRefresh: journal.TRefreshState(e.ToRefresh),
		Reason: e.Reason,
	}
}

func getEvent(r *reader, t *journal.TJobEvent) job.Event {
	return job.Event{
		Job: job.ID(t.JobID), Revision: job.Revision(t.Revision), Index: unbits(t.RaftIndex), Term: unbits(t.RaftTerm),
		At: job.Millis(t.AtMs), Actor: t.Actor, Kind: job.EventKind(t.Kind),
		From: number[job.State](r, "state before", t.FromState), To: number[job.State](r, "state after", t.ToState),
		FromRefresh: number[job.RefreshState](r, "refresh state before", t.FromRefresh),
		ToRefresh:   number[job.RefreshState](r, "refresh state after", t.ToRefresh),
		Reason:      t.Reason,
	}
}

// bits and unbits keep an unsigned number in the bits of Thrift's signed one.
func bits(v uint64) int64   { return int64(v) }
func unbits(v int64) uint64 { return uint64(v) }

func putCatalogRecord(c *job.Catalog) *journal.TCatalogRecord {
	return &journal.TCatalogRecord{
		Name: c.Name, Store: c.Store, Options: mapped(c.Options, putOption), Refresher: putRefresher(c.Refresher),
		Revision: c.Revision, CreatedAtMs: int64(c.CreatedAt), UpdatedAtMs: int64(c.UpdatedAt), UpdatedBy: c.UpdatedBy,
	}
}

func getCatalogRecord(_ *reader, t *journal.TCatalogRecord) *job.Catalog {
	return &job.Catalog{
		Name: t.Name, Store: t.Store, Options: mapped(t.Options, getOption), Refresher: getRefresher(t.Refresher),
		Revision: t.Revision, CreatedAt: job.Millis(t.CreatedAtMs), UpdatedAt: job.Millis(t.UpdatedAtMs),
		UpdatedBy: t.UpdatedBy,
	}
}

func putBackendRecord(b *job.Backend) *journal.TBackendRecord {
	return &journal.TBackendRecord{
		BackendID: int64(b.ID), Address: putAddress(b.Address), State: journal.TBackendState(b.State),
		Labels: mapped(b.Labels, putLabel), CreatedAtMs: int64(b.CreatedAt), UpdatedAtMs: int64(b.UpdatedAt),
		UpdatedBy: b.UpdatedBy,
	}
}

func getBackendRecord(r *reader, t *journal.TBackendRecord) *job.Backend {
	return &job.Backend{
		ID: job.BackendID(t.BackendID), Address: getAddress(t.Address),
		State:  number[job.BackendState](r, "backend state", t.State),
		Labels: mapped(t.Labels, getLabel), CreatedAt: job.Millis(t.CreatedAtMs), UpdatedAt: job.Millis(t.UpdatedAtMs),
		UpdatedBy: t.UpdatedBy,
	}
}

func putCluster(c job.Cluster) *journal.TClusterRecord {
	return &journal.TClusterRecord{
		ClusterID: c.ClusterID, FormedAtMs: int64(c.FormedAt), Incarnation: c.Incarnation, Level: c.Level,
		NextJobID: int64(c.NextJob), NextBackendID: int64(c.NextBackend), LastTerm: bits(c.LastTerm),
		Quarantined: c.Quarantined, QuarantinedAtMs: int64(c.QuarantinedAt), QuarantineCause: c.QuarantineCause,
		ReopenedAtMs: int64(c.ReopenedAt), ReopenedBy: c.ReopenedBy, ReopenNote: c.ReopenNote,
	}
}

func getCluster(_ *reader, t *journal.TClusterRecord) job.Cluster {
	return job.Cluster{
		ClusterID: t.ClusterID, FormedAt: job.Millis(t.FormedAtMs), Incarnation: t.Incarnation, Level: t.Level,
		NextJob: job.ID(t.NextJobID), NextBackend: job.BackendID(t.NextBackendID), LastTerm: unbits(t.LastTerm),
		Quarantined: t.Quarantined, QuarantinedAt: job.Millis(t.QuarantinedAtMs), QuarantineCause: t.QuarantineCause,
		ReopenedAt: job.Millis(t.ReopenedAtMs), ReopenedBy: t.ReopenedBy, ReopenNote: t.ReopenNote,
	}
}

func putSettingChange(s job.SettingChange) *journal.TSettingChange {
	return &journal.TSettingChange{
		Name: s.Name, OldValue: s.Old, NewValue_: s.New, AtMs: int64(s.At), Actor: s.Actor, IsReset: s.Reset,
	}
}

func getSettingChange(_ *reader, t *journal.TSettingChange) job.SettingChange {
	return job.SettingChange{
		Name: t.Name, Old: t.OldValue, New: t.NewValue_, At: job.Millis(t.AtMs), Actor: t.Actor, Reset: t.IsReset,
	}
}

func putMember(m *job.Member) *journal.TMember {
	return &journal.TMember{
		NodeID: m.NodeID, InstanceID: m.InstanceID, Address: m.Address,
		RegisteredAtIndex: bits(m.RegisteredAt), AddedAtMs: int64(m.AddedAt), AddedBy: m.AddedBy,
	}
}

func getMember(_ *reader, t *journal.TMember) *job.Member {
	return &job.Member{
		NodeID: t.NodeID, InstanceID: t.InstanceID, Address: t.Address,
		RegisteredAt: unbits(t.RegisteredAtIndex), AddedAt: job.Millis(t.AddedAtMs), AddedBy: t.AddedBy,
	}
}

// putMemberPart and getMemberPart are for the lists of members in commands.
func putMemberPart(m job.Member) *journal.TMember { return putMember(&m) }
func getMemberPart(t *journal.TMember) job.Member { return *getMember(nil, t) }

func putToken(t *job.Token) *journal.TToken {
	return &journal.TToken{
		Name: t.Name, Role: journal.TRole(t.Role), TokenHash: putHash(t.Hash),
		CreatedAtMs: int64(t.CreatedAt), CreatedBy: t.CreatedBy,
	}
}

func getToken(r *reader, t *journal.TToken) *job.Token {
	return &job.Token{
		Name: t.Name, Role: number[job.Role](r, "role", t.Role), Hash: r.hash("token hash", t.TokenHash),
		CreatedAt: job.Millis(t.CreatedAtMs), CreatedBy: t.CreatedBy,
	}
}

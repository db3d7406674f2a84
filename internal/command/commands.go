package command

import (
	"github.com/lancemaster/lancemaster/gen-go/journal"
	"github.com/lancemaster/lancemaster/internal/job"
)

func putForm(c job.Form) *journal.TForm {
	return &journal.TForm{
		Header: putHeader(c.Header), ClusterID: c.ClusterID, Level: c.Level, Settings: mapped(c.Settings, putSettingValue),
		Members: mapped(c.Members, putMemberPart),
	}
}

func getForm(_ *reader, t *journal.TForm) job.Form {
	return job.Form{
		Header: getHeader(t.Header), ClusterID: t.ClusterID, Level: t.Level, Settings: mapped(t.Settings, getSettingValue),
		Members: mapped(t.Members, getMemberPart),
	}
}

func putAdmit(c job.Admit) *journal.TAdmit {
	return &journal.TAdmit{
		Header: putHeader(c.Header), RequestID: c.RequestID, RequestHash: putHash(c.RequestHash),
		Target: putTarget(c.Target), Spec: putSpec(c.Spec), Snapshot: putSnapshot(c.Snapshot),
	}
}

func getAdmit(r *reader, t *journal.TAdmit) job.Admit {
	return job.Admit{
		Header: getHeader(t.Header), RequestID: t.RequestID, RequestHash: r.hash("request hash", t.RequestHash),
		Target: getTarget(t.Target), Spec: getSpec(r, t.Spec), Snapshot: getSnapshot(r, t.Snapshot),
	}
}

func putMarkRunning(c job.MarkRunning) *journal.TMarkRunning {
	return &journal.TMarkRunning{
		Header: putHeader(c.Header), JobID: int64(c.Job), ExpectedRevision: int64(c.Expected),
		BackendID: int64(c.Backend), ProcessEpoch: c.ProcessEpoch, InvocationID: c.InvocationID,
		SecretHash: putHash(c.SecretHash), DeadlineAtMs: int64(c.DeadlineAt),
	}
}

func getMarkRunning(r *reader, t *journal.TMarkRunning) job.MarkRunning {
	return job.MarkRunning{
		Header: getHeader(t.Header), Job: job.ID(t.JobID), Expected: job.Revision(t.ExpectedRevision),
		Backend: job.BackendID(t.BackendID), ProcessEpoch: t.ProcessEpoch, InvocationID: t.InvocationID,
		SecretHash: r.hash("secret hash", t.SecretHash), DeadlineAt: job.Millis(t.DeadlineAtMs),
	}
}

func putComplete(c job.Complete) *journal.TComplete {
	return &journal.TComplete{
		Header: putHeader(c.Header), Identity: putIdentity(c.Identity), Code: journal.TResultCode(c.Code),
		Message: c.Message, MetadataAdvanced: c.MetadataAdvanced, Proof: journal.TProof(c.Proof),
		NotEnqueued: c.NotEnqueued,
	}
}

func getComplete(r *reader, t *journal.TComplete) job.Complete {
	return job.Complete{
		Header: getHeader(t.Header), Identity: getIdentity(t.Identity),
		Code: number[job.ResultCode](r, "result code", t.Code), Message: t.Message,
		MetadataAdvanced: t.MetadataAdvanced, Proof: number[job.Proof](r, "termination proof", t.Proof),
		NotEnqueued: t.NotEnqueued,
	}
}

func putRecordTermination(c job.RecordTermination) *journal.TRecordTermination {
	return &journal.TRecordTermination{
		Header: putHeader(c.Header), Identity: putIdentity(c.Identity), BackendID: int64(c.Backend),
		Proof: journal.TProof(c.Proof),
	}
}

func getRecordTermination(r *reader, t *journal.TRecordTermination) job.RecordTermination {
	return job.RecordTermination{
		Header: getHeader(t.Header), Identity: getIdentity(t.Identity), Backend: job.BackendID(t.BackendID),
		Proof: number[job.Proof](r, "termination proof", t.Proof),
	}
}

func putRefreshStart(c job.RefreshStart) *journal.TRefreshStart {
	return &journal.TRefreshStart{
		Header: putHeader(c.Header), JobID: int64(c.Job), ExpectedRevision: int64(c.Expected),
	}
}

func getRefreshStart(_ *reader, t *journal.TRefreshStart) job.RefreshStart {
	return job.RefreshStart{
		Header: getHeader(t.Header), Job: job.ID(t.JobID), Expected: job.Revision(t.ExpectedRevision),
	}
}

func putRefreshFinish(c job.RefreshFinish) *journal.TRefreshFinish {
	return &journal.TRefreshFinish{
		Header: putHeader(c.Header), JobID: int64(c.Job), Attempt: c.Attempt, Failed: c.Failed,
		Evidence: c.Evidence, Message: c.Message,
	}
}

func getRefreshFinish(_ *reader, t *journal.TRefreshFinish) job.RefreshFinish {
	return job.RefreshFinish{
		Header: getHeader(t.Header), Job: job.ID(t.JobID), Attempt: t.Attempt, Failed: t.Failed,
		Evidence: t.Evidence, Message: t.Message,
	}
}

func putCancel(c job.Cancel) *journal.TCancel {
	return &journal.TCancel{Header: putHeader(c.Header), JobID: int64(c.Job), ExpectedRevision: int64(c.Expected), Note: c.Note}
}

func getCancel(_ *reader, t *journal.TCancel) job.Cancel {
	return job.Cancel{
		Header: getHeader(t.Header), Job: job.ID(t.JobID), Expected: job.Revision(t.ExpectedRevision), Note: t.Note,
	}
}

func putReject(c job.RejectBeforeDispatch) *journal.TRejectBeforeDispatch {
	return &journal.TRejectBeforeDispatch{
		Header: putHeader(c.Header), JobID: int64(c.Job), ExpectedRevision: int64(c.Expected), Message: c.Message,
	}
}

func getReject(_ *reader, t *journal.TRejectBeforeDispatch) job.RejectBeforeDispatch {
	return job.RejectBeforeDispatch{
		Header: getHeader(t.Header), Job: job.ID(t.JobID), Expected: job.Revision(t.ExpectedRevision), Message: t.Message,
	}
}

func putForceRelease(c job.ForceRelease) *journal.TForceRelease {
	return &journal.TForceRelease{
		Header: putHeader(c.Header), JobID: int64(c.Job), ExpectedRevision: int64(c.Expected),
		Note: c.Note, Warning: c.Warning,
	}
}

func getForceRelease(_ *reader, t *journal.TForceRelease) job.ForceRelease {
	return job.ForceRelease{
		Header: getHeader(t.Header), Job: job.ID(t.JobID), Expected: job.Revision(t.ExpectedRevision),
		Note: t.Note, Warning: t.Warning,
	}
}

func putReleaseSlot(c job.ReleaseSlot) *journal.TReleaseSlot {
	return &journal.TReleaseSlot{
		Header: putHeader(c.Header), JobID: int64(c.Job), ExpectedRevision: int64(c.Expected), Note: c.Note,
	}
}

func getReleaseSlot(_ *reader, t *journal.TReleaseSlot) job.ReleaseSlot {
	return job.ReleaseSlot{
		Header: getHeader(t.Header), Job: job.ID(t.JobID), Expected: job.Revision(t.ExpectedRevision), Note: t.Note,
	}
}

func putLateResultCommand(c job.RecordLateResult) *journal.TRecordLateResult_ {
	return &journal.TRecordLateResult_{
		Header: putHeader(c.Header), Identity: putIdentity(c.Identity), Code: journal.TResultCode(c.Code),
		Message: c.Message, MetadataAdvanced: c.MetadataAdvanced, Proof: journal.TProof(c.Proof),
	}
}

func getLateResultCommand(r *reader, t *journal.TRecordLateResult_) job.RecordLateResult {
	return job.RecordLateResult{
		Header: getHeader(t.Header), Identity: getIdentity(t.Identity),
		Code: number[job.ResultCode](r, "result code", t.Code), Message: t.Message,
		MetadataAdvanced: t.MetadataAdvanced, Proof: number[job.Proof](r, "termination proof", t.Proof),
	}
}

func putQuarantine(c job.Quarantine) *journal.TQuarantine {
	return &journal.TQuarantine{
		Header: putHeader(c.Header), Incarnation: c.Incarnation, Cause: c.Cause, Members: mapped(c.Members, putMemberPart),
	}
}

func getQuarantine(_ *reader, t *journal.TQuarantine) job.Quarantine {
	return job.Quarantine{
		Header: getHeader(t.Header), Incarnation: t.Incarnation, Cause: t.Cause, Members: mapped(t.Members, getMemberPart),
	}
}

func putTermStart(c job.TermStart) *journal.TTermStart {
	return &journal.TTermStart{Header: putHeader(c.Header), Term: bits(c.Term)}
}

func getTermStart(_ *reader, t *journal.TTermStart) job.TermStart {
	return job.TermStart{Header: getHeader(t.Header), Term: unbits(t.Term)}
}

func putRemoveResolved(c job.RemoveResolved) *journal.TRemoveResolved {
	return &journal.TRemoveResolved{Header: putHeader(c.Header), BeforeMs: int64(c.Before), Limit: c.Limit}
}

func getRemoveResolved(_ *reader, t *journal.TRemoveResolved) job.RemoveResolved {
	return job.RemoveResolved{Header: getHeader(t.Header), Before: job.Millis(t.BeforeMs), Limit: t.Limit}
}

func putPutCatalog(c job.PutCatalog) *journal.TPutCatalog {
	return &journal.TPutCatalog{
		Header: putHeader(c.Header), ExpectedRevision: c.Expected, Catalog: putCatalogRecord(&c.Catalog),
	}
}

func getPutCatalog(r *reader, t *journal.TPutCatalog) job.PutCatalog {
	return job.PutCatalog{
		Header: getHeader(t.Header), Expected: t.ExpectedRevision, Catalog: *getCatalogRecord(r, t.Catalog),
	}
}

func putRemoveCatalog(c job.RemoveCatalog) *journal.TRemoveCatalog {
	return &journal.TRemoveCatalog{Header: putHeader(c.Header), Name: c.Catalog}
}

func getRemoveCatalog(_ *reader, t *journal.TRemoveCatalog) job.RemoveCatalog {
	return job.RemoveCatalog{Header: getHeader(t.Header), Catalog: t.Name}
}

func putAddBackend(c job.AddBackend) *journal.TAddBackend {
	return &journal.TAddBackend{
		Header: putHeader(c.Header), Address: putAddress(c.Address), Labels: mapped(c.Labels, putLabel),
	}
}

func getAddBackend(_ *reader, t *journal.TAddBackend) job.AddBackend {
	return job.AddBackend{
		Header: getHeader(t.Header), Address: getAddress(t.Address), Labels: mapped(t.Labels, getLabel),
	}
}

func putSetBackendState(c job.SetBackendState) *journal.TSetBackendState {
	return &journal.TSetBackendState{
		Header: putHeader(c.Header), BackendID: int64(c.Backend), State: journal.TBackendState(c.State),
	}
}

func getSetBackendState(r *reader, t *journal.TSetBackendState) job.SetBackendState {
	return job.SetBackendState{
		Header: getHeader(t.Header), Backend: job.BackendID(t.BackendID),
		State: number[job.BackendState](r, "backend state", t.State),
	}
}

func putRemoveBackend(c job.RemoveBackend) *journal.TRemoveBackend {
	return &journal.TRemoveBackend{Header: putHeader(c.Header), BackendID: int64(c.Backend)}
}

func getRemoveBackend(_ *reader, t *journal.TRemoveBackend) job.RemoveBackend {
	return job.RemoveBackend{Header: getHeader(t.Header), Backend: job.BackendID(t.BackendID)}
}

func putChangeSettings(c job.ChangeSettings) *journal.TChangeSettings {
	return &journal.TChangeSettings{
		Header: putHeader(c.Header), Values: mapped(c.Values, putSettingValue), IsReset: c.Reset,
	}
}

func getChangeSettings(_ *reader, t *journal.TChangeSettings) job.ChangeSettings {
	return job.ChangeSettings{
		Header: getHeader(t.Header), Values: mapped(t.Values, getSettingValue), Reset: t.IsReset,
	}
}

func putRaiseLevel(c job.RaiseLevel) *journal.TRaiseLevel {
	return &journal.TRaiseLevel{Header: putHeader(c.Header), Level: c.Level, Defaults: mapped(c.Defaults, putSettingValue)}
}

func getRaiseLevel(_ *reader, t *journal.TRaiseLevel) job.RaiseLevel {
	return job.RaiseLevel{Header: getHeader(t.Header), Level: t.Level, Defaults: mapped(t.Defaults, getSettingValue)}
}

func putReopen(c job.Reopen) *journal.TReopen {
	return &journal.TReopen{
		Header: putHeader(c.Header), Note: c.Note, MastersStopped: c.MastersStopped, BackendsRestarted: c.BackendsRestarted,
	}
}

func getReopen(_ *reader, t *journal.TReopen) job.Reopen {
	return job.Reopen{
		Header: getHeader(t.Header), Note: t.Note, MastersStopped: t.MastersStopped, BackendsRestarted: t.BackendsRestarted,
	}
}

func putPutMember(c job.PutMember) *journal.TPutMember {
	return &journal.TPutMember{
		Header: putHeader(c.Header), NodeID: c.NodeID, InstanceID: c.InstanceID, Address: c.Address, Replaces: c.Replaces,
	}
}

func getPutMember(_ *reader, t *journal.TPutMember) job.PutMember {
	return job.PutMember{
		Header: getHeader(t.Header), NodeID: t.NodeID, InstanceID: t.InstanceID, Address: t.Address, Replaces: t.Replaces,
	}
}

func putRemoveMember(c job.RemoveMember) *journal.TRemoveMember {
	return &journal.TRemoveMember{Header: putHeader(c.Header), NodeID: c.NodeID}
}

func getRemoveMember(_ *reader, t *journal.TRemoveMember) job.RemoveMember {
	return job.RemoveMember{Header: getHeader(t.Header), NodeID: t.NodeID}
}

func putPutToken(c job.PutToken) *journal.TPutToken {
	return &journal.TPutToken{
		Header: putHeader(c.Header), Name: c.Token, Role: journal.TRole(c.Role), TokenHash: putHash(c.Hash),
	}
}

func getPutToken(r *reader, t *journal.TPutToken) job.PutToken {
	return job.PutToken{
		Header: getHeader(t.Header), Token: t.Name, Role: number[job.Role](r, "role", t.Role),
		Hash: r.hash("token hash", t.TokenHash),
	}
}

func putRemoveToken(c job.RemoveToken) *journal.TRemoveToken {
	return &journal.TRemoveToken{Header: putHeader(c.Header), Name: c.Token}
}

func getRemoveToken(_ *reader, t *journal.TRemoveToken) job.RemoveToken {
	return job.RemoveToken{Header: getHeader(t.Header), Token: t.Name}
}

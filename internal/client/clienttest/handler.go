package clienttest

import (
	"context"
	"time"

	"github.com/lancemaster/lancemaster/gen-go/admin"
)

// handler serves one call on the world, or refuses it.
type handler struct {
	s       *Server
	method  string
	refusal *Refusal
	serve   bool
	noHold  bool
}

// begin writes the request down and gives the scripted refusal. After it, the
// caller holds the world until done is called.
func (h *handler) begin(request any, caller **admin.TRequestContext) (w *world, done func(), err error) {
	who := *caller
	*caller = nil
	h.s.record(h.method, request, who)
	h.s.mu.Lock()
	switch {
	case h.refusal != nil:
		err = h.refusal.wire(h.s.w)
	case !h.serve:
		err = &admin.TAdminError{Code: admin.TAdminErrorCode_INTERNAL, Message: "not served"}
	default:
		return h.s.w, h.s.mu.Unlock, nil
	}
	h.s.mu.Unlock()
	return nil, nil, err
}

func (r *Refusal) wire(w *world) error {
	code, err := admin.TAdminErrorCodeFromString(r.Code)
	if err != nil {
		return err
	}
	e := &admin.TAdminError{Code: code, Message: r.Message}
	if r.Next != "" {
		e.NextStep = &r.Next
	}
	if r.Leader != "" {
		e.LeaderAddress = &r.Leader
	}
	if r.Holder != 0 {
		e.HolderJobID = &r.Holder
	}
	if r.PresentJob != 0 {
		e.Present = w.jobs[r.PresentJob]
	}
	return e
}

func refuse(code admin.TAdminErrorCode, message, next string) error {
	return &admin.TAdminError{Code: code, Message: message, NextStep: &next}
}

func (h *handler) Status(_ context.Context, r *admin.TListRequest) (*admin.TStatusResponse, error) {
	w, done, err := h.begin(r, &r.Ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	return w.status, nil
}

func (h *handler) Submit(_ context.Context, r *admin.TSubmitRequest) (*admin.TSubmitResponse, error) {
	w, done, err := h.begin(r, &r.Ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	return w.submit(r)
}

func (h *handler) GetJob(_ context.Context, r *admin.TGetJobRequest) (*admin.TJob, error) {
	w, done, err := h.begin(r, &r.Ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	return w.job(r.GetJobID())
}

func (h *handler) ListJobs(_ context.Context, r *admin.TListJobsRequest) (*admin.TListJobsResponse, error) {
	w, done, err := h.begin(r, &r.Ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	return w.list(r), nil
}

func (h *handler) JobHistory(_ context.Context, r *admin.TJobHistoryRequest) (*admin.TJobHistoryResponse, error) {
	w, done, err := h.begin(r, &r.Ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	if _, err := w.job(r.GetJobID()); err != nil {
		return nil, err
	}
	return history(r.GetJobID()), nil
}

func (h *handler) WaitJob(ctx context.Context, r *admin.TWaitJobRequest) (*admin.TJob, error) {
	w, done, err := h.begin(r, &r.Ctx)
	if err != nil {
		return nil, err
	}
	j, moved, err := w.advance(r.GetJobID(), r.GetAfterRevision())
	done()
	if err != nil || moved || h.noHold {
		return j, err
	}
	return j, h.hold(r.GetWaitMs()) // nothing more will happen to the job
}

// hold holds a call back for as long as its caller allows.
func (h *handler) hold(ms int64) error {
	t := time.NewTimer(time.Duration(ms) * time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-h.s.ctx.Done():
		return refuse(admin.TAdminErrorCode_UNAVAILABLE, "this master is stopping", "try another one")
	}
}

func (h *handler) CancelJob(_ context.Context, r *admin.TJobVerbRequest) (*admin.TJob, error) {
	w, done, err := h.begin(r, &r.Ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	return w.cancel(r.GetJobID())
}

func (h *handler) ReleaseSlot(_ context.Context, r *admin.TJobVerbRequest) (*admin.TJob, error) {
	w, done, err := h.begin(r, &r.Ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	return w.releaseSlot(r.GetJobID(), r.GetNote())
}

func (h *handler) ForceReleaseJob(_ context.Context, r *admin.TJobVerbRequest) (*admin.TJob, error) {
	w, done, err := h.begin(r, &r.Ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	return w.forceRelease(r.GetJobID(), r.GetNote())
}

func (h *handler) ExplainJob(_ context.Context, r *admin.TGetJobRequest) (*admin.TExplainJobResponse, error) {
	w, done, err := h.begin(r, &r.Ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	return w.explain(r.GetJobID())
}

func (h *handler) WatchJobs(_ context.Context, r *admin.TWatchJobsRequest) (*admin.TWatchJobsResponse, error) {
	w, done, err := h.begin(r, &r.Ctx)
	if err != nil {
		return nil, err
	}
	out, err := w.watch(r)
	done()
	if err != nil || len(out.Events) > 0 || r.AfterIndex == nil || h.noHold {
		return out, err
	}
	return out, h.hold(r.GetWaitMs()) // nothing more will happen
}

func (h *handler) InspectDataset(_ context.Context, r *admin.TInspectDatasetRequest) (*admin.TInspectDatasetResponse, error) {
	w, done, err := h.begin(r, &r.Ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	return w.inspect(r)
}

func (h *handler) PutCatalog(_ context.Context, r *admin.TPutCatalogRequest) (*admin.TCatalog, error) {
	w, done, err := h.begin(r, &r.Ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	return w.putCatalog(r)
}

func (h *handler) GetCatalog(_ context.Context, r *admin.TGetCatalogRequest) (*admin.TCatalog, error) {
	w, done, err := h.begin(r, &r.Ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	return w.catalog(r.GetName())
}

func (h *handler) ListCatalogs(_ context.Context, r *admin.TListRequest) (*admin.TListCatalogsResponse, error) {
	w, done, err := h.begin(r, &r.Ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	return &admin.TListCatalogsResponse{Catalogs: w.catalogs}, nil
}

func (h *handler) RemoveCatalog(_ context.Context, r *admin.TGetCatalogRequest) (*admin.TRemoveResponse, error) {
	w, done, err := h.begin(r, &r.Ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	if _, err := w.catalog(r.GetName()); err != nil {
		return nil, err
	}
	return &admin.TRemoveResponse{}, nil
}

func (h *handler) AddBackend(_ context.Context, r *admin.TAddBackendRequest) (*admin.TBackend, error) {
	_, done, err := h.begin(r, &r.Ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	return &admin.TBackend{
		BackendID: 3, Host: r.GetHost(), BePort: r.GetBePort(), HeartbeatPort: r.GetHeartbeatPort(), State: "active",
		Labels: r.Labels, CreatedAtMs: at(500), UpdatedAtMs: at(500), UpdatedBy: "unverified:ada",
	}, nil
}

func (h *handler) ListBackends(_ context.Context, r *admin.TListRequest) (*admin.TListBackendsResponse, error) {
	w, done, err := h.begin(r, &r.Ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	return &admin.TListBackendsResponse{Backends: w.backends}, nil
}

func (h *handler) RemoveBackend(_ context.Context, r *admin.TBackendRequest) (*admin.TRemoveResponse, error) {
	w, done, err := h.begin(r, &r.Ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	if _, err := w.backend(r.GetBackendID()); err != nil {
		return nil, err
	}
	return &admin.TRemoveResponse{}, nil
}

func (h *handler) DrainBackend(_ context.Context, r *admin.TBackendRequest) (*admin.TBackend, error) {
	return h.turn(r, "draining")
}

func (h *handler) UndrainBackend(_ context.Context, r *admin.TBackendRequest) (*admin.TBackend, error) {
	return h.turn(r, "active")
}

func (h *handler) turn(r *admin.TBackendRequest, state string) (*admin.TBackend, error) {
	w, done, err := h.begin(r, &r.Ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	b, err := w.backend(r.GetBackendID())
	if err != nil {
		return nil, err
	}
	b.State = state
	return b, nil
}

func (h *handler) ListSettings(_ context.Context, r *admin.TListRequest) (*admin.TListSettingsResponse, error) {
	w, done, err := h.begin(r, &r.Ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	return &admin.TListSettingsResponse{Settings: w.settings}, nil
}

func (h *handler) SetSettings(_ context.Context, r *admin.TSetSettingsRequest) (*admin.TListSettingsResponse, error) {
	w, done, err := h.begin(r, &r.Ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	return w.set(r.Values)
}

func (h *handler) ResetSettings(_ context.Context, r *admin.TResetSettingsRequest) (*admin.TListSettingsResponse, error) {
	w, done, err := h.begin(r, &r.Ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	var values []*admin.TSettingValue
	for _, n := range r.Names {
		for _, s := range w.settings {
			if s.Name == n {
				values = append(values, &admin.TSettingValue{Name: n, Value: s.DefaultValue})
			}
		}
	}
	return w.set(values)
}

func (h *handler) SettingsHistory(_ context.Context, r *admin.TSettingsHistoryRequest) (*admin.TSettingsHistoryResponse, error) {
	_, done, err := h.begin(r, &r.Ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	return &admin.TSettingsHistoryResponse{Changes: []*admin.TSettingChange{
		{RaftIndex: 57, AtMs: at(300), Actor: "unverified:ada", Name: "dispatch.execute_deadline", OldValue: "2h", NewValue_: "1h", IsReset: true},
		{RaftIndex: 41, AtMs: at(200), Actor: "unverified:ada", Name: "admission.enabled", OldValue: "false", NewValue_: "true"},
	}}, nil
}

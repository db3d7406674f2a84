package clienttest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lancemaster/lancemaster/gen-go/admin"
	"github.com/lancemaster/lancemaster/gen-go/shared"
)

// world is what the server knows. Its jobs show every part a record can have:
//
//	1 COMMITTED and refreshed      5 PENDING
//	2 UNKNOWN, all still held      6 NOT_COMMITTED, a DROP of nothing
//	3 NOT_COMMITTED, refused       7 UNKNOWN, force-released, with late results
//	4 RUNNING
type world struct {
	status   *admin.TStatusResponse
	jobs     map[int64]*admin.TJob
	steps    map[int64][]func(*admin.TJob)
	catalogs []*admin.TCatalog
	backends []*admin.TBackend
	settings []*admin.TSetting
	index    int64 // of the newest entry of the journal
	events   []*admin.TJobEvent
	cluster  clusterState
}

// Next adds what will happen to a job, one step for each wait upon it: "RUNNING",
// "COMMITTED", "REFRESHED", "NOT_COMMITTED", "UNKNOWN", "NOOP" or "FORCED".
func (s *Server) Next(id int64, steps ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range steps {
		f, ok := stepsByName[name]
		if !ok {
			s.tb.Fatalf("unknown step %q", name)
		}
		s.w.steps[id] = append(s.w.steps[id], f)
	}
}

// Quarantined makes the status say that the cluster is quarantined.
func (s *Server) Quarantined(cause string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := *s.w.status
	st.Quarantined, st.QuarantineCause, st.QuarantinedAtMs = true, &cause, ptr(at(400))
	s.w.status = &st
}

// NotReady makes the status say that the master is not ready.
func (s *Server) NotReady(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := *s.w.status
	st.Ready, st.NotReadyReason = false, &reason
	s.w.status = &st
}

var stepsByName = map[string]func(*admin.TJob){
	"RUNNING": func(j *admin.TJob) { run(j) },
	"COMMITTED": func(j *admin.TJob) {
		settle(j, admin.TJobState_COMMITTED, "NATIVE_OK", "NONE", "index built")
		j.Refresh.State, j.FenceHeld, j.IsOpen, j.ResolvedAtMs = admin.TRefreshState_REQUIRED, true, true, 0
	},
	"REFRESHED": func(j *admin.TJob) {
		j.Refresh = &admin.TJobRefresh{State: admin.TRefreshState_DONE, Attempt: 1, StartedAtMs: at(90), FinishedAtMs: at(90), Evidence: "nothing to refresh: the catalog's refresher is none"}
		resolve(j, 90)
	},
	"NOT_COMMITTED": func(j *admin.TJob) {
		settle(j, admin.TJobState_NOT_COMMITTED, "PRE_INVOCATION_RESOURCE_REJECTED", "NONE",
			"NOT_IMPLEMENTED_ERROR: this is the stub backend; it refuses every job; nothing was sent or nothing was accepted; safe to resubmit")
		resolve(j, 70)
	},
	"UNKNOWN": func(j *admin.TJob) {
		settle(j, admin.TJobState_UNKNOWN, "NO_TRUSTED_RESULT", "NONE", "the deadline passed without a result")
		j.SlotHeld, j.Dispatch.SlotHeld, j.Dispatch.Proof, j.Dispatch.ProofAtMs = true, true, "NONE", 0
		j.FenceHeld, j.IsOpen, j.ResolvedAtMs = true, true, 0
	},
	"NOOP": func(j *admin.TJob) {
		settle(j, admin.TJobState_NOT_COMMITTED, "NATIVE_NOT_FOUND", "IF_CONDITION_NOOP", "")
		resolve(j, 80)
	},
	"FORCED": func(j *admin.TJob) {
		j.ForceRelease = &admin.TJobRelease{Actor: "unverified:ada", AtMs: at(200), Note: "backend host is gone", Warning: warning}
		resolve(j, 200)
	},
}

const warning = "the old worker may still overwrite, remove or bring back the index; the outcome stays UNKNOWN"

func run(j *admin.TJob) {
	j.State = admin.TJobState_RUNNING
	j.Dispatch = &admin.TJobDispatch{
		BackendID: 1, ProcessEpoch: at(-60), DispatchRevision: 1, InvocationID: fmt.Sprintf("%d-1-6f1d2c", j.JobID),
		StartedAtMs: at(60), DeadlineAtMs: at(3660), SlotHeld: true, Proof: "NONE",
	}
	j.SlotHeld = true
}

func settle(j *admin.TJob, s admin.TJobState, code, reason, message string) {
	if j.Dispatch == nil {
		run(j)
	}
	j.State = s
	j.Result_ = &admin.TJobResult_{Code: code, Reason: reason, Message: message, AtMs: at(70)}
	j.SlotHeld, j.Dispatch.SlotHeld, j.Dispatch.Proof, j.Dispatch.ProofAtMs = false, false, "CHILD_REAPED", at(70)
	if strings.HasPrefix(code, "PRE_INVOCATION") {
		j.Dispatch.Proof = "NOT_ENQUEUED"
	}
}

func resolve(j *admin.TJob, seconds int) {
	j.FenceHeld, j.ResolvedAtMs = false, at(seconds)
	j.IsOpen = j.SlotHeld
	if !j.IsOpen {
		j.ClosedAtMs = at(seconds)
	}
}

func newWorld() *world {
	w := &world{jobs: map[int64]*admin.TJob{}, steps: map[int64][]func(*admin.TJob){}, index: firstIndex}
	add := func(id int64, name string, m shared.TLanceIndexMutationType, steps ...string) *admin.TJob {
		j := newJob(id, name, m)
		for _, s := range steps {
			stepsByName[s](j)
			j.Revision++
			j.UpdatedAtMs = at(int(60 + 10*j.Revision))
		}
		w.jobs[id] = j
		return j
	}
	create, drop := shared.TLanceIndexMutationType_CREATE, shared.TLanceIndexMutationType_DROP
	add(1, "demo_vec", create, "RUNNING", "COMMITTED", "REFRESHED")
	add(2, "Title_Idx", shared.TLanceIndexMutationType_REPLACE, "RUNNING", "UNKNOWN").RequestID = "seen-1"
	add(3, "refused_vec", create, "RUNNING", "NOT_COMMITTED")
	add(4, "running_vec", create, "RUNNING")
	add(5, "waiting_vec", create)
	add(6, "gone_idx", drop, "RUNNING", "NOOP")
	j := add(7, "lost_vec", create, "RUNNING", "UNKNOWN", "FORCED")
	j.LateResults = []*admin.TJobResult_{{Code: "NATIVE_OK", Reason: "NONE", Message: "done \x1b[31mlate\x1b[0m", ExternalMetadataAdvanced: true, AtMs: at(300)}}
	j.LateRefresh = &admin.TJobRefresh{State: admin.TRefreshState_FAILED, Attempt: 2, StartedAtMs: at(310), FinishedAtMs: at(311), LastFailureAtMs: ptr(at(311)), LastFailure: ptr("HTTP 503"), NextRetryAtMs: ptr(at(611))}
	j.SlotRelease = &admin.TJobRelease{Actor: "unverified:ada", AtMs: at(400), Note: "host was scrapped"}
	j.Dispatch.SlotHeld, j.SlotHeld, j.IsOpen, j.ClosedAtMs = false, false, false, at(400)
	j.Dispatch.Evidence = []*admin.TJobEvidence{{Proof: "BE_PROCESS_EPOCH_GONE", AtMs: at(450)}}
	w.fillCluster()
	return w
}

func newJob(id int64, name string, m shared.TLanceIndexMutationType) *admin.TJob {
	j := &admin.TJob{
		JobID: id, Creator: "unverified:ada", CreatedAtMs: at(int(id)), UpdatedAtMs: at(int(id)),
		Target: &admin.TJobTarget{
			Catalog: "local", Store: "file", DatabaseName: "demo", TableName: "items", Provider: "DIRECTORY",
			Locator: "file:///data/typed.lance", IndexName: name, IndexKey: strings.ToLower(name),
		},
		Spec: &admin.TJobSpec{
			Mutation: m, IndexType: "IVF_PQ", Column: "vec", MaxNumPartitions: 4096, MaxNumSubVectors: 256, ExecuteDeadlineMs: 3600000,
			PropertiesJSON: `{"index_type":"IVF_PQ","metric":"l2","num_bits":"8","num_partitions":"2","num_sub_vectors":"4"}`,
		},
		Snapshot: &admin.TJobSnapshot{DatasetVersion: 3, Source: "manifest", SchemaContractJSON: contract},
		State:    admin.TJobState_PENDING,
		Refresh:  &admin.TJobRefresh{State: admin.TRefreshState_NOT_REQUIRED},

		FenceHeld: true, IsOpen: true, LateResults: []*admin.TJobResult_{},
	}
	if m == shared.TLanceIndexMutationType_DROP {
		j.Spec.IndexType, j.Spec.Column, j.Spec.PropertiesJSON, j.Spec.IfExists = "", "", "", true
		j.Snapshot.SchemaContractJSON = ""
	}
	return j
}

const contract = `{"scv":1,"flds":[{"fid":9,"nn":"vec","nt":"fixed_size_list","nul":false,"fsd":8,"vet":"float32","ven":true}]}`

func (w *world) fillCluster() {
	w.cluster = newCluster()
	w.status = &admin.TStatusResponse{
		NodeID: "master-1", Version: "v0.1.0", RaftState: "Leader", RaftTerm: 4, AppliedIndex: 61, ClusterID: 271828, Incarnation: 1,
		FeatureLevel: 1, Ready: true, LeaderID: ptr("master-1"), LeaderAdminAddress: ptr("127.0.0.1:9021"),
		ReportAddress: "127.0.0.1:9020", AdminAddress: "127.0.0.1:9021", HTTPAddress: "127.0.0.1:8030", StartedAtMs: at(-100),
	}
	w.catalogs = []*admin.TCatalog{
		{
			Name: "lake", Store: ptr("s3.eu.example.com"), Revision: 2, CreatedAtMs: at(1), UpdatedAtMs: at(20), UpdatedBy: "unverified:ada",
			Options: []*admin.TStorageOption{
				{Key: "aws_secret_access_key", Ref: ptr("env:LAKE_SECRET")},
				{Key: "endpoint", Value: ptr("https://s3.eu.example.com")},
			},
			Refresher: &admin.TRefresher{Kind: "http", URL: ptr("https://meta.example.com/refresh"), TimeoutMs: ptr(int64(30000))},
			OpenJobs:  1, UnresolvedJobs: 1,
		},
		{
			Name: "local", Revision: 1, CreatedAtMs: at(1), UpdatedAtMs: at(1), UpdatedBy: "unverified:ada",
			Options: []*admin.TStorageOption{}, Refresher: &admin.TRefresher{Kind: "none"}, OpenJobs: 3, UnresolvedJobs: 3,
		},
	}
	w.backends = []*admin.TBackend{
		{
			BackendID: 1, Host: "10.0.0.7", BePort: 9060, HeartbeatPort: 9050, State: "active",
			Labels:      []*admin.TLabel{{Key: "zone", Value: "a"}, {Key: "gpu", Value: "yes"}},
			CreatedAtMs: at(1), UpdatedAtMs: at(1), UpdatedBy: "unverified:ada", SlotsHeld: 2, Alive: true,
			ProcessEpoch: ptr(at(-60)), LastOkAtMs: ptr(at(400)), Version: ptr("stub v0.1.0"),
		},
		{
			BackendID: 2, Host: "10.0.0.8", BePort: 9060, HeartbeatPort: 9050, State: "draining", Labels: []*admin.TLabel{},
			CreatedAtMs: at(2), UpdatedAtMs: at(30), UpdatedBy: "unverified:ada", LastError: ptr("dial tcp 10.0.0.8:9050: connection refused"),
		},
	}
	w.settings = []*admin.TSetting{
		{Name: "admission.enabled", Value: "true", DefaultValue: "false", Type: "bool", Help: "whether new jobs are admitted", ChangedAtMs: ptr(at(200)), ChangedBy: ptr("unverified:ada")},
		{Name: "dispatch.execute_deadline", Value: "1h", DefaultValue: "1h", Type: "duration", Help: "how long a job may run unless it asks for its own"},
		{Name: "leader_change.running", Value: "keep", DefaultValue: "keep", Type: "keep|unknown", Help: "what becomes of RUNNING jobs when the leader changes"},
	}
}

func (w *world) job(id int64) (*admin.TJob, error) {
	if j, ok := w.jobs[id]; ok {
		return j, nil
	}
	return nil, refuse(admin.TAdminErrorCode_NOT_FOUND, fmt.Sprintf("there is no job %d", id), "list the jobs with: lancemaster job list")
}

// advance takes the job's next step, where there is one; moved says whether the
// wait is over.
func (w *world) advance(id, after int64) (j *admin.TJob, moved bool, err error) {
	j, err = w.job(id)
	if err != nil {
		return nil, false, err
	}
	if steps := w.steps[id]; j.Revision <= after && len(steps) > 0 {
		w.steps[id] = steps[1:]
		j = w.change(j, steps[0])
	}
	return j, j.Revision > after, nil
}

// change replaces the job by a changed copy: answers under way keep theirs.
func (w *world) change(j *admin.TJob, f func(*admin.TJob)) *admin.TJob {
	next := *j
	if j.Dispatch != nil {
		d := *j.Dispatch
		next.Dispatch = &d
	}
	refresh := *j.Refresh
	next.Refresh = &refresh
	f(&next)
	next.Revision++
	w.jobs[j.JobID] = &next
	return &next
}

func (w *world) submit(r *admin.TSubmitRequest) (*admin.TSubmitResponse, error) {
	for _, j := range w.jobs {
		if j.RequestID != "" && j.RequestID == r.GetRequestID() {
			return &admin.TSubmitResponse{Outcome: admin.TSubmitOutcome_EXISTING, Job: j}, nil
		}
	}
	if r.GetIndexName() == "present_vec" && r.GetIfNotExists() {
		return &admin.TSubmitResponse{Outcome: admin.TSubmitOutcome_NOOP, Detail: ptr("the dataset has this index already")}, nil
	}
	id := int64(len(w.jobs) + 1)
	j := newJob(id, r.GetIndexName(), r.GetMutation())
	j.Target.Catalog, j.Target.DatabaseName, j.Target.TableName = r.GetCatalog(), r.GetDatabaseName(), r.GetTableName()
	j.Target.Locator = r.GetDatasetURI()
	j.Spec.IndexType, j.Spec.Column = strings.ToUpper(r.GetIndexType()), r.GetColumn()
	if d := r.GetExecuteDeadlineMs(); d != 0 {
		j.Spec.ExecuteDeadlineMs = d
	}
	if r.GetDryRun() {
		j.JobID, j.FenceHeld, j.IsOpen = 0, false, false
		out := &admin.TSubmitResponse{Outcome: admin.TSubmitOutcome_DRY_RUN, WouldAdmit: j}
		if r.GetIndexName() == "running_vec" {
			out.Advice = []*admin.TAdvice{{Code: admin.TAdminErrorCode_FENCE_HELD, Message: "job 4 holds the index name running_vec"}}
		}
		return out, nil
	}
	j.RequestID = r.GetRequestID()
	w.jobs[id] = j
	return &admin.TSubmitResponse{Outcome: admin.TSubmitOutcome_ADMITTED, Job: j}, nil
}

func (w *world) list(r *admin.TListJobsRequest) *admin.TListJobsResponse {
	out := &admin.TListJobsResponse{Jobs: []*admin.TJob{}}
	for id := int64(len(w.jobs)); id > 0; id-- {
		j := w.jobs[id]
		if len(r.States) > 0 && !slices.Contains(r.States, j.State) || r.Unresolved != nil && *r.Unresolved != j.FenceHeld ||
			len(r.RefreshStates) > 0 && (j.Refresh == nil || !slices.Contains(r.RefreshStates, j.Refresh.State)) {
			continue
		}
		if len(out.Jobs) == int(r.GetLimit()) && r.Limit != nil {
			out.NextPageToken = ptr(fmt.Sprintf("before-%d", id+1))
			break
		}
		out.Jobs = append(out.Jobs, j)
	}
	return out
}

func history(id int64) *admin.TJobHistoryResponse {
	pending, running, notRequired := admin.TJobState_PENDING, admin.TJobState_RUNNING, admin.TRefreshState_NOT_REQUIRED
	return &admin.TJobHistoryResponse{Dropped: 2, Events: []*admin.TJobEvent{
		{JobID: id, RaftIndex: 40, RaftTerm: 2, AtMs: at(1), Actor: "unverified:ada", Kind: "Admit", ToState: pending, ToRefresh: notRequired},
		{JobID: id, Revision: 1, RaftIndex: 41, RaftTerm: 2, AtMs: at(60), Actor: "master", Kind: "MarkRunning", FromState: &pending, ToState: running, FromRefresh: &notRequired, ToRefresh: notRequired, Reason: "backend 1"},
		{JobID: id, Revision: 4, RaftIndex: 47, RaftTerm: 3, AtMs: at(70), Actor: "backend:1", Kind: "Complete", FromState: &running, ToState: admin.TJobState_COMMITTED, FromRefresh: &notRequired, ToRefresh: admin.TRefreshState_REQUIRED, Reason: "NATIVE_OK"},
	}}
}

func (w *world) cancel(id int64) (*admin.TJob, error) {
	j, err := w.job(id)
	if err != nil {
		return nil, err
	}
	if j.State != admin.TJobState_PENDING {
		return nil, &admin.TAdminError{
			Code: admin.TAdminErrorCode_WRONG_STATE, Message: fmt.Sprintf("job %d is %s; only a PENDING job can be cancelled", id, j.State), Present: j,
			NextStep: ptr(fmt.Sprintf("wait for it with: lancemaster job wait %d", id)),
		}
	}
	return w.change(j, func(j *admin.TJob) {
		j.State = admin.TJobState_NOT_COMMITTED
		j.Result_ = &admin.TJobResult_{Reason: "CANCELLED_BEFORE_DISPATCH", AtMs: at(500)}
		resolve(j, 500)
	}), nil
}

func (w *world) releaseSlot(id int64, note string) (*admin.TJob, error) {
	j, err := w.job(id)
	if err != nil {
		return nil, err
	}
	return w.change(j, func(j *admin.TJob) {
		j.SlotRelease = &admin.TJobRelease{Actor: "unverified:ada", AtMs: at(500), Note: note}
		j.SlotHeld, j.Dispatch.SlotHeld = false, false
	}), nil
}

func (w *world) inspect(r *admin.TInspectDatasetRequest) (*admin.TInspectDatasetResponse, error) {
	if strings.Contains(r.GetDatasetURI(), "missing") {
		return nil, refuse(admin.TAdminErrorCode_DATASET_MISSING, "there is no dataset at "+r.GetDatasetURI(), "check the path; it must be a directory that holds _versions")
	}
	out := &admin.TInspectDatasetResponse{
		Locator: "file:///data/typed.lance", Version: 3, TimestampMs: at(-1000),
		Fields: []*admin.TDatasetField{
			{ID: 0, ParentID: -1, Name: "id", LogicalType: "int64"},
			{ID: 9, ParentID: -1, Name: "vec", LogicalType: "fixed_size_list:float:8"},
			{ID: 10, ParentID: -1, Name: "Title", LogicalType: "string", Nullable: true},
		},
		Indexes: []*admin.TDatasetIndex{
			{Name: "Title_Idx", IndexKey: "title_idx", IndexType: "BTREE", Columns: []string{"Title"}, DatasetVersion: 2, UUID: "0b0a", CreatedAtMs: at(-2000)},
			{Name: "present_vec", IndexKey: "present_vec", IndexType: "IVF_PQ", Columns: []string{"vec"}, DatasetVersion: 2, Metric: ptr("l2"), NumBits: ptr(int32(8)), NumSubVectors: ptr(int32(4)), UUID: "0c0d", CreatedAtMs: at(-1500)},
		},
		Fences: []*admin.TDatasetFence{
			{IndexKey: "title_idx", JobID: 2, Store: "file"},
			{IndexKey: "running_vec", JobID: 4, Store: "file"},
		},
	}
	if r.GetColumn() != "" {
		out.Column, out.SchemaContractJSON = ptr("vec"), ptr(contract)
	}
	return out, nil
}

func (w *world) catalog(name string) (*admin.TCatalog, error) {
	for _, c := range w.catalogs {
		if c.Name == name {
			return c, nil
		}
	}
	return nil, refuse(admin.TAdminErrorCode_NOT_FOUND, fmt.Sprintf("there is no catalog %q", name), "list them with: lancemaster catalog list")
}

func (w *world) putCatalog(r *admin.TPutCatalogRequest) (*admin.TCatalog, error) {
	c := &admin.TCatalog{
		Name: r.GetName(), Store: r.Store, Options: r.Options, Refresher: r.Refresher, Revision: r.GetExpectedRevision() + 1,
		CreatedAtMs: at(500), UpdatedAtMs: at(500), UpdatedBy: "unverified:ada",
	}
	return c, nil
}

func (w *world) backend(id int64) (*admin.TBackend, error) {
	for i, b := range w.backends {
		if b.BackendID == id {
			c := *b
			w.backends[i] = &c
			return &c, nil
		}
	}
	return nil, refuse(admin.TAdminErrorCode_NOT_FOUND, fmt.Sprintf("there is no backend %d", id), "list them with: lancemaster backend list")
}

func (w *world) set(values []*admin.TSettingValue) (*admin.TListSettingsResponse, error) {
	out := &admin.TListSettingsResponse{Settings: []*admin.TSetting{}}
	for _, v := range values {
		i := slices.IndexFunc(w.settings, func(s *admin.TSetting) bool { return s.Name == v.Name })
		if i < 0 {
			return nil, refuse(admin.TAdminErrorCode_NOT_FOUND, fmt.Sprintf("there is no setting %q", v.Name), "list them with: lancemaster settings list")
		}
		s := *w.settings[i]
		s.Value, s.ChangedAtMs, s.ChangedBy = v.Value, ptr(at(500)), ptr("unverified:ada")
		w.settings[i] = &s
		out.Settings = append(out.Settings, &s)
	}
	return out, nil
}

func ptr[T any](v T) *T { return &v }

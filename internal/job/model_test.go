package job_test

import (
	"github.com/lancemaster/lancemaster/internal/job"
)

// model is the contract told a second time, as plainly as possible: maps, no
// indexes, no records, nothing shared with the code. It says what each command
// answers and what every job is and holds afterwards.
type model struct {
	jobs     map[job.ID]*modelJob
	next     job.ID
	requests map[string]job.ID // creator/request id
	backends map[job.BackendID]string
	nextBack job.BackendID
	catalogs map[string]bool

	members map[string][2]string // node id -> instance id, address
	tokens  map[string]modelToken

	gate, paused, strict, quarantined  bool
	quarantinedAt                      job.Millis
	table, catalog, global, slots      int
	term                               uint64
	incarnation                        int64
	accepted                           int
	everReleased, everForced, everLate int
	everReopened, everReplaced         int
}

type modelToken struct {
	role string
	hash byte
}

type modelJob struct {
	id                  job.ID
	creator, request    string
	body                byte
	key, locator, where string // the normalized name, the dataset, the catalog
	store               string
	drop, ifExists      bool

	state   string
	rev     job.Revision
	refresh string
	attempt int64
	late    string
	lateTry int64

	sent     bool
	backend  job.BackendID
	inv      string
	epoch    int64
	sentRev  job.Revision
	slot     bool
	proofs   []job.Proof // the first stands
	results  []string    // the outcome, then the late ones
	lates    int
	released bool // force released
	closed   job.Millis
}

func newModel() *model {
	return &model{
		jobs: map[job.ID]*modelJob{}, next: 1, requests: map[string]job.ID{},
		backends: map[job.BackendID]string{}, nextBack: 1, catalogs: map[string]bool{},
		members: map[string][2]string{"master-1": {"instance-master-1", "master-1.example:9010"}},
		tokens:  map[string]modelToken{},
		table:   8, catalog: 64, global: 256, slots: 2, incarnation: 1,
	}
}

func (j *modelJob) fence() bool {
	switch j.state {
	case "PENDING", "RUNNING":
		return true
	case "UNKNOWN":
		return !j.released
	default:
		return j.refresh == "REQUIRED" || j.refresh == "RUNNING" || j.refresh == "FAILED"
	}
}

func (j *modelJob) open() bool { return j.fence() || j.slot }

// moved counts a transition and notes when the job was closed.
func (j *modelJob) moved(at job.Millis, wasOpen bool) {
	j.rev++
	if wasOpen && !j.open() {
		j.closed = at
	}
}

func (j *modelJob) proofNames() []string {
	names := []string{}
	for _, p := range j.proofs {
		names = append(names, p.String())
	}
	return names
}

func (m *model) fences(match func(*modelJob) bool) int {
	n := 0
	for _, j := range m.jobs {
		if j.fence() && match(j) {
			n++
		}
	}
	return n
}

func (m *model) slotsOn(b job.BackendID) int {
	n := 0
	for _, j := range m.jobs {
		if j.slot && j.backend == b {
			n++
		}
	}
	return n
}

func (m *model) openIn(catalog string) int {
	n := 0
	for _, j := range m.jobs {
		if j.open() && j.where == catalog {
			n++
		}
	}
	return n
}

// Answers of the model besides a refusal's code.
const (
	ok       job.Code = 0
	existing job.Code = -1
)

func (m *model) admit(c job.Admit) job.Code {
	if c.RequestID != "" {
		if id, known := m.requests[c.Actor+"/"+c.RequestID]; known {
			if m.jobs[id].body == c.RequestHash[0] {
				return existing
			}
			return job.CodeRequestConflict
		}
	}
	switch {
	case m.quarantined:
		return job.CodeQuarantined
	case !m.gate:
		return job.CodeGateClosed
	case !m.catalogs[c.Target.Catalog]:
		return job.CodeNotFound
	case m.fences(func(j *modelJob) bool {
		return j.key == c.Target.IndexKey && j.locator == c.Target.Locator && j.store == c.Target.Store
	}) > 0:
		return job.CodeFenceHeld
	case m.fences(func(j *modelJob) bool { return j.locator == c.Target.Locator && j.store == c.Target.Store }) >= m.table:
		return job.CodeQuotaTable
	case m.fences(func(j *modelJob) bool { return j.where == c.Target.Catalog }) >= m.catalog:
		return job.CodeQuotaCatalog
	case m.fences(func(*modelJob) bool { return true }) >= m.global:
		return job.CodeQuotaGlobal
	}
	m.jobs[m.next] = &modelJob{
		id: m.next, creator: c.Actor, request: c.RequestID, body: c.RequestHash[0],
		key: c.Target.IndexKey, locator: c.Target.Locator, where: c.Target.Catalog, store: c.Target.Store,
		drop: c.Spec.Mutation == job.MutationDrop, ifExists: c.Spec.IfExists,
		state: "PENDING", refresh: "NOT_REQUIRED", late: "NOT_REQUIRED",
	}
	if c.RequestID != "" {
		m.requests[c.Actor+"/"+c.RequestID] = m.next
	}
	m.next++
	return ok
}

func (m *model) markRunning(c job.MarkRunning) job.Code {
	j := m.jobs[c.Job]
	switch {
	case j == nil:
		return job.CodeNotFound
	case j.state != "PENDING":
		return job.CodeWrongState
	case j.rev != c.Expected:
		return job.CodeRevisionMismatch
	case m.paused:
		return job.CodeDispatchPaused
	case m.backends[c.Backend] == "":
		return job.CodeNotFound
	case m.backends[c.Backend] != "active":
		return job.CodeBackendNotActive
	case m.slotsOn(c.Backend) >= m.slots:
		return job.CodeNoSlot
	}
	j.moved(c.At, true)
	j.state, j.sent, j.slot = "RUNNING", true, true
	j.backend, j.inv, j.epoch, j.sentRev = c.Backend, c.InvocationID, c.ProcessEpoch, j.rev
	return ok
}

// outcome is the table of results.
func (j *modelJob) outcome(code job.ResultCode, advanced bool) (state, refresh string) {
	switch {
	case code <= 4 && advanced:
		return "NOT_COMMITTED", "REQUIRED"
	case code <= 4:
		return "NOT_COMMITTED", "NOT_REQUIRED"
	case code == 5:
		return "COMMITTED", "REQUIRED"
	case code == 6, code == 7 && j.drop:
		return "NOT_COMMITTED", "REQUIRED"
	default:
		return "UNKNOWN", "NOT_REQUIRED"
	}
}

func (m *model) sent(id job.Identity) (*modelJob, job.Code) {
	j := m.jobs[id.Job]
	switch {
	case j == nil:
		return nil, job.CodeNotFound
	case !j.sent:
		return nil, job.CodeWrongState
	case j.inv != id.InvocationID || j.epoch != id.ProcessEpoch || j.sentRev != id.Revision:
		return nil, job.CodeIdentityMismatch
	}
	return j, ok
}

// prove keeps a proof once; the first releases the slot.
func (j *modelJob) prove(p job.Proof) bool {
	if p == job.ProofNone {
		return false
	}
	for _, have := range j.proofs {
		if have == p {
			return false
		}
	}
	if len(j.proofs) == 0 {
		j.slot = false
	}
	j.proofs = append(j.proofs, p)
	return true
}

func resultKey(code job.ResultCode, message string, advanced bool) string {
	if advanced {
		message += "+"
	}
	return code.String() + message
}

func (m *model) complete(c job.Complete) job.Code {
	j, code := m.sent(c.Identity)
	if code != ok {
		return code
	}
	if j.state != "RUNNING" {
		return job.CodeWrongState
	}
	if c.NotEnqueued && (c.Code > 4 || c.Proof != job.ProofNone) {
		return job.CodeInvalid
	}
	j.state, j.refresh = j.outcome(c.Code, c.MetadataAdvanced)
	j.results = append(j.results, resultKey(c.Code, c.Message, c.MetadataAdvanced))
	if c.NotEnqueued {
		j.prove(job.ProofNotEnqueued)
	}
	j.prove(c.Proof)
	j.moved(c.At, true)
	return ok
}

func (m *model) terminate(c job.RecordTermination) job.Code {
	j, code := m.sent(c.Identity)
	if code != ok {
		return code
	}
	if c.Backend != j.backend {
		return job.CodeIdentityMismatch
	}
	wasOpen := j.open()
	if !j.prove(c.Proof) {
		return job.CodeDuplicate
	}
	j.moved(c.At, wasOpen)
	return ok
}

func (m *model) lateResult(c job.RecordLateResult) job.Code {
	j, code := m.sent(c.Identity)
	if code != ok {
		return code
	}
	if j.state != "UNKNOWN" {
		return job.CodeWrongState
	}
	refusal, wasOpen := ok, j.open()
	if j.lates == 4 {
		refusal = job.CodeEvidenceFull
	}
	for _, r := range j.results {
		if r == resultKey(c.Code, c.Message, c.MetadataAdvanced) {
			refusal = job.CodeDuplicate
		}
	}
	proved := j.prove(c.Proof)
	if refusal != ok && !proved {
		return refusal
	}
	if refusal == ok {
		m.everLate++
		j.lates++
		j.results = append(j.results, resultKey(c.Code, c.Message, c.MetadataAdvanced))
		if c.Code == job.CodeNativeOK && j.late == "NOT_REQUIRED" {
			j.late = "REQUIRED"
		}
	}
	j.moved(c.At, wasOpen)
	return ok
}

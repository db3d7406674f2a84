//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/gen-go/admin"
	"github.com/lancemaster/lancemaster/gen-go/shared"
	"github.com/lancemaster/lancemaster/internal/programs"
	"github.com/lancemaster/lancemaster/internal/thriftnet"
)

// clientName is who the tests say they are; the master stores it as unverified.
const (
	clientName = "e2e"
	actor      = "unverified:" + clientName
)

func caller() *admin.TRequestContext {
	name := clientName
	return &admin.TRequestContext{ClientName: &name}
}

func ptr[T any](v T) *T { return &v }

// api is one connection to an admin service, for one caller.
type api struct {
	*admin.AdminServiceClient
	conn *thriftnet.Client
}

func dialAPI(ctx context.Context, address string) (*api, error) {
	c, err := thriftnet.Dial(ctx, address, thriftnet.ClientConfig{Timeout: patience, MaxMessage: 16 << 20, MaxContainer: 1 << 16})
	if err != nil {
		return nil, err
	}
	return &api{admin.NewAdminServiceClient(c), c}, nil
}

// ask makes one call, once, over a connection of its own.
func ask[R any](address string, f func(context.Context, *admin.AdminServiceClient) (R, error)) (R, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var none R
	c, err := dialAPI(ctx, address)
	if err != nil {
		return none, err
	}
	defer c.conn.Close()
	return f(ctx, c.AdminServiceClient)
}

// need is ask where the answer must not be an error.
func need[R any](t *testing.T, m *master, what string, f func(context.Context, *admin.AdminServiceClient) (R, error)) R {
	t.Helper()
	r, err := ask(m.admin, f)
	if err != nil {
		t.Fatalf("%s: %v", what, describe(err))
	}
	return r
}

// describe makes a refusal readable.
func describe(err error) string {
	if r := refusalOf(err); r != nil {
		return fmt.Sprintf("%s: %s; %s", r.Code, r.Message, r.GetNextStep())
	}
	return fmt.Sprint(err)
}

func refusalOf(err error) *admin.TAdminError {
	var r *admin.TAdminError
	errors.As(err, &r)
	return r
}

func (m *master) submit(r *admin.TSubmitRequest) *admin.TSubmitResponse {
	m.t.Helper()
	return need(m.t, m, "submitting "+r.GetIndexName(), func(ctx context.Context, c *admin.AdminServiceClient) (*admin.TSubmitResponse, error) {
		return c.Submit(ctx, r)
	})
}

// admit submits what must become a new job, and returns its id.
func (m *master) admit(r *admin.TSubmitRequest) int64 {
	m.t.Helper()
	answer := m.submit(r)
	if answer.Outcome != admin.TSubmitOutcome_ADMITTED || answer.Job == nil {
		m.t.Fatalf("submitting %s: %s, want ADMITTED", r.GetIndexName(), answer.Outcome)
	}
	return answer.Job.JobID
}

// refuse submits what must be refused with this code.
func (m *master) refuse(r *admin.TSubmitRequest, code admin.TAdminErrorCode) admin.TAdminError {
	m.t.Helper()
	answer, err := ask(m.admin, func(ctx context.Context, c *admin.AdminServiceClient) (*admin.TSubmitResponse, error) {
		return c.Submit(ctx, r)
	})
	refusal := refusalOf(err)
	if refusal == nil {
		m.t.Fatalf("submitting %s: answer %v, error %v; want a refusal with %s", r.GetIndexName(), answer, err, code)
	}
	if refusal.Code != code {
		m.t.Errorf("submitting %s was refused with %s, want %s", r.GetIndexName(), describe(err), code)
	}
	return *refusal
}

func (m *master) job(id int64) *admin.TJob {
	m.t.Helper()
	return need(m.t, m, fmt.Sprintf("getting job %d", id), func(ctx context.Context, c *admin.AdminServiceClient) (*admin.TJob, error) {
		return c.GetJob(ctx, &admin.TGetJobRequest{Ctx: caller(), JobID: &id})
	})
}

func (m *master) history(id int64) []*admin.TJobEvent {
	m.t.Helper()
	return need(m.t, m, fmt.Sprintf("the history of job %d", id), func(ctx context.Context, c *admin.AdminServiceClient) (*admin.TJobHistoryResponse, error) {
		return c.JobHistory(ctx, &admin.TJobHistoryRequest{Ctx: caller(), JobID: &id})
	}).Events
}

// list returns all jobs that a filter lets through.
func (m *master) list(filter admin.TListJobsRequest) []*admin.TJob {
	m.t.Helper()
	jobs, err := listAll(m.admin, filter)
	if err != nil {
		m.t.Fatalf("listing jobs: %s", describe(err))
	}
	return jobs
}

func listAll(address string, filter admin.TListJobsRequest) ([]*admin.TJob, error) {
	var jobs []*admin.TJob
	filter.Ctx, filter.Limit = caller(), ptr(int32(1000))
	for {
		page, err := ask(address, func(ctx context.Context, c *admin.AdminServiceClient) (*admin.TListJobsResponse, error) {
			return c.ListJobs(ctx, &filter)
		})
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, page.Jobs...)
		if page.NextPageToken == nil {
			return jobs, nil
		}
		filter.PageToken = page.NextPageToken
	}
}

func idsOf(jobs []*admin.TJob) []int64 {
	ids := make([]int64, 0, len(jobs))
	for _, j := range jobs {
		ids = append(ids, j.JobID)
	}
	return ids
}

// until polls a job until it is as wanted; cond says what is missing.
func (m *master) until(id int64, cond func(*admin.TJob) (missing string)) *admin.TJob {
	m.t.Helper()
	var j *admin.TJob
	programs.Eventually(m.t, patience, func() string {
		j = m.job(id)
		if missing := cond(j); missing != "" {
			return fmt.Sprintf("job %d: %s; it is %v", id, missing, j)
		}
		return ""
	})
	return j
}

func (m *master) untilState(id int64, state admin.TJobState) *admin.TJob {
	m.t.Helper()
	return m.until(id, func(j *admin.TJob) string {
		if j.State == state {
			return ""
		}
		return fmt.Sprintf("it is %s, want %s", j.State, state)
	})
}

// untilDone waits for a COMMITTED job whose refresh is DONE and which holds nothing any more.
func (m *master) untilDone(id int64) *admin.TJob {
	m.t.Helper()
	return m.until(id, func(j *admin.TJob) string {
		if j.State == admin.TJobState_COMMITTED && j.Refresh.State == admin.TRefreshState_DONE && !j.FenceHeld && !j.SlotHeld && !j.IsOpen {
			return ""
		}
		return "want COMMITTED, refresh DONE, nothing held"
	})
}

func (m *master) set(nameValues ...string) {
	m.t.Helper()
	r := &admin.TSetSettingsRequest{Ctx: caller()}
	for pair := range slices.Chunk(nameValues, 2) {
		r.Values = append(r.Values, &admin.TSettingValue{Name: pair[0], Value: pair[1]})
	}
	need(m.t, m, fmt.Sprintf("setting %q", nameValues), func(ctx context.Context, c *admin.AdminServiceClient) (*admin.TListSettingsResponse, error) {
		return c.SetSettings(ctx, r)
	})
}

func (m *master) settings() map[string]string {
	m.t.Helper()
	out := map[string]string{}
	all := need(m.t, m, "listing settings", func(ctx context.Context, c *admin.AdminServiceClient) (*admin.TListSettingsResponse, error) {
		return c.ListSettings(ctx, &admin.TListRequest{Ctx: caller()})
	})
	for _, s := range all.Settings {
		out[s.Name] = s.Value
	}
	return out
}

func (m *master) putCatalog(name, store string, refresher *admin.TRefresher, options ...*admin.TStorageOption) *admin.TCatalog {
	m.t.Helper()
	r := &admin.TPutCatalogRequest{Ctx: caller(), Name: &name, Options: options, Refresher: refresher, ExpectedRevision: ptr(int64(0))}
	if store != "" {
		r.Store = &store
	}
	return m.changeCatalog(r)
}

func (m *master) changeCatalog(r *admin.TPutCatalogRequest) *admin.TCatalog {
	m.t.Helper()
	return need(m.t, m, "putting catalog "+r.GetName(), func(ctx context.Context, c *admin.AdminServiceClient) (*admin.TCatalog, error) {
		return c.PutCatalog(ctx, r)
	})
}

// register adds the backend and waits until it is alive.
func (m *master) register(b *scriptedBackend) int64 {
	m.t.Helper()
	r := &admin.TAddBackendRequest{Ctx: caller(), Host: ptr("127.0.0.1"), BePort: ptr(int32(b.BePort())), HeartbeatPort: ptr(int32(b.HeartbeatPort()))}
	added := need(m.t, m, "adding a backend", func(ctx context.Context, c *admin.AdminServiceClient) (*admin.TBackend, error) {
		return c.AddBackend(ctx, r)
	})
	m.untilAlive(added.BackendID)
	return added.BackendID
}

func (m *master) backends() []*admin.TBackend {
	m.t.Helper()
	return need(m.t, m, "listing backends", func(ctx context.Context, c *admin.AdminServiceClient) (*admin.TListBackendsResponse, error) {
		return c.ListBackends(ctx, &admin.TListRequest{Ctx: caller()})
	}).Backends
}

func (m *master) untilAlive(id int64) {
	m.t.Helper()
	programs.Eventually(m.t, patience, func() string {
		for _, b := range m.backends() {
			if b.BackendID == id && b.Alive {
				return ""
			}
		}
		return fmt.Sprintf("backend %d is not alive", id)
	})
}

// Datasets of the repository's fixtures.
const (
	typed     = "typed.lance"
	indexed   = "indexed.lance"
	casetwins = "casetwins.lance"
)

func fixture(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", "testdata", "lance", name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// createLocal asks for an IVF_PQ index on a fixture.
func createLocal(t *testing.T, dataset, index string) *admin.TSubmitRequest {
	return &admin.TSubmitRequest{
		Ctx: caller(), Catalog: ptr("local"), DatabaseName: ptr("db"), TableName: ptr("t"), DatasetURI: ptr(fixture(t, dataset)),
		IndexName: &index, Mutation: ptr(shared.TLanceIndexMutationType_CREATE), IndexType: ptr("ivf_pq"), Column: ptr("vec"),
		Properties: []*admin.TProperty{{Key: "num_partitions", Value: "2"}, {Key: "num_sub_vectors", Value: "2"}},
	}
}

// idContract is the schema contract of a column id of type int64.
const idContract = `{"scv":1,"flds":[{"fid":0,"nn":"id","nt":"int64","nul":false}]}`

// createRemote asks for a BTREE index on a dataset that the caller vouches for.
func createRemote(catalog, uri, index string) *admin.TSubmitRequest {
	return &admin.TSubmitRequest{
		Ctx: caller(), Catalog: &catalog, DatabaseName: ptr("db"), TableName: ptr("t"), DatasetURI: &uri,
		IndexName: &index, Mutation: ptr(shared.TLanceIndexMutationType_CREATE), IndexType: ptr("btree"), Column: ptr("id"),
		CallerSnapshot: &admin.TCallerSnapshot{DatasetVersion: 7, SchemaContractJSON: ptr(idContract)},
	}
}

// dropLocal asks for a DROP on a fixture.
func dropLocal(t *testing.T, dataset, index string) *admin.TSubmitRequest {
	return &admin.TSubmitRequest{
		Ctx: caller(), Catalog: ptr("local"), DatabaseName: ptr("db"), TableName: ptr("t"), DatasetURI: ptr(fixture(t, dataset)),
		IndexName: &index, Mutation: ptr(shared.TLanceIndexMutationType_DROP),
	}
}

// none is the refresher of a catalog with nothing to refresh.
func none() *admin.TRefresher { return &admin.TRefresher{Kind: "none"} }

// failing is a refresher that cannot succeed: nobody listens on port 1.
func failing() *admin.TRefresher {
	return &admin.TRefresher{Kind: "http", URL: ptr("http://127.0.0.1:1/refresh"), TimeoutMs: ptr(int64(time.Second / time.Millisecond))}
}

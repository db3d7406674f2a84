//go:build e2e

package e2e

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lancemaster/lancemaster/gen-go/admin"
	"github.com/lancemaster/lancemaster/gen-go/shared"
	"github.com/lancemaster/lancemaster/internal/client"
	"github.com/lancemaster/lancemaster/internal/programs"
	"github.com/lancemaster/lancemaster/internal/scripted"
)

// createArgs is an index create that would be admitted, but for what the changes do to it: a change is
// a flag and its new value; --property is given anew as a whole.
func createArgs(t *testing.T, name string, changes ...string) []string {
	t.Helper()
	flags := []string{"--catalog", "--table", "--dataset", "--column", "--type"}
	values := map[string]string{
		"--catalog": "local", "--table": "db.t", "--dataset": fixture(t, typed), "--column": "vec", "--type": "ivf_pq",
	}
	properties := []string{"num_partitions=2", "num_sub_vectors=4"}
	var more []string
	for change := range slices.Chunk(changes, 2) {
		switch flag, value := change[0], change[1]; {
		case flag == "--property":
			properties = strings.Fields(value)
		case values[flag] != "":
			values[flag] = value
		case value == "":
			more = append(more, flag)
		default:
			more = append(more, flag, value)
		}
	}
	args := []string{"index", "create", name}
	for _, flag := range flags {
		args = append(args, flag, values[flag])
	}
	for _, p := range properties {
		args = append(args, "--property", p)
	}
	return append(args, more...)
}

// damaged is a dataset whose manifest is cut off.
func damaged(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(fixture(t, typed))); err != nil {
		t.Fatal(err)
	}
	manifests, err := filepath.Glob(filepath.Join(dir, "_versions", "*.manifest"))
	if err != nil || len(manifests) == 0 {
		t.Fatalf("the fixture has no manifest: %v", err)
	}
	for _, m := range manifests {
		if err := os.Truncate(m, 600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// refusedCase is a command that must end with exit code 1, name this code, and say these things.
type refusedCase struct {
	name string
	args []string
	code string
	says []string
}

func refusedCases(t *testing.T) []refusedCase {
	create := func(name string, changes ...string) []string { return createArgs(t, name, changes...) }
	indexedSet := fixture(t, indexed)
	return []refusedCase{
		{"reserved name", create("__lance_frag_reuse"), "INVALID", []string{"__lance_", "choose another name"}},
		{"reserved name in capitals", create("__LANCE_Frag_Reuse"), "INVALID", []string{"__lance_"}},
		{"empty name", create(""), "INVALID", []string{"index"}},
		{"65 bytes", create(strings.Repeat("n", 65)), "INVALID", []string{"64"}},
		{"control character", create("a\tb"), "INVALID", []string{"control"}},
		{"three sub-vectors", create("i", "--property", "num_partitions=2 num_sub_vectors=3"), "COLUMN", []string{"3", "8"}},
		{"96 sub-vectors", create("i", "--property", "num_partitions=2 num_sub_vectors=96"), "COLUMN", []string{"96", "8"}},
		{"unknown property", create("i", "--property", "num_partitions=2 num_sub_vectors=4 colour=red"), "INVALID", []string{"colour"}},
		{"duplicate property", create("i", "--property", "num_partitions=2 num_sub_vectors=4 NUM_SUB_VECTORS=4"), "INVALID", []string{"num_sub_vectors"}},
		{"missing property", create("i", "--property", "num_sub_vectors=4"), "INVALID", []string{"num_partitions"}},
		{"unknown type", create("i", "--type", "hnsw"), "INVALID", []string{"ivf_pq"}},
		{"credentials in the URI", create("i", "--dataset", "s3://user:pw@b/x"), "INVALID", []string{"credentials"}},
		{"query", create("i", "--dataset", "s3://b/x?versionId=1"), "INVALID", []string{"query"}},
		{"fragment", create("i", "--dataset", "s3://b/x#f"), "INVALID", []string{"fragment"}},
		{"dot segments", create("i", "--dataset", "/data/../etc"), "INVALID", []string{".."}},
		{"dot segments escaped", create("i", "--dataset", "s3://b/a/%2E%2e/x"), "INVALID", []string{"locator"}},
		{"relative path", create("i", "--dataset", "data/t.lance"), "INVALID", []string{"absolute"}},
		{"neither authority nor path", create("i", "--dataset", "s3://"), "INVALID", nil},
		{"missing column", create("i", "--column", "nope"), "COLUMN", []string{"nope", "dataset inspect"}},
		{"nested column", create("i", "--type", "btree", "--column", "meta.userId", "--property", ""), "COLUMN", []string{"meta.userId"}},
		{"nested column by its own name", create("i", "--type", "btree", "--column", "userId", "--property", ""), "COLUMN", []string{"userId"}},
		{"nullable column", create("i", "--type", "btree", "--column", "note", "--property", ""), "COLUMN", []string{"nullable", "admission.nullable_columns"}},
		{"vector index on a number", create("i", "--column", "id"), "COLUMN", []string{"id"}},
		{"BTREE on a flag", create("i", "--type", "btree", "--column", "flag", "--property", ""), "COLUMN", []string{"flag"}},
		{"BTREE on a vector", create("i", "--type", "btree", "--column", "vec", "--property", ""), "COLUMN", []string{"vec"}},
		{"BITMAP on a timestamp", create("i", "--type", "bitmap", "--column", "ts", "--property", ""), "COLUMN", []string{"ts"}},
		{"BITMAP on a decimal", create("i", "--type", "bitmap", "--column", "price", "--property", ""), "COLUMN", []string{"price"}},
		{"properties on BTREE", create("i", "--type", "btree", "--column", "id", "--property", "num_partitions=2"), "INVALID", nil},
		{"missing dataset", create("i", "--dataset", filepath.Join(t.TempDir(), "none.lance")), "DATASET_MISSING", []string{"none.lance"}},
		{"damaged dataset", create("i", "--dataset", damaged(t)), "DATASET_DAMAGED", []string{"manifest"}},
		{"no such catalog", create("i", "--catalog", "nope"), "NOT_FOUND", []string{"nope", "catalog"}},
		{"case twins", []string{"index", "drop", "twin_IDX", "--catalog", "local", "--table", "db.t", "--dataset", fixture(t, casetwins)}, "INDEX_EXISTS", []string{"Twin_Idx", "twin_idx"}},
		{"existing name", create("vec_ivfpq", "--dataset", indexedSet), "INDEX_EXISTS", []string{"Vec_IvfPq", "--replace"}},
		{"existing name, another definition", create("vec_ivfpq", "--dataset", indexedSet, "--if-not-exists", ""), "INDEX_EXISTS", []string{"num_sub_vectors"}},
		{"DROP of a missing name", []string{"index", "drop", "nope", "--catalog", "local", "--table", "db.t", "--dataset", indexedSet}, "INDEX_MISSING", []string{"nope"}},
		{"object store without a snapshot", create("i", "--dataset", "s3://b/x"), "DATASET_UNREADABLE", nil},
		{"quota of zero", []string{"settings", "set", "admission.max_unresolved_per_table=0"}, "INVALID", []string{"admission.max_unresolved_per_table", "at least 1"}},
		{"setting that is none", []string{"settings", "set", "admission.colour=red"}, "INVALID", []string{"admission.colour"}},
		{"one good setting and one bad", []string{"settings", "set", "dispatch.paused=true", "dispatch.max_per_round=0"}, "INVALID", []string{"dispatch.max_per_round"}},
		{"secret as an option's value", []string{"catalog", "create", "c", "--option", "aws_secret_access_key=hunter2"}, "INVALID", []string{"--secret-option"}},
		{"deadline over the limit", create("i", "--execute-deadline", "25h"), "INVALID", []string{"dispatch.max_execute_deadline"}},
	}
}

// Bad requests are refused with a typed code and a text that says what to do, and leave nothing
// behind.
func TestRefused(t *testing.T) {
	t.Parallel()
	m, _ := withLocal(t)
	before := m.settings()
	for _, c := range refusedCases(t) {
		t.Run(c.name, func(t *testing.T) {
			r := m.cli(c.args...)
			checkRefused(t, r, c.code, c.says...)
		})
	}
	for _, name := range []string{"a\x00b", "a\nb", "\x7f"} {
		m.refuse(createLocal(t, typed, name), admin.TAdminErrorCode_INVALID)
	}
	t.Run("invalid UTF-8", func(t *testing.T) {
		r := m.cli(createArgs(t, "a\xffb")...)
		if r.Code != 1 || r.Stderr == "" {
			t.Errorf("got %s; want exit code 1 and a reason", r)
		}
		answer, err := ask(m.admin, func(ctx context.Context, c *admin.AdminServiceClient) (*admin.TSubmitResponse, error) {
			return c.Submit(ctx, createLocal(t, typed, "a\xffb"))
		})
		if err == nil || !isAnswer(err) {
			t.Errorf("an index name that is not UTF-8 was answered %v, %v; want a refusal", answer, err)
		}
	})
	checkNoTrace(t, m, before)
}

// checkRefused holds a refused command to exit code 1, its typed code, and a text on standard error
// alone.
func checkRefused(t *testing.T, r programs.Ran, code string, says ...string) {
	t.Helper()
	if r.Code != 1 {
		t.Errorf("want exit code 1: %s", r)
	}
	if r.Stdout != "" {
		t.Errorf("a refused command printed to standard output: %s", r)
	}
	if strings.Contains(r.Stderr, "hunter2") || strings.Contains(r.Stderr, "user:pw") {
		t.Errorf("the error shows what may be a secret: %s", r.Stderr)
	}
	for _, text := range append(says, code) {
		if !strings.Contains(r.Stderr, text) {
			t.Errorf("the error does not say %q: %s", text, r.Stderr)
		}
	}
}

// checkNoTrace fails when there is a job, another catalog, or another setting than before.
func checkNoTrace(t *testing.T, m *master, settings map[string]string) {
	t.Helper()
	var listed struct {
		Jobs []client.Job `json:"jobs"`
	}
	m.cliJSON(&listed, "job", "list")
	if len(listed.Jobs) != 0 || len(m.list(admin.TListJobsRequest{})) != 0 {
		t.Errorf("refused requests left %d jobs", len(listed.Jobs))
	}
	if now := m.settings(); !maps.Equal(now, settings) {
		t.Errorf("refused requests changed the settings from %v to %v", settings, now)
	}
	var all struct {
		Catalogs []client.Catalog `json:"catalogs"`
	}
	m.cliJSON(&all, "catalog", "list")
	if len(all.Catalogs) != 1 || all.Catalogs[0].OpenJobs != 0 {
		t.Errorf("the catalogs are %v, want local alone without jobs", all.Catalogs)
	}
}

// The gate guards admission and says how it is opened; the very command it names opens it.
func TestClosedGate(t *testing.T) {
	t.Parallel()
	m := startMaster(t)
	m.set("local_datasets.allowed", "true")
	m.putCatalog("local", "", none())
	r := m.cli(createArgs(t, "i")...)
	checkRefused(t, r, "GATE_CLOSED", "admission.enabled=true")
	if jobs := m.list(admin.TListJobsRequest{}); len(jobs) != 0 {
		t.Errorf("a closed gate let %v through", idsOf(jobs))
	}
	dry := m.submit(dryRun(createLocal(t, typed, "i")))
	if len(dry.Advice) != 1 || dry.Advice[0].Code != admin.TAdminErrorCode_GATE_CLOSED {
		t.Errorf("a dry run at the closed gate advises %v, want GATE_CLOSED", dry.Advice)
	}
	m.cliOK("settings", "set", "admission.enabled=true")
	m.cliOK(createArgs(t, "i")...)
}

func dryRun(r *admin.TSubmitRequest) *admin.TSubmitRequest {
	r.DryRun = ptr(true)
	return r
}

// What a held name, a full quota and a used request id refuse, with one job as the reason.
func TestRefusedByAnotherJob(t *testing.T) {
	t.Parallel()
	m, _ := withLocal(t)
	m.set("dispatch.paused", "true")
	first := m.cliOK(createArgs(t, "Straße", "--request-id", "r1")...)
	if !strings.Contains(first, "1") {
		t.Errorf("index create does not tell the job's id: %s", first)
	}
	checkRefused(t, m.cli(createArgs(t, "STRAßE")...), "FENCE_HELD", "job 1")
	checkRefused(t, m.cli(createArgs(t, "other", "--request-id", "r1")...), "REQUEST_CONFLICT", "job 1", "new request id")
	again := m.cli(createArgs(t, "Straße", "--request-id", "r1")...)
	if again.Code != 0 || !strings.Contains(again.Stdout, "1") {
		t.Errorf("the same request again: %s; want job 1", again)
	}
	for _, q := range []struct{ setting, code string }{
		{"admission.max_unresolved_per_table", "QUOTA_TABLE"},
		{"admission.max_unresolved_per_catalog", "QUOTA_CATALOG"},
		{"admission.max_unresolved_global", "QUOTA_GLOBAL"},
	} {
		m.cliOK("settings", "set", q.setting+"=1")
		checkRefused(t, m.cli(createArgs(t, "other")...), q.code, q.setting)
		m.cliOK("settings", "reset", q.setting)
	}
	checkRefused(t, m.cli("catalog", "remove", "local"), "IN_USE", "open")
	if jobs := m.list(admin.TListJobsRequest{}); len(jobs) != 1 || jobs[0].Target.IndexName != "Straße" || jobs[0].Revision != 0 {
		t.Errorf("the jobs are %v, want the first alone, as it was", jobs)
	}
}

// Local datasets need one backend: a path may mean something else on another machine.
func TestLocalDatasets(t *testing.T) {
	t.Parallel()
	m := startMaster(t)
	m.set("admission.enabled", "true")
	m.putCatalog("local", "", none())
	refusal := m.refuse(createLocal(t, typed, "i"), admin.TAdminErrorCode_LOCAL_DATASET)
	if !strings.Contains(refusal.GetNextStep(), "local_datasets.allowed") {
		t.Errorf("the refusal does not say how to go on: %s; %s", refusal.Message, refusal.GetNextStep())
	}
	m.set("local_datasets.allowed", "true", "backend.heartbeat_interval", "200ms")
	m.register(newBackend(t))
	m.register(newBackend(t))
	m.refuse(createLocal(t, typed, "i"), admin.TAdminErrorCode_LOCAL_DATASET)
	if jobs := m.list(admin.TListJobsRequest{}); len(jobs) != 0 {
		t.Errorf("jobs were admitted: %v", idsOf(jobs))
	}
}

// What is as asked for already needs no job.
func TestNoJobNeeded(t *testing.T) {
	t.Parallel()
	m, b := withLocal(t)
	m.set("dispatch.paused", "true")
	exists := createLocal(t, indexed, "VEC_IVFPQ")
	exists.IfNotExists = ptr(true)
	gone := dropLocal(t, indexed, "nope")
	gone.IfExists = ptr(true)
	for _, r := range []*admin.TSubmitRequest{exists, gone} {
		if answer := m.submit(r); answer.Outcome != admin.TSubmitOutcome_NOOP || answer.Job != nil || answer.GetDetail() == "" {
			t.Errorf("%s of %s: %v; want NOOP, no job and a reason", r.GetMutation(), r.GetIndexName(), answer)
		}
	}
	would := m.submit(dryRun(createLocal(t, typed, "New")))
	if would.Outcome != admin.TSubmitOutcome_DRY_RUN || would.WouldAdmit == nil || would.WouldAdmit.JobID != 0 || len(would.Advice) != 0 ||
		would.WouldAdmit.Target.IndexKey != "new" || would.WouldAdmit.Snapshot.DatasetVersion != 1 {
		t.Errorf("the dry run answered %v", would)
	}
	out := m.cliOK(createArgs(t, "New", "--dry-run", "")...)
	if !strings.Contains(out, "would be admitted") {
		t.Errorf("index create --dry-run does not say what it found: %s", out)
	}
	if jobs := m.list(admin.TListJobsRequest{}); len(jobs) != 0 {
		t.Errorf("there are jobs: %v", idsOf(jobs))
	}
	// A dry run foresees what the fence would say.
	id := m.admit(createLocal(t, typed, "New"))
	would = m.submit(dryRun(createLocal(t, typed, "NEW")))
	if len(would.Advice) != 1 || would.Advice[0].Code != admin.TAdminErrorCode_FENCE_HELD {
		t.Errorf("the dry run advises %v, want FENCE_HELD", would.Advice)
	}
	if n := len(b.AllSends()); n != 0 {
		t.Errorf("%d jobs were sent while dispatch is paused", n)
	}
	if jobs := m.list(admin.TListJobsRequest{}); len(jobs) != 1 || jobs[0].JobID != id {
		t.Errorf("the jobs are %v, want %d alone", idsOf(jobs), id)
	}
}

// DROP and REPLACE name the index as the dataset does, whatever the caller's spelling.
func TestStoredSpelling(t *testing.T) {
	t.Parallel()
	m, b := withLocal(t)
	replace := createLocal(t, indexed, "VEC_ivfpq")
	replace.Mutation = ptr(shared.TLanceIndexMutationType_REPLACE)
	for _, r := range []*admin.TSubmitRequest{dropLocal(t, indexed, "vec_IVFPQ"), replace} {
		id := m.admit(r)
		d := b.expectSend(id)
		if d.IndexName != "Vec_IvfPq" || d.MutationType != r.GetMutation() {
			t.Errorf("%s of %s was sent as %s of %s, want Vec_IvfPq", r.GetMutation(), r.GetIndexName(), d.MutationType, d.IndexName)
		}
		if drop := r.GetMutation() == shared.TLanceIndexMutationType_DROP; drop != (d.SchemaContractJSON == "") || drop != (d.ColumnName == "") ||
			drop != (d.IndexType == "") || d.AdmittedDatasetVersion != 4 {
			t.Errorf("%s was sent with contract %q, column %q, type %q, version %d", r.GetMutation(), d.SchemaContractJSON,
				d.ColumnName, d.IndexType, d.AdmittedDatasetVersion)
		}
		b.report(scripted.ResultOf(d, shared.TLanceIndexResultCode_NATIVE_OK))
		m.untilDone(id)
	}
	missing := createLocal(t, indexed, "Brand_New")
	missing.Mutation = ptr(shared.TLanceIndexMutationType_REPLACE)
	if d := b.expectSend(m.admit(missing)); d.IndexName != "Brand_New" {
		t.Errorf("REPLACE of a missing name was sent as %s", d.IndexName)
	}
}

// Where the master cannot read, the caller vouches; two catalogs over one store share their fences.
func TestCallerSnapshotAndStores(t *testing.T) {
	t.Parallel()
	b := newBackend(t)
	m := startMaster(t)
	m.set("admission.enabled", "true", "backend.heartbeat_interval", "200ms")
	endpoint := func(url string) *admin.TStorageOption {
		return &admin.TStorageOption{Key: "aws_endpoint", Value: ptr(url)}
	}
	m.putCatalog("a", "", none(), endpoint("http://s3.example:9000"))
	m.putCatalog("b", "", none(), endpoint("http://s3.example:9000"), &admin.TStorageOption{Key: "region", Value: ptr("x")})
	m.putCatalog("c", "", none(), endpoint("http://other.example:9000"))
	m.register(b)
	id := m.admit(createRemote("a", "S3://bucket/t.lance/", "Idx"))
	d := b.expectSend(id)
	if d.DatasetURI != "s3://bucket/t.lance" || d.AdmittedDatasetVersion != 7 || d.SchemaContractJSON != idContract ||
		d.StorageOptions["aws_endpoint"] != "http://s3.example:9000" {
		t.Errorf("the dispatch is of %s version %d, contract %s, options' keys %v", d.DatasetURI, d.AdmittedDatasetVersion, d.SchemaContractJSON, len(d.StorageOptions))
	}
	if j := m.job(id); j.Snapshot.Source != "caller" {
		t.Errorf("the snapshot's source is %s, want caller", j.Snapshot.Source)
	}
	refusal := m.refuse(createRemote("b", "s3://bucket/t.lance", "IDX"), admin.TAdminErrorCode_FENCE_HELD)
	if refusal.GetHolderJobID() != id || strings.Contains(refusal.Message, "bucket") {
		t.Errorf("the fence refuses with %q, holder %d; want holder %d and no word of its locator", refusal.Message, refusal.GetHolderJobID(), id)
	}
	if other := m.admit(createRemote("c", "s3://bucket/t.lance", "idx")); other == id {
		t.Error("another store shares the fence")
	}
	bad := createRemote("a", "s3://bucket/u", "i")
	bad.CallerSnapshot.SchemaContractJSON = ptr(`{"scv":1,"flds":[{"fid":0,"nn":"other","nt":"int64","nul":false}]}`)
	m.refuse(bad, admin.TAdminErrorCode_INVALID)
	bad.CallerSnapshot.SchemaContractJSON = ptr(`{"scv":1,"flds":[{"fid":0,"nn":"id","nt":"int64","nul":true}]}`)
	m.refuse(bad, admin.TAdminErrorCode_COLUMN)
	if n := len(m.list(admin.TListJobsRequest{})); n != 2 {
		t.Errorf("there are %d jobs, want 2", n)
	}
}

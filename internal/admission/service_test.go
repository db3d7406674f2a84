package admission_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/internal/admission"
	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/job/jobtest"
	"github.com/lancemaster/lancemaster/internal/lance"
)

// cluster is a replicated state of one member with an admission service in front.
type cluster struct {
	*jobtest.State
	t       *testing.T
	service *admission.Service
	members int
	reads   int    // datasets opened
	reading func() // called while a dataset is opened, when set
	fails   error  // answer of the journal, when set
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{State: jobtest.Formed(), t: t, members: 1}
	open := func(ctx context.Context, locator string) (*lance.Dataset, error) {
		c.reads++
		if c.reading != nil {
			c.reading()
		}
		return lance.Open(ctx, locator)
	}
	now := func() time.Time { return time.UnixMilli(5000).UTC() }
	c.service = admission.New(state{c.State}, c, open, now, func() int { return c.members })
	c.set("admission.enabled", "true")
	c.set("local_datasets.allowed", "true")
	c.catalog(job.Catalog{Name: "local", Refresher: job.Refresher{Kind: job.RefresherNone}})
	c.catalog(job.Catalog{
		Name: "lake", Options: []job.Option{{Key: "endpoint", Value: "https://store.example.org"}},
		Refresher: job.Refresher{Kind: job.RefresherNone},
	})
	return c
}

type state struct{ *jobtest.State }

func (s state) Read(f func(*job.Live))             { f(s.Live) }
func (s state) Job(id job.ID) (*job.Record, error) { return s.State.Job(id), nil }
func (s state) Request(creator, id string) (job.ID, bool, error) {
	found, ok := s.State.Request(creator, id)
	return found, ok, nil
}

// Propose is the journal.
func (c *cluster) Propose(_ context.Context, command job.Command) (job.Answer, error) {
	if c.fails != nil {
		return job.Answer{}, c.fails
	}
	change, refusal := c.Apply(command)
	if refusal != nil {
		return job.Answer{}, refusal
	}
	return change.Answer, nil
}

func (c *cluster) must(command job.Command) {
	c.t.Helper()
	if _, refusal := c.Apply(command); refusal != nil {
		c.t.Fatal(refusal)
	}
}

func (c *cluster) set(name, value string) {
	c.t.Helper()
	c.must(job.ChangeSettings{Header: job.Header{At: 1, Actor: "test"}, Values: []job.SettingValue{{Name: name, Value: value}}})
}

func (c *cluster) catalog(k job.Catalog) {
	c.t.Helper()
	c.must(job.PutCatalog{Header: job.Header{At: 1, Actor: "test"}, Catalog: k})
}

func dataset(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", "testdata", "lance", name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// ivf is a CREATE of an IVF_PQ index that typed.lance admits.
func ivf(t *testing.T) job.Submission {
	t.Helper()
	return job.Submission{
		Actor: "alice", Catalog: "local", Database: "db", Table: "typed", DatasetURI: dataset(t, "typed.lance"),
		IndexName: "Demo_Vec", Mutation: job.MutationCreate, IndexType: "ivf_pq", Column: "VEC",
		Properties: []job.Property{{Key: "num_partitions", Value: "2"}, {Key: "NUM_SUB_VECTORS", Value: "4"}},
	}
}

// remote is the same for a dataset that the master cannot read.
func remote(t *testing.T) job.Submission {
	t.Helper()
	s := ivf(t)
	s.Catalog, s.DatasetURI = "lake", "s3://bucket/db/typed.lance/"
	s.CallerSnapshot = &job.CallerSnapshot{DatasetVersion: 7, SchemaContract: vecContract}
	return s
}

const vecContract = `{"scv":1,"flds":[{"fid":9,"nn":"vec","nt":"fixed_size_list","nul":false,"fsd":8,"vet":"float32","ven":true}]}`

func TestAdmitsAgainstARealDataset(t *testing.T) {
	c := newCluster(t)
	out, err := c.service.Submit(t.Context(), ivf(t))
	if err != nil || out.Kind != job.SubmissionAdmitted {
		t.Fatal(out, err)
	}
	got := *c.Job(1)
	want := job.Record{
		ID: 1, Creator: "alice", CreatedAt: 5000, UpdatedAt: 5000,
		Target: job.Target{
			Catalog: "local", Store: "file", Database: "db", Table: "typed", Provider: job.Provider,
			Locator: "file://" + dataset(t, "typed.lance"), IndexName: "Demo_Vec", IndexKey: "demo_vec",
		},
		Spec: job.Spec{
			Mutation: job.MutationCreate, IndexType: job.IndexIVFPQ, Column: "vec",
			PropertiesJSON:   `{"index_type":"IVF_PQ","metric":"l2","num_bits":"8","num_partitions":"2","num_sub_vectors":"4"}`,
			MaxNumPartitions: 4096, MaxNumSubVectors: 256, ExecuteDeadline: 3_600_000,
		},
		Snapshot: job.Snapshot{DatasetVersion: 1, SchemaContract: vecContract, Source: job.SnapshotManifest},
		State:    job.StatePending,
	}
	if got.Target != want.Target || got.Spec != want.Spec || got.Snapshot != want.Snapshot || got.Creator != want.Creator || got.CreatedAt != want.CreatedAt || got.State != want.State {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if owner, held := c.FenceOwner(want.Target.Fence()); !held || owner != 1 {
		t.Error("the fence is not held")
	}
}

// The stored spelling is what REPLACE and DROP send; REPLACE of a missing name
// sends the caller's.
func TestStoredSpelling(t *testing.T) {
	for _, tc := range []struct {
		mutation    job.Mutation
		asked, sent string
	}{
		{job.MutationDrop, "VEC_IVFPQ", "Vec_IvfPq"},
		{job.MutationReplace, "vec_ivfpq", "Vec_IvfPq"},
		{job.MutationReplace, "Brand_New", "Brand_New"},
	} {
		c := newCluster(t)
		s := ivf(t)
		s.DatasetURI, s.IndexName, s.Mutation = dataset(t, "indexed.lance"), tc.asked, tc.mutation
		if tc.mutation == job.MutationDrop {
			s.IndexType, s.Column, s.Properties = "", "", nil
		}
		out, err := c.service.Submit(t.Context(), s)
		if err != nil {
			t.Errorf("%s %s: %v", tc.mutation, tc.asked, err)
			continue
		}
		if out.Job.Target.IndexName != tc.sent || out.Job.Target.IndexKey != strings.ToLower(tc.asked) {
			t.Errorf("%s %s: got %+v", tc.mutation, tc.asked, out.Job.Target)
		}
	}
}

func TestNothingToDo(t *testing.T) {
	on := func(name string, change func(*job.Submission)) job.Submission {
		s := ivf(t)
		s.DatasetURI = dataset(t, name)
		change(&s)
		return s
	}
	equal := func(s *job.Submission) {
		s.IndexName, s.IfNotExists = "vec_ivfpq", true
		s.Properties = []job.Property{{Key: "metric", Value: "L2"}, {Key: "num_partitions", Value: "9"}, {Key: "num_sub_vectors", Value: "2"}}
	}
	for name, s := range map[string]job.Submission{
		"an equal index": on("indexed.lance", equal),
		"an equal BTREE": on("indexed.lance", func(s *job.Submission) {
			s.IndexName, s.IfNotExists, s.IndexType, s.Column, s.Properties = "ID_BTREE", true, "btree", "id", nil
		}),
		"no such index": on("typed.lance", func(s *job.Submission) {
			s.Mutation, s.IfExists, s.IndexType, s.Column, s.Properties = job.MutationDrop, true, "", "", nil
		}),
	} {
		c := newCluster(t)
		s.RequestID = "r1"
		out, err := c.service.Submit(t.Context(), s)
		if err != nil || out.Kind != job.SubmissionNoop || out.Detail == "" || out.Job != nil {
			t.Errorf("%s: %+v, %v", name, out, err)
		}
		if len(c.Records) != 0 {
			t.Errorf("%s: a job was admitted", name)
		}
	}
}

func TestRefusalsLeaveNothingBehind(t *testing.T) {
	damaged := filepath.Join(t.TempDir(), "damaged.lance")
	if err := os.MkdirAll(filepath.Join(damaged, "_versions"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(damaged, "_versions", "1.manifest"), []byte("not a manifest at all"), 0o600); err != nil {
		t.Fatal(err)
	}
	typed := func(change func(*job.Submission)) job.Submission { s := ivf(t); change(&s); return s }
	column := func(kind, name string) job.Submission {
		return typed(func(s *job.Submission) {
			s.IndexType, s.Column = kind, name
			if kind != "ivf_pq" {
				s.Properties = nil
			}
		})
	}
	property := func(key, value string) job.Submission {
		return typed(func(s *job.Submission) { s.Properties = append(s.Properties, job.Property{Key: key, Value: value}) })
	}
	subVectors := func(n string) job.Submission {
		return typed(func(s *job.Submission) {
			s.Properties = []job.Property{{Key: "num_partitions", Value: "2"}, {Key: "num_sub_vectors", Value: n}}
		})
	}
	named := func(name string) job.Submission { return typed(func(s *job.Submission) { s.IndexName = name }) }
	at := func(uri string) job.Submission { return typed(func(s *job.Submission) { s.DatasetURI = uri }) }
	far := func(change func(*job.Submission)) job.Submission { s := remote(t); change(&s); return s }
	contract := func(text string) job.Submission {
		return far(func(s *job.Submission) { s.CallerSnapshot.SchemaContract = text })
	}

	for name, tc := range map[string]struct {
		s    job.Submission
		code job.Code
		says string
	}{
		"reserved name":            {named("__LANCE_frag_reuse"), job.CodeInvalid, "__lance_"},
		"empty name":               {named(""), job.CodeInvalid, "empty"},
		"NUL in name":              {named("a\x00b"), job.CodeInvalid, "control"},
		"long name":                {named(strings.Repeat("x", 65)), job.CodeInvalid, "64"},
		"invalid UTF-8":            {named("a\xffb"), job.CodeInvalid, "UTF-8"},
		"3 sub-vectors":            {subVectors("3"), job.CodeColumn, "does not divide dimension 8"},
		"96 sub-vectors":           {subVectors("96"), job.CodeColumn, "does not divide dimension 8"},
		"257 sub-vectors":          {subVectors("257"), job.CodeInvalid, "num_sub_vectors"},
		"unknown property":         {property("nprobes", "1"), job.CodeInvalid, "nprobes"},
		"property twice":           {property("Num_Partitions", "2"), job.CodeInvalid, "more than once"},
		"properties of BTREE":      {typed(func(s *job.Submission) { s.IndexType, s.Column = "btree", "id" }), job.CodeInvalid, "takes no properties"},
		"unknown type":             {column("hnsw", "vec"), job.CodeInvalid, "ivf_pq"},
		"userinfo":                 {at("s3://user:hunter2@b/x"), job.CodeInvalid, ""},
		"query":                    {at("s3://b/x?version=1"), job.CodeInvalid, "query"},
		"dot segments":             {at("s3://b/x/../y"), job.CodeInvalid, ".."},
		"relative path":            {at("data/x.lance"), job.CodeInvalid, "absolute path"},
		"missing column":           {column("btree", "nothing"), job.CodeColumn, "nothing"},
		"nested column":            {column("btree", "meta.userId"), job.CodeColumn, "top"},
		"nested column, bare":      {column("btree", "userId"), job.CodeColumn, "top"},
		"nullable column":          {column("btree", "note"), job.CodeColumn, "admission.nullable_columns=allow"},
		"IVF_PQ on text":           {column("ivf_pq", "note"), job.CodeColumn, ""},
		"IVF_PQ on int":            {column("ivf_pq", "id"), job.CodeColumn, "int64"},
		"IVF_PQ on struct":         {column("ivf_pq", "meta"), job.CodeColumn, ""},
		"BTREE on bool":            {column("btree", "flag"), job.CodeColumn, "bool"},
		"BTREE on vector":          {column("btree", "vec"), job.CodeColumn, "fixed_size_list"},
		"BITMAP on double":         {column("bitmap", "score"), job.CodeColumn, "float64"},
		"BITMAP on timestamp":      {column("bitmap", "ts"), job.CodeColumn, "timestamp"},
		"BITMAP on decimal":        {column("bitmap", "price"), job.CodeColumn, "decimal"},
		"BITMAP on vector":         {column("bitmap", "vec"), job.CodeColumn, "fixed_size_list"},
		"missing dataset":          {at("/nowhere/x.lance"), job.CodeDatasetMissing, "/nowhere/x.lance"},
		"damaged dataset":          {at(damaged), job.CodeDatasetDamaged, "1.manifest"},
		"unknown catalog":          {typed(func(s *job.Submission) { s.Catalog = "nope" }), job.CodeNotFound, "catalog"},
		"no table":                 {typed(func(s *job.Submission) { s.Table = "" }), job.CodeInvalid, "table"},
		"control in table":         {typed(func(s *job.Submission) { s.Table = "a\nb" }), job.CodeInvalid, "control"},
		"negative deadline":        {typed(func(s *job.Submission) { s.ExecuteDeadline = -1 }), job.CodeInvalid, "negative"},
		"long deadline":            {typed(func(s *job.Submission) { s.ExecuteDeadline = 86_400_001 }), job.CodeInvalid, "dispatch.max_execute_deadline"},
		"if_exists on CREATE":      {typed(func(s *job.Submission) { s.IfExists = true }), job.CodeInvalid, "DROP only"},
		"if_not_exists on REPLACE": {typed(func(s *job.Submission) { s.IfNotExists, s.Mutation = true, job.MutationReplace }), job.CodeInvalid, "CREATE only"},
		"type on DROP":             {typed(func(s *job.Submission) { s.Mutation = job.MutationDrop }), job.CodeInvalid, "DROP takes no"},
		"no mutation":              {typed(func(s *job.Submission) { s.Mutation = 0 }), job.CodeInvalid, "CREATE, REPLACE or DROP"},
		"existing name": {typed(func(s *job.Submission) {
			s.DatasetURI, s.IndexName = dataset(t, "indexed.lance"), "VEC_IVFPQ"
		}), job.CodeIndexExists, "Vec_IvfPq"},
		"existing name, another definition": {typed(func(s *job.Submission) {
			s.DatasetURI, s.IndexName, s.IfNotExists = dataset(t, "indexed.lance"), "vec_ivfpq", true
		}), job.CodeIndexExists, "num_sub_vectors is 2, not 4"},
		"existing name, another column": {typed(func(s *job.Submission) {
			s.DatasetURI, s.IndexName, s.IfNotExists = dataset(t, "indexed.lance"), "id_btree", true
		}), job.CodeIndexExists, "BTREE, not IVF_PQ"},
		"case twins": {typed(func(s *job.Submission) {
			s.DatasetURI, s.IndexName, s.Mutation = dataset(t, "casetwins.lance"), "TWIN_IDX", job.MutationDrop
			s.IndexType, s.Column, s.Properties = "", "", nil
		}), job.CodeIndexExists, "Twin_Idx"},
		"DROP of a missing name": {typed(func(s *job.Submission) {
			s.Mutation, s.IndexType, s.Column, s.Properties = job.MutationDrop, "", "", nil
		}), job.CodeIndexMissing, "if-exists"},
		"snapshot for a readable dataset": {typed(func(s *job.Submission) {
			s.CallerSnapshot = &job.CallerSnapshot{DatasetVersion: 1, SchemaContract: vecContract}
		}), job.CodeInvalid, "reads file: datasets itself"},
		"no snapshot":             {far(func(s *job.Submission) { s.CallerSnapshot = nil }), job.CodeDatasetUnreadable, "--dataset-version"},
		"version 0":               {far(func(s *job.Submission) { s.CallerSnapshot.DatasetVersion = 0 }), job.CodeInvalid, "begin at 1"},
		"no contract":             {contract(""), job.CodeInvalid, "need one"},
		"contract is no JSON":     {contract("{"), job.CodeInvalid, "schema contract"},
		"contract with more":      {contract(vecContract + "{}"), job.CodeInvalid, "follows"},
		"contract, unknown key":   {contract(strings.Replace(vecContract, `"scv":1`, `"scv":1,"x":1`, 1)), job.CodeInvalid, "x"},
		"contract, version 2":     {contract(strings.Replace(vecContract, `"scv":1`, `"scv":2`, 1)), job.CodeInvalid, "scv"},
		"contract, other column":  {contract(strings.Replace(vecContract, `"vec"`, `"other"`, 1)), job.CodeInvalid, "other"},
		"contract, nullable":      {contract(strings.Replace(vecContract, `"nul":false`, `"nul":true`, 1)), job.CodeColumn, "nullable"},
		"contract, ven false":     {contract(strings.Replace(vecContract, `"ven":true`, `"ven":false`, 1)), job.CodeInvalid, "ven"},
		"contract, no dimension":  {contract(strings.Replace(vecContract, `"fsd":8,`, ``, 1)), job.CodeInvalid, "fsd"},
		"contract, double vector": {contract(strings.Replace(vecContract, `float32`, `float64`, 1)), job.CodeColumn, "float64"},
		"contract on DROP": {far(func(s *job.Submission) {
			s.Mutation, s.IndexType, s.Column, s.Properties = job.MutationDrop, "", "", nil
		}), job.CodeInvalid, "takes no schema contract"},
		"contract, type in other words": {far(func(s *job.Submission) {
			s.IndexType, s.Properties = "bitmap", nil
			s.CallerSnapshot.SchemaContract = `{"scv":1,"flds":[{"fid":1,"nn":"vec","nt":"string","nul":false}]}`
		}), job.CodeInvalid, "write utf8"},
		"stored name on CREATE": {far(func(s *job.Submission) { s.CallerSnapshot.StoredIndexName = "demo_vec" }), job.CodeInvalid, "CREATE takes no"},
		"stored name of another": {far(func(s *job.Submission) {
			s.Mutation, s.CallerSnapshot.StoredIndexName = job.MutationReplace, "other"
		}), job.CodeInvalid, "another name"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			before := c.Position
			tc.s.RequestID = "r1"
			_, err := c.service.Submit(t.Context(), tc.s)
			refusal, ok := job.AsRefusal(err)
			if !ok || refusal.Code != tc.code {
				t.Fatalf("got %v, want a refusal with code %v", err, tc.code)
			}
			if !strings.Contains(refusal.Error(), tc.says) || strings.Contains(refusal.Error(), "hunter2") {
				t.Errorf("%q does not say %q", refusal.Error(), tc.says)
			}
			if refusal.Next == "" {
				t.Errorf("%q does not say what to do next", refusal.Error())
			}
			if c.Position != before || len(c.Records) != 0 {
				t.Error("the refusal left a trace in the journal")
			}
		})
	}
}

func TestCallerSuppliesWhatTheMasterCannotRead(t *testing.T) {
	c := newCluster(t)
	s := remote(t)
	s.CallerSnapshot.SchemaContract = " " + strings.ReplaceAll(vecContract, ":", ": ") + "\n"
	out, err := c.service.Submit(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if got := out.Job.Snapshot; got != (job.Snapshot{DatasetVersion: 7, SchemaContract: vecContract, Source: job.SnapshotCaller}) {
		t.Errorf("got %+v", got)
	}
	if got := out.Job.Target; got.Store != "https://store.example.org" || got.Locator != "s3://bucket/db/typed.lance" {
		t.Errorf("got %+v", got)
	}
	if c.reads != 0 {
		t.Error("the master read a dataset it cannot read")
	}
}

// Every admissible column of typed.lance, also in another case.
func TestTypeMatrixAdmits(t *testing.T) {
	for kind, columns := range map[string][]string{
		"ivf_pq": {"vec", "Vec16"},
		"btree":  {"id", "ENTITYID", "title", "day", "ts", "ts_naive", "score", "price"},
		"bitmap": {"flag", "id", "title", "day"},
	} {
		for _, column := range columns {
			c := newCluster(t)
			s := ivf(t)
			s.IndexType, s.Column = kind, column
			if kind != "ivf_pq" {
				s.Properties = nil
			}
			out, err := c.service.Submit(t.Context(), s)
			if err != nil {
				t.Errorf("%s on %s: %v", kind, column, err)
			} else if column == "ENTITYID" && out.Job.Spec.Column != "entityId" {
				t.Errorf("%s is stored as %s", column, out.Job.Spec.Column)
			}
		}
	}
}

func TestNullableColumnsWhereAllowed(t *testing.T) {
	c := newCluster(t)
	c.set("admission.nullable_columns", "allow")
	s := ivf(t)
	s.IndexType, s.Column, s.Properties = "btree", "note", nil
	out, err := c.service.Submit(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"scv":1,"flds":[{"fid":11,"nn":"note","nt":"utf8","nul":true}]}`; out.Job.Snapshot.SchemaContract != want {
		t.Errorf("got %s, want %s", out.Job.Snapshot.SchemaContract, want)
	}
}

// A known request id is answered before anything else is looked at; the same id
// with another body is a conflict, and another creator's ids are another's.
func TestRequestIDs(t *testing.T) {
	c := newCluster(t)
	s := ivf(t)
	s.RequestID = "r1"
	if _, err := c.service.Submit(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	c.set("admission.enabled", "false")
	reads := c.reads
	out, err := c.service.Submit(t.Context(), s)
	if err != nil || out.Kind != job.SubmissionExisting || out.Job.ID != 1 || c.reads != reads {
		t.Errorf("a repetition: %+v, %v, %d reads", out, err, c.reads-reads)
	}
	other := s
	other.ExecuteDeadline = 1
	if _, err := c.service.Submit(t.Context(), other); !job.IsCode(err, job.CodeRequestConflict) {
		t.Errorf("another body: %v", err)
	}
	c.set("admission.enabled", "true")
	foreign := s
	foreign.Actor, foreign.IndexName = "bob", "bobs"
	if out, err := c.service.Submit(t.Context(), foreign); err != nil || out.Kind != job.SubmissionAdmitted {
		t.Errorf("another creator: %+v, %v", out, err)
	}
}

// A caller whose first attempt is slow asks again: both attempts are past the look-up of the request
// id when the first is admitted, and the second must not be told that somebody else holds the name.
func TestARequestIsKnownThoughItsFirstAttemptWasStillUnderWay(t *testing.T) {
	for name, after := range map[string]func(*cluster){
		"its own fence": func(*cluster) {},
		"a closed gate": func(c *cluster) { c.set("admission.enabled", "false") },
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			sub := ivf(t)
			sub.RequestID = "r1"
			c.reading = func() {
				c.reading = nil
				out, err := c.service.Submit(t.Context(), sub)
				if err != nil || out.Kind != job.SubmissionAdmitted {
					t.Fatal(out, err)
				}
				after(c)
			}
			out, err := c.service.Submit(t.Context(), sub)
			if err != nil || out.Kind != job.SubmissionExisting || out.Job == nil || out.Job.ID != 1 {
				t.Fatalf("got %+v, %v; want the job that the first attempt was admitted as", out, err)
			}
			other := sub
			other.IndexName = "another"
			if _, err := c.service.Submit(t.Context(), other); !job.IsCode(err, job.CodeRequestConflict) {
				t.Errorf("got %v for another body", err)
			}
		})
	}
}

func TestTheGateIsCheckedBeforeTheDatasetIsRead(t *testing.T) {
	c := newCluster(t)
	c.set("admission.enabled", "false")
	_, err := c.service.Submit(t.Context(), ivf(t))
	if !job.IsCode(err, job.CodeGateClosed) || !strings.Contains(err.Error(), "admission.enabled=true") || c.reads != 0 {
		t.Errorf("got %v after %d reads", err, c.reads)
	}
}

func TestHeldNamesAndQuotas(t *testing.T) {
	c := newCluster(t)
	if _, err := c.service.Submit(t.Context(), ivf(t)); err != nil {
		t.Fatal(err)
	}
	s := ivf(t)
	s.IndexName = "DEMO_VEC"
	_, err := c.service.Submit(t.Context(), s)
	if r, ok := job.AsRefusal(err); !ok || r.Code != job.CodeFenceHeld || r.Holder != 1 {
		t.Errorf("another spelling of a held name: %v", err)
	}
	c.set("admission.max_unresolved_per_table", "1")
	s.IndexName = "other"
	if _, err := c.service.Submit(t.Context(), s); !job.IsCode(err, job.CodeQuotaTable) {
		t.Errorf("the second job of a table: %v", err)
	}
	if len(c.Records) != 1 {
		t.Errorf("%d jobs", len(c.Records))
	}
}

// A dry run checks the request and the dataset like a submission, and says as
// advice what the cluster's state would refuse now.
func TestDryRun(t *testing.T) {
	c := newCluster(t)
	s := ivf(t)
	s.DryRun = true
	out, err := c.service.Submit(t.Context(), s)
	if err != nil || out.Kind != job.SubmissionDryRun || len(out.Advice) != 0 || out.Job.ID != 0 || out.Job.Spec.Column != "vec" {
		t.Fatalf("%+v, %v", out, err)
	}
	c.must(job.Admit{
		Header: job.Header{At: 1, Actor: "x"}, Target: out.Job.Target, Spec: out.Job.Spec, Snapshot: out.Job.Snapshot,
	})
	c.set("admission.max_unresolved_global", "1")
	c.set("admission.enabled", "false")
	before := c.Position
	if out, err = c.service.Submit(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	var codes []job.Code
	for _, a := range out.Advice {
		codes = append(codes, a.Code)
	}
	if len(codes) != 3 || codes[0] != job.CodeFenceHeld || codes[1] != job.CodeQuotaGlobal || codes[2] != job.CodeGateClosed {
		t.Errorf("advice %v", out.Advice)
	}
	if c.Position != before || len(c.Records) != 1 {
		t.Error("a dry run left a trace")
	}
	s.Column = "nothing"
	if _, err := c.service.Submit(t.Context(), s); !job.IsCode(err, job.CodeColumn) {
		t.Errorf("a wrong column: %v", err)
	}
}

func TestLocalDatasets(t *testing.T) {
	for name, change := range map[string]func(*cluster){
		"not allowed":      func(c *cluster) { c.set("local_datasets.allowed", "false") },
		"several members":  func(c *cluster) { c.members = 3 },
		"several backends": func(c *cluster) { c.backend("10.0.0.1"); c.backend("10.0.0.2") },
	} {
		c := newCluster(t)
		change(c)
		if _, err := c.service.Submit(t.Context(), ivf(t)); !job.IsCode(err, job.CodeLocalDataset) || c.reads != 0 {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := c.service.Submit(t.Context(), remote(t)); err != nil {
			t.Errorf("%s: a remote dataset: %v", name, err)
		}
	}
	c := newCluster(t)
	c.backend("10.0.0.1")
	if _, err := c.service.Submit(t.Context(), ivf(t)); err != nil {
		t.Errorf("one backend: %v", err)
	}
}

func (c *cluster) backend(host string) {
	c.t.Helper()
	c.must(job.AddBackend{Header: job.Header{At: 1, Actor: "test"}, Address: job.Address{Host: host, BePort: 9060, HeartbeatPort: 9050}})
}

// What the journal says is passed on as it is: a lost answer must stay ambiguous.
func TestTheJournalsErrorsPass(t *testing.T) {
	c := newCluster(t)
	for _, want := range []error{job.ErrNotAppended, errors.New("leadership lost"), &job.Refusal{Code: job.CodeQuotaGlobal}} {
		c.fails = want
		if _, err := c.service.Submit(t.Context(), ivf(t)); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
}

func TestTheCallersContextIsHonoured(t *testing.T) {
	c := newCluster(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.service.Submit(ctx, ivf(t)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

package job_test

import (
	"encoding/hex"
	"testing"

	"github.com/lancemaster/lancemaster/internal/job"
)

// TestRequestHash: each part of a request counts, and only who asks, the request id
// and the dry run do not.
func TestRequestHash(t *testing.T) {
	base := func() job.Submission {
		return job.Submission{
			Actor: "ann", RequestID: "r", Catalog: "c", Database: "d", Table: "t", DatasetURI: "/d/t", IndexName: "i",
			Mutation: job.MutationCreate, IndexType: "ivf_pq", Column: "vec", ExecuteDeadline: 5,
			Properties:     []job.Property{{Key: "a", Value: "b"}, {Key: "c", Value: "d"}},
			CallerSnapshot: &job.CallerSnapshot{DatasetVersion: 3, SchemaContract: "{}", StoredIndexName: "I"},
		}
	}
	hash := job.RequestHash(base())
	for name, edit := range map[string]func(*job.Submission){
		"actor": func(s *job.Submission) { s.Actor = "ben" },
		"id":    func(s *job.Submission) { s.RequestID = "r2" },
		"dry":   func(s *job.Submission) { s.DryRun = true },
	} {
		s := base()
		edit(&s)
		if job.RequestHash(s) != hash {
			t.Errorf("%s counts", name)
		}
	}
	seen := map[job.Hash]string{hash: "the base"}
	for name, edit := range map[string]func(*job.Submission){
		"catalog":          func(s *job.Submission) { s.Catalog = "C" },
		"database":         func(s *job.Submission) { s.Database = "D" },
		"table":            func(s *job.Submission) { s.Table = "T" },
		"uri":              func(s *job.Submission) { s.DatasetURI = "/d/T" },
		"name":             func(s *job.Submission) { s.IndexName = "I" },
		"mutation":         func(s *job.Submission) { s.Mutation = job.MutationReplace },
		"type":             func(s *job.Submission) { s.IndexType = "IVF_PQ" },
		"column":           func(s *job.Submission) { s.Column = "Vec" },
		"if not exists":    func(s *job.Submission) { s.IfNotExists = true },
		"if exists":        func(s *job.Submission) { s.IfExists = true },
		"deadline":         func(s *job.Submission) { s.ExecuteDeadline = 6 },
		"property key":     func(s *job.Submission) { s.Properties[0].Key = "A" },
		"property value":   func(s *job.Submission) { s.Properties[1].Value = "D" },
		"property fewer":   func(s *job.Submission) { s.Properties = s.Properties[:1] },
		"property border":  func(s *job.Submission) { s.Properties[0] = job.Property{Key: "ab"} },
		"name and table":   func(s *job.Submission) { s.Table, s.DatasetURI = "t/", "d/t" },
		"no snapshot":      func(s *job.Submission) { s.CallerSnapshot = nil },
		"snapshot version": func(s *job.Submission) { s.CallerSnapshot.DatasetVersion = 4 },
		"snapshot schema":  func(s *job.Submission) { s.CallerSnapshot.SchemaContract = "[]" },
		"snapshot name":    func(s *job.Submission) { s.CallerSnapshot.StoredIndexName = "i" },
	} {
		s := base()
		edit(&s)
		got := job.RequestHash(s)
		if other, taken := seen[got]; taken {
			t.Errorf("%s hashes like %s", name, other)
		}
		seen[got] = name
	}
}

// TestRequestHashPinned: the hash is stored, so it stays what it is.
func TestRequestHashPinned(t *testing.T) {
	h := job.RequestHash(job.Submission{Catalog: "c", IndexName: "i", Mutation: job.MutationDrop})
	if got, want := hex.EncodeToString(h[:]), "16a545badc7da203cd71510641d23c7ef0f9b5fb8fdf14ddda08e7dd8572e0c9"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
